"""Score a saved model on a data file: strict, boundary and calibration scores, a table of labels, the reliability bins.

python recipes/evaluate.py MODEL DATA --output scores.json --threshold 0.5
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from datasets import Dataset
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerBase, pipeline

from hf_spanner import METHODS, SpanNERModel, SpanNERTrainer, SpanNERTrainingArguments, load_rows
from hf_spanner.core.words import surface_offsets
from hf_spanner.metrics.span_ner.scoring import score_spans
from hf_spanner.training.model_card import bin_table, label_table

DECODING_PARAMETERS = sorted({name for model in METHODS.values() for name in model.config_class.decoding_parameters})
Spans = list[list[dict[str, Any]]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Score a saved model on a data file."""
    given = parsed_arguments(arguments)
    decoding = {name: vars(given)[name] for name in DECODING_PARAMETERS if name in given}
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    model = AutoModel.from_pretrained(given.model)
    for name, value in model.decoding(decoding).items():
        setattr(model.config, name, value)
    rows = load_rows(given.data, split=given.split, split_hyphens=model.config.split_hyphens)
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
    for name in DECODING_PARAMETERS:
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=yaml.safe_load,
            default=argparse.SUPPRESS,
            help="in place of the model's",
        )
    return parser.parse_args(arguments)


def predictions_of_words(
    model: SpanNERModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset, batch_size: int
) -> tuple[Spans, Spans]:
    """Predicted and gold spans in words, as in the evaluation of training: windows and context included."""
    with TemporaryDirectory() as folder:
        args = SpanNERTrainingArguments(
            output_dir=folder,
            eval_strategy="no",
            save_strategy="no",
            load_best_model_at_end=False,
            per_device_eval_batch_size=batch_size,
            dataloader_pin_memory=False,
            report_to="none",
        )
        output = SpanNERTrainer(model=model, args=args, processing_class=tokenizer).predict(rows)
    return output.predictions, output.label_ids


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
