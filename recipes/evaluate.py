"""Score a saved model on a data file: strict, boundary and calibration scores, a table of labels, the reliability bins.

python recipes/evaluate.py MODEL DATA --output scores.json --threshold 0.5
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerBase, pipeline

from hf_spanner import SpanNERModel, load_rows
from hf_spanner.core.words import surface_offsets
from hf_spanner.metrics.span_ner.scoring import score_spans
from hf_spanner.training.calibration_fitting import rows_fingerprint
from hf_spanner.training.decoding_options import add_decoding_options, given_decoding
from hf_spanner.training.model_card import bin_table, label_table
from hf_spanner.training.predictions import Spans, predictions_of_words


def main(arguments: Sequence[str] | None = None) -> None:
    """Score a saved model on a data file."""
    given = parsed_arguments(arguments)
    decoding = given_decoding(given)
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    raw = {"calibration": None, "temperature": 1.0} if given.raw else {}
    model = AutoModel.from_pretrained(given.model, **raw)
    for name, value in model.decoding(decoding).items():
        setattr(model.config, name, value)
    rows = load_rows(given.data, split=given.split, split_hyphens=model.config.split_hyphens)
    if not given.allow_fitted_rows:
        refuse_fitted_rows(model.config.calibration, rows)
    predicted, gold = predictions_of_words(model, tokenizer, rows, given.batch_size)
    scores = {"words": score_spans(predicted, gold, num_bins=given.num_bins)}
    if given.joined_text:
        predicted, gold = predictions_of_text(model, tokenizer, rows, given.batch_size)
        scores["joined_text"] = score_spans(predicted, gold, num_bins=given.num_bins)
    for side, of_side in scores.items():
        print(report(of_side, f"{given.data}, {TITLES[side]}, {len(rows):,} rows"))
    if given.output is not None:
        result = {"decoding": dict(model.decoding()), **scores["words"]}
        result |= {side: of_side for side, of_side in scores.items() if side != "words"}
        given.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


TITLES = {"words": "its own words", "joined_text": "text joined with blanks, strict on characters"}


def parsed_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command line; decoding parameters are there only if they were given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder or Hub name of a saved model")
    parser.add_argument("data", help="file, folder or data set on the Hub, as load_rows takes it")
    parser.add_argument("--split", help="split of a folder or of the Hub, such as test")
    parser.add_argument("--output", type=Path, help="JSON file for all scores")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--num-bins", type=int, default=10, help="bins of the calibration error")
    parser.add_argument(
        "--joined-text",
        action="store_true",
        help="also give the rows as text joined with blanks to the pipeline, which splits it into words itself",
    )
    parser.add_argument("--raw", action="store_true", help="raw scores: leave the model's calibration out")
    parser.add_argument(
        "--allow-fitted-rows",
        action="store_true",
        help="score calibrated scores also on the rows that the calibration was fitted on",
    )
    add_decoding_options(parser)
    return parser.parse_args(arguments)


def refuse_fitted_rows(calibration: Mapping[str, Any] | None, rows: Dataset) -> None:
    """Raise a ValueError if these are the rows that the calibration was fitted on."""
    if calibration is None or calibration["fitted_on"]["fingerprint"] != rows_fingerprint(rows):
        return
    fitted_on = calibration["fitted_on"]
    raise ValueError(
        f"data must be other rows than those that the calibration was fitted on, got the same {len(rows):,} rows "
        f"({fitted_on['name']}); give --raw for raw scores, or --allow-fitted-rows for scores that flatter"
    )


def predictions_of_text(
    model: SpanNERModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset, batch_size: int
) -> tuple[Spans, Spans]:
    """Predicted and gold spans in characters of the rows' words joined with blanks; the pipeline finds the words."""
    texts = [" ".join(words) for words in rows["tokens"]]
    answers = pipeline("span-ner", model=model, tokenizer=tokenizer, batch_size=batch_size)(texts)
    predicted = [
        [
            {"start": entity["start"], "end": entity["end"], "label": entity["entity_group"], "score": entity["score"]}
            for entity in of_text
        ]
        for of_text in answers
    ]
    return predicted, [character_entities(row) for row in rows]


def character_entities(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Gold entities of a row in characters of its words joined with blanks."""
    offsets = surface_offsets(row["tokens"])
    return [
        {"start": offsets[entity["start"]][0], "end": offsets[entity["end"] - 1][1], "label": entity["label"]}
        for entity in row["entities"]
    ]


def report(scores: Mapping[str, Any], title: str) -> str:
    """The scores in words and tables."""
    head = (
        f"{title}: strict F1 {100 * scores['overall_f1']:.2f}, precision {100 * scores['overall_precision']:.2f}, "
        f"recall {100 * scores['overall_recall']:.2f}, ECE {scores['overall_ece']:.4f}"
    )
    return "\n\n".join([head, label_table(scores), bin_table(scores["reliability"]), ""])


if __name__ == "__main__":
    main()
