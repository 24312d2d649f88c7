"""The program `hf-spanner`: one command a file of this folder, imported only when it is called."""

import argparse
from collections.abc import Sequence
from importlib import import_module

COMMANDS = {
    "train": "train, test and document the model that one recipe describes",
    "evaluate": "score a saved model on a data file",
    "predict": "write the entities of texts as JSON lines",
    "calibrate": "fit a saved model's scores on held-out data",
    "analyze": "write a report on a saved model and a data file",
    "compare": "compare two saved models on a data file",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Call a command with the arguments behind its name."""
    parser = argparse.ArgumentParser(
        prog="hf-spanner",
        description="\n".join(f"{name:<10} {text}" for name, text in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="hf-spanner COMMAND --help lists them")
    given = parser.parse_args(arguments)
    import_module(f"hf_spanner.commands.{given.command}").main(given.arguments)
