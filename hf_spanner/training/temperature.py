"""The temperature that makes scores on held-out rows fit what they claim."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize_scalar

SMALLEST = 1e-6
LOG_RANGE = (-2.0, 2.0)


def fitted_temperature(scores: Sequence[float], correct: Sequence[bool]) -> float:
    """Temperature with the least log loss of sigmoid(logit(score) / temperature) on held-out predictions.

    Source: Guo et al. 2017, section 4.2, with a predicted span being right or wrong as the two classes. The loss is
    convex in 1 / temperature, so the one minimum between exp(-2) and exp(2) is found.

    Args:
        scores: Raw scores of predicted spans, in [0, 1].
        correct: Whether each is a gold span.

    Returns:
        The temperature; 1 where there is nothing to fit, that is without a right or without a wrong span.
    """
    hits = np.asarray(correct, dtype=bool)
    if hits.all() or not hits.any():
        return 1.0
    clipped = np.clip(np.asarray(scores, dtype=np.float64), SMALLEST, 1 - SMALLEST)
    log_odds = np.log(clipped) - np.log1p(-clipped)

    def log_loss(log_temperature: float) -> float:
        signed = np.where(hits, -log_odds, log_odds) / np.exp(log_temperature)
        return float(np.logaddexp(0.0, signed).mean())

    return float(np.exp(minimize_scalar(log_loss, bounds=LOG_RANGE, method="bounded").x))
