"""Score a saved model on a data file; the same as `hf-spanner evaluate`."""

from hf_spanner.commands.evaluate import main

if __name__ == "__main__":
    main()
