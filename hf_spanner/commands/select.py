"""Choose the texts that are worth labelling next: the most expected errors for the words that have to be read.

hf-spanner select MODEL UNLABELLED [MORE ...] --number 100 --output FOLDER

UNLABELLED is what `hf-spanner predict` reads: a `.txt` file with a text a line, or JSON lines with `text` or `tokens`.
The folder gets selected.jsonl, the chosen texts in their order, each with its rank, its expected errors and what the
model finds in it, and tasks.json for Label Studio (tasks.jsonl for Prodigy) with that as pre-annotations. Scores should
be calibrated (`hf-spanner calibrate`). With --documents whole documents are chosen.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from tqdm import tqdm

from hf_spanner import SpanNERModel, load_rows
from hf_spanner.annotation.alternatives import has_alternatives, scored_spans
from hf_spanner.annotation.selection import selected_units
from hf_spanner.commands.judging import saved_pipeline
from hf_spanner.commands.options import (
    add_reader_options,
    add_task_option,
    add_trust_option,
    at_least_one,
    command_parser,
    given_reading,
    shared_reading,
    trust_encoders,
    write_tasks,
)
from hf_spanner.commands.predict import input_records, unlabelled_row
from hf_spanner.data.predicted import predicted_entities
from hf_spanner.training.whole_files import write_whole


def main(arguments: Sequence[str] | None = None) -> None:
    """Choose texts and write them."""
    given = parsed_arguments(arguments)
    trust_encoders(given, given.model)
    ner = saved_pipeline(given.model)
    config = ner.model.config
    if config.calibration is None and config.temperature == 1:
        print("scores are raw; hf-spanner calibrate makes probabilities of them", file=sys.stderr)
    split = {"split_hyphens": config.split_hyphens}
    reading, has_labelled = given_reading(given) | split, given.labelled is not None
    records = chain.from_iterable(input_records(source, reading, is_shared=has_labelled) for source in given.files)
    rows = [unlabelled_row(record, **split) for record in records]
    labelled: Any = load_rows(given.labelled, **shared_reading(given), **split) if has_labelled else ()
    with_alternatives = has_alternatives(config) and isinstance(ner.model, SpanNERModel)
    answers = predicted_entities(ner, rows, given.batch_size, ner.model.decoding({"threshold": 0.0}))
    predictions = list(tqdm(answers, total=len(rows), unit=" texts", file=sys.stderr))
    choices = selected_units(
        rows,
        predictions,
        given.number,
        alternatives=scored_spans(ner, rows, given.batch_size) if with_alternatives else None,
        whole_documents=given.documents,
        labelled=labelled,
    )
    selected = [
        {**rows[number], "entities": predictions[number], "rank": rank, "expected_errors": round(choice.errors, 4)}
        for rank, choice in enumerate(choices, start=1)
        for number in choice.rows
    ]
    given.output.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in selected)
    write_whole(given.output / "selected.jsonl", lines)
    write_tasks(selected, given.output, given.tasks)
    num_words = sum(len(row["tokens"]) for row in selected)
    num_expected = sum(choice.errors for choice in choices)
    kind = "documents" if given.documents else "texts"
    print(f"{len(choices):,} {kind} of {len(rows):,} texts, {num_words:,} words, {num_expected:.1f} errors expected")
    print(f"chosen texts: {given.output / 'selected.jsonl'}")


def parsed_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = command_parser("select", __doc__)
    parser.add_argument("model", help="folder or Hub name of a saved model")
    parser.add_argument("files", nargs="+", help="texts without labels, as hf-spanner predict takes them")
    parser.add_argument("--number", type=at_least_one, required=True, help="how many texts, or documents")
    parser.add_argument("--output", type=Path, required=True, help="folder for what is written")
    parser.add_argument("--documents", action="store_true", help="choose whole documents")
    parser.add_argument("--labelled", help="rows that were labelled before; what they have is worth less")
    parser.add_argument("--batch-size", type=at_least_one, default=32)
    add_task_option(parser)
    add_reader_options(parser)
    add_trust_option(parser)
    return parser.parse_intermixed_args(arguments)
