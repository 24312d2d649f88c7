"""F1 over labelled words: texts chosen by expected errors against random ones and those of least confidence.

    python benchmarks/selection.py --corpus conll2003 --seeds 1 2 3

Labelling is played on training rows: all strategies begin with the same random sentences, train, and choose sentences
until `--words` more words are labelled, `--rounds` times. Each model is a new one, with the same number of epochs. What
models answer is kept in `--output`, so a run that was cut goes on.
"""

import argparse
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from review import QUIET, RECIPES, Rows, answers_of, corpus_rows, f1, kept_answer, keys
from transformers.utils import logging

from hf_spanner import Recipe
from hf_spanner.annotation.selection import selected_units
from hf_spanner.core.spans import EntityLists
from hf_spanner.data.schema import label_set

STRATEGIES = ("random", "least_confidence", "expected_errors")


def main() -> None:
    """Play labelling with each strategy and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", choices=RECIPES, default="conll2003")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--pool", type=int, default=1500, help="about so many training sentences")
    parser.add_argument("--start", type=int, default=100, help="sentences that are labelled at first")
    parser.add_argument("--words", type=int, default=2000, help="words that a round labels")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=6, help="of each model over what is labelled")
    parser.add_argument("--test", type=int, default=600, help="test sentences, spread over all")
    parser.add_argument("--output", type=Path, default=Path("outputs/selection"))
    given = parser.parse_args()
    logging.set_verbosity_error()
    given.output.mkdir(parents=True, exist_ok=True)
    pool = corpus_rows(given.corpus, given.pool)
    test = Recipe.from_yaml(RECIPES[given.corpus][0], QUIET).data.load()["test"].to_list()
    test = test[:: max(1, len(test) // given.test)][: given.test]
    print(
        f"{given.corpus}: pool of {len(pool):,} sentences, {len(test):,} test sentences, {given.epochs} epochs a model"
    )
    for seed in given.seeds:
        for strategy in STRATEGIES:
            play(given, pool, test, strategy, seed)


def play(given: argparse.Namespace, pool: Rows, test: Rows, strategy: str, seed: int) -> None:
    """Print a line for each round of one strategy."""
    labelled = random.Random(seed).sample(range(len(pool)), given.start)
    for number in range(given.rounds + 1):
        chosen = [pool[place] for place in labelled]
        words = sum(len(row["tokens"]) for row in chosen)
        name = "start" if number == 0 else f"{strategy}-{number}"
        rows = test if number == given.rounds else [*test, *pool]  # after the last round nothing is chosen
        answers = answers_after(given, f"{given.corpus}-{seed}-{name}", chosen, rows, seed, label_set(pool))
        score = f1(answers[: len(test)], test)
        print(f"seed {seed}, {strategy}, {len(chosen)} sentences, {words:,} words: F1 {100 * score:.2f}", flush=True)
        if number == given.rounds:
            return
        left = sorted(set(range(len(pool))) - set(labelled))
        found = [answers[len(test) + place] for place in left]
        order = ranked([pool[place] for place in left], found, chosen, strategy, seed + number)
        fresh, budget = [], given.words
        for place in order:
            budget -= len(pool[left[place]]["tokens"])
            fresh.append(place)
            if budget <= 0:
                break
        print("   ", pre_annotation([pool[left[place]] for place in fresh], [found[place] for place in fresh]))
        labelled += [left[place] for place in fresh]


def answers_after(
    given: argparse.Namespace, name: str, chosen: Rows, rows: Rows, seed: int, labels: Sequence[str]
) -> EntityLists:
    """What a model finds in some rows after training on those that are labelled."""
    path, settings = RECIPES[given.corpus]
    epochs = f"training.num_train_epochs={given.epochs}"
    recipe = Recipe.from_yaml(path, [*settings, *QUIET, epochs, f"training.seed={seed}"])
    kept = given.output / f"{name}-{len(chosen)}-of-{len(rows)}-{given.epochs}.json"
    return kept_answer(kept, lambda: answers_of(recipe, chosen, rows, given.output, labels))


def ranked(rows: Rows, found: EntityLists, labelled: Rows, strategy: str, seed: int) -> list[int]:
    """Numbers of the rows, those that a strategy labels first at the head.

    Least confidence: the lowest score of a sentence's entities, those without entities last, in random order.
    """
    shuffled = random.Random(seed).sample(range(len(rows)), len(rows))
    if strategy == "random":
        return shuffled
    if strategy == "least_confidence":
        return sorted(shuffled, key=lambda place: min((entity["score"] for entity in found[place]), default=1.0))
    known = [word for row in labelled for word in row["tokens"]]
    return [choice.rows[0] for choice in selected_units(rows, found, len(rows), known_words=known)]


def pre_annotation(rows: Rows, found: Sequence[list[dict[str, Any]]]) -> str:
    """How much of the chosen sentences the model had labelled right already."""
    gold = keys(rows)
    given = keys([{"entities": entities} for entities in found])
    return f"pre-annotation: {len(gold & given)} of {len(gold)} entities right, {len(given - gold)} wrong ones"


if __name__ == "__main__":
    main()
