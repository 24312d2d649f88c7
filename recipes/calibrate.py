"""Fit a saved model's scores on held-out data; the same as `hf-spanner calibrate`."""

import sys

from hf_spanner.commands.program import main

if __name__ == "__main__":
    main(["calibrate", *sys.argv[1:]])
