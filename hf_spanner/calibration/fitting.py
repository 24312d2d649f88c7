"""Fit the maps from raw score to probability on held-out predictions."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression, minimize, minimize_scalar
from scipy.special import expit, logit

from hf_spanner.core.calibration import PARAMETERS, SMALLEST_SCORE
from hf_spanner.data.schema import span_key

Spans = Sequence[Sequence[Mapping[str, Any]]]
MIN_PREDICTIONS = 50  # fewer say too little about a label, which then takes the map of all labels
TEMPERATURES = (0.05, 20.0)
SLOPES, INTERCEPTS = (0.01, 20.0), (-20.0, 20.0)


class ScoredPredictions(NamedTuple):
    """Predictions of a set of rows.

    (n,) float64 scores, (n,) bool whether each is right, (n,) labels, and (n,) int64 numbers of their documents.
    """

    scores: np.ndarray
    correct: np.ndarray
    labels: np.ndarray
    documents: np.ndarray

    def where(self, mask: np.ndarray) -> "ScoredPredictions":
        """The predictions that a (n,) bool mask keeps."""
        return ScoredPredictions(*(column[mask] for column in self))


def scored_predictions(
    predicted: Spans, gold: Spans, documents: Sequence[int] | np.ndarray | None = None
) -> ScoredPredictions:
    """Scores of all predicted spans and whether gold of the same row has the same start, end and label.

    Args:
        predicted: For each row its entities with start, end, label and score, each once.
        gold: The same without score, in the same order of rows.
        documents: For each row the number of its document, as `document_places` gives it; a row is a document of its
            own if left out.

    Returns:
        The predictions in the order of the rows.
    """
    rows = []
    places = range(len(predicted)) if documents is None else documents
    for entities, gold_entities, place in zip(predicted, gold, places, strict=True):
        right = {span_key(entity) for entity in gold_entities}
        rows += [(entity["score"], span_key(entity) in right, entity["label"], place) for entity in entities]
    return prediction_columns(rows)


def prediction_columns(rows: Sequence[tuple[float, bool, str, int]]) -> ScoredPredictions:
    """The columns of rows of score, whether it is right, label and document."""
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    types = (float, bool, str, np.int64)
    return ScoredPredictions(*(np.array(column, dtype=kind) for column, kind in zip(columns, types, strict=True)))


def fitted_calibration(
    kind: str,
    predictions: ScoredPredictions,
    *,
    fitted_on: Mapping[str, Any],
    per_label: bool = False,
    min_predictions: int = MIN_PREDICTIONS,
    weights: np.ndarray | None = None,
) -> dict[str, Any]:
    """Value for the configuration's `calibration`.

    Args:
        kind: `temperature`, `platt` or `isotonic`.
        predictions: Raw scores of rows that the model was not trained on, with overlaps resolved and without a
            threshold.
        fitted_on: `name`, `num_rows` and `fingerprint` of these rows; the fingerprint is that of more rows where
            promises were tested on others.
        per_label: Fit also a map for each label; a label with too few predictions takes the map of all.
        min_predictions: Fewest predictions that a map is fitted on, at least 1.
        weights: (n,) how much each prediction counts, all positive, as `shift_weights` gives them; 1 if left out.

    Returns:
        Plain values, as `CalibrationRule` admits them.

    Raises:
        ValueError: If the kind is unknown, `min_predictions` below 1, or there are fewer predictions than that.
    """
    if kind not in PARAMETERS:
        raise ValueError(f"kind must be one of {', '.join(PARAMETERS)}, got {kind!r}")
    if min_predictions < 1:
        raise ValueError(f"min_predictions must be at least 1, got {min_predictions}")
    if len(predictions.scores) < min_predictions:
        raise ValueError(f"predictions must be at least {min_predictions} to fit a map, got {len(predictions.scores)}")
    columns = (
        predictions.scores,
        predictions.correct,
        np.ones(len(predictions.scores)) if weights is None else weights,
    )
    names, counts = np.unique(predictions.labels, return_counts=True)
    fitted = names[counts >= min_predictions] if per_label else names[:0]
    masks = {str(name): predictions.labels == name for name in fitted}
    return {
        "kind": kind,
        "all": FITS[kind](*columns),
        "per_label": {name: FITS[kind](*(column[mask] for column in columns)) for name, mask in masks.items()},
        "fitted_on": dict(fitted_on),
    }


def fitted_temperature(scores: np.ndarray, correct: np.ndarray, weights: np.ndarray) -> dict[str, Any]:
    """Temperature of the least log loss, within [0.05, 20]; Guo et al. 2017, section 4.2.

    Args:
        scores: (n,) raw scores in [0, 1].
        correct: (n,) bool.
        weights: (n,) positive; 2 is as good as the same prediction twice.

    Returns:
        {"temperature": T}.
    """
    log_odds = score_log_odds(scores)
    bounds = np.log(TEMPERATURES)
    optimum = minimize_scalar(
        lambda log_temperature: _log_loss(log_odds / np.exp(log_temperature), correct, weights),
        bounds=bounds,
        method="bounded",
    )
    return {"temperature": float(np.exp(optimum.x))}


def fitted_platt(scores: np.ndarray, correct: np.ndarray, weights: np.ndarray) -> dict[str, Any]:
    """Slope and intercept of the least log loss against targets a little inside of 0 and 1; Platt 1999, section 2.2.

    Right counts as (n_right + 1) / (n_right + 2), wrong as 1 / (n_wrong + 2), so that separable scores have an optimum.
    The slope lies in [0.01, 20], so the map rises; the intercept in [-20, 20].

    Args:
        scores: (n,) raw scores in [0, 1].
        correct: (n,) bool.
        weights: (n,) positive; 2 is as good as the same prediction twice.

    Returns:
        {"slope": a, "intercept": b}.
    """
    log_odds = score_log_odds(scores)
    num_right, num_wrong = weights[correct].sum(), weights[~correct].sum()
    targets = np.where(correct, (num_right + 1) / (num_right + 2), 1 / (num_wrong + 2))

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        logits = parameters[0] * log_odds + parameters[1]
        errors = (expit(logits) - targets) * weights / weights.sum()
        return _log_loss(logits, targets, weights), np.array([np.sum(errors * log_odds), np.sum(errors)])

    optimum = minimize(loss, x0=(1.0, 0.0), jac=True, bounds=(SLOPES, INTERCEPTS), method="L-BFGS-B")
    slope, intercept = optimum.x.tolist()
    return {"slope": slope, "intercept": intercept}


def fitted_isotonic(scores: np.ndarray, correct: np.ndarray, weights: np.ndarray) -> dict[str, Any]:
    """Rising step values of least squared error, as the first and last point of each step.

    Pool-adjacent-violators by scipy; Zadrozny and Elkan 2002. Equal scores are pooled first.

    Args:
        scores: (n,) raw scores in [0, 1].
        correct: (n,) bool.
        weights: (n,) positive; 2 is as good as the same prediction twice.

    Returns:
        {"scores": strictly rising, "probabilities": rising, equally long}.
    """
    points, places = np.unique(scores, return_inverse=True)
    counts = np.bincount(places, weights=weights)
    shares = np.bincount(places, weights=correct * weights) / counts
    steps = isotonic_regression(shares, weights=counts)
    firsts, lasts = steps.blocks[:-1], steps.blocks[1:] - 1
    kept = np.unique(np.concatenate([firsts, lasts]))
    values = np.clip(np.maximum.accumulate(steps.x[kept]), 0.0, 1.0)
    return {"scores": points[kept].tolist(), "probabilities": values.tolist()}


FITS = {"temperature": fitted_temperature, "platt": fitted_platt, "isotonic": fitted_isotonic}


def fit_source(name: str, rows: Collection[Mapping[str, Any]]) -> dict[str, Any]:
    """What a configuration records of the rows of a fit: a name, how many, and their fingerprint."""
    return {"name": name, "num_rows": len(rows), "fingerprint": rows_fingerprint(rows)}


def rows_fingerprint(rows: Iterable[Mapping[str, Any]]) -> str:
    """SHA-256 of the words of all rows; neither the order of the rows nor their entities matter.

    Args:
        rows: Rows with `tokens`.

    Returns:
        64 hexadecimal digits.
    """
    digests = sorted(hashlib.sha256(json.dumps(list(row["tokens"])).encode()).digest() for row in rows)
    return hashlib.sha256(b"".join(digests)).hexdigest()


def refuse_fitted_rows(calibration: Mapping[str, Any] | None, rows: Collection[Mapping[str, Any]]) -> None:
    """Refuse to judge calibrated scores on the rows that the calibration was fitted on.

    Args:
        calibration: The one in a model's configuration.
        rows: Rows with `tokens`.

    Raises:
        ValueError: If these are the rows of the fit.
    """
    if calibration is None or calibration["fitted_on"]["fingerprint"] != rows_fingerprint(rows):
        return
    fitted_on = calibration["fitted_on"]
    raise ValueError(
        f"data must be other rows than those that the calibration was fitted on, got the same {len(rows):,} rows "
        f"({fitted_on['name']}); give --raw for raw scores, or --allow-fitted-rows for scores that flatter"
    )


def score_log_odds(scores: Sequence[float] | np.ndarray) -> np.ndarray:
    """Log-odds of scores, those of 0 and 1 kept finite."""
    return logit(np.clip(scores, SMALLEST_SCORE, 1.0 - SMALLEST_SCORE))


def _log_loss(logits: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> float:
    """Weighted mean of -(y log p + (1 - y) log(1 - p)) with p = sigmoid(logits)."""
    return float(np.average(np.logaddexp(0.0, logits) - targets * logits, weights=weights))
