"""F1 over labelled words: texts chosen as `hf-spanner select` does, against random ones and those of least confidence.

    python benchmarks/selection.py           plays labelling, seed by seed
    python benchmarks/selection.py --draw    draws the picture and prints the table of docs/review.md

Labelling is played on training rows: all strategies begin with the same random sentences, train, and choose sentences
until so many more words are labelled, twice. Each model is a new one of Boundary Smoothing, small so that it is quick:
the first three layers of the encoder, no LSTM. Its answers stay in `--output`, so a run that was cut goes on; numbers
are kept in `selection.json`. Pre-annotation is what the model finds above the threshold that promises a precision of
90 % (at 90 % confidence, by dev rows).
"""

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from corpora import CORPORA, evenly
from review import QUIET, Rows, kept_answer, keys
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

from hf_spanner import Recipe
from hf_spanner.annotation.alternatives import scored_spans
from hf_spanner.annotation.selection import selected_units
from hf_spanner.calibration.fitting import scored_predictions
from hf_spanner.calibration.promises import precision_threshold, score_grid
from hf_spanner.commands.out_of_fold import fold_model
from hf_spanner.core.spans import EntityLists
from hf_spanner.data.predicted import predicted_entities
from hf_spanner.data.schema import label_set
from hf_spanner.metrics.span_ner.scoring import score_spans

ROOT = Path(__file__).parent.parent
RESULTS, PICTURE = ROOT / "benchmarks" / "selection.json", ROOT / "docs" / "pictures" / "selection.svg"
STRATEGIES = {"random": "#7f7f7f", "least confidence": "#1f77b4", "expected errors": "#d62728"}
PLAYED = ("conll2003", "gum", "bc5cdr")
START, FRESH, ROUNDS = 1000, 800, 2  # words at first, words of a round
SIZES = {"train": 1000, "dev": 250, "test": 300}  # sentences, evenly spaced
SETTINGS = ("model.lstm_layers=0", "training.learning_rate=5e-4", "training.num_train_epochs=8")
NUM_LAYERS = 3
PROMISE = {"target": 0.9, "delta": 0.1}
WIDTH, HEIGHT, MARGIN = 250, 230, 32  # of the panel of a corpus


def main() -> None:
    """Play labelling with each seed, corpus and strategy, or show what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=PLAYED)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--output", type=Path, default=Path("outputs/selection"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--draw", action="store_true")
    given = parser.parse_args()
    if given.draw:
        PICTURE.write_text(picture(kept_results()), encoding="utf-8")
        print("\n".join(table(kept_results())))
        return
    logging.set_verbosity_error()
    given.output.mkdir(parents=True, exist_ok=True)
    for seed in given.seeds:
        for corpus in given.corpora:
            for strategy in STRATEGIES:
                rounds = played(corpus, strategy, seed, given.output)
                print(corpus, strategy, seed, rounds, flush=True)
                results = kept_results(given.results)
                results.setdefault(corpus, {}).setdefault(strategy, {})[str(seed)] = rounds
                given.results.write_text(json.dumps(results) + "\n", encoding="utf-8")


def kept_results(path: Path = RESULTS) -> dict[str, dict[str, dict[str, list[list[float]]]]]:
    """Rounds as `played` gives them, by corpus, strategy and seed."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def played(corpus: str, strategy: str, seed: int, folder: Path) -> list[list[float]]:
    """For each round its words and F1, and of the sentences that come next what `pre_annotated` counts."""
    recipe = recipe_of(corpus, seed, folder)
    splits = {name: evenly(rows, SIZES[name]).to_list() for name, rows in recipe.data.load().items()}
    pool = splits["train"]
    labelled = first_words(pool, random.Random(seed).sample(range(len(pool)), len(pool)), START)
    rounds: list[list[float]] = []
    for number in range(ROUNDS + 1):
        chosen = [pool[place] for place in labelled]
        judged = ["test"] if number == ROUNDS else list(SIZES)
        file = f"{corpus}-{seed}-{strategy.replace(' ', '_') if number else 'start'}-{number}.json"
        answers = kept_answer(
            folder / file, lambda chosen=chosen, judged=judged: answered(recipe, chosen, splits, judged, folder)
        )
        f1 = score_spans(answers["test"], [row["entities"] for row in splits["test"]])["overall_f1"]
        rounds.append([sum(len(row["tokens"]) for row in chosen), round(100 * f1, 2)])
        if number == ROUNDS:
            break
        left = sorted(set(range(len(pool))) - set(labelled))
        rows, found, spans = ([side[place] for place in left] for side in (pool, answers["train"], answers["spans"]))
        fresh = first_words(rows, ranked(rows, found, spans, chosen, strategy, seed + number), FRESH)
        threshold = promised(answers["dev"], splits["dev"], found)
        rounds[-1] += pre_annotated([rows[place] for place in fresh], [found[place] for place in fresh], threshold)
        labelled += [left[place] for place in fresh]
    return rounds


def recipe_of(corpus: str, seed: int, folder: Path) -> Recipe:
    """The recipe of a corpus, with the smaller model."""
    path = (
        ROOT / "recipes" / "boundary_smoothing" / f"{'gum' if CORPORA[corpus].is_nested else 'conll2003'}_minilm.yaml"
    )
    settings = [*QUIET, *SETTINGS, *(f"data.{split}=data/{corpus}/{split}.jsonl" for split in SIZES)]
    encoder = folder / "encoder"
    if not encoder.exists():
        source = Recipe.from_yaml(path).encoder_folder
        AutoModel.from_pretrained(source, num_hidden_layers=NUM_LAYERS).save_pretrained(encoder)
        AutoTokenizer.from_pretrained(source).save_pretrained(encoder)
    return Recipe.from_yaml(path, [*settings, f"encoder={encoder}", f"training.seed={seed}"])


def first_words(rows: Rows, order: Sequence[int], num_words: int) -> list[int]:
    """The first rows of an order, until they have so many words."""
    chosen: list[int] = []
    for place in order:
        if num_words <= 0:
            break
        chosen.append(place)
        num_words -= len(rows[place]["tokens"])
    return chosen


def answered(
    recipe: Recipe, chosen: Rows, splits: dict[str, Rows], judged: Sequence[str], folder: Path
) -> dict[str, EntityLists]:
    """What a model that is trained on some rows finds in others, and what it thinks of all spans of the pool."""
    ner = fold_model(recipe, chosen, [], label_set(splits["train"]), folder / "model")
    answers = {name: list(predicted_entities(ner, splits[name], 32, {"threshold": 0.0})) for name in judged}
    return answers | ({"spans": scored_spans(ner, splits["train"], 32)} if "train" in judged else {})


def ranked(
    rows: Rows, found: EntityLists, spans: EntityLists, labelled: Rows, strategy: str, seed: int
) -> Sequence[int]:
    """Numbers of the rows, those that a strategy labels first at the head.

    Least confidence: the lowest score of a sentence's entities, those without entities last, in random order.
    """
    shuffled = random.Random(seed).sample(range(len(rows)), len(rows))
    if strategy == "random":
        return shuffled
    if strategy == "least confidence":
        return sorted(shuffled, key=lambda place: min((entity["score"] for entity in found[place]), default=1.0))
    choices = selected_units(rows, found, len(rows), alternatives=spans, labelled=labelled)
    return [choice.rows[0] for choice in choices]


def promised(found: EntityLists, rows: Rows, others: EntityLists) -> float:
    """The threshold of the promised precision by dev rows, on a grid laid by other predictions; 1 if there is none."""
    judged = scored_predictions(found, [row["entities"] for row in rows])
    scores = [entity["score"] for entities in others for entity in entities]
    grid = score_grid(scores, len(judged.scores), **PROMISE)
    threshold = precision_threshold(judged.scores, judged.correct, grid, **PROMISE)
    return 1.0 if threshold is None else threshold


def pre_annotated(rows: Rows, found: EntityLists, threshold: float) -> list[int]:
    """Gold entities of rows, those that the model gives above a threshold, and how many of these are right."""
    sure = [{"entities": [entity for entity in entities if entity["score"] >= threshold]} for entities in found]
    return [len(keys(rows)), len(keys(sure)), len(keys(sure) & keys(rows))]


def table(results: dict[str, Any]) -> list[str]:
    """Mean F1 at the words of each round with the values of the seeds, and what pre-annotation saves."""
    lines = [
        "| corpus | choice | F1 at the start | after a round | after two | right before labelling | promise kept |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    for corpus, by_strategy in results.items():
        for strategy, by_seed in by_strategy.items():
            runs = list(by_seed.values())
            cells = [corpus, strategy]
            for number in range(ROUNDS + 1):
                scores = [rounds[number][1] for rounds in runs]
                cells.append(f"{mean(scores):.1f} ({' '.join(f'{score:.1f}' for score in scores)})")
            gold, given, right = (sum(one[kind] for rounds in runs for one in rounds[:ROUNDS]) for kind in (2, 3, 4))
            cells += [f"{right:,} of {gold:,}, {right / gold:.0%}", f"{right / max(1, given):.2f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def picture(results: dict[str, Any]) -> str:
    """Mean F1 over labelled words, a panel for each corpus, as SVG."""
    marks = []
    for place, (strategy, colour) in enumerate(STRATEGIES.items()):
        marks.append(f'<text x="{MARGIN + 150 * place}" y="16" fill="{colour}">{strategy}</text>')
    for panel, (corpus, by_strategy) in enumerate(results.items()):
        curves = {
            strategy: [
                [mean(values) for values in zip(*column, strict=True)]
                for column in zip(*([one[:2] for one in rounds] for rounds in by_seed.values()), strict=True)
            ]
            for strategy, by_seed in by_strategy.items()
        }
        scores = [score for curve in curves.values() for _, score in curve]
        low, high = 5 * (min(scores) // 5), 5 * (max(scores) // 5 + 1)
        left, bottom = WIDTH * panel + MARGIN, HEIGHT - MARGIN
        last_words = START + ROUNDS * FRESH
        marks.append(f'<text x="{left + 8}" y="44">{corpus}</text>')
        marks.append(f'<path d="M{left} 30V{bottom}H{left + WIDTH - MARGIN - 14}" fill="none" stroke="black"/>')
        marks += [f'<text x="{left - 22}" y="{y + 4}">{score:.0f}</text>' for score, y in ((low, bottom), (high, 30))]
        marks += [
            f'<text x="{left + x - 14}" y="{bottom + 16}">{words:,}</text>'
            for words, x in ((START, 0), (last_words, WIDTH - MARGIN - 34))
        ]
        for strategy, curve in curves.items():
            points = " ".join(
                f"{left + (WIDTH - MARGIN - 34) * (words - START) / (last_words - START):.0f},"
                f"{bottom - (bottom - 30) * (score - low) / (high - low):.0f}"
                for words, score in curve
            )
            marks.append(f'<polyline points="{points}" fill="none" stroke="{STRATEGIES[strategy]}" stroke-width="2"/>')
    size = f'viewBox="0 0 {WIDTH * len(results) + 20} {HEIGHT}" font-family="sans-serif" font-size="12"'
    back = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', back, *marks, "</svg>", ""])


if __name__ == "__main__":
    main()
