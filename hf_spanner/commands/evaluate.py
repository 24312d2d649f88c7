"""Score a saved model on a data file: strict and boundary F1, calibration, intervals, tables of labels and bins.

hf-spanner evaluate MODEL DATA --output scores.json --threshold 0.5
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from hf_spanner import SpanNERPipeline
from hf_spanner.commands.judging import judged_model, predicted_and_gold
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
from hf_spanner.core.spans import EntityLists
from hf_spanner.core.words import surface_offsets
from hf_spanner.metrics.span_ner.resampling import num_documents
from hf_spanner.metrics.span_ner.scoring import score_spans, score_text
from hf_spanner.training.model_card import bin_table, label_table
from hf_spanner.training.whole_files import write_whole


def main(arguments: Sequence[str] | None = None) -> None:
    """Score a saved model on a data file."""
    given = parsed_arguments(arguments)
    trust_encoders(given, given.model)
    ner, rows = judged_model(
        given.model, given.data, given_reading(given), raw=given.raw, allow_fitted_rows=given.allow_fitted_rows
    )
    decoding = ner.model.decoding(given_decoding(given))
    documents = list(rows["document"])
    sides = {"words": predicted_and_gold(ner, rows, decoding, given.batch_size)}
    if given.joined_text:
        sides["joined_text"] = predictions_of_text(ner, rows, decoding, given.batch_size)
    scores = {
        side: score_spans(
            predicted,
            gold,
            num_bins=given.num_bins,
            documents=documents,
            num_resamples=given.num_resamples if num_documents(documents) > 1 else 0,
        )
        for side, (predicted, gold) in sides.items()
    }
    for side, side_scores in scores.items():
        print(report(side_scores, f"{given.data}, {TITLES[side]}, {len(rows):,} rows", documents))
    if given.output is not None:
        result = {"decoding": dict(decoding), **scores["words"]}
        result |= {side: side_scores for side, side_scores in scores.items() if side != "words"}
        write_whole(given.output, json.dumps(result, indent=2) + "\n")


TITLES = {"words": "its own words", "joined_text": "text joined with blanks, strict on characters"}


def parsed_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command line; decoding parameters are among them only if they were given."""
    parser = command_parser("evaluate", __doc__)
    parser.add_argument("model", help="folder or Hub name of a saved model")
    parser.add_argument("data", help="file, folder or data set on the Hub, as load_rows takes it")
    parser.add_argument("--output", type=output_file, help="JSON file for all scores")
    parser.add_argument("--batch-size", type=at_least_one, default=32)
    parser.add_argument("--num-bins", type=at_least_one, default=10, help="bins of the calibration error")
    parser.add_argument(
        "--num-resamples",
        type=at_least_zero,
        default=1000,
        help="resamples of the documents, for intervals; 0 for none",
    )
    parser.add_argument(
        "--joined-text",
        action="store_true",
        help="also give the rows as text joined with blanks to the pipeline, which splits it into words itself",
    )
    add_judging_options(parser)
    add_reader_options(parser)
    add_trust_option(parser)
    add_decoding_options(parser)
    return parser.parse_args(arguments)


def predictions_of_text(
    ner: SpanNERPipeline, rows: Any, decoding: Mapping[str, Any], batch_size: int
) -> tuple[EntityLists, EntityLists]:
    """Predicted and gold spans in characters, of the rows' words joined with blanks; the pipeline finds the words."""
    texts = [" ".join(words) for words in rows["tokens"]]
    answers = ner(texts, documents=list(rows["document"]), batch_size=batch_size, **decoding)
    predicted = [
        [
            {"start": entity["start"], "end": entity["end"], "label": entity["entity_group"], "score": entity["score"]}
            for entity in entities
        ]
        for entities in answers
    ]
    return predicted, [character_entities(row) for row in rows]


def character_entities(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Gold entities of a row in characters of its words joined with blanks."""
    offsets = surface_offsets(row["tokens"])
    return [
        {"start": offsets[entity["start"]][0], "end": offsets[entity["end"] - 1][1], "label": entity["label"]}
        for entity in row["entities"]
    ]


def report(scores: Mapping[str, Any], title: str, documents: Sequence[str | None]) -> str:
    """The scores in words and tables."""
    head = (
        f"{title}: strict F1 {100 * scores['overall_f1']:.2f}, precision {100 * scores['overall_precision']:.2f}, "
        f"recall {100 * scores['overall_recall']:.2f}, ECE {score_text(scores['overall_ece'])}"
    )
    further = (
        f"Maximum calibration error {score_text(scores['overall_mce'])}, ECE in bins of equal mass "
        f"{score_text(scores['overall_ece_mass'])}, Brier score {score_text(scores['overall_brier'])}, "
        f"average precision {scores['average_precision']:.4f}"
    )
    lines = [head, interval_line(scores, documents), further]
    return "\n\n".join(["\n".join(lines), label_table(scores), bin_table(scores["reliability"]), ""])


def interval_line(scores: Mapping[str, Any], documents: Sequence[str | None]) -> str:
    """The intervals, or why there are none, and what counts as a document."""
    nameless = sum(name is None for name in documents)
    note = f"; {nameless:,} rows name no document and count as one each" if nameless else ""
    if "intervals" not in scores:
        number = num_documents(documents)
        return "No intervals: as asked for" if number > 1 else f"No intervals: {number:,} documents{note}"
    intervals = scores["intervals"]
    ends = {name: [intervals[name][end] for end in ("low", "high")] for name in scores if name in intervals}
    parts = [
        "F1 {:.2f} to {:.2f}".format(*(100 * end for end in ends["overall_f1"])),
        "precision {:.2f} to {:.2f}".format(*(100 * end for end in ends["overall_precision"])),
        "recall {:.2f} to {:.2f}".format(*(100 * end for end in ends["overall_recall"])),
        "ECE {} to {}".format(*map(score_text, ends["overall_ece"])),
    ]
    return (
        f"{100 * intervals['confidence_level']:g}% intervals: {', '.join(parts)} "
        f"({intervals['num_resamples']:,} resamples of {intervals['num_documents']:,} documents{note})"
    )
