"""Compare two saved models on a data file; the same as `hf-spanner compare`."""

from hf_spanner.commands.compare import main

if __name__ == "__main__":
    main()
