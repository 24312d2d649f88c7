"""Train, test and document the model that one recipe describes; the same as `hf-spanner train`."""

from hf_spanner.commands.train import main

if __name__ == "__main__":
    main()
