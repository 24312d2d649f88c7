"""Score a saved model on a data file; the same as `hf-spanner evaluate`."""

import sys

from hf_spanner.commands.program import main

if __name__ == "__main__":
    main(["evaluate", *sys.argv[1:]])
