"""How much scores vary with the documents of a test set: bootstrap intervals, and a paired test of two models.

A document is the unit: spans of one document are alike, so a resample takes whole documents, as many as there are and
with replacement. Each document is reduced once to a row of sums, from which the values of any resample follow.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .matching import INTEGER, SpanLists, matched_spans
from .reliability import bin_numbers

CORRECT, PREDICTED, GOLD, GAPS = 0, 1, 2, 3  # columns of the sums of a document; GAPS is the first of K columns


def bootstrap_intervals(
    predictions: SpanLists,
    references: SpanLists,
    *,
    documents: Sequence[str | None] | None = None,
    num_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int | np.random.Generator = 0,
    num_bins: int = 10,
    zero_division: float = 0.0,
) -> dict[str, Any]:
    """Percentile intervals of F1, precision, recall and ECE over resampled documents.

    The interval of level c holds the middle share c of the resampled values: their quantiles (1 - c) / 2 and
    (1 + c) / 2, interpolated (Efron and Tibshirani 1993, chapter 13). It is about the documents only: the model, with
    the seed it was trained with, stays as it is. An ECE of resamples is on average larger than that of the data, as its
    bins are noisier and deviations count without sign, so its interval leans upwards.

    Args:
        predictions: As `score_spans` takes them.
        references: As `score_spans` takes them.
        documents: For each text the name of its document; None, for a text or for all, is a document of its own.
        num_resamples: Number of resamples, at least 1.
        confidence_level: c, in (0, 1).
        seed: Seed of the draws, or a numpy Generator.
        num_bins: Number of bins of the ECE, of equal width.
        zero_division: Value of an undefined ratio, in a resample too.

    Returns:
        overall_f1, overall_precision, overall_recall and overall_ece, each {low, high}, and num_documents,
        num_resamples, confidence_level. A resample without predictions has no ECE and takes no part in its interval;
        None stands for both ends if that leaves no resample.

    Raises:
        ValueError: As `score_spans`; if there are fewer than two documents, or not one entry of `documents` per text;
            or an option is out of range.
    """
    _check_options(num_resamples, confidence_level)
    sums = document_sums(predictions, references, documents=documents, num_bins=num_bins)
    values = headline_values(_resampled(sums, num_resamples, seed), zero_division)
    return {
        **{name: _interval(resampled_values, confidence_level) for name, resampled_values in values.items()},
        "num_documents": len(sums),
        "num_resamples": int(num_resamples),
        "confidence_level": float(confidence_level),
    }


def paired_bootstrap(
    first: SpanLists,
    second: SpanLists,
    references: SpanLists,
    *,
    documents: Sequence[str | None] | None = None,
    num_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int | np.random.Generator = 0,
    num_bins: int = 10,
    zero_division: float = 0.0,
) -> dict[str, Any]:
    """Differences of two models in F1, precision, recall and ECE on the same documents, with interval and p-value.

    Each resample draws documents once for both models, so what makes a document easy or hard for both cancels. With d
    the difference first - second on the data and d* that of a resample, the interval is the percentile interval of d*,
    and the two-sided p-value of "no difference" is

        p = (1 + number of resamples with |d* - d| >= |d|) / (1 + number of resamples).

    Moving d* by d makes resamples obey the hypothesis (Efron and Tibshirani 1993, chapter 16). For d > 0 the upper
    side counts d* >= 2 d, which is the test of Berg-Kirkpatrick et al. 2012, except that they have d* > 2 d; the lower
    side, d* <= 0, makes it two-sided. The 1 counts the data among the resamples, so that p is never 0 (Davison and
    Hinkley 1997, section 4.2). p is 1 if d is 0.

    Args:
        first: Predictions of one model, as `score_spans` takes them.
        second: Predictions of the other for the same texts.
        references: The gold spans of these texts.
        documents: As in `bootstrap_intervals`.
        num_resamples: As in `bootstrap_intervals`.
        confidence_level: As in `bootstrap_intervals`.
        seed: As in `bootstrap_intervals`.
        num_bins: As in `bootstrap_intervals`.
        zero_division: As in `bootstrap_intervals`.

    Returns:
        overall_f1, overall_precision, overall_recall and overall_ece, each {first, second, difference, low, high,
        p_value}, and num_documents, num_resamples, confidence_level. What has no ECE is left out as in
        `bootstrap_intervals`; a side without predictions makes all that follows from its ECE None.

    Raises:
        ValueError: As `bootstrap_intervals`.
    """
    _check_options(num_resamples, confidence_level)
    sides = [
        document_sums(predictions, references, documents=documents, num_bins=num_bins)
        for predictions in (first, second)
    ]
    width = sides[0].shape[1]
    totals = _resampled(np.concatenate(sides, axis=1), num_resamples, seed)  # (R, 2 (3 + K))
    observed = [headline_values(sums.sum(axis=0), zero_division) for sums in sides]
    resampled = [headline_values(side, zero_division) for side in (totals[:, :width], totals[:, width:])]
    results: dict[str, Any] = {}
    for name in observed[0]:
        difference = float(observed[0][name] - observed[1][name])
        differences = resampled[0][name] - resampled[1][name]  # (R,)
        differences = differences[~np.isnan(differences + difference)]
        num_beyond = int((np.abs(differences - difference) >= abs(difference)).sum())
        results[name] = {
            "first": _defined(observed[0][name]),
            "second": _defined(observed[1][name]),
            "difference": _defined(difference),
            **_interval(differences, confidence_level),
            "p_value": (1 + num_beyond) / (1 + len(differences)) if len(differences) else None,
        }
    return results | {
        "num_documents": len(sides[0]),
        "num_resamples": int(num_resamples),
        "confidence_level": float(confidence_level),
    }


def document_sums(
    predictions: SpanLists,
    references: SpanLists,
    *,
    documents: Sequence[str | None] | None = None,
    num_bins: int = 10,
) -> np.ndarray:
    """The sums of each document that decide F1, precision, recall and the ECE in bins of equal width.

    ECE is sum_k |c_k - s_k| / n with c_k correct predictions and s_k the sum of scores in bin k, so c_k - s_k is all
    that a document tells about bin k.

    Args:
        predictions: As `score_spans` takes them.
        references: As `score_spans` takes them.
        documents: As in `bootstrap_intervals`.
        num_bins: K.

    Returns:
        (D, 3 + K) float64, documents in the order of their first text: correct, predicted, gold, and c_k - s_k of each
        bin.

    Raises:
        ValueError: As `score_spans`, or if there is not one entry of `documents` per text.
    """
    predicted, gold = matched_spans(predictions, references)
    text_places, size = document_places(documents, len(predictions))
    predicted_places = text_places[np.array([key[0] for key in predicted], dtype=np.int64)]  # (n,)
    gold_places = text_places[np.array([key[0] for key in gold], dtype=np.int64)]
    scores = np.array(list(predicted.values()), dtype=np.float64)  # (n,)
    correct = np.array([key in gold for key in predicted], dtype=np.float64)  # (n,)
    cells = predicted_places * num_bins + bin_numbers(scores, num_bins)
    sums = np.empty((size, GAPS + num_bins))
    sums[:, CORRECT] = np.bincount(predicted_places, weights=correct, minlength=size)
    sums[:, PREDICTED] = np.bincount(predicted_places, minlength=size)
    sums[:, GOLD] = np.bincount(gold_places, minlength=size)
    gaps = np.bincount(cells, weights=correct - scores, minlength=size * num_bins)
    sums[:, GAPS:] = gaps.reshape(size, num_bins)
    return sums


def num_documents(documents: Sequence[str | None]) -> int:
    """How many documents texts come from, where None is a document of its own; intervals need two."""
    return document_places(documents, len(documents))[1]


def headline_values(totals: np.ndarray, zero_division: float = 0.0) -> dict[str, np.ndarray]:
    """F1, precision, recall and ECE of summed rows of `document_sums`.

    Args:
        totals: (..., 3 + K), each row the sum over the documents of one set.
        zero_division: Value of an undefined ratio; the ECE of no prediction is NaN.

    Returns:
        overall_f1, overall_precision, overall_recall and overall_ece, each (...) float64.
    """
    correct, predicted, gold = (totals[..., column] for column in (CORRECT, PREDICTED, GOLD))
    gaps = np.abs(totals[..., GAPS:]).sum(axis=-1)
    return {
        "overall_f1": _ratios(2.0 * correct, predicted + gold, zero_division),
        "overall_precision": _ratios(correct, predicted, zero_division),
        "overall_recall": _ratios(correct, gold, zero_division),
        "overall_ece": _ratios(gaps, predicted, np.nan),
    }


def _ratios(numerators: np.ndarray, denominators: np.ndarray, zero_division: float) -> np.ndarray:
    """Quotients, `zero_division` where they are undefined."""
    return np.where(denominators > 0, numerators / np.maximum(denominators, 1.0), zero_division)


def document_places(documents: Sequence[str | None] | None, num_texts: int) -> tuple[np.ndarray, int]:
    """(num_texts,) number of each text's document, and how many documents there are; None is one of its own."""
    if documents is None:
        return np.arange(num_texts), num_texts
    if len(documents) != num_texts:
        raise ValueError(f"documents must hold one entry per text, got {len(documents)} for {num_texts} texts")
    keys = [(place, None) if name is None else (-1, name) for place, name in enumerate(documents)]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], dtype=np.int64), len(numbers)


def _check_options(num_resamples: int, confidence_level: float) -> None:
    if not isinstance(num_resamples, INTEGER) or num_resamples < 1:
        raise ValueError(f"num_resamples must be an integer >= 1, got {num_resamples!r}")
    if not 0.0 < confidence_level < 1.0:
        raise ValueError(f"confidence_level must lie in (0, 1), got {confidence_level}")


def _resampled(sums: np.ndarray, num_resamples: int, seed: int | np.random.Generator) -> np.ndarray:
    """(R, S) totals of resampled documents, from (D, S) sums."""
    if len(sums) < 2:
        raise ValueError(f"documents must be at least 2 to be resampled, got {len(sums)}")
    generator = np.random.default_rng(seed)
    totals = np.empty((num_resamples, sums.shape[1]))
    for row in totals:  # one by one: all draws at once would need R times D numbers
        drawn = generator.integers(len(sums), size=len(sums))
        row[:] = np.bincount(drawn, minlength=len(sums)) @ sums
    return totals


def _defined(value: float | np.ndarray) -> float | None:
    """The number, or None for NaN."""
    return None if np.isnan(value) else float(value)


def _interval(values: np.ndarray, confidence_level: float) -> dict[str, float | None]:
    """Quantiles of the defined values that leave half of the rest on either side."""
    values = values[~np.isnan(values)]
    if not len(values):
        return {"low": None, "high": None}
    low, high = np.quantile(values, [(1.0 - confidence_level) / 2.0, (1.0 + confidence_level) / 2.0])
    return {"low": float(low), "high": float(high)}
