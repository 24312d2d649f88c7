"""What calibration and promised thresholds do to saved predictions of `quality.py`, from split to split and by halves.

    python benchmarks/calibration.py 'gum_full*-seed42' --json calibration.json

For each run on test rows: the calibration error as it is; by a map fitted on the development rows, where they are kept
too, as the run of the same name with `-dev`; and the mean over random halves of the test rows, the map fitted on one
and judged on the other, which makes both alike; "crossed" judges both halves at once, each calibrated by the other's
map. The floor is the error that scores of this spread would show if they were true probabilities: so many predictions
cannot show less.

With `--data data` the rows of `data/CORPUS/SPLIT.jsonl` are set beside runs on all of them: "weighted" is the error of
maps that are fitted as by `hf-spanner calibrate --texts` with the words of the test rows; by how much Platt's map of
dev is too sure on test comes with a standard error over documents, as the rows of one go together; and thresholds are
promised on dev as the command does, and kept on test. `--draws 500` also promises by documents drawn from both splits,
so often, and counts what is broken on all of them.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from kept_runs import kept_runs

from hf_spanner import load_rows
from hf_spanner.analysis.comparison import read_predictions
from hf_spanner.calibration.fitting import (
    MIN_PREDICTIONS,
    ScoredPredictions,
    fitted_calibration,
    scored_predictions,
)
from hf_spanner.calibration.promises import found_gold, halves, precision_threshold, score_grid, threshold_promises
from hf_spanner.calibration.shift import shift_weights, surface_kinds
from hf_spanner.core.calibration import PARAMETERS, calibrated_score
from hf_spanner.metrics.span_ner.reliability import calibration_error
from hf_spanner.metrics.span_ner.resampling import document_places

SOURCE = {"name": "predictions", "num_rows": 1, "fingerprint": ""}
Spans = list[list[dict[str, Any]]]


class Rows(NamedTuple):
    """Predicted and gold entities of rows."""

    predicted: Spans
    gold: Spans

    def where(self, mask: np.ndarray) -> "Rows":
        """The rows that a mask keeps."""
        chosen = np.flatnonzero(mask).tolist()
        return Rows([self.predicted[row] for row in chosen], [self.gold[row] for row in chosen])

    def scored(self) -> ScoredPredictions:
        """All predictions, and whether each is right."""
        return scored_predictions(self.predicted, self.gold)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", help="names of kept runs, or patterns such as 'gum_full*-seed42'")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--precision", nargs="*", type=float, default=[0.9, 0.95])
    parser.add_argument("--delta", type=float, default=0.05)
    parser.add_argument("--data", type=Path, help="folder with the rows of each corpus")
    parser.add_argument("--draws", type=int, default=0, help="draws of documents for promises; needs --data")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.draws and arguments.data is None:
        parser.error("--draws needs --data")
    results = {}
    kept = kept_runs(["*"])
    for run in kept_runs(arguments.runs):
        test = Rows(*read_predictions(run))
        dev = Rows(*read_predictions(f"{run}-dev")) if f"{run}-dev" in kept else None
        name = run.partition("#")[2]
        errors = calibration_errors(dev, test, arguments.splits)
        results[name] = {"errors": errors}
        print(f"\n{name}: {len(test.gold)} rows, {len(test.scored().scores)} predictions")
        if dev is not None and arguments.data is not None:
            folder = arguments.data / Path(run.partition("#")[0]).stem
            errors |= errors_with_words(dev, test, folder)
            names = {split: list(corpus_rows(folder)[split]["document"]) for split in ("dev", "test")}
            results[name] |= {
                f"precision {target}, from dev": promised(dev, test, target, arguments.delta, names["dev"])
                for target in arguments.precision
            }
            if arguments.draws:
                both = Rows(dev.predicted + test.predicted, dev.gold + test.gold)
                pooled = [f"{split} {document}" for split, documents in names.items() for document in documents]
                results[name] |= drawn_promises(both, pooled, arguments)
        print("  " + ", ".join(f"{kind} {value:.3f}" for kind, value in errors.items()))
        for key, value in results[name].items():
            if key != "errors":
                print(f"  {key}: {value}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


def calibration_errors(dev: Rows | None, test: Rows, num_splits: int) -> dict[str, float]:
    """Error of raw scores, of each map from the development rows, and of each map over random halves."""
    raw = test.scored()
    errors = {"raw": error(raw)}
    if dev is not None:
        errors["raw on dev"] = error(dev.scored())
        for kind in PARAMETERS:
            errors[f"{kind} from dev"] = error(mapped(fitted(kind, dev), raw))
    split_errors: dict[str, list[float]] = defaultdict(list)
    for seed in range(num_splits):
        first = half(test, seed)
        sides = [(test.where(~is_judged), test.where(is_judged).scored()) for is_judged in (~first, first)]
        split_errors["raw by halves"].append(error(sides[0][1]))
        for kind in PARAMETERS:
            calibrated = [mapped(fitted(kind, fitting), judged) for fitting, judged in sides]
            add_errors(split_errors, kind, calibrated)
            if kind == "platt":
                generator = np.random.default_rng(seed)
                truths = [generator.random(len(side.scores)) < side.scores for side in calibrated]
                exact = [side._replace(correct=truth) for side, truth in zip(calibrated, truths, strict=True)]
                add_errors(split_errors, "floor", exact)
    return errors | {name: float(np.mean(values)) for name, values in split_errors.items()}


@cache
def corpus_rows(folder: Path) -> dict[str, Any]:
    """All rows of a corpus by split, read once."""
    return {split: load_rows(folder / f"{split}.jsonl") for split in ("train", "dev", "test")}


def errors_with_words(dev: Rows, test: Rows, folder: Path) -> dict[str, float]:
    """Error of the maps from development rows weighted by surfaces, and what documents say of Platt's."""
    rows = corpus_rows(folder)
    kinds = []
    for split, judged in (("dev", dev), ("test", test)):
        if list(rows[split]["entities"]) != judged.gold:
            raise ValueError(f"{folder}/{split}.jsonl must hold the rows of the run, got others")
        kinds.append(surface_kinds(judged.predicted, rows[split]["tokens"], rows["train"]))
    weights, raw = shift_weights(*kinds), test.scored()
    errors = {f"{kind} weighted": error(mapped(fitted(kind, dev, weights), raw)) for kind in PARAMETERS}
    documents = np.repeat(list(rows["test"]["document"]), [len(entities) for entities in test.predicted])
    scored = mapped(fitted("platt", dev), raw)
    places, excess = np.unique(documents, return_inverse=True)[1], scored.scores - scored.correct
    residuals = np.bincount(places, weights=excess - excess.mean())
    standard_error = np.sqrt(np.sum(residuals**2)) / len(excess)
    return errors | {"platt too sure by": float(excess.mean()), "standard error": float(standard_error)}


def add_errors(errors: dict[str, list[float]], name: str, sides: Sequence[ScoredPredictions]) -> None:
    """The error of the first half, and of both halves together; the map of each half has calibrated the other."""
    errors[f"{name} by halves"].append(error(sides[0]))
    both = ScoredPredictions(*(np.concatenate(columns) for columns in zip(*sides, strict=True)))
    errors[f"{name} crossed"].append(error(both))


def promised(dev: Rows, test: Rows, target: float, delta: float, names: Sequence[str]) -> str:
    """What is kept of test, and right, at the threshold that a half of dev's documents promises; "none" without one."""
    places, _ = document_places(names, len(names))
    is_mapped = halves(places, seed=1_000)
    mapping, testing = dev.where(is_mapped), dev.where(~is_mapped)
    calibration = fitted("platt", mapping)
    promises = threshold_promises(
        calibration,
        mapping.scored(),
        scored_predictions(*testing, places[~is_mapped]),
        found_gold(*testing, places[~is_mapped]),
        precision=[target],
        recall=[],
        delta=delta,
        decoding={},
    )
    threshold = promises["precision"][0]["all"]
    if threshold is None:
        return "none"
    calibrated = mapped(calibration, test.scored())
    is_kept = calibrated.scores >= threshold
    return f"{calibrated.correct[is_kept].sum()}/{is_kept.sum()} right, of {len(is_kept)}"


def drawn_promises(rows: Rows, names: Sequence[str], arguments: argparse.Namespace) -> dict[str, str]:
    """How often promises of documents drawn from all of a corpus, with replacement, are broken on all of it.

    Once with tests that count documents, as `hf-spanner calibrate` has them, and once with single predictions.
    """
    places, size = document_places(names, len(names))
    scored = mapped(fitted("platt", rows), scored_predictions(*rows, places))
    members = np.split(
        np.argsort(scored.documents, kind="stable"), np.bincount(scored.documents, minlength=size).cumsum()[:-1]
    )
    generator, results = np.random.default_rng(0), {}
    for target in arguments.precision:
        for num_drawn in (size // 4, size // 2, size):
            outcomes: dict[str, list[tuple[bool, float]]] = {"documents": [], "predictions": []}
            for _ in range(arguments.draws):
                laid, drawn = ([members[place] for place in generator.integers(size, size=num_drawn)] for _ in range(2))
                tested = np.concatenate(drawn)
                grid = score_grid(
                    scored.scores[np.concatenate(laid)], len(tested), target=target, delta=arguments.delta
                )
                units = {"documents": np.repeat(np.arange(num_drawn), [len(member) for member in drawn])}
                for name, found in outcomes.items():
                    threshold = precision_threshold(
                        scored.scores[tested],
                        scored.correct[tested],
                        grid,
                        target=target,
                        delta=arguments.delta,
                        documents=units.get(name),
                    )
                    if threshold is not None:
                        is_kept = scored.scores >= threshold
                        found.append((scored.correct[is_kept].mean() < target, is_kept.mean()))
            for name, found in outcomes.items():
                broken, kept = np.sum(found, axis=0) if found else (0, 0)
                results[f"precision {target}, {num_drawn} documents, by {name}"] = (
                    f"given {len(found) / arguments.draws:.3f}, broken {broken / arguments.draws:.3f}, "
                    f"kept {kept / max(len(found), 1):.3f}"
                )
    return results


def best_kind(rows: Rows, num_splits: int = 10) -> str | None:
    """The map of least error over random halves, each calibrated by the other; None if the halves have too few."""
    errors: dict[str, list[float]] = defaultdict(list)
    for seed in range(num_splits):
        first = half(rows, seed)
        sides = [rows.where(first), rows.where(~first)]
        scored = [side.scored() for side in sides]
        if min(len(predictions.scores) for predictions in scored) < MIN_PREDICTIONS:
            return None
        for kind in PARAMETERS:
            add_errors(errors, kind, [mapped(fitted(kind, sides[1 - side]), scored[side]) for side in (0, 1)])
    return min(PARAMETERS, key=lambda kind: float(np.mean(errors[f"{kind} crossed"])))


def half(rows: Rows, seed: int) -> np.ndarray:
    """A random half of the rows."""
    return halves(np.arange(len(rows.gold)), seed)


def fitted(kind: str, rows: Rows, weights: np.ndarray | None = None) -> Mapping[str, Any]:
    """The map of one kind for all labels."""
    return fitted_calibration(kind, rows.scored(), fitted_on=SOURCE, weights=weights)


def mapped(calibration: Mapping[str, Any], predictions: ScoredPredictions) -> ScoredPredictions:
    """Predictions with calibrated scores."""
    scores: Sequence[float] = [calibrated_score(score, calibration["all"]) for score in predictions.scores.tolist()]
    return predictions._replace(scores=np.array(scores, dtype=float))


def error(predictions: ScoredPredictions) -> float:
    """ECE in ten equal bins."""
    return calibration_error(predictions.scores.tolist(), predictions.correct.tolist())["ece"]


if __name__ == "__main__":
    main()
