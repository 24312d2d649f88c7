"""How DiffusionNER gets from noise to entities: pictures of single sentences, and F1 and time over steps and spans.

    python benchmarks/diffusion_steps.py --model outputs/gum_minilm --data data/gum/test.jsonl --output pictures

Draws the noisy spans of some sentences, a strip for the noise and one for each step, then measures the model with each
number of steps and of noisy spans, fixed or in proportion to the words. Needs matplotlib (the extra `plots`).
`--base-rows 80` instead times an untrained model on a random encoder of BERT-base's shape on so many rows.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import torch
from datasets import Dataset
from matplotlib.figure import Figure
from quality import environment
from speed import Batch, decode_all, encode_all, padded_batches, pipeline_scores, seconds
from subject import selected_rows
from transformers import AutoModel, AutoTokenizer, BertConfig

from hf_spanner import SpanNERModel, SpanNERPipeline

GOLD_COLOUR, OTHER_COLOUR = "tab:green", "0.6"
STRIP_HEIGHT, WORD_WIDTH = 1.1, 0.55  # inches
RESOLUTION = 120


def main() -> None:
    """Draw and measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="folder of a trained model of diffusion_ner")
    parser.add_argument("--data", required=True, help="file of rows, such as a test split in JSONL")
    parser.add_argument("--output", required=True, type=Path, help="folder for pictures and numbers")
    parser.add_argument("--sentences", nargs="*", type=int, help="row numbers to draw; by default three with entities")
    parser.add_argument("--rows", type=int, help="measure on the first rows only")
    parser.add_argument("--steps", nargs="+", type=int, default=[1, 2, 5, 10])
    parser.add_argument("--spans", nargs="+", type=int, default=[10, 30, 60, 120])
    parser.add_argument(
        "--spans-per-word", nargs="*", type=float, default=[1.0, 2.0], help="at most the most `--spans`"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="seeds of the noise")
    parser.add_argument("--repeats", type=int, default=3, help="rounds of timing; the median round counts")
    parser.add_argument("--base-rows", type=int, help="only time a random encoder of BERT-base's shape")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    rows = selected_rows(arguments)
    model = AutoModel.from_pretrained(arguments.model).eval()
    if model.config.model_type != "diffusion_ner":
        raise ValueError(f"--model must be one of diffusion_ner, got {model.config.model_type}")
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    if arguments.base_rows is not None:
        time_base_shape(model, tokenizer, rows, arguments)
        return
    arguments.output.mkdir(parents=True, exist_ok=True)
    for place in chosen_sentences(rows) if arguments.sentences is None else arguments.sentences:
        draw_path(model, tokenizer, rows[place], arguments.output / f"path_{place}.png")
    results = measured(model, tokenizer, rows, arguments)
    draw_results(results, arguments.output / "f1_and_time.png")
    facts = {"data": f"{Path(arguments.data).name}, {len(rows)} rows", "seeds": arguments.seeds, **environment()}
    text = json.dumps({"results": results, **facts}, indent=2) + "\n"
    (arguments.output / "diffusion_steps.json").write_text(text, encoding="utf-8")
    print(", ".join(f"{name}: {value}" for name, value in facts.items()))


def chosen_sentences(rows: Dataset, count: int = 3) -> list[int]:
    """The first rows of 8 to 20 words with at least three entities."""
    fitting = (place for place, row in enumerate(rows) if 8 <= len(row["tokens"]) <= 20 and len(row["entities"]) >= 3)
    return [place for place, _ in zip(fitting, range(count), strict=False)]


@torch.inference_mode()
def draw_path(model: SpanNERModel, tokenizer: Any, row: Mapping[str, Any], path: Path) -> None:
    """Noisy spans of one sentence as bars over its words, sorted; those that cover a gold span exactly are coloured."""
    words = row["tokens"]
    batches = padded_batches(model, tokenizer, [words], 1)
    if len(batches) > 1:
        raise ValueError(f"a sentence to draw must fit into one window, got one of {len(words)} words")
    strips = model(**batches[0]).path[0].tolist()  # (S + 1, K, 2)
    gold = {(entity["start"], entity["end"] - 1) for entity in row["entities"]}
    size = (2 + WORD_WIDTH * len(words), STRIP_HEIGHT * (len(strips) + 1))
    figure = Figure(size, dpi=RESOLUTION, layout="tight")
    axes = figure.subplots(len(strips) + 1, 1, sharex=True)
    names = ["noise", *(f"step {step}" for step in range(1, len(strips))), "gold"]
    for axis, name, spans in zip(axes, names, [*strips, gold], strict=True):
        draw_strip(axis, sorted(map(tuple, spans)), gold)
        axis.set_ylabel(name, rotation=0, ha="right", va="center")
    axes[-1].set_xticks(range(len(words)), words, rotation=60, ha="right")
    axes[-1].set_xlim(-0.6, len(words) - 0.4)
    figure.savefig(path)
    print(path)


def draw_strip(axis: Any, spans: Sequence[tuple[int, int]], gold: set[tuple[int, int]]) -> None:
    """One bar for each (first, last) word; a pair in the wrong order is a cross on its left word."""
    for place, (first, last) in enumerate(spans):
        colour = GOLD_COLOUR if (first, last) in gold else OTHER_COLOUR
        if first <= last:
            axis.barh(place, last - first + 0.8, left=first - 0.4, height=1, color=colour, antialiased=False)
        else:
            axis.plot(first, place, marker="x", markersize=3, color=colour)
    axis.set_yticks([])
    axis.set_ylim(max(len(spans), 1) - 0.5, -0.5)
    axis.tick_params(axis="x", length=0)


def measured(model: SpanNERModel, tokenizer: Any, rows: Dataset, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """F1 over the seeds, and time over that of the bare encoder, for each number of steps and of spans."""
    pipeline = SpanNERPipeline(model=model, tokenizer=tokenizer, device="cpu")
    batches = padded_batches(model, tokenizer, list(rows["tokens"]))
    amounts = [{"num_spans": spans, "spans_per_word": 0.0} for spans in arguments.spans]
    amounts += [{"num_spans": max(arguments.spans), "spans_per_word": rate} for rate in arguments.spans_per_word]
    results = []
    print(f"{'steps':>5} {'spans':>14} {'F1':>7} {'sd':>6} {'ECE':>6} {'time':>6}  over the bare encoder")
    for amount, steps in product(amounts, arguments.steps):
        decoding = {**amount, "num_steps": steps}
        scores = [pipeline_scores(pipeline, rows, {**decoding, "seed": seed}) for seed in arguments.seeds]
        f1 = [score["overall_f1"] for score in scores]
        result = {
            **decoding,
            "f1": mean(f1),
            "f1_sd": stdev(f1) if len(f1) > 1 else 0.0,
            "ece": mean(score["overall_ece"] for score in scores),
            "time": relative_time(model, batches, decoding, arguments.repeats),
        }
        results.append(result)
        print(
            f"{steps:>5} {amount_name(result):>14} {100 * result['f1']:>7.2f} {100 * result['f1_sd']:>6.2f} "
            f"{result['ece']:>6.3f} {result['time']:>6.2f}",
            flush=True,
        )
    return results


def relative_time(model: SpanNERModel, batches: Sequence[Batch], decoding: Mapping[str, Any], repeats: int) -> float:
    """Forward and decoding of padded batches over the bare encoder's forward, taken in turns; the median round."""
    encoder = model.word_encoder.encoder
    return median(
        seconds(lambda: decode_all(model, batches, decoding)) / seconds(lambda: encode_all(encoder, batches))
        for _ in range(repeats)
    )


def time_base_shape(model: SpanNERModel, tokenizer: Any, rows: Dataset, arguments: argparse.Namespace) -> None:
    """Time of each number of steps over that of a bare encoder as large as BERT-base.

    An untrained head draws the noisy spans to few places, which would flatter; with an embedding of the slot no two
    spans are equal, so all are computed.
    """
    fields = {"encoder_config": BertConfig(), "id2label": model.config.id2label, "has_slot_embedding": True}
    large = type(model)(type(model.config)(**fields)).eval()
    step = max(1, len(rows) // arguments.base_rows)
    batches = padded_batches(large, tokenizer, list(rows["tokens"])[::step])
    for steps in arguments.steps:
        ratio = relative_time(large, batches, {"num_steps": steps}, arguments.repeats)
        print(f"BERT-base's shape, {steps} steps, {large.config.num_spans} spans: {ratio:.2f} x the bare encoder")
    facts = {"data": f"{Path(arguments.data).name}, every {step}th row", **environment()}
    print(", ".join(f"{name}: {value}" for name, value in facts.items()))


def amount_name(result: Mapping[str, Any]) -> str:
    """Number of noisy spans in words."""
    rate = result["spans_per_word"]
    return f"{rate:g} a word" if rate else str(result["num_spans"])


def draw_results(results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """F1 and time against the number of steps, a line for each number of noisy spans."""
    figure = Figure((10, 4), dpi=RESOLUTION, layout="tight")
    quality, speed = figure.subplots(1, 2)
    for name in dict.fromkeys(map(amount_name, results)):
        line = [result for result in results if amount_name(result) == name]
        steps = [result["num_steps"] for result in line]
        style = {"label": name, "marker": "o", "linestyle": "--" if line[0]["spans_per_word"] else "-"}
        deviations = [100 * result["f1_sd"] for result in line]
        quality.errorbar(steps, [100 * result["f1"] for result in line], yerr=deviations, capsize=2, **style)
        speed.plot(steps, [result["time"] for result in line], **style)
    quality.set_ylabel("strict F1, mean and deviation over seeds")
    speed.set_ylabel("time over that of the bare encoder")
    for axis in (quality, speed):
        axis.set_xlabel("steps")
        axis.set_xticks(sorted({result["num_steps"] for result in results}))
    speed.legend(title="noisy spans")
    figure.savefig(path)
    print(path)


if __name__ == "__main__":
    main()
