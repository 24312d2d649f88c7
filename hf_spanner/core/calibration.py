"""From a raw score to a probability that can be acted on; the numbers live in the configuration."""

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
LARGEST = 1_000  # of temperature, slope, intercept and the number of points of an isotonic map
SMALLEST_SCORE = 2.0**-25  # half of the distance from 1 to the float32 below it: what rounds to 1 lies this near


def calibrated_spans(
    spans: list[Span], calibration: Mapping[str, Any] | None, id2label: Mapping[int, str]
) -> list[Span]:
    """The same spans with calibrated scores, by the map of their label or else by the one of all labels.

    Args:
        spans: Spans with raw scores.
        calibration: `all`, the parameters of one map, and `per_label`, those of single labels; None changes nothing.
        id2label: Label names by index.

    Returns:
        Spans in the same order.
    """
    if calibration is None:
        return spans
    of_label, of_all = calibration["per_label"], calibration["all"]
    return [
        span._replace(score=calibrated_score(span.score, of_label.get(id2label[span.label], of_all))) for span in spans
    ]


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
    odds = math.exp(-abs(log_odds))  # of the less likely class, so that nothing overflows
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


class CalibrationRule:
    """What the configuration's `calibration` may hold: None, or what `recipes/calibrate.py` writes."""

    def admits(self, value: object) -> bool:
        """Whether the value is None or a complete, monotone calibration."""
        if value is None:
            return True
        if not isinstance(value, Mapping) or set(value) != {"kind", "all", "per_label", "fitted_on"}:
            return False
        kind, per_label = value["kind"], value["per_label"]
        if not isinstance(kind, str) or kind not in PARAMETERS or not isinstance(per_label, Mapping):
            return False
        maps = [value["all"], *per_label.values()]
        return all(_is_monotone(kind, parameters) for parameters in maps) and _is_source(value["fitted_on"])

    def __str__(self) -> str:
        """The rule in words, for messages."""
        return (
            f"None or a mapping of kind (one of {', '.join(PARAMETERS)}), all (the parameters of a monotone map), "
            "per_label (the same by label) and fitted_on (name, num_rows, fingerprint)"
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


def _is_source(value: object) -> bool:
    """Whether the value names the rows of a fit."""
    if not isinstance(value, Mapping) or set(value) != {"name", "num_rows", "fingerprint"}:
        return False
    is_count = isinstance(value["num_rows"], int) and not isinstance(value["num_rows"], bool) and value["num_rows"] > 0
    return is_count and isinstance(value["name"], str) and isinstance(value["fingerprint"], str)


def _is_number(value: object, lowest: float, highest: float) -> bool:
    """Whether the value is a number in [lowest, highest]; NaN is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and lowest <= value <= highest
