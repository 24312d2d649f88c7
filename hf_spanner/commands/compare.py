"""Compare two saved models on a data file: paired bootstrap over documents, agreement, examples where they differ.

hf-spanner compare MODEL_A MODEL_B DATA --output comparison.json
hf-spanner compare FILE.parquet#RUN_A FILE.parquet#RUN_B [DATA]

FILE.parquet#RUN in place of a model is one run of a file of kept predictions, such as those in benchmarks/predictions;
with two of them DATA only adds documents and texts.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import filterfalse
from pathlib import Path
from typing import Any, NamedTuple

from datasets import Dataset

from hf_spanner import load_rows
from hf_spanner.analysis.comparison import (
    check_same_gold,
    comparison,
    comparison_report,
    differing_examples,
    example_report,
    read_predictions,
)
from hf_spanner.commands.judging import judged_model, predicted_and_gold, saved_config
from hf_spanner.commands.options import (
    add_decoding_options,
    add_judging_options,
    add_reader_options,
    add_trust_option,
    at_least_one,
    at_least_zero,
    command_parser,
    given_decoding,
    given_reading,
    output_file,
    trust_encoders,
)
from hf_spanner.core.calibration import PROMISES
from hf_spanner.core.spans import EntityLists
from hf_spanner.metrics.span_ner.matching import matched_spans
from hf_spanner.training.model_card import shareable
from hf_spanner.training.whole_files import write_whole


class Side(NamedTuple):
    """One of the two sides: predicted and gold entities of rows, and the rows unless only predictions were saved."""

    predicted: EntityLists
    gold: EntityLists
    rows: Dataset | None


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare two models on a data file."""
    given = parsed_arguments(arguments)
    trust_encoders(given, *filterfalse(is_saved, (given.model_a, given.model_b)))
    decoding = decoding_of_sources((given.model_a, given.model_b), given_decoding(given))
    first, second = (
        saved_side(source) if is_saved(source) else model_side(source, given, decoding[source])
        for source in (given.model_a, given.model_b)
    )
    rows = first.rows if first.rows is not None else second.rows
    if rows is None and given.data is not None:
        rows = load_rows(given.data, **given_reading(given))
    check_same_rows((first, second), rows, (given.model_a, given.model_b))
    documents = [None] * len(first.gold) if rows is None else list(rows["document"])
    result = comparison(
        first.predicted,
        second.predicted,
        first.gold,
        documents=documents,
        num_bins=given.num_bins,
        num_resamples=given.num_resamples,
    )
    sources = (given.model_a, given.model_b)
    short = [Path(source).name for source in sources]
    names = dict(zip("AB", short if len({*short, ""}) == 3 else map(str, map(shareable, sources)), strict=True))
    print(comparison_report(result, names, documents))
    if rows is not None:
        first_spans, gold = matched_spans(first.predicted, first.gold)
        second_spans, _ = matched_spans(second.predicted, first.gold)
        result["examples"] = differing_examples(
            first_spans, second_spans, gold, rows["tokens"], num_examples=given.num_examples
        )
        print(example_report(result["examples"], rows["id"]))
    if given.output is not None:
        written = {"names": {"first": names["A"], "second": names["B"]}, **result}
        write_whole(given.output, json.dumps(written, indent=2, ensure_ascii=False) + "\n")


def parsed_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command line; decoding parameters are among them only if they were given."""
    parser = command_parser("compare", __doc__)
    parser.add_argument("model_a", help="folder or Hub name of a saved model, or FILE.parquet#RUN of kept predictions")
    parser.add_argument("model_b", help="the same for the other model")
    parser.add_argument("data", nargs="?", help="file, folder or data set on the Hub, as load_rows takes it")
    parser.add_argument("--output", type=output_file, help="JSON file for everything")
    parser.add_argument("--batch-size", type=at_least_one, default=32)
    parser.add_argument("--num-bins", type=at_least_one, default=10, help="bins of the calibration error")
    parser.add_argument(
        "--num-resamples", type=at_least_zero, default=1000, help="resamples of the documents; 0 for no bootstrap"
    )
    parser.add_argument("--num-examples", type=at_least_zero, default=3, help="most examples of a kind")
    add_judging_options(parser)
    add_reader_options(parser)
    add_trust_option(parser)
    add_decoding_options(parser)
    given = parser.parse_intermixed_args(arguments)
    sides = (given.model_a, given.model_b)
    for source in sides:
        if source.endswith(".parquet"):
            parser.error(f"{source} needs the name of a run: {source}#RUN")
    if all(map(is_saved, sides)):
        judging = [option for option in ("raw", "allow_fitted_rows") if vars(given)[option]]
        if unused := judging + ([] if given.data is not None else list(given_reading(given))):
            parser.error(f"{', '.join(unused)} have no effect on predictions that were kept")
    elif given.data is None:
        parser.error("data is needed where a model predicts")
    return given


def is_saved(source: str) -> bool:
    """Whether this is a run of a file of predictions, not a model."""
    return ".parquet#" in source


def decoding_of_sources(sources: Sequence[str], decoding: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """For each source the given settings of inference that its method has; saved predictions take none.

    Raises:
        ValueError: If no side has one of them.
    """
    names = {
        source: set() if is_saved(source) else {*saved_config(source).decoding_parameters, *PROMISES}
        for source in sources
    }
    unused = sorted(decoding.keys() - set().union(*names.values()))
    if unused:
        raise ValueError(f"{', '.join(unused)} must be a decoding parameter of one of {' and '.join(sources)}")
    return {
        source: {name: decoding[name] for name in decoding if name in parameters}
        for source, parameters in names.items()
    }


def saved_side(source: str) -> Side:
    """Predictions that were saved."""
    return Side(*read_predictions(source), rows=None)


def model_side(source: str, given: argparse.Namespace, decoding: Mapping[str, Any]) -> Side:
    """Predictions of a saved model, as `evaluate.py` makes them."""
    ner, rows = judged_model(
        source, given.data, given_reading(given), raw=given.raw, allow_fitted_rows=given.allow_fitted_rows
    )
    return Side(*predicted_and_gold(ner, rows, decoding, given.batch_size), rows=rows)


def check_same_rows(sides: Sequence[Side], rows: Dataset | None, sources: Sequence[str]) -> None:
    """Raise a ValueError unless both sides are about the same texts, word by word."""
    texts = [list(side.rows["tokens"]) for side in sides if side.rows is not None]
    if len(texts) == 2 and texts[0] != texts[1]:
        raise ValueError("both models must read the same words, but only one of them splits words at hyphens")
    expected = sides[0].gold if rows is None else list(rows["entities"])
    for side, source in zip(sides, sources, strict=True):
        check_same_gold(side.gold, expected, source)
