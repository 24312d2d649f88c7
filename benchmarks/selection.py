"""F1 over labelled words: texts chosen as `hf-spanner select` does, against random ones and those of least confidence.

    python benchmarks/selection.py           plays labelling, seed by seed
    python benchmarks/selection.py --draw    draws the picture and prints the table of docs/review.md

Labelling is played on training rows: all strategies begin with the same random sentences, train, choose sentences until
so many more words are labelled, train anew, and so on for some rounds. Each model is a new one of Boundary Smoothing,
small so that it is quick: the first three layers of the encoder, no LSTM; all are trained for as many steps. What
models answer stays in `--output`, so a run that was cut goes on; numbers are in `selection.json`: for each run the
words and the F1 of each round, entities of all chosen sentences, and how many of these were found before.
"""

import argparse
import json
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import mean

from corpora import CORPORA, evenly
from review import QUIET, Rows, kept_answer, keys
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

from hf_spanner import Recipe, SpanNERPipeline
from hf_spanner.annotation.alternatives import scored_spans
from hf_spanner.annotation.selection import selected_units
from hf_spanner.commands.out_of_fold import fold_model
from hf_spanner.core.spans import EntityLists
from hf_spanner.data.predicted import predicted_entities
from hf_spanner.data.schema import label_set
from hf_spanner.metrics.span_ner.scoring import score_spans

ROOT = Path(__file__).parent.parent
RESULTS, PICTURE = ROOT / "benchmarks" / "selection.json", ROOT / "docs" / "pictures" / "selection.svg"
STRATEGIES = {"random": "#7f7f7f", "least confidence": "#1f77b4", "expected errors": "#d62728"}
PLAYED = ("conll2003", "gum", "bc5cdr")
START, FRESH, ROUNDS = 1000, 1200, 2  # words at first, words that are chosen in a round, rounds
NUM_TRAIN, NUM_TEST = 800, 300  # sentences, evenly spaced
SETTINGS = ("model.lstm_layers=0", "training.learning_rate=5e-4", "training.max_steps=150", "training.adam_beta1=0.9")
NUM_LAYERS = 3
WIDTH, HEIGHT = 230, 200  # of the panel of a corpus
Run = dict[str, list[float]]
Results = dict[str, dict[str, dict[str, Run]]]  # by corpus, strategy and seed


def main() -> None:
    """Play labelling with each seed, corpus and strategy, or show what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--output", type=Path, default=Path("outputs/selection"))
    parser.add_argument("--draw", action="store_true")
    given = parser.parse_args()
    results = kept_results()
    if given.draw:
        PICTURE.write_text(picture(results), encoding="utf-8")
        print("\n".join(table(results)))
        return
    logging.set_verbosity_error()
    given.output.mkdir(parents=True, exist_ok=True)
    for seed in given.seeds:
        for corpus in PLAYED:
            for strategy in STRATEGIES:
                run = played(corpus, strategy, seed, given.output)
                print(corpus, strategy, seed, run, flush=True)
                results.setdefault(corpus, {}).setdefault(strategy, {})[str(seed)] = run
                RESULTS.write_text(json.dumps(results) + "\n", encoding="utf-8")


def kept_results() -> Results:
    """Runs as `played` gives them."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def played(corpus: str, strategy: str, seed: int, folder: Path) -> Run:
    """Words and F1 of each round, and `saved`: entities of the chosen sentences, and how many were found before."""
    recipe = recipe_of(corpus, seed, folder)
    splits = recipe.data.load()
    pool, test = evenly(splits["train"], NUM_TRAIN).to_list(), evenly(splits["test"], NUM_TEST).to_list()
    labels, gold = label_set(pool), [row["entities"] for row in test]
    chosen = first_words(pool, random.Random(seed).sample(range(len(pool)), len(pool)), START)
    run: Run = {"words": [], "f1": [], "saved": [0, 0]}
    for number in range(ROUNDS + 1):
        is_last, labelled = number == ROUNDS, [pool[place] for place in chosen]
        name = strategy.replace(" ", "_") if number else "start"
        answer = kept_answer(
            folder / f"{corpus}-{seed}-{name}-{number}.json",
            partial(answers, recipe, labelled, labels, test, [] if is_last else pool, folder),
        )
        run["words"].append(sum(len(row["tokens"]) for row in labelled))
        run["f1"].append(round(100 * score_spans(answer["test"], gold)["overall_f1"], 2))
        if not is_last:
            left = sorted(set(range(len(pool))) - set(chosen))
            rows, found, spans = ([side[place] for place in left] for side in (pool, answer["train"], answer["spans"]))
            fresh = first_words(rows, ranked(rows, found, spans, labelled, strategy, seed), FRESH)
            wanted = keys([rows[place] for place in fresh])
            given = keys([{"entities": found[place]} for place in fresh])
            run["saved"] = [run["saved"][0] + len(wanted), run["saved"][1] + len(wanted & given)]
            chosen += [left[place] for place in fresh]
    return run


def answers(
    recipe: Recipe, labelled: Rows, labels: Sequence[str], test: Rows, pool: Rows, folder: Path
) -> dict[str, EntityLists]:
    """What a model of the labelled rows finds in both kinds of others, and the scores of all spans of the pool."""
    ner = fold_model(recipe, labelled, [], labels, folder / "model")
    return {"test": found_in(ner, test), "train": found_in(ner, pool), "spans": scored_spans(ner, pool, 32)}


def recipe_of(corpus: str, seed: int, folder: Path) -> Recipe:
    """The recipe of a corpus, with the smaller model."""
    kind = "gum" if CORPORA[corpus].is_nested else "conll2003"
    path = ROOT / "recipes" / "boundary_smoothing" / f"{kind}_minilm.yaml"
    files = [f"data.{split}=data/{corpus}/{split}.jsonl" for split in ("train", "dev", "test")]
    encoder = folder / "encoder"
    if not encoder.exists():
        source = Recipe.from_yaml(path).encoder_folder
        AutoModel.from_pretrained(source, num_hidden_layers=NUM_LAYERS).save_pretrained(encoder)
        AutoTokenizer.from_pretrained(source).save_pretrained(encoder)
    return Recipe.from_yaml(path, [*QUIET, *SETTINGS, *files, f"encoder={encoder}", f"training.seed={seed}"])


def first_words(rows: Rows, order: Sequence[int], num_words: int) -> list[int]:
    """The first rows of an order, until they have so many words."""
    chosen: list[int] = []
    for place in order:
        if num_words <= 0:
            break
        chosen.append(place)
        num_words -= len(rows[place]["tokens"])
    return chosen


def found_in(ner: SpanNERPipeline, rows: Rows) -> EntityLists:
    """What a model finds in rows, without a threshold."""
    return list(predicted_entities(ner, rows, 32, {"threshold": 0.0}))


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


def table(results: Results) -> list[str]:
    """Mean F1 of each round, with the values of the seeds in the last one, and what pre-annotation saves."""
    columns = [f"F1 with {START:,} words", *(f"+ {FRESH * number:,}" for number in range(1, ROUNDS + 1))]
    header = f"| {' | '.join(['corpus', 'choice', *columns, 'entities, found right before'])} |"
    lines = [header, "|---" * (ROUNDS + 4) + "|"]
    for corpus, by_strategy in results.items():
        for strategy, by_seed in by_strategy.items():
            rounds = list(zip(*(run["f1"] for run in by_seed.values()), strict=True))
            shown = [f"{mean(scores):.1f}" for scores in rounds]
            shown[-1] += f" ({' '.join(f'{score:.1f}' for score in rounds[-1])})"
            gold, right = (sum(column) for column in zip(*(run["saved"] for run in by_seed.values()), strict=True))
            lines.append(f"| {' | '.join([corpus, strategy, *shown, f'{gold:,}, {right / gold:.0%}'])} |")
    return lines


def picture(results: Results) -> str:
    """F1 over labelled words as SVG: a panel for each corpus, a thin line for each seed, a thick one for their mean."""
    marks = [
        f'<text x="{20 + 150 * place}" y="14" fill="{colour}">{strategy}</text>'
        for place, (strategy, colour) in enumerate(STRATEGIES.items())
    ]
    for panel, (corpus, by_strategy) in enumerate(results.items()):
        marks.append(f'<g transform="translate({WIDTH * panel + 30} 30)"><text x="8" y="12">{corpus}</text>')
        marks.append(f'<path d="M0 0V{HEIGHT}H{WIDTH - 40}" fill="none" stroke="black"/>')
        marks += [f'<text x="-20" y="{HEIGHT * (100 - f1) // 100 + 4}">{f1}</text>' for f1 in (20, 40, 60, 80)]
        marks.append(f'<text x="0" y="{HEIGHT + 16}">{START:,} to {START + ROUNDS * FRESH:,} words</text>')
        for strategy, by_seed in by_strategy.items():
            runs = [run["f1"] for run in by_seed.values()]
            for run, width in [*((run, 1) for run in runs), ([mean(column) for column in zip(*runs, strict=True)], 3)]:
                heights = [HEIGHT * (1 - f1 / 100) for f1 in run]
                points = "L".join(
                    f"{(WIDTH - 50) * place / ROUNDS:.0f} {height:.0f}" for place, height in enumerate(heights)
                )
                marks.append(
                    f'<path d="M{points}" fill="none" stroke="{STRATEGIES[strategy]}" stroke-width="{width}"/>'
                )
        marks.append("</g>")
    size = f'viewBox="0 0 {WIDTH * len(results) + 20} {HEIGHT + 56}" font-family="sans-serif" font-size="12"'
    back = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', back, *marks, "</svg>", ""])


if __name__ == "__main__":
    main()
