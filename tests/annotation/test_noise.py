"""The noise of annotation: Bayes' rule by hand, and fits of data whose noise is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from hf_spanner.annotation.noise import LabelNoise, fitted_noise, wrong_of_annotated

PROBABILITY = st.floats(0.001, 0.999)


def test_bayes_rule_worked_by_hand() -> None:
    """Of 1,000 suggestions of score .9, 900 are true and 90 of these not annotated; 100 are false and not annotated.

    So 90 of 190 that are not annotated are wrong. At .5: 50 of 550.
    """
    wrong = LabelNoise(rate=0.1).wrong_probability([0.9, 0.5])
    assert wrong == pytest.approx([90 / 190, 50 / 550])


def test_the_map_is_platts() -> None:
    """The log-odds of .9 are ln 9; twice that less ln 3 is ln 27, so q = 27 / 28, and .2 q / (1 - .8 q) = 5.4 / 6.4."""
    noise = LabelNoise(rate=0.2, slope=2.0, intercept=-float(np.log(3)))
    assert noise.true_probability([0.9]) == pytest.approx([27 / 28])
    assert noise.wrong_probability([0.9]) == pytest.approx([5.4 / 6.4])


@given(PROBABILITY, PROBABILITY, PROBABILITY)
def test_surer_suggestions_and_worse_annotation_are_more_suspect(first: float, second: float, rate: float) -> None:
    low, high = sorted((first, second))
    noise = LabelNoise(rate)
    wrong = noise.wrong_probability([low, high])
    assert 0 <= wrong[0] <= wrong[1] <= 1
    assert LabelNoise(min(1.0, rate * 1.1)).wrong_probability([high])[0] >= wrong[1] - 1e-12


def simulated(rate: float, count: int = 40_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, whether each is annotated, and whether it is true; q = sigmoid(1.5 logit(s) + .5)."""
    generator = np.random.default_rng(7)
    scores = generator.beta(3, 0.6, count)
    true = generator.random(count) < expit(1.5 * logit(scores) + 0.5)
    return scores, true & (generator.random(count) >= rate), true


@pytest.mark.parametrize("rate", [0.02, 0.1])
def test_known_noise_is_found_and_its_probabilities_are_true(rate: float) -> None:
    scores, annotated, true = simulated(rate)
    noise = fitted_noise(scores, annotated)
    assert noise.rate == pytest.approx(rate, abs=0.01)
    assert noise.slope == pytest.approx(1.5, abs=0.1)
    assert noise.intercept == pytest.approx(0.5, abs=0.2)
    wrong = noise.wrong_probability(scores[~annotated])
    for low in np.arange(0, 1, 0.2):
        members = (low <= wrong) & (wrong < low + 0.2)
        if members.sum() > 100:
            assert wrong[members].mean() == pytest.approx(true[~annotated][members].mean(), abs=0.07)


def test_a_given_rate_stays() -> None:
    scores, annotated, _ = simulated(0.05, 2_000)
    assert fitted_noise(scores, annotated, rate=0.3).rate == 0.3


@pytest.mark.parametrize(("count", "rate"), [(80, 8 / 52), (700, 11 / 72)])
def test_the_rate_is_that_of_the_surest(count: int, rate: float) -> None:
    """Every seventh, from the second on, is missing: 7 of the first 50, 10 of the first 70.

    The smaller corpus has 50 among its surest, the larger one a tenth; the rates are (7 + 1) / 52 and (10 + 1) / 72.
    """
    scores = np.linspace(0.99, 0.2, count)
    annotated = np.arange(count) % 7 != 1
    assert fitted_noise(scores, annotated).rate == pytest.approx(rate)


def test_few_suggestions_are_taken_as_they_are() -> None:
    assert fitted_noise([0.9] * 49, [True] * 49) == LabelNoise(0.05)
    assert fitted_noise([], [], rate=0.2) == LabelNoise(0.2)


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ValueError, match="annotated must be as long as scores, 1, got 2"):
        fitted_noise([0.5], [True, False])
    with pytest.raises(ValueError, match=r"rate must lie in \(0, 1\), got 1"):
        fitted_noise([0.5], [True], rate=1)


def test_what_is_annotated_by_hand() -> None:
    """Odds of 1/4 make 1/5 of q = 1/2, and of q = 1/5, whose odds against are 4, they make 1/2; the sum is .7."""
    assert wrong_of_annotated(np.array([0.5, 0.2]), 0.7) == pytest.approx([0.2, 0.5])


@given(st.lists(PROBABILITY, min_size=1, max_size=20), PROBABILITY)
def test_of_the_annotated_as_many_are_wrong_as_expected(right: list[float], share: float) -> None:
    values = np.array(right)
    wrong = wrong_of_annotated(values, share * len(values))
    assert wrong.sum() == pytest.approx(share * len(values), abs=1e-6)
    assert (np.diff(wrong[np.argsort(values)]) <= 1e-9).all()
