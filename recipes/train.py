"""Train, test and document the model that one recipe describes; the same as `hf-spanner train`."""

import sys

from hf_spanner.commands.program import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]])
