"""Settings of inference from a command line."""

import argparse

import pytest

from hf_spanner import METHODS
from hf_spanner.training.decoding_options import add_decoding_options, given_decoding


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ([], {}),
        (["--threshold", "0.5", "--overlap", "flat"], {"threshold": 0.5, "overlap": "flat"}),
        (["--threshold", "{PER: 0.9}", "--min-precision", ".95"], {"threshold": {"PER": 0.9}, "min_precision": 0.95}),
    ],
)
def test_only_what_was_given_counts(line: list[str], expected: dict[str, object]) -> None:
    parser = argparse.ArgumentParser()
    add_decoding_options(parser)
    assert given_decoding(parser.parse_args(line)) == expected


def test_every_setting_of_every_method_has_an_option() -> None:
    parser = argparse.ArgumentParser()
    add_decoding_options(parser)
    names = {name for model in METHODS.values() for name in model.config_class.decoding_parameters}
    assert {f"--{name.replace('_', '-')}" for name in names} <= set(parser._option_string_actions)
