"""`python -m hf_spanner`, the same as `hf-spanner`."""

from hf_spanner.commands.program import main

if __name__ == "__main__":
    main()
