"""Write the entities of texts as JSON lines; the same as `hf-spanner predict`."""

from hf_spanner.commands.predict import main

if __name__ == "__main__":
    main()
