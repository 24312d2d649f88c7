"""Write the entities of texts as JSON lines; the same as `hf-spanner predict`."""

import sys

from hf_spanner.commands.program import main

if __name__ == "__main__":
    main(["predict", *sys.argv[1:]])
