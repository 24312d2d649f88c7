"""Export a saved model as a graph of ONNX or OpenVINO, which is faster and runs without torch.

hf-spanner export MODEL --to onnx --precision int8 --check DATA --output FOLDER

DATA are held-out rows. Both models read them; the command prints F1, calibration error and the share of rows with equal
entities for both, and writes nothing if more than --max-loss points of F1 are lost. A calibration is fitted again on
the exported model's scores. Settings of inference given here become the exported model's own; those that act inside the
graph can be changed by no later call.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from hf_spanner.commands.judging import saved_config
from hf_spanner.commands.options import (
    add_decoding_options,
    add_reader_options,
    add_trust_option,
    at_least_one,
    command_parser,
    data_name,
    given_decoding,
    given_reading,
    trust_encoders,
)
from hf_spanner.data.readers import load_rows
from hf_spanner.export.exporting import MAX_LOSS, export_model


def main(arguments: Sequence[str] | None = None) -> None:
    """Export a model and print what that changed."""
    given = parsed_arguments(arguments)
    trust_encoders(given, given.model)
    config, rows = saved_config(given.model), None
    if given.check is not None:
        split_hyphens = config.split_hyphens
        rows = cast(
            list[dict[str, Any]], list(load_rows(given.check, **given_reading(given), split_hyphens=split_hyphens))
        )
    comparison = export_model(
        given.model,
        given.output,
        to=given.to,
        precision=given.precision,
        check=rows,
        check_name="" if given.check is None else data_name(given.check, given.split),
        max_loss=given.max_loss,
        decoding=given_decoding(given),
        batch_size=given.batch_size,
    )
    print("not checked: no rows were given (--check)" if comparison is None else comparison)
    print(f"exported model: {given.output}")


def parsed_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = command_parser("export", __doc__)
    parser.add_argument("model", help="folder or Hub name of a saved model")
    parser.add_argument("--to", choices=("onnx", "openvino"), default="onnx")
    parser.add_argument("--precision", choices=("fp32", "int8"), default="fp32")
    parser.add_argument("--output", type=Path, required=True, help="folder for the exported model")
    parser.add_argument("--check", help="held-out rows: file, folder or data set on the Hub, as load_rows takes it")
    parser.add_argument("--max-loss", type=float, default=MAX_LOSS, help="points of F1 that may be lost on the rows")
    parser.add_argument("--batch-size", type=at_least_one, default=32)
    add_trust_option(parser)
    add_reader_options(parser)
    add_decoding_options(parser)
    return parser.parse_args(arguments)
