"""Analyse a saved model on a data file; the same as `hf-spanner analyze`."""

from hf_spanner.commands.analyze import main

if __name__ == "__main__":
    main()
