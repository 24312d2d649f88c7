"""Compare two saved models on a data file; the same as `hf-spanner compare`."""

import sys

from hf_spanner.commands.program import main

if __name__ == "__main__":
    main(["compare", *sys.argv[1:]])
