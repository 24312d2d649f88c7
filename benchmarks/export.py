"""Speed of exported models against the bare encoder in torch, in one process, by turns.

    python benchmarks/export.py MODEL --data test.jsonl --exported FOLDER FOLDER ... --json export.json

The reference is the encoder in torch in float32 on batches sorted by length and padded beforehand. All others
read words in file order and give entities with scores; a ratio is taken within a round, and the median round counts.
The load of the machine is printed before and after, since a busy one distorts the ratios.
"""

import argparse
import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from speed import encode_all, padded_batches, seconds
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

from hf_spanner import SpanNERPipeline, load_rows
from hf_spanner.data.predicted import predicted_entities
from hf_spanner.export.check import compared


def main() -> None:
    """Measure what the command line names and print the table."""
    parser = argparse.ArgumentParser(description="Speed of exported models against the bare encoder in torch.")
    parser.add_argument("model", help="folder of the model with weights")
    parser.add_argument("--data", required=True, help="file of rows, such as a test split in JSONL")
    parser.add_argument("--exported", nargs="*", default=[], help="folders of its exports")
    parser.add_argument("--dtypes", nargs="*", default=[], choices=("bfloat16",), help="also the model in this type")
    parser.add_argument("--compiled", action="store_true", help="also the model after torch.compile")
    parser.add_argument("--every", type=int, default=1, help="take each n-th row")
    parser.add_argument("--sentences", type=int, default=100, help="rows of the one-at-a-time measurement")
    parser.add_argument("--repeats", type=int, default=5, help="rounds; the median round counts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    logging.set_verbosity_error()
    rows = list(load_rows(arguments.data))[:: arguments.every]
    words = [list(row["tokens"]) for row in rows]
    pipelines = all_pipelines(arguments)
    encoder = pipelines["torch float32"].model.word_encoder.encoder
    batches = padded_batches(pipelines["torch float32"].model, pipelines["torch float32"].tokenizer, words)
    loads = [os.getloadavg()[0]]
    corpus = rounds_of(
        {"encoder": lambda: encode_all(encoder, batches)}
        | {name: lambda ner=ner: ner(words, pretokenized=True) for name, ner in pipelines.items()},
        arguments.repeats,
    )
    step = max(1, len(words) // max(1, arguments.sentences))
    single = rounds_of(
        {
            name: lambda ner=ner: [ner(text, pretokenized=True) for text in words[::step] if text]
            for name, ner in pipelines.items()
        },
        arguments.repeats,
    )
    loads.append(os.getloadavg()[0])
    entities = {name: list(predicted_entities(ner, rows, 32)) for name, ner in pipelines.items()}
    gold = [list(row["entities"]) for row in rows]
    results = {}
    print(f"{'model':<34}{'x encoder':>10}{'rounds':>16}{'ms a sentence':>15}{'F1':>8}{'ECE':>8}{'equal':>8}")
    for name in pipelines:
        ratios = [bare / time for bare, time in zip(corpus["encoder"], corpus[name], strict=True)]
        comparison = compared(entities["torch float32"], entities[name], gold)
        milliseconds = 1000 * median(single[name]) / len(words[::step])
        results[name] = {
            "rate": median(ratios),
            "rounds": ratios,
            "milliseconds_alone": milliseconds,
            "f1": comparison.f1[1],
            "ece": comparison.ece[1],
            "equal": comparison.equal,
        }
        between = f"{min(ratios):.2f} .. {max(ratios):.2f}"
        print(
            f"{name:<34}{median(ratios):>10.2f}{between:>16}{milliseconds:>15.1f}{comparison.f1[1]:>8.2f}"
            f"{comparison.ece[1] or 0:>8.4f}{comparison.equal:>8.2%}"
        )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{len(rows)} rows, {arguments.threads} threads, load {loads[0]:.2f} before and {loads[1]:.2f} after")
    print(f"largest memory of the process with all models: {memory:.0f} MiB; Python {sys.version.split()[0]}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"results": results, "loads": loads}, indent=2) + "\n", encoding="utf-8")


def all_pipelines(arguments: argparse.Namespace) -> dict[str, SpanNERPipeline]:
    """The model with weights, the variants of torch that were asked for, and the exports, by name."""
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)

    def made(model: Any) -> SpanNERPipeline:
        return SpanNERPipeline(model=model, tokenizer=tokenizer, device="cpu")

    pipelines = {"torch float32": made(AutoModel.from_pretrained(arguments.model))}
    for dtype in arguments.dtypes:
        pipelines[f"torch {dtype}"] = made(AutoModel.from_pretrained(arguments.model, dtype=dtype))
    if arguments.compiled:
        model = AutoModel.from_pretrained(arguments.model)
        model.word_encoder.encoder.compile(dynamic=True)
        pipelines["torch compiled"] = made(model)
    return pipelines | {Path(folder).name: made(AutoModel.from_pretrained(folder)) for folder in arguments.exported}


def rounds_of(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each function in each round, in which they run one after the other; the first round is left out."""
    rounds = [{name: seconds(function) for name, function in functions.items()} for _ in range(repeats + 1)]
    return {name: [each[name] for each in rounds[1:]] for name in functions}


if __name__ == "__main__":
    main()
