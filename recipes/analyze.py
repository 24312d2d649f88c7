"""Analyse a saved model on a data file; the same as `hf-spanner analyze`."""

import sys

from hf_spanner.commands.program import main

if __name__ == "__main__":
    main(["analyze", *sys.argv[1:]])
