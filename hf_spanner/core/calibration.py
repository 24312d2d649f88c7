"""From a raw score to a probability that can be acted on."""

import math


def calibrated_score(score: float, temperature: float) -> float:
    """Probability of a span after temperature scaling of its log-odds, sigmoid(logit(score) / temperature).

    Source: Guo et al. 2017, section 4.2, for the two classes right and wrong. Monotone, so no order changes.

    Args:
        score: Raw probability in [0, 1].
        temperature: Above 0; 1 leaves the score as it is, larger moves it towards 0.5.

    Returns:
        Probability in [0, 1].
    """
    if temperature == 1.0 or score <= 0.0 or score >= 1.0:
        return score
    log_odds = (math.log(score) - math.log1p(-score)) / temperature
    odds = math.exp(-abs(log_odds))  # of the less likely class, so that nothing overflows
    return 1.0 / (1.0 + odds) if log_odds > 0.0 else odds / (1.0 + odds)
