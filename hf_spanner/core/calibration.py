"""Maps from a raw score to a probability that can be acted on; their numbers live in the configuration."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from hf_spanner.core.spans import Span

PARAMETERS = {
    "temperature": {"temperature"},
    "platt": {"slope", "intercept"},
    "isotonic": {"scores", "probabilities"},
}
LARGEST = 1_000  # the largest temperature, slope, intercept and number of points of an isotonic map
PROMISES = {"min_precision": "precision", "min_recall": "recall"}
SMALLEST_SCORE = 2.0**-25  # half of the distance from 1 to the float32 below it: what rounds to 1 lies this near


def calibrated_spans(
    spans: list[Span], calibration: Mapping[str, Any] | None, id2label: Mapping[int, str]
) -> list[Span]:
    """The same spans with calibrated scores, each by the map of its label or else by that of all labels.

    Args:
        spans: Spans with raw scores.
        calibration: `all`, the parameters of one map, and `per_label`, those of single labels; None changes nothing.
        id2label: Label names by index.

    Returns:
        Spans in the same order.
    """
    if calibration is None:
        return spans
    label_maps, shared_map = calibration["per_label"], calibration["all"]
    return [
        span._replace(score=calibrated_score(span.score, label_maps.get(id2label[span.label], shared_map)))
        for span in spans
    ]


def applied_calibration(calibration: Mapping[str, Any] | None, temperature: float) -> Mapping[str, Any] | None:
    """The calibration that acts: the field `calibration`, or else a map of the field `temperature`."""
    if calibration is None and temperature != 1:
        return {"all": {"temperature": temperature}, "per_label": {}}
    return calibration


def calibrated_score(score: float, parameters: Mapping[str, Any]) -> float:
    """Probability that a span of this raw score is right, by one of three monotone maps.

    temperature: sigmoid(logit(score) / temperature), Guo et al. 2017, section 4.2, for the two classes right and wrong.
    platt: sigmoid(slope logit(score) + intercept), Platt 1999, with the log-odds as the classifier's output.
    isotonic: straight lines between the points (scores, probabilities), level outside of them; Zadrozny and Elkan 2002.

    A score of 0 or 1 counts as the nearest number that float32 cannot tell from it, so that its log-odds are finite.

    Args:
        score: Raw probability in [0, 1].
        parameters: `temperature`, or `slope` and `intercept`, or `scores` and `probabilities`.

    Returns:
        Probability in [0, 1].
    """
    if "scores" in parameters:
        return _interpolated(score, parameters["scores"], parameters["probabilities"])
    clipped = min(max(score, SMALLEST_SCORE), 1.0 - SMALLEST_SCORE)
    log_odds = math.log(clipped) - math.log1p(-clipped)
    if "temperature" in parameters:
        log_odds = log_odds / parameters["temperature"]
    else:
        log_odds = parameters["slope"] * log_odds + parameters["intercept"]
    odds = math.exp(-abs(log_odds))  # the odds of the less likely class, so that nothing overflows
    return 1.0 / (1.0 + odds) if log_odds > 0.0 else odds / (1.0 + odds)


def _interpolated(score: float, scores: Sequence[float], probabilities: Sequence[float]) -> float:
    """Value at `score` of the line through points with strictly rising scores."""
    place = bisect_right(scores, score)
    if place == 0:
        return probabilities[0]
    if place == len(scores):
        return probabilities[-1]
    below, above = probabilities[place - 1], probabilities[place]
    share = (score - scores[place - 1]) / (scores[place] - scores[place - 1])
    return min(below + share * (above - below), above)  # rounding may pass the end


def lowest_score(threshold: float | Mapping[str, float], label: str) -> float:
    """The threshold of a label, given one number for all labels or one for each."""
    return threshold[label] if isinstance(threshold, Mapping) else threshold


def promised_threshold(
    calibration: Mapping[str, Any] | None,
    name: str,
    target: float | Mapping[str, float],
    settings: Mapping[str, Any],
    own_settings: Mapping[str, Any],
) -> float | dict[str, float]:
    """The stored threshold that promises a precision or recall on data like that of the calibration.

    A stored promise for a higher rate holds for a lower one, so the next stored rate is taken.

    Args:
        calibration: The field of the configuration.
        name: `min_precision` or `min_recall`.
        target: The rate over all entities, or one by label.
        settings: The other settings of inference, with which the promise must have been made.
        own_settings: The configuration's own values of these; a promise that does not name a setting was made with it.

    Returns:
        A threshold on calibrated scores, or one by label.

    Raises:
        ValueError: If none can be promised.
    """
    promises = {} if calibration is None else calibration.get("promises", {})
    if not promises:
        raise ValueError(f"{name} needs a calibration with stored promises, got {target!r}; none can be promised")
    if own_settings | promises["decoding"] != settings:
        raise ValueError(f"{name} was promised with {promises['decoding']} only, got {dict(settings)}")
    entries = promises[PROMISES[name]]
    if isinstance(target, Mapping):
        return {label: _next_promise(entries, name, rate, label) for label, rate in target.items()}
    return _next_promise(entries, name, target, None)


def _next_promise(entries: Sequence[Mapping[str, Any]], name: str, target: float, label: str | None) -> float:
    """Threshold of the lowest stored rate that is at least `target`; a label of None means all."""
    entries = sorted(entries, key=lambda entry: entry["target"])
    for entry in entries:
        threshold = entry["all"] if label is None else entry["per_label"].get(label)
        if entry["target"] >= target and threshold is not None:
            return threshold
    where = "all labels" if label is None else label
    stored = ", ".join(str(entry["target"]) for entry in entries) or "none"
    raise ValueError(f"{name} {target} cannot be promised for {where}; rates that were asked for: {stored}")


class CalibrationRule:
    """What the mapping in the configuration's `calibration` may hold: what `hf-spanner calibrate` writes."""

    def admits(self, value: Mapping[str, Any]) -> bool:
        """Whether the mapping is a complete, monotone calibration."""
        if set(value) - {"promises"} != {"kind", "all", "per_label", "fitted_on"}:
            return False
        if "promises" in value and not _are_promises(value["promises"]):
            return False
        kind, per_label = value["kind"], value["per_label"]
        if not isinstance(kind, str) or kind not in PARAMETERS or not isinstance(per_label, Mapping):
            return False
        maps = [value["all"], *per_label.values()]
        return all(_is_monotone(kind, parameters) for parameters in maps) and _is_source(value["fitted_on"])

    def __str__(self) -> str:
        """The rule in words, after "a mapping"."""
        return (
            f"of kind (one of {', '.join(PARAMETERS)}), all (the parameters of a monotone map), "
            "per_label (the same by label), fitted_on (name, num_rows, fingerprint) and, where made, promises"
        )


def _is_monotone(kind: str, parameters: object) -> bool:
    """Whether these are the parameters of a map of this kind, all within range."""
    if not isinstance(parameters, Mapping) or set(parameters) != PARAMETERS[kind]:
        return False
    if kind == "temperature":
        return _is_number(parameters["temperature"], 0, LARGEST) and parameters["temperature"] > 0
    if kind == "platt":
        return _is_number(parameters["slope"], 0, LARGEST) and _is_number(parameters["intercept"], -LARGEST, LARGEST)
    scores, probabilities = parameters["scores"], parameters["probabilities"]
    if not isinstance(scores, list) or not isinstance(probabilities, list):
        return False
    if not 1 <= len(scores) == len(probabilities) <= LARGEST:
        return False
    if not all(_is_number(value, 0, 1) for value in scores + probabilities):
        return False
    return scores == sorted(set(scores)) and probabilities == sorted(probabilities)


def _are_promises(value: object) -> bool:
    """Whether the value holds delta, the settings of inference, and thresholds by rate."""
    if not isinstance(value, Mapping) or set(value) != {"delta", "decoding", *PROMISES.values()}:
        return False
    if not _is_number(value["delta"], 0, 1) or not isinstance(value["decoding"], Mapping):
        return False
    sides = [value[side] for side in PROMISES.values()]
    return all(isinstance(entries, list) and all(map(_is_promise, entries)) for entries in sides)


def _is_promise(entry: object) -> bool:
    """Whether the entry holds a rate and its thresholds, None where there is none."""
    if not isinstance(entry, Mapping) or set(entry) != {"target", "all", "per_label"}:
        return False
    if not isinstance(entry["per_label"], Mapping) or not _is_number(entry["target"], 0, 1):
        return False
    thresholds = [entry["all"], *entry["per_label"].values()]
    return all(threshold is None or _is_number(threshold, 0, 1) for threshold in thresholds)


def _is_source(value: object) -> bool:
    """Whether the value names the rows of a fit."""
    if not isinstance(value, Mapping) or set(value) != {"name", "num_rows", "fingerprint"}:
        return False
    is_count = isinstance(value["num_rows"], int) and not isinstance(value["num_rows"], bool) and value["num_rows"] > 0
    return is_count and isinstance(value["name"], str) and isinstance(value["fingerprint"], str)


def _is_number(value: object, lowest: float, highest: float) -> bool:
    """Whether the value is a number in [lowest, highest]; NaN is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and lowest <= value <= highest
