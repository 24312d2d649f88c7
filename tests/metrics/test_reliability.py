"""Calibration errors and the Brier score, by hand, by exact fractions, and by their identities."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.metrics.span_ner.reliability import (
    bin_numbers,
    brier_split,
    calibration_error,
    checked_outcomes,
    label_calibration_errors,
)

scores = st.one_of(st.floats(0, 1), st.integers(0, 20).map(lambda k: k / 20), st.integers(0, 10).map(lambda k: k / 10))
outcomes = st.lists(st.tuples(scores, st.booleans()), max_size=14)
SEVEN = [0.95, 0.92, 0.91, 0.85, 0.81, 0.55, 0.5], [1, 1, 0, 1, 0, 1, 0]


def approx(values):
    return pytest.approx(values, abs=1e-5)


def sides(pairs):
    return [score for score, _ in pairs], [flag for _, flag in pairs]


def twin_width_bins(pairs, num_bins):
    bins = []
    for k in range(num_bins):
        low, high = Fraction(k / num_bins), Fraction((k + 1) / num_bins)
        bins.append([(Fraction(s), int(c)) for s, c in pairs if low < Fraction(s) <= high or (k == 0 and s == 0)])
    return [inside for inside in bins if inside]


def twin_mass_bins(pairs, num_bins):
    """Groups of equal scores, each in the bin that holds the middle of the group."""
    bins = {}
    for score, flag in pairs:
        below = sum(other < score for other, _ in pairs)
        equal = sum(other == score for other, _ in pairs)
        number = math.floor(num_bins * (below + Fraction(equal, 2)) / len(pairs))
        bins.setdefault(number, []).append((Fraction(score), int(flag)))
    return [bins[number] for number in sorted(bins)]


TWIN_BINS = {"width": twin_width_bins, "mass": twin_mass_bins}


def means(inside):
    return sum(s for s, _ in inside) / len(inside), Fraction(sum(c for _, c in inside), len(inside))


def test_calibration_error_of_seven_entities():
    """Bins 5: |0 - .5|, 6: |1 - .55|, 9: 2 |.5 - .83|, 10: 3 |2/3 - .92667|; sum 2.39 / 7 = 0.341429."""
    result = calibration_error([0.95, 0.92, 0.91, 0.85, 0.81, 0.55, 0.5], [1, 1, 0, 1, 0, 1, 0])
    assert result["ece"] == approx(0.341429)
    full = {index: entry for index, entry in enumerate(result["bins"], start=1) if entry["count"]}
    assert full == {
        5: approx({"low": 0.4, "high": 0.5, "count": 1, "precision": 0.0, "confidence": 0.5}),
        6: approx({"low": 0.5, "high": 0.6, "count": 1, "precision": 1.0, "confidence": 0.55}),
        9: approx({"low": 0.8, "high": 0.9, "count": 2, "precision": 0.5, "confidence": 0.83}),
        10: approx({"low": 0.9, "high": 1.0, "count": 3, "precision": 2 / 3, "confidence": 0.926667}),
    }


@pytest.mark.parametrize(
    ("pairs", "num_bins", "ece"),
    [
        ([(0.0, 1), (0.25, 1), (0.75, 1), (0.875, 1), (1.0, 0), (1.0, 0), (1.0, 0)], 4, 0.696429),
        ([(0.75, 1), (1.0, 0)], 4, 0.625),
        ([(1.0, 1), (1.0, 1)], 15, 0.0),
        ([(0.0, 0)], 15, 0.0),
        ([], 15, 0.0),
    ],
)
def test_calibration_error_on_bin_borders(pairs, num_bins, ece):
    """These are the values of case E-06."""
    result = calibration_error(*sides(pairs), num_bins)
    assert result["ece"] == approx(ece)
    assert result["count"] == len(pairs)
    assert len(result["bins"]) == num_bins


def bin_of(score, num_bins):
    (index,) = [i for i, entry in enumerate(calibration_error([score], [1], num_bins)["bins"]) if entry["count"]]
    return index


@pytest.mark.parametrize("num_bins", [*range(1, 41), 100, 997])
def test_a_border_belongs_to_the_bin_below_and_its_successor_to_the_next(num_bins):
    borders = [k / num_bins for k in range(num_bins + 1)]
    for k in random.Random(num_bins).sample(range(1, num_bins + 1), min(num_bins, 20)):
        assert bin_of(borders[k], num_bins) == k - 1
        assert bin_of(math.nextafter(borders[k], 0.0), num_bins) == k - 1
        if k < num_bins:
            assert bin_of(math.nextafter(borders[k], 1.0), num_bins) == k


@given(st.integers(1, 60), st.integers(1, 10_000), st.data())
def test_bins_agree_with_exact_fractions(num_bins, denominator, data):
    """A score written as a fraction p / q lies where exact arithmetic puts p / q: in bin max(1, ceil(p K / q))."""
    exact = Fraction(data.draw(st.integers(0, denominator)), denominator)
    assert bin_of(float(exact), num_bins) == max(1, math.ceil(exact * num_bins)) - 1


@pytest.mark.parametrize("num_bins", [3, 7, 10, 15, 16])
def test_float32_scores_count_as_the_number_they_are(num_bins):
    for k in range(num_bins + 1):
        score = np.float32(k / num_bins)
        expected = max(1, math.ceil(Fraction(float(score)) * num_bins)) - 1
        assert bin_of(score, num_bins) == bin_of(float(score), num_bins) == expected
        assert bin_of(np.array([score])[0], num_bins) == expected


def test_float32_border_may_lie_in_the_next_bin():
    """float32(0.3) is 0.3000000119, float32(0.7) is 0.6999999881."""
    assert [bin_of(score, 10) for score in (0.3, np.float32(0.3), 0.7, np.float32(0.7))] == [2, 3, 6, 6]


def test_bins_are_numbers_for_a_plot():
    result = calibration_error([0.2, 0.1], [True, False], 3)
    assert [(entry["low"], entry["high"]) for entry in result["bins"]] == [(0.0, 1 / 3), (1 / 3, 2 / 3), (2 / 3, 1.0)]
    assert result["bins"][1] == {"low": 1 / 3, "high": 2 / 3, "count": 0, "precision": 0.0, "confidence": 0.0}
    assert result["bins"][0]["confidence"] == pytest.approx(0.15)
    assert result["bins"][0]["precision"] == 0.5


@pytest.mark.parametrize("binning", ["width", "mass"])
@given(outcomes, st.integers(1, 20))
def test_calibration_errors_agree_with_exact_sums(binning, pairs, num_bins):
    result = calibration_error(*sides(pairs), num_bins, binning=binning)
    bins = TWIN_BINS[binning](pairs, num_bins)
    gaps = [abs(confidence - precision) for confidence, precision in map(means, bins)]
    ece = sum(len(inside) * gap for inside, gap in zip(bins, gaps, strict=True)) / max(len(pairs), 1)
    assert result["ece"] == pytest.approx(float(ece), abs=1e-12)
    assert result["mce"] == pytest.approx(float(max(gaps, default=0)), abs=1e-12)
    assert 0.0 <= result["ece"] <= result["mce"] + 1e-12 <= 1.0 + 1e-12
    full = [entry for entry in result["bins"] if entry["count"]]
    assert [entry["count"] for entry in full] == [len(inside) for inside in bins]
    if binning == "mass":
        assert full == result["bins"]
        edges = [(float(min(inside)[0]), float(max(inside)[0])) for inside in bins]
        assert [(entry["low"], entry["high"]) for entry in full] == edges


def test_largest_gap_of_seven_entities():
    """Of the gaps |0 - .5|, |1 - .55|, |.5 - .83| and |2/3 - .92667| the largest is .5, not that of the largest bin."""
    assert calibration_error(*SEVEN)["mce"] == pytest.approx(0.5)


def test_equal_mass_of_seven_entities():
    """Middles .5, 1.5 ... 6.5 of 7 times 3: three bins of 2, 3, 2: |1 - 1.05| + |1 - 2.57| + |2 - 1.87|, over 7."""
    result = calibration_error(*SEVEN, 3, binning="mass")
    assert [(entry["low"], entry["high"], entry["count"]) for entry in result["bins"]] == [
        (0.5, 0.55, 2),
        (0.81, 0.91, 3),
        (0.92, 0.95, 2),
    ]
    assert result["ece"] == pytest.approx((0.05 + 1.57 + 0.13) / 7)


def test_equal_scores_are_never_split_over_bins_of_equal_mass():
    """There are ten of .9, one below and one above; their middle is 6 of 12, where the second bin of two begins."""
    values = np.array([0.9] * 10 + [0.1, 0.95])
    assert bin_numbers(values, 2, binning="mass").tolist() == [1] * 10 + [0, 1]
    assert bin_numbers(values, 4, binning="mass").tolist() == [2] * 10 + [0, 3]
    assert bin_numbers(np.full(5, 0.5), 10, binning="mass").tolist() == [5] * 5


@given(st.integers(1, 40), st.integers(1, 12))
def test_bins_of_equal_mass_differ_by_one_score_without_ties(size, num_bins):
    values = np.random.default_rng(size).permutation(size) / size
    counts = np.bincount(bin_numbers(values, num_bins, binning="mass"), minlength=num_bins)
    assert len(counts) == num_bins
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("binning", ["width", "mass"])
@given(outcomes, st.integers(1, 12), st.randoms(use_true_random=False))
def test_order_of_the_pairs_changes_no_bit(binning, pairs, num_bins, rng):
    shuffled = rng.sample(pairs, len(pairs))
    for function in (calibration_error, brier_split):
        expected = function(*sides(pairs), num_bins, binning=binning)
        assert function(*sides(shuffled), num_bins, binning=binning) == expected


def test_brier_score_by_hand():
    """In the bins (0, .5] and (.5, 1] .2 is wrong and .4 right, and .6 and .8 are right and 1.0 wrong: base rate 3/5.

    Brier is (.04 + .36 + .16 + .04 + 1) / 5 = .32. The bins have f .3, o .5, n 2 and f .8, o 2/3, n 3.

    Reliability is (2 * .04 + 3 * (2/15)^2) / 5, resolution (2 * .01 + 3 * (1/15)^2) / 5, uncertainty .24.

    Within the bins the squares are 2 * .01 + 2 * .04 = .1 and the products (-.1)(-.5) + .1 * .5 | (-.2)(1/3) + 0 +
    .2(-2/3) = .1 - .2; so (.1 - 2 * (.1 - .2)) / 5 = .06.
    """
    split = brier_split([0.2, 0.4, 0.6, 0.8, 1.0], [0, 1, 1, 1, 0], 2)
    assert split == pytest.approx(
        {
            "brier": 0.32,
            "reliability": (0.08 + 3 * (2 / 15) ** 2) / 5,
            "resolution": (0.02 + 3 / 225) / 5,
            "uncertainty": 0.24,
            "within_bin": 0.06,
        }
    )


@pytest.mark.parametrize("binning", ["width", "mass"])
@given(outcomes, st.integers(1, 15))
def test_parts_of_the_brier_score_add_up_and_agree_with_exact_sums(binning, pairs, num_bins):
    split = brier_split(*sides(pairs), num_bins, binning=binning)
    total = split["reliability"] - split["resolution"] + split["uncertainty"] + split["within_bin"]
    assert total == pytest.approx(split["brier"], abs=1e-12)
    size, bins = max(len(pairs), 1), TWIN_BINS[binning](pairs, num_bins)
    base = Fraction(sum(flag for _, flag in pairs), size)
    reliability = sum(len(inside) * (means(inside)[0] - means(inside)[1]) ** 2 for inside in bins) / size
    resolution = sum(len(inside) * (means(inside)[1] - base) ** 2 for inside in bins) / size
    assert split["brier"] == pytest.approx(float(sum((Fraction(s) - c) ** 2 for s, c in pairs) / size), abs=1e-12)
    assert split["reliability"] == pytest.approx(float(reliability), abs=1e-12)
    assert split["resolution"] == pytest.approx(float(resolution), abs=1e-12)
    assert split["uncertainty"] == pytest.approx(float(base * (1 - base)), abs=1e-12)


@given(st.lists(st.tuples(st.sampled_from([0.15, 0.45, 0.75]), st.booleans()), min_size=1), st.sampled_from([4, 10]))
def test_one_score_in_each_bin_leaves_the_three_parts_of_murphy(pairs, num_bins):
    assert brier_split(*sides(pairs), num_bins)["within_bin"] == pytest.approx(0.0, abs=1e-12)


@given(st.lists(st.tuples(scores, st.booleans(), st.sampled_from("BA")), max_size=14), st.integers(1, 12))
def test_errors_of_labels_are_those_of_their_predictions_alone(triples, num_bins):
    columns = [list(column) for column in zip(*triples, strict=True)] or [[], [], []]
    expected = {
        label: calibration_error(*sides([(s, c) for s, c, other in triples if other == label]), num_bins)["ece"]
        for label in "AB"
        if any(other == label for *_, other in triples)
    }
    assert label_calibration_errors(*columns, num_bins) == expected
    for place, value in enumerate((0.5, True, "A")):
        unequal = [[*column, value] if place == number else column for number, column in enumerate(columns)]
        with pytest.raises(ValueError, match="labels, scores and correct must be equally long"):
            label_calibration_errors(*unequal)


def test_outcomes_come_sorted():
    values, flags = checked_outcomes([0.5, 1, 0.5], [True, False, False])
    assert values.tolist() == [0.5, 0.5, 1.0]
    assert flags.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("score", [1.2, -0.1, math.nan, math.inf, None, "0.5", np.float32(1.5)])
def test_what_is_no_score_is_refused(score):
    """These are the errors of case E-06: the message names the score and the range."""
    with pytest.raises(ValueError, match=r"scores\[1\]: score must be a number in \[0, 1\], got"):
        calibration_error([0.5, score], [1, 1], 4)


def test_unequal_lengths_are_refused():
    with pytest.raises(ValueError, match="equally long, got 2 and 1"):
        calibration_error([0.5, 0.5], [1])


def test_unknown_binning_is_refused():
    with pytest.raises(ValueError, match="binning must be one of width, mass, got 'equal'"):
        calibration_error([0.5], [1], binning="equal")


@pytest.mark.parametrize("num_bins", [0, -1, 2.5, "10", None])
def test_impossible_numbers_of_bins_are_refused(num_bins):
    with pytest.raises(ValueError, match="num_bins must be an integer >= 1"):
        calibration_error([], [], num_bins)


def test_flags_that_are_neither_true_nor_false_are_refused():
    with pytest.raises(ValueError, match="correct must hold 0 or 1"):
        calibration_error([0.5, 0.5], [1, 2])
