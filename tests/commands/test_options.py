"""Settings of inference that come from a command line."""

import argparse
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from hf_spanner import METHODS, load_rows
from hf_spanner.commands.options import (
    READER_HELP,
    add_decoding_options,
    at_least_one,
    given_decoding,
    given_reading,
    output_file,
    rate,
)
from hf_spanner.data.policy import ReadChoices
from hf_spanner.training.recipe import READER_FIELDS


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ([], {}),
        (["--threshold", "0.5", "--overlap", "flat"], {"threshold": 0.5, "overlap": "flat"}),
        (["--threshold", "1e-3"], {"threshold": 0.001}),
        (["--threshold", "{PER: 1e-3}", "--num-steps", "5"], {"threshold": {"PER": 0.001}, "num_steps": 5}),
        (["--threshold", "{PER: 0.9}", "--min-precision", ".95"], {"threshold": {"PER": 0.9}, "min_precision": 0.95}),
    ],
)
def test_only_what_was_given_counts(line: list[str], expected: dict[str, object]) -> None:
    parser = argparse.ArgumentParser()
    add_decoding_options(parser)
    assert given_decoding(parser.parse_args(line)) == expected


def test_values_are_checked_by_range(tmp_path: Path) -> None:
    assert (at_least_one("1"), rate(".5"), output_file(str(tmp_path / "a.json"))) == (1, 0.5, tmp_path / "a.json")
    for text in ("0", "-1"):
        with pytest.raises(argparse.ArgumentTypeError, match=f"must be at least 1, got {text}"):
            at_least_one(text)
    for text in ("0", "1.0", "nan"):
        with pytest.raises(argparse.ArgumentTypeError, match=rf"must lie in \(0, 1\), got {text}"):
            rate(text)
    for path in (tmp_path, tmp_path / "absent" / "a.json"):
        with pytest.raises(argparse.ArgumentTypeError, match=f"a folder that exists, got {path}"):
            output_file(str(path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("analyze m d --output o --points 50", "--points: must be odd and at least 3, got 50"),
        ("compare a b d --num-examples -1", "--num-examples: must be at least 0, got -1"),
        ("evaluate m d --num-bins x", "--num-bins: invalid integer value: 'x'"),
    ],
)
def test_numbers_of_the_commands_are_checked_before_the_work(
    program: Callable, line: str, message: str, capsys: pytest.CaptureFixture
) -> None:
    command, *arguments = line.split()
    with pytest.raises(SystemExit):
        program(command).parsed_arguments(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "needed"),
    {
        "evaluate": ["model", "data"],
        "predict": ["model", "data", "--output", "FOLDER/new"],
        "calibrate": ["model", "data", "--output", "FOLDER/new"],
        "analyze": ["model", "data", "--output", "FOLDER/new"],
        "compare": ["model", "model", "data"],
        "convert": ["data", "FOLDER/new"],
        "export": ["model", "--output", "FOLDER/new"],
        "review": ["model", "data", "--output", "FOLDER/new"],
        "select": ["model", "data", "--output", "FOLDER/new", "--number", "1"],
    }.items(),
)
def test_every_choice_of_the_reader_is_an_option_of_every_command(
    program: Callable, command: str, needed: list[str], tmp_path: Path
) -> None:
    """The names are those of recipes and of `load_rows`; what is left out is not handed on."""
    needed = [word.replace("FOLDER", str(tmp_path)) for word in needed]
    assert given_reading(program(command).parsed_arguments(needed)) == {}
    options = ["--split", "7", "--comments", "skip", "--token-column", "1", "--class-names", "[O, B-X]"]
    expected = {"split": "7", "token_column": 1, "comments": "skip", "class_names": ["O", "B-X"]}
    assert given_reading(program(command).parsed_arguments([*needed, *options])) == expected
    assert READER_HELP.keys() == {"split", *READER_FIELDS}
    taken = inspect.signature(load_rows).parameters.keys() | ReadChoices.__annotations__.keys()
    assert READER_HELP.keys() == taken - {"source", "split_hyphens", "report", "choices"}


@pytest.mark.parametrize(
    ("command", "line", "name", "expected"),
    [
        ("predict", "m --batch-size 1 a - --threshold 0.3 b", "files", ["a", "-", "b"]),
        ("compare", "a b --num-resamples 5 data", "data", "data"),
        ("review", "a --output out b data", "sources", ["a", "b", "data"]),
        ("select", "m a --number 5 b --output out", "files", ["a", "b"]),
        ("demo", "a --port 7 b", "models", ["a", "b"]),
    ],
)
def test_options_may_stand_between_the_files(
    program: Callable, command: str, line: str, name: str, expected: str | list[str]
) -> None:
    assert vars(program(command).parsed_arguments(line.split()))[name] == expected


def test_every_setting_of_every_method_has_an_option() -> None:
    parser = argparse.ArgumentParser()
    add_decoding_options(parser)
    names = {name for model in METHODS.values() for name in model.config_class.decoding_parameters}
    assert {f"--{name.replace('_', '-')}" for name in names} <= set(parser._option_string_actions)
