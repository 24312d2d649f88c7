"""How often annotators leave a true entity out, and how probable that is for one entity that a model suggests."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit

from hf_spanner.calibration.fitting import INTERCEPTS, SLOPES, score_log_odds
from hf_spanner.core.calibration import SMALLEST_SCORE

SURE_SHARE = 0.1  # of all suggestions, those of the highest scores show how often true ones are not annotated
MIN_SUGGESTIONS = 50  # fewer say too little: their scores are taken as they are; at least so many are the surest
USUAL_RATE = 0.05  # the rate where there are too few to estimate one
RATES = (1e-4, 0.5)


class LabelNoise(NamedTuple):
    """How annotation follows the truth.

    The model is that of learning from positive and unlabelled examples (Elkan and Noto 2008, section 2): a suggested
    span of score s is a true entity with probability q(s), and a true entity is annotated as such with probability
    1 - r, whatever its score. So it is found in the annotation with probability p(s) = (1 - r) q(s).

    Attributes:
        rate: r, the share of true entities that are missing, or stand there with another label or boundary.
        slope: a in q(s) = sigmoid(a logit(s) + b), Platt's map.
        intercept: b.
    """

    rate: float
    slope: float = 1.0
    intercept: float = 0.0

    def true_probability(self, scores: Sequence[float] | np.ndarray) -> np.ndarray:
        """(n,) q(s): the probability that a suggestion is a true entity, before the annotation is looked at."""
        return expit(self.slope * score_log_odds(scores) + self.intercept)

    def wrong_probability(self, scores: Sequence[float] | np.ndarray) -> np.ndarray:
        """(n,) probability that the annotation is wrong which does not hold a suggestion of this score.

        P(true | not annotated, s) = r q(s) / (1 - (1 - r) q(s)), by Bayes' rule (Elkan and Noto 2008, section 2).

        Example:
            >>> LabelNoise(rate=0.1).wrong_probability([0.9]).round(4).tolist()  # .09 / (1 - .81)
            [0.4737]
        """
        right = self.true_probability(scores)
        return self.rate * right / (1.0 - (1.0 - self.rate) * right)


def fitted_noise(
    scores: Sequence[float] | np.ndarray, annotated: Sequence[bool] | np.ndarray, *, rate: float | None = None
) -> LabelNoise:
    """The noise of some annotation, from what models suggest for it that were not trained on it.

    With the rate r, a and b are those of the least log loss of p(s).

    Args:
        scores: (n,) scores of suggestions in [0, 1].
        annotated: (n,) whether the annotation has each, with its boundaries and label.
        rate: The rate r, in (0, 1); None: that of `fitted_rate`.

    Returns:
        The noise; with fewer than 50 suggestions scores are taken as they are.

    Raises:
        ValueError: If the lengths differ or the rate is outside of (0, 1).
    """
    values, found = np.asarray(scores, dtype=float), np.asarray(annotated, dtype=bool)
    if len(values) != len(found):
        raise ValueError(f"annotated must be as long as scores, {len(values)}, got {len(found)}")
    if rate is not None and not 0.0 < rate < 1.0:
        raise ValueError(f"rate must lie in (0, 1), got {rate}")
    rate = fitted_rate(values, found) if rate is None else rate
    if len(values) < MIN_SUGGESTIONS:
        return LabelNoise(rate)
    slope, intercept = _fitted_map(score_log_odds(values), found, rate)
    return LabelNoise(rate, slope, intercept)


def fitted_rate(scores: np.ndarray, found: np.ndarray) -> float:
    """The share that is not annotated of the tenth of suggestions with the highest scores, or of the first 50.

    As (missing + 1) / (all + 2): what is nearly always right and yet missing was left out. Where the models are often
    wrong even there it comes out too high.

    Args:
        scores: (n,) scores of suggestions.
        found: (n,) bool, whether the annotation has each.

    Returns:
        The rate; .05 for fewer than 50 suggestions.
    """
    if len(scores) < MIN_SUGGESTIONS:
        return USUAL_RATE
    num_sure = max(MIN_SUGGESTIONS, int(len(scores) * SURE_SHARE))
    sure = np.argsort(-scores, kind="stable")[:num_sure]
    num_missing = num_sure - int(found[sure].sum())
    return float(np.clip((num_missing + 1) / (num_sure + 2), *RATES))


def wrong_of_annotated(right: np.ndarray, expected: float) -> np.ndarray:
    """Probability that each annotated entity is wrong, from the probability that such a span is an entity.

    Annotators who err write down an entity that is none with some odds, whatever the model thinks of it. With l for
    these odds, Bayes' rule gives l (1 - q) / (l (1 - q) + q), and l is such that the sum is the expected number.

    Args:
        right: (n,) q of each annotated entity, in (0, 1).
        expected: How many are wrong, in (0, n).

    Returns:
        (n,) probabilities.

    Example:
        >>> wrong_of_annotated(np.array([0.5, 0.5]), 0.4).round(6).tolist()
        [0.2, 0.2]
    """
    against = logit(1.0 - right)

    def excess(log_odds: float) -> float:
        return float(expit(against + log_odds).sum()) - expected

    return expit(against + brentq(excess, -60.0, 60.0))


def _fitted_map(log_odds: np.ndarray, found: np.ndarray, rate: float) -> tuple[float, float]:
    """The a and b of p = (1 - r) sigmoid(a x + b) with the least mean of -log p where annotated, else -log(1 - p)."""

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        right = expit(parameters[0] * log_odds + parameters[1])
        share = np.clip((1.0 - rate) * right, SMALLEST_SCORE, 1.0 - SMALLEST_SCORE)
        value = -np.mean(np.where(found, np.log(share), np.log1p(-share)))
        slopes = (1.0 - right) * (share - found) / (1.0 - share)  # d loss / d (a x + b)
        return float(value), np.array([np.mean(slopes * log_odds), np.mean(slopes)])

    optimum = minimize(loss, x0=(1.0, 0.0), jac=True, bounds=(SLOPES, INTERCEPTS), method="L-BFGS-B")
    slope, intercept = optimum.x.tolist()
    return slope, intercept
