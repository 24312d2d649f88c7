"""Fit a saved model's scores on held-out data; the same as `hf-spanner calibrate`."""

from hf_spanner.commands.calibrate import main

if __name__ == "__main__":
    main()
