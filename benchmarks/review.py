"""How many wrong annotations a review finds: against human corrections, planted errors, and in a whole loop.

    python benchmarks/review.py corrected --annotated data/conll2003/test.jsonl --truth data/conllpp/test.jsonl
    python benchmarks/review.py held-out quickstart
    python benchmarks/review.py planted quickstart --rate 0.05
    python benchmarks/review.py loop quickstart --rate 0.1

`corrected` reviews the annotation by predictions that were kept, and ranks sentences. `held-out` plants errors in rows
whose predictions were kept, of models that were trained on clean rows. `planted` plants them in the first documents of
the training rows and reviews them with models out of fold. `corrected --train` and `planted` set cleanlab's ranking
beside it, by a token classifier on the same encoder and rows (`pip install cleanlab`; without it that part is left
out). `loop` trains on planted errors, on what is left of them after the first suggestions are accepted, on what a
person makes of the same places, and on none. What is trained leaves its predictions in `--output`, so a run that was
cut goes on.
"""

import argparse
import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from kept_runs import FOLDER, file_of_run
from token_classification import tokenized_words, train_baseline
from transformers import TrainingArguments, set_seed
from transformers.utils import logging

from hf_spanner import METHODS, Recipe, load_rows
from hf_spanner.analysis.comparison import read_predictions
from hf_spanner.annotation.alternatives import FLOOR
from hf_spanner.annotation.folds import document_folds
from hf_spanner.annotation.suspects import Suspect, reviewed
from hf_spanner.commands.out_of_fold import NO_FILES, out_of_fold_predictions
from hf_spanner.commands.train import tokenizer_and_model
from hf_spanner.core.spans import EntityLists
from hf_spanner.data.schema import label_set, sorted_entities
from hf_spanner.data.tags import spans_to_tags
from hf_spanner.methods import trainer_of
from hf_spanner.metrics.span_ner.scoring import score_spans
from hf_spanner.quickstart import RECIPE

BUDGETS = (50, 100, 186)  # sentences to look at; CoNLL++ changed 186
FIRST_SHARE = 0.1  # of the entities of a corpus: so many suspects are looked at
QUIET = (
    "training.use_cpu=true",
    "training.disable_tqdm=true",
    "training.report_to=none",
    "training.logging_strategy=no",
)
RECIPES = {
    "quickstart": (str(RECIPE), ()),
    "conll2003": ("recipes/boundary_smoothing/conll2003_minilm.yaml", ("training.num_train_epochs=3",)),
    "gum": ("recipes/boundary_smoothing/gum_minilm.yaml", ("training.num_train_epochs=3",)),
}
CLEANLAB = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
KEPT = ("boundary_smoothing", "locate_and_label", "bopn")
HELD_OUT = {  # files of rows, their kept runs by method, and how entities overlap
    "quickstart": (
        {"-dev": str(RECIPE.parent / "dev.jsonl.gz"), "": str(RECIPE.parent / "test.jsonl.gz")},
        dict.fromkeys(KEPT, "quickstart") | {"boundary_smoothing": "quickstart_epsilon0.1"},
        "nested",
    ),
    "gum": (
        {"-dev": "data/gum/dev.jsonl", "": "data/gum/test.jsonl"},
        dict.fromkeys(KEPT, "gum_full"),
        "nested",
    ),
    "conllpp": ({"": "data/conllpp/test.jsonl"}, dict.fromkeys(KEPT, "conll2003_full"), "flat"),
}
Rows = list[dict[str, Any]]
Key = tuple[int, int, int, str]


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("outputs/review"))
    parts = parser.add_subparsers(dest="part", required=True)
    corrected = parts.add_parser("corrected")
    corrected.add_argument("--annotated", required=True)
    corrected.add_argument("--truth", required=True)
    corrected.add_argument("--kept", default="conll2003_full", help="name of the kept runs")
    corrected.add_argument("--train", help="training rows, for the comparison with cleanlab at an equal budget")
    held_out = parts.add_parser("held-out")
    held_out.add_argument("corpus", choices=HELD_OUT)
    held_out.add_argument("--rates", type=float, nargs="+", default=[0.02, 0.05])
    held_out.add_argument("--draws", type=int, nargs="+", default=[1, 2, 3, 4, 5], help="seeds of the planted errors")
    for name in ("planted", "loop"):
        part = parts.add_parser(name)
        part.add_argument("corpus", choices=RECIPES)
        part.add_argument("--rate", type=float, default=0.05)
        part.add_argument("--rows", type=int, default=1000, help="about so many rows, in whole documents")
        part.add_argument("--folds", type=int, default=4)
        part.add_argument("--seeds", type=int, nargs="+", default=[1], help="seeds of the models, which are averaged")
        part.add_argument("--no-alternatives", dest="alternatives", action="store_false", help="only what models find")
        part.add_argument("--draw", type=int, default=1, help="seed of the planted errors")
    given = parser.parse_args()
    logging.set_verbosity_error()
    given.output.mkdir(parents=True, exist_ok=True)
    run = {
        "corrected": against_corrections,
        "held-out": against_held_out,
        "planted": against_planted,
        "loop": loop,
    }[given.part]
    run(given)


def against_corrections(given: argparse.Namespace) -> None:
    """Share of the sentences that people changed among the first ones of each ranking."""
    rows, truth = (load_rows(path).to_list() for path in (given.annotated, given.truth))
    changed = np.array([keys([row]) != keys([true]) for row, true in zip(rows, truth, strict=True)])
    print(f"{len(rows):,} sentences, {changed.sum()} changed")
    kept = {}
    for method in KEPT:
        run = f"{given.kept}-{method}-seed42"
        kept[method] = read_predictions(f"{file_of_run(run, FOLDER)}#{run}")[0]
    for methods in [*([method] for method in KEPT), KEPT[:2], KEPT]:
        review = reviewed(rows, [kept[method] for method in methods], policy="flat")
        print(f"review by {', '.join(methods)}: {precisions(row_scores(review.suspects, len(rows)), changed)}")
        hits = np.array([is_right(suspect, keys(rows), keys(truth)) for suspect in review.suspects])
        print("  ", calibration_line(review.suspects, hits, review.noise.rate))
    if given.train is not None:
        against_equal_budget(given, rows, changed)


def against_equal_budget(given: argparse.Namespace, rows: Rows, changed: np.ndarray) -> None:
    """The same for span models and cleanlab's token classifier that are trained on the same 1,000 sentences."""
    numbers = json.loads((FOLDER.parent / "equal_budget.json").read_text(encoding="utf-8"))["conll2003"]
    rows, changed = [rows[place] for place in numbers["test"]], changed[numbers["test"]]
    every = load_rows(given.train).to_list()
    training = [every[place] for place in numbers["train"]]
    budgets = [round(budget * len(rows) / 3453) for budget in BUDGETS]
    print(f"trained on {len(training):,} sentences: {len(rows):,} sentences, {changed.sum()} changed")
    for methods in (KEPT[:1], KEPT):
        runs = [f"conll2003_equal-{method}-seed1" for method in methods]
        kept = [read_predictions(f"{file_of_run(run, FOLDER)}#{run}")[0] for run in runs]
        review = reviewed(rows, kept, policy="flat")
        found = precisions(row_scores(review.suspects, len(rows)), changed, budgets)
        print(f"review by {', '.join(runs)}: {found}")
    if find_spec("cleanlab"):
        settings = [*RECIPES["conll2003"][1], *QUIET, "training.seed=1"]
        recipe = Recipe.from_yaml(RECIPES["conll2003"][0], settings)
        probabilities = kept_probabilities(given.output, "equal", recipe, training, rows)
        for method in CLEANLAB:
            lowest = np.array([min(row, default=1.0) for row in token_scores(rows, probabilities, method)])
            print(f"cleanlab, {method}: {precisions(-lowest, changed, budgets)}")


def precisions(scores: np.ndarray, changed: np.ndarray, budgets: Sequence[int] = BUDGETS) -> str:
    """Share of changed sentences among the first ones by score."""
    order = np.argsort(-scores, kind="stable")
    return ", ".join(f"{changed[order[:budget]].mean():.3f} of {budget}" for budget in budgets)


def row_scores(suspects: Sequence[Suspect], num_rows: int) -> np.ndarray:
    """The probability of the most probable suspect of each row."""
    scores = np.zeros(num_rows)
    for suspect in suspects:
        scores[suspect.row] = max(scores[suspect.row], suspect.probability)
    return scores


def is_right(suspect: Suspect, annotated: set[Key], truth: set[Key]) -> bool:
    """Whether the annotation is wrong there: its entity is no true one, or a true one is missing."""
    if suspect.annotated is not None:
        return (suspect.row, *suspect.annotated) not in truth
    assert suspect.suggested is not None
    return any(
        key[0] == suspect.row and key[1] < suspect.suggested[1] and suspect.suggested[0] < key[2]
        for key in truth - annotated
    )


def calibration_line(suspects: Sequence[Suspect], hits: np.ndarray, rate: float) -> str:
    """Calibration of stated probabilities in ten equal bins, of all suspects and of those that are written."""
    stated = np.array([suspect.probability for suspect in suspects])
    parts = []
    for name, mask in (("all", stated >= 0), ("from .01", stated >= 0.01)):
        parts.append(f"ECE of {name} {mask.sum():,} {calibration_error(stated[mask], hits[mask]):.3f}")
    return f"rate {rate:.3f}, {', '.join(parts)}, expected {stated.sum():.0f}, wrong {hits.sum()}"


def corpus_rows(corpus: str, num_rows: int) -> Rows:
    """The first documents of the training rows, about as many rows as asked for."""
    recipe = Recipe.from_yaml(RECIPES[corpus][0], QUIET)
    chosen: Rows = []
    for row in recipe.data.load()["train"].to_list():
        if len(chosen) >= num_rows and row["document"] != chosen[-1]["document"]:
            break
        chosen.append(row)
    return chosen


def planted(rows: Rows, rate: float, seed: int) -> tuple[Rows, list[tuple[Key | None, Key]]]:
    """Rows with errors, and for each the wrong entity (None where it was dropped) and the true one.

    A random share of the entities is changed: in turn another label, a start or an end moved by one word, and nothing
    left. A change that would give an entity that is there is drawn again.
    """
    generator = random.Random(seed)
    labels = label_set(rows)
    entities = [keys_of(row) for row in rows]
    places = [(number, key) for number, members in enumerate(entities) for key in sorted(members)]
    chosen = generator.sample(places, round(rate * len(places)))
    errors: list[tuple[Key | None, Key]] = []
    for turn, (number, (start, end, label)) in enumerate(chosen):
        present = entities[number]
        present.discard((start, end, label))
        if turn % 3 == 2:
            errors.append((None, (number, start, end, label)))
            continue
        options = [(start, end, other) for other in labels if other != label]
        if turn % 3 == 1:
            moved = [(start - 1, end), (start + 1, end), (start, end - 1), (start, end + 1)]
            options = [(*s, label) for s in moved if 0 <= s[0] < s[1] <= len(rows[number]["tokens"])] or options
        options = [option for option in options if option not in present]
        wrong = generator.choice(options)
        present.add(wrong)
        errors.append(((number, *wrong), (number, start, end, label)))
    changed = [{**row, "entities": sorted_entities(members)} for row, members in zip(rows, entities, strict=True)]
    return changed, errors


def folds_review(given: argparse.Namespace, rows: Rows) -> Any:
    """A review of planted rows by models out of fold."""
    path, settings = RECIPES[given.corpus]
    predictions = []
    for seed in given.seeds:
        recipe = Recipe.from_yaml(path, [*settings, *QUIET, f"training.seed={seed}"])
        name = f"{given.corpus}-{len(rows)}-{given.rate}-draw{given.draw}-seed{seed}"
        name += "" if given.alternatives else "-found"
        predictions.append(
            out_of_fold_predictions(recipe, rows, given.folds, given.output, name, alternatives=given.alternatives)
        )
    policy = METHODS[recipe.method].config_class(**recipe.model).overlap
    return reviewed(rows, predictions, policy=policy, floor=FLOOR if given.alternatives else None)


def against_planted(given: argparse.Namespace) -> None:
    """Share of planted errors among the first suspects, and whether stated probabilities are true."""
    clean = corpus_rows(given.corpus, given.rows)
    rows, errors = planted(clean, given.rate, given.draw)
    num_entities = len(keys(rows))
    budget = round(FIRST_SHARE * num_entities)
    print(f"{given.corpus}: {len(rows):,} rows, {num_entities:,} entities, {len(errors)} errors, budget {budget}")
    review = folds_review(given, rows)
    found = planted_places(review.suspects, errors)
    hits = [place is not None for place in found]
    first = {place for place in found[:budget] if place is not None}
    print(f"review: {len(first) / len(errors):.3f} found in the first {budget}, {sum(hits[:budget])} of them wrong")
    for name, turn in (("label", 0), ("boundary", 1), ("dropped", 2)):
        members = set(range(turn, len(errors), 3))
        print(f"   {name}: {len(first & members)} of {len(members)}")
    true = {key for _, key in errors}
    exact = sum((suspect.row, *(suspect.suggested or ())) in true for suspect in review.suspects[:budget])
    print(f"   the suggestion is the true entity: {exact}")
    print("  ", calibration_line(review.suspects, np.array(hits), review.noise.rate))
    if find_spec("cleanlab"):
        compare_cleanlab(given, rows, errors, budget)


def planted_places(suspects: Sequence[Suspect], errors: Sequence[tuple[Key | None, Key]]) -> list[int | None]:
    """For each suspect the number of the planted error that it names, by the wrong entity or by the true one."""
    wrong_by = {key: place for place, (key, _) in enumerate(errors) if key is not None}
    true_by = {key: place for place, (_, key) in enumerate(errors)}
    return [
        wrong_by.get((suspect.row, *(suspect.annotated or ())), true_by.get((suspect.row, *(suspect.suggested or ()))))
        for suspect in suspects
    ]


def against_held_out(given: argparse.Namespace) -> None:
    """The same for rows that models have not seen, whose training rows are clean; means over the draws."""
    files, runs, policy = HELD_OUT[given.corpus]
    rows = [row for path in files.values() for row in load_rows(path).to_list()]
    kept: dict[str, EntityLists] = {}
    for method, name in runs.items():
        names = [f"{name}-{method}-seed42{suffix}" for suffix in files]
        kept[method] = [one for run in names for one in read_predictions(f"{file_of_run(run, FOLDER)}#{run}")[0]]
    print(f"{given.corpus}: {len(rows):,} rows, {len(keys(rows)):,} entities, draws {given.draws}")
    for methods in [*([method] for method in KEPT), KEPT]:
        for rate in given.rates:
            results = []
            for draw in given.draws:
                changed, errors = planted(rows, rate, draw)
                review = reviewed(changed, [kept[method] for method in methods], policy=policy)
                places = planted_places(review.suspects, errors)
                first = {place for place in places[: round(FIRST_SHARE * len(keys(changed)))] if place is not None}
                written = [suspect.probability >= 0.01 for suspect in review.suspects]
                hits = np.array([place is not None for place in places])
                stated = np.array([suspect.probability for suspect in review.suspects])
                error = calibration_error(stated[written], hits[written])
                results.append((len(first) / len(errors), error, review.noise.rate))
            means, spread = np.mean(results, axis=0), np.std(results, axis=0)
            print(
                f"{', '.join(methods)}, rate {rate}: found {means[0]:.3f} (sd {spread[0]:.3f}), "
                f"ECE {means[1]:.3f} (sd {spread[1]:.3f}), stated rate {means[2]:.3f}"
            )


def calibration_error(stated: np.ndarray, hits: np.ndarray) -> float:
    """ECE of probabilities in ten equal bins."""
    bins = np.minimum((stated * 10).astype(int), 9)
    return sum(abs(float((hits[bins == place] - stated[bins == place]).sum())) for place in range(10)) / len(stated)


def compare_cleanlab(
    given: argparse.Namespace, rows: Rows, errors: Sequence[tuple[Key | None, Key]], budget: int
) -> None:
    """The same budget for cleanlab's ranking of tokens; a token beside one that was looked at costs nothing."""
    path, settings = RECIPES[given.corpus]
    recipe = Recipe.from_yaml(path, [*settings, *QUIET, f"training.seed={given.seeds[0]}"])
    probabilities: list[np.ndarray] = [np.zeros(0)] * len(rows)
    for number, fold in enumerate(document_folds(rows, given.folds, given.seeds[0])):
        name = f"tokens-{given.corpus}-{len(rows)}-{given.rate}-draw{given.draw}-{number + 1}-of-{given.folds}"
        training = [row for place, row in enumerate(rows) if place not in set(fold)]
        answers = kept_probabilities(given.output, name, recipe, training, [rows[place] for place in fold])
        for place, answer in zip(fold, answers, strict=True):
            probabilities[place] = answer
    words_of: dict[tuple[int, int], set[int]] = {}
    for place, (wrong, true) in enumerate(errors):
        for key in (wrong, true):
            for word in () if key is None else range(key[1], key[2]):
                words_of.setdefault((true[0], word), set()).add(place)
    for method in CLEANLAB:
        scores = token_scores(rows, probabilities, method)
        ranked = sorted((score, row, word) for row, members in enumerate(scores) for word, score in enumerate(members))
        seen: set[tuple[int, int]] = set()
        found: set[int] = set()
        num_looked = 0
        for _, row, word in ranked:
            num_looked += not {(row, word - 1), (row, word + 1)} & seen
            if num_looked > budget:
                break
            seen.add((row, word))
            found |= words_of.get((row, word), set())
        counts = [len(found & set(range(turn, len(errors), 3))) for turn in range(3)]
        print(f"cleanlab, {method}: {len(found) / len(errors):.3f} found in the first {budget} places, {counts}")


def token_scores(rows: Rows, probabilities: Sequence[np.ndarray], method: str) -> list[list[float]]:
    """Quality by cleanlab of the tag of each word, the outer entities of nested ones as tags."""
    from cleanlab.token_classification.rank import get_label_quality_scores

    tags = tag_names(rows)
    numbers = {tag: number for number, tag in enumerate(tags)}
    given_tags = [[numbers[tag] for tag in outer_tags(row)] for row in rows]
    filled = [place for place, row in enumerate(rows) if row["tokens"]]
    _, scores = get_label_quality_scores(
        [given_tags[place] for place in filled],
        [probabilities[place] for place in filled],
        token_score_method=method,
    )
    result: list[list[float]] = [[] for _ in rows]
    for place, row_scores_ in zip(filled, scores, strict=True):
        result[place] = list(map(float, row_scores_))
    return result


def kept_probabilities(folder: Path, name: str, recipe: Recipe, training: Rows, rows: Rows) -> list[np.ndarray]:
    """(words, tags) probabilities of each row by a token classifier, kept in the folder."""
    path = folder / f"{name}.npz"
    if not path.exists():
        arguments = TrainingArguments(
            output_dir=str(folder / "baseline"),
            save_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
            report_to="none",
            learning_rate=recipe.training.learning_rate,
            num_train_epochs=recipe.training.num_train_epochs,
            per_device_train_batch_size=recipe.training.per_device_train_batch_size,
            warmup_steps=recipe.training.warmup_steps,
            seed=recipe.training.seed,
        )
        flat = [{**row, "entities": outer_entities(row)} for row in training]
        model, tokenizer = train_baseline(recipe.encoder_folder, flat, label_set(rows), arguments)
        answers = word_probabilities(model, tokenizer, rows)
        np.savez_compressed(path, *answers)
    with np.load(path) as kept:
        return [kept[f"arr_{number}"] for number in range(len(rows))]


@torch.inference_mode()
def word_probabilities(model: Any, tokenizer: Any, rows: Rows) -> list[np.ndarray]:
    """(words, tags) probabilities of each row; a word beyond the encoder's reach is surely outside."""
    model.eval()
    answers = []
    for row in rows:
        probabilities = np.zeros((len(row["tokens"]), model.config.num_labels))
        probabilities[:, 0] = 1.0
        if row["tokens"]:
            inputs = tokenized_words([row["tokens"]], tokenizer)
            given = model(**inputs).logits.softmax(dim=-1)[0].numpy()
            ids = inputs.word_ids(0)
            for token in reversed(range(len(ids))):
                if ids[token] is not None:
                    probabilities[ids[token]] = given[token]
        answers.append(probabilities)
    return answers


def tag_names(rows: Rows) -> list[str]:
    """The tags of the token classifier, in its order."""
    return ["O"] + [f"{prefix}-{label}" for label in label_set(rows) for prefix in "BI"]


def outer_entities(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entities of a row that lie in no other, the longest first where they cross."""
    kept: list[dict[str, Any]] = []
    for entity in sorted(row["entities"], key=lambda entity: (entity["start"] - entity["end"], entity["start"])):
        if all(entity["end"] <= other["start"] or other["end"] <= entity["start"] for other in kept):
            kept.append(entity)
    return kept


def outer_tags(row: Mapping[str, Any]) -> list[str]:
    """IOB2 tags of the outer entities."""
    spans = [(entity["start"], entity["end"], entity["label"]) for entity in outer_entities(row)]
    return spans_to_tags(spans, len(row["tokens"]), scheme="IOB2")


def loop(given: argparse.Namespace) -> None:
    """F1 after training on planted errors, on the rows that the first suggestions make of them, and on clean rows."""
    clean = corpus_rows(given.corpus, given.rows)
    rows, errors = planted(clean, given.rate, given.draw)
    review = folds_review(given, rows)
    budget = round(FIRST_SHARE * len(keys(rows)))
    corrected = [keys_of(row) for row in rows]
    for suspect in review.suspects[:budget]:
        if suspect.annotated is not None and suspect.annotated not in corrected[suspect.row]:
            continue
        corrected[suspect.row].discard(suspect.annotated)
        corrected[suspect.row] |= set() if suspect.suggested is None else {suspect.suggested}
    applied = [{**row, "entities": sorted_entities(members)} for row, members in zip(rows, corrected, strict=True)]
    true = {number: keys_of(row) for number, row in enumerate(clean)}
    decided = [keys_of(row) for row in rows]
    for suspect in review.suspects[:budget]:  # a person who knows the truth looks at the same places
        wrong, right = suspect.annotated, suspect.suggested
        if wrong is not None and wrong not in true[suspect.row]:
            decided[suspect.row].discard(wrong)
        start, end = (right or wrong or (0, 0, ""))[:2]
        decided[suspect.row] |= {key for key in true[suspect.row] if key[0] < end and start < key[1]}
    looked = [{**row, "entities": sorted_entities(members)} for row, members in zip(rows, decided, strict=True)]
    print(f"{given.corpus}: {len(rows):,} rows, {len(errors)} planted errors, {budget} suggestions")
    places = planted_places(review.suspects, errors)
    first = {place for place in places[:budget] if place is not None}
    print(f"review: {len(first) / len(errors):.3f} found in the first {budget}")
    print("  ", calibration_line(review.suspects, np.array([place is not None for place in places]), review.noise.rate))
    for name, version in (("planted", rows), ("clean", clean), ("accepted", applied), ("decided", looked)):
        wrong = len(keys(version) ^ keys(clean))
        scores = [trained_score(given, seed, name, version) for seed in given.seeds]
        shown = ", ".join(f"{100 * score:.2f}" for score in scores)
        print(f"{name}: {wrong} spans differ from the clean rows, F1 {shown}", flush=True)


def trained_score(given: argparse.Namespace, seed: int, name: str, rows: Rows) -> float:
    """Test F1 of a model that is trained on some rows; its answers are kept in the folder."""
    path, settings = RECIPES[given.corpus]
    recipe = Recipe.from_yaml(path, [*settings, *QUIET, f"training.seed={seed}"])
    test = recipe.data.load()["test"].to_list()
    digest = hashlib.sha256(json.dumps([row["entities"] for row in rows]).encode()).hexdigest()[:12]
    kept = f"loop-{given.corpus}-{len(rows)}-{name}-{seed}-{digest}.json"
    return f1(kept_answer(given.output / kept, lambda: answers_of(recipe, rows, test, given.output)), test)


def answers_of(
    recipe: Recipe, training: Rows, rows: Rows, folder: Path, labels: Sequence[str] | None = None
) -> EntityLists:
    """What a model that is trained on some rows finds in others; its labels are those of the rows if not given."""
    set_seed(recipe.training.seed)
    tokenizer, model = tokenizer_and_model(recipe, labels or label_set(training))
    trainer = trainer_of(recipe.method)(
        model=model,
        args=replace(recipe.training, output_dir=str(folder / "model"), **NO_FILES),
        train_dataset=training,
        processing_class=tokenizer,
    )
    trainer.train()
    return trainer.predict(rows).predictions


def kept_answer(path: Path, answer: Callable[[], EntityLists]) -> EntityLists:
    """Predictions that a file holds, or else those of a function, which are then kept in it."""
    if not path.exists():
        path.write_text(json.dumps(answer()), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def f1(predicted: EntityLists, rows: Rows) -> float:
    """Strict F1 of predictions against the entities of rows."""
    return score_spans(predicted, [row["entities"] for row in rows])["overall_f1"]


def keys_of(row: Mapping[str, Any]) -> set[tuple[int, int, str]]:
    """Entities of a row as (start, end, label)."""
    return {(entity["start"], entity["end"], entity["label"]) for entity in row["entities"]}


def keys(rows: Sequence[Mapping[str, Any]]) -> set[Key]:
    """Entities of rows as (row, start, end, label)."""
    return {(number, *key) for number, row in enumerate(rows) for key in keys_of(row)}


if __name__ == "__main__":
    main()
