"""The settings of inference as options of a command line, the same for every program."""

import argparse
from typing import Any

import yaml

from hf_spanner.core.calibration import PROMISES
from hf_spanner.methods import METHODS

OF_METHODS = {name for model in METHODS.values() for name in model.config_class.decoding_parameters}
DECODING_PARAMETERS = sorted(OF_METHODS | set(PROMISES))


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for each setting of any method, with a YAML value; left out, the model's own holds."""
    for name in DECODING_PARAMETERS:
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=yaml.safe_load,
            default=argparse.SUPPRESS,
            help="in place of the model's",
        )


def given_decoding(given: argparse.Namespace) -> dict[str, Any]:
    """The settings that a command line gave, by name."""
    return {name: vars(given)[name] for name in DECODING_PARAMETERS if name in given}
