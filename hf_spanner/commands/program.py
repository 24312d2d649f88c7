"""The program `hf-spanner`: each command is a file of this folder, imported only when it is called."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from safetensors import SafetensorError
from transformers.utils.logging import disable_progress_bar

COMMANDS = {
    "train": "train, test and document the model that one recipe describes",
    "evaluate": "score a saved model on a data file",
    "predict": "write the entities of texts as JSON lines",
    "convert": "read annotated texts in one format and write them in another",
    "calibrate": "fit a saved model's scores on held-out data",
    "review": "rank the annotations of a corpus that are probably wrong, or apply decisions on them",
    "select": "choose the texts that are worth labelling next",
    "analyze": "write a report on a saved model and a data file",
    "compare": "compare two saved models on a data file",
    "export": "write a saved model as a graph that runs without torch",
    "serve": "find entities over HTTP",
    "demo": "show models in a browser",
}
EXTRAS = {  # a package that a command needs, and the extra that brings it
    "matplotlib": "plots",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "onnxscript": "onnx",
    "openvino": "openvino",
    "nncf": "openvino",
    "gradio": "demo",
    "fastapi": "serve",
    "prometheus_client": "serve",
    "uvicorn": "serve",
    "spacy": "spacy",
    "cassis": "cas",
    "ray": "ray",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Call a command with the arguments after its name; what was wrong with them is said in one line.

    Python code that calls a command's own `main` gets the exception itself.
    """
    parser = argparse.ArgumentParser(
        prog="hf-spanner",
        usage="hf-spanner COMMAND ...",
        description="\n".join(f"{name:<10} {text}" for name, text in COMMANDS.items()),
        epilog="hf-spanner COMMAND --help explains a command and lists its options.\n"
        "hf-spanner --traceback COMMAND ... shows where an error came from.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--traceback", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of these")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    disable_progress_bar()  # loading and writing weights takes only a second
    try:
        import_module(f"hf_spanner.commands.{given.command}").main(given.arguments)
    except (ValueError, TypeError, OSError, SafetensorError) as error:
        if given.traceback:
            raise
        stop(given.command, " ".join([*str(error).split(), *getattr(error, "__notes__", ())]))
    except ImportError as error:
        if error.name in EXTRAS:
            brings = f"pip install 'hf_spanner[{EXTRAS[error.name]}]' brings it"
            stop(given.command, f"{error.name} is not installed; {brings}")
        if error.name is not None:
            raise
        stop(given.command, str(error))  # ours, of an exported model


def stop(command: str, message: str) -> None:
    """End the process with a message of one line and the exit code of a wrong command line."""
    print(f"hf-spanner {command}: error: {message}", file=sys.stderr)
    sys.exit(2)
