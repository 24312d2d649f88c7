"""Options that the commands share: the settings of inference, and values that are checked before the work begins."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hf_spanner.core.calibration import PROMISES
from hf_spanner.core.field_rules import ProbabilityByLabel, in_words
from hf_spanner.core.own_encoders import register_saved_encoder
from hf_spanner.data.formats.table import FORMATS
from hf_spanner.data.writers import save_rows
from hf_spanner.methods import METHODS
from hf_spanner.training.recipe import plain_yaml

METHOD_PARAMETERS = {name for model in METHODS.values() for name in model.config_class.decoding_parameters}
DECODING_PARAMETERS = sorted(METHOD_PARAMETERS | set(PROMISES))
READ_FORMATS = [name for name, format in FORMATS.items() if format.is_read]
TASK_FILES = {"label-studio": "tasks.json", "prodigy": "tasks.jsonl"}
READER_HELP = {
    "split": "split of a folder or of the Hub, such as test",
    "subset": "configuration of a data set on the Hub",
    "format": f"{', '.join(READ_FORMATS)}; by suffix and fields if left out",
    "scheme": "IOB1, IOB2, IOBES, BILOU, BMES, or IO for tags without prefix; detected if left out",
    "delimiter": "of columns: tab or blank",
    "token_column": "column of the word, from 0",
    "tag_column": "column of the tag; the last if left out",
    "on_error": "drop: leave malformed rows out, and count them",
    "ill_formed": "tags that do not fit their neighbours: repair or drop",
    "misaligned": "character spans that cut a word: drop or widen",
    "discontinuous": "entities in pieces: split, cover, first or drop",
    "comments": "lines of columns with # at the head of a sentence: skip all, or keep all as words",
    "class_names": "names of classes that are given as numbers, such as '[O, B-PER, I-PER]'",
    "words": "blanks: raw text whose words are parted by blanks already",
    "annotator": "first, last, majority, or the name of one, where several annotated a text and differ",
    "layer": "the layer that holds the entities, where a file has several",
}


def command_parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """A parser that shows a command's docstring as it stands."""
    return argparse.ArgumentParser(
        prog=f"hf-spanner {name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for each setting of any method, with a YAML value; if it is left out, the model's own holds."""
    group = parser.add_argument_group("settings of inference", "in place of the model's own, by YAML values")
    configs = [model.config_class for model in METHODS.values()]
    for name in DECODING_PARAMETERS:
        rules = [config.field_rules[name] for config in configs if name in config.decoding_parameters]
        allowed = "; or ".join(dict.fromkeys(map(in_words, rules or [ProbabilityByLabel])))
        option = f"--{name.replace('_', '-')}"
        group.add_argument(option, type=setting, default=argparse.SUPPRESS, metavar="VALUE", help=allowed)


def add_trust_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that `trust_encoders` follows."""
    parser.add_argument(
        "--trust-remote-code",
        action="store_true",
        help="run the code that lies in a saved model for an encoder of its own; read it first",
    )


def trust_encoders(given: argparse.Namespace, *models: str | None) -> None:
    """Where the command line trusts them, run the code of the encoders of some models, so that they can be loaded."""
    for model in filter(None, models) if given.trust_remote_code else ():
        register_saved_encoder(model, {})


def add_reader_options(parser: argparse.ArgumentParser, format_option: str = "--format") -> None:
    """Add an option for each choice of the reader, with a YAML value; what is left out is None."""
    group = parser.add_argument_group("how the data is read", "the same choices as in a recipe and in load_rows")
    for name, description in READER_HELP.items():
        kind = str if name in ("split", "subset") else setting
        option = format_option if name == "format" else f"--{name.replace('_', '-')}"
        group.add_argument(option, dest=name, type=kind, help=description)


def given_reading(given: argparse.Namespace) -> dict[str, Any]:
    """The choices of the reader that a command line gave, by name."""
    return {name: vars(given)[name] for name in READER_HELP if vars(given)[name] is not None}


def add_train_option(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Add the options of `training_rows`."""
    parser.add_argument("--train", help=f"the rows that the model was trained on: {purpose}")
    parser.add_argument("--train-split", help="their split, where a folder or data set has several")


def check_new_folder(folder: Path) -> None:
    """Raise a ValueError unless this is a folder that is not there or holds nothing."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"output must be a new or an empty folder, got {folder}")


def shared_reading(given: argparse.Namespace) -> dict[str, Any]:
    """The choices of the reader that hold for a second source too: all but format, split and subset."""
    return {name: value for name, value in given_reading(given).items() if name not in ("format", "split", "subset")}


def add_judging_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `judged_model`: leave the calibration out, or judge it where it was fitted."""
    parser.add_argument("--raw", action="store_true", help="raw scores: leave a model's calibration out")
    parser.add_argument(
        "--allow-fitted-rows",
        action="store_true",
        help="judge calibrated scores also on the rows that the calibration was fitted on",
    )


def add_task_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that says for which tool `write_tasks` writes."""
    parser.add_argument("--tasks", choices=TASK_FILES, default="label-studio", help="the tool that takes the tasks")


def write_tasks(rows: Iterable[Mapping[str, Any]], folder: Path, tool: str) -> None:
    """Write rows as tasks with pre-annotations for a tool, in place of what an earlier call left."""
    path = folder / TASK_FILES[tool]
    path.unlink(missing_ok=True)
    save_rows(rows, path, format=tool)


def setting(text: str) -> Any:
    """The YAML value of a text."""
    return plain_yaml(text, text)


def given_decoding(given: argparse.Namespace) -> dict[str, Any]:
    """The settings that a command line gave, by name."""
    return {name: vars(given)[name] for name in DECODING_PARAMETERS if name in given}


def at_least(lowest: int) -> Callable[[str], int]:
    """The type of an option that is an integer of at least this."""

    def integer(text: str) -> int:
        value = int(text)
        if value < lowest:
            raise argparse.ArgumentTypeError(f"must be at least {lowest}, got {text}")
        return value

    return integer


at_least_zero, at_least_one = at_least(0), at_least(1)


def rate(text: str) -> float:
    """A number in (0, 1), as the type of an option."""
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must lie in (0, 1), got {text}")
    return value


def data_name(data: str, split: str | None) -> str:
    """What stands for the data in the configuration; a path gives only its last part."""
    return Path(data).name if split is None else f"{Path(data).name}, {split}"


def output_file(text: str) -> Path:
    """A path to which a file can be written, as the type of an option."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"must be a file in a folder that exists, got {text}")
    return path
