import itertools
import json
import math
import random
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_spanner.metrics.span_ner.scoring import calibration_error, score_spans

OFF_BY = 1e-5


def gold_spans(*spans):
    return [{"start": start, "end": end, "label": label} for start, end, label in spans]


def found_spans(*spans, score=0.5):
    return [{"start": start, "end": end, "label": label, "score": score} for start, end, label in spans]


def ratios(result, prefix):
    return {name: result[f"{prefix}_{name}"] for name in ("precision", "recall", "f1")}


def approx(values):
    return pytest.approx(values, abs=OFF_BY)


def test_repeats_count_once_and_texts_are_never_pooled():
    """Case E-01."""
    references = [gold_spans((0, 3, "PER"), (8, 12, "LOC")), gold_spans((0, 3, "PER")), gold_spans((0, 3, "PER"))]
    predictions = [
        found_spans((0, 3, "PER"), (0, 3, "PER"), (8, 12, "LOC"), (8, 11, "LOC")),
        found_spans((0, 3, "PER")),
        [],
    ]
    result = score_spans(predictions, references)
    assert ratios(result, "overall") == approx({"precision": 0.75, "recall": 0.75, "f1": 0.75})
    assert ratios(result, "macro") == approx({"precision": 0.75, "recall": 0.833333, "f1": 0.733333})
    assert result["per_label"] == {
        "LOC": approx({"precision": 0.5, "recall": 1.0, "f1": 0.666667, "support": 1, "num_predicted": 2}),
        "PER": approx({"precision": 1.0, "recall": 0.666667, "f1": 0.8, "support": 3, "num_predicted": 2}),
    }
    assert (result["num_gold"], result["num_predicted"], result["num_correct"]) == (4, 4, 3)
    assert result["duplicates_removed"] == {"predictions": 1, "references": 0}


def test_macro_runs_over_labels_of_either_side():
    """Case E-02."""
    references = [gold_spans((0, 1, "A"), (2, 3, "A"), (4, 5, "B"))]
    predictions = [found_spans((0, 1, "A"), (3, 4, "C"), (4, 5, "B"))]
    result = score_spans(predictions, references)
    assert ratios(result, "overall") == approx({"precision": 0.666667, "recall": 0.666667, "f1": 0.666667})
    assert ratios(result, "macro") == approx({"precision": 0.666667, "recall": 0.5, "f1": 0.555556})
    assert result["per_label"] == {
        "A": approx({"precision": 1.0, "recall": 0.5, "f1": 0.666667, "support": 2, "num_predicted": 1}),
        "B": approx({"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 1, "num_predicted": 1}),
        "C": approx({"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0, "num_predicted": 1}),
    }
    assert (result["num_gold"], result["num_predicted"], result["num_correct"]) == (3, 3, 2)


@pytest.mark.parametrize(
    ("references", "predictions", "with_zero", "with_one"),
    [
        ([[]], [[]], (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
        ([[]], [[(0, 1, "A")]], (0.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
        ([[(0, 1, "A")]], [[]], (0.0, 0.0, 0.0), (1.0, 0.0, 0.0)),
        ([], [], (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    ],
)
def test_undefined_ratios_take_zero_division(references, predictions, with_zero, with_one):
    """Case E-03; one label at most, so micro, macro and boundary-only agree."""
    gold = [gold_spans(*text) for text in references]
    found = [found_spans(*text) for text in predictions]
    for zero_division, expected in ((0.0, with_zero), (1.0, with_one)):
        result = score_spans(found, gold, zero_division=zero_division)
        for prefix in ("overall", "macro", "boundary"):
            assert tuple(ratios(result, prefix).values()) == expected, prefix
        assert math.isfinite(result["overall_ece"])


def test_reading_of_ill_formed_tags_decides_the_score():
    """Case E-04: I-LOC I-LOC O / B-PER I-LOC O B-PER, with the spans of both readings given by hand."""
    references = [gold_spans((0, 2, "LOC")), gold_spans((0, 2, "PER"), (3, 4, "PER"))]
    # an I- tag after O, or of another type than its left neighbour, opens a span (repair) or is left out (drop)
    repair = [found_spans((0, 2, "LOC")), found_spans((0, 1, "PER"), (1, 2, "LOC"), (3, 4, "PER"))]
    drop = [[], found_spans((0, 1, "PER"), (3, 4, "PER"))]
    expected = {"precision": 0.5, "recall": 0.666667, "f1": 0.571429}
    assert ratios(score_spans(repair, references), "overall") == approx(expected)
    expected = {"precision": 0.5, "recall": 0.333333, "f1": 0.4}
    assert ratios(score_spans(drop, references), "overall") == approx(expected)


def test_strict_and_boundary_scores_are_apart_in_every_order():
    """Case E-05."""
    first_gold, second_gold = [(0, 10, "PER")], [(0, 12, "A"), (14, 17, "B")]
    first_found, second_found = [(0, 4, "PER"), (0, 10, "ORG")], [(0, 17, "A")]
    results = []
    for gold, found in itertools.product(itertools.permutations(second_gold), itertools.permutations(first_found)):
        texts = [(found, first_gold), (second_found, gold)]
        for ordered in itertools.permutations(texts):
            predictions = [found_spans(*pair[0]) for pair in ordered]
            results.append(score_spans(predictions, [gold_spans(*pair[1]) for pair in ordered]))
    assert len(results) == 8
    assert ratios(results[0], "overall") == {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    assert ratios(results[0], "boundary") == approx({"precision": 0.333333, "recall": 0.333333, "f1": 0.333333})
    assert all(result == results[0] for result in results)


def test_label_unknown_to_the_model_is_counted_as_missed():
    """Case D-09, the metric's part."""
    references = [gold_spans((0, 1, "PER"), (2, 3, "ORG"), (4, 5, "PER"))]
    result = score_spans([found_spans((0, 1, "PER"), (4, 5, "PER"))], references)
    assert ratios(result, "overall") == approx({"precision": 1.0, "recall": 0.666667, "f1": 0.8})
    assert ratios(result, "macro") == {"precision": 0.5, "recall": 0.5, "f1": 0.5}
    assert result["per_label"] == {
        "ORG": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1, "num_predicted": 0},
        "PER": {"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 2, "num_predicted": 2},
    }
    assert (result["num_gold"], result["num_predicted"], result["num_correct"]) == (3, 2, 2)


def test_boundary_score_counts_a_span_of_two_labels_once():
    """Strict: 1 of 2 predictions correct. Boundary-only: 1 of 1."""
    result = score_spans([found_spans((0, 2, "A"), (0, 2, "B"))], [gold_spans((0, 2, "A"))])
    assert ratios(result, "overall") == approx({"precision": 0.5, "recall": 1.0, "f1": 2 / 3})
    assert ratios(result, "boundary") == {"precision": 1.0, "recall": 1.0, "f1": 1.0}


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
    """Case E-06, values."""
    result = calibration_error([score for score, _ in pairs], [flag for _, flag in pairs], num_bins)
    assert result["ece"] == approx(ece)
    assert result["count"] == len(pairs)
    assert len(result["bins"]) == num_bins


@pytest.mark.parametrize("score", [1.2, -0.1, math.nan, math.inf, None, "0.5", np.float32(1.5)])
def test_what_is_no_score_is_refused(score):
    """Case E-06, errors: the message names the score and the range, in both functions, also for a repeat."""
    with pytest.raises(ValueError, match=r"score must be a number in \[0, 1\], got"):
        calibration_error([0.5, score], [1, 1], 4)
    good, bad = found_spans((0, 1, "A"), score=0.5), found_spans((0, 1, "A"), score=score)
    for text in (bad, good + bad, bad + good):
        with pytest.raises(ValueError, match=r"predictions\[1\].*score must be a number in \[0, 1\], got"):
            score_spans([[], text], [[], []])


def test_repeated_prediction_keeps_its_best_score():
    predictions = found_spans((0, 1, "A"), score=0.25) + found_spans((0, 1, "A"), score=0.75)
    for text in (predictions, predictions[::-1]):
        result = score_spans([text], [gold_spans((0, 1, "A"))], num_bins=4)
        assert result["overall_ece"] == 0.25
        assert [entry["count"] for entry in result["reliability"]] == [0, 0, 1, 0]


def test_calibration_error_is_taken_over_strict_matches_of_the_given_spans():
    """Right span, wrong label is not correct; the missed gold span takes no part: (|1 - .9| + |0 - .6|) / 2."""
    predictions = [found_spans((0, 1, "A"), score=0.9) + found_spans((2, 3, "B"), score=0.6)]
    result = score_spans(predictions, [gold_spans((0, 1, "A"), (2, 3, "A"), (5, 6, "A"))])
    assert result["overall_ece"] == pytest.approx(0.35)


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


scores = st.one_of(st.floats(0, 1), st.integers(0, 20).map(lambda k: k / 20), st.integers(0, 10).map(lambda k: k / 10))
keys = st.tuples(st.integers(0, 2), st.integers(3, 5), st.sampled_from("AB"))
corpora = st.lists(st.tuples(st.lists(st.tuples(keys, scores), max_size=6), st.lists(keys, max_size=6)), max_size=4)


def corpus_of(texts):
    predictions = [[found_spans(key, score=score)[0] for key, score in found] for found, _ in texts]
    return predictions, [gold_spans(*gold) for _, gold in texts]


def twin_ece(pairs, num_bins):
    total = Fraction(0)
    for k in range(num_bins):
        low, high = Fraction(k / num_bins), Fraction((k + 1) / num_bins)
        inside = [(Fraction(s), c) for s, c in pairs if low < Fraction(s) <= high or (k == 0 and s == 0)]
        if inside:
            precision = Fraction(sum(c for _, c in inside), len(inside))
            confidence = sum(s for s, _ in inside) / len(inside)
            total += Fraction(len(inside), len(pairs)) * abs(precision - confidence)
    return float(total)


def twin_ratios(found, gold, zero_division):
    """Precision, recall, F1 of two lists without repeats, by looking for each element of one in the other."""
    hits = [item for item in found if any(item == other for other in gold)]
    precision = len(hits) / len(found) if found else zero_division
    recall = len(hits) / len(gold) if gold else zero_division
    if not found and not gold:
        return precision, recall, zero_division
    if not hits:
        return precision, recall, 0.0
    return precision, recall, 2 * precision * recall / (precision + recall)


def without_repeats(items):
    return [item for index, item in enumerate(items) if item not in items[:index]]


@settings(max_examples=200, deadline=None)
@given(corpora, st.integers(1, 20), st.sampled_from([0.0, 0.5, 1.0]))
def test_scores_agree_with_a_brute_force_twin(texts, num_bins, zero_division):
    result = score_spans(*corpus_of(texts), num_bins=num_bins, zero_division=zero_division)
    all_found = [(index, *key) for index, (found, _) in enumerate(texts) for key, _ in found]
    all_gold = [(index, *key) for index, (_, gold) in enumerate(texts) for key in gold]
    found, gold = without_repeats(all_found), without_repeats(all_gold)

    assert tuple(ratios(result, "overall").values()) == pytest.approx(twin_ratios(found, gold, zero_division))
    boundaries = [without_repeats([key[:3] for key in side]) for side in (found, gold)]
    assert tuple(ratios(result, "boundary").values()) == pytest.approx(twin_ratios(*boundaries, zero_division))

    rows = []
    for label in [label for label in "AB" if any(key[3] == label for key in found + gold)]:
        sides = [[key for key in side if key[3] == label] for side in (found, gold)]
        rows.append(twin_ratios(*sides, zero_division))
        entry = result["per_label"][label]
        assert (entry["precision"], entry["recall"], entry["f1"]) == pytest.approx(rows[-1])
        assert (entry["num_predicted"], entry["support"]) == (len(sides[0]), len(sides[1]))
    assert len(result["per_label"]) == len(rows)
    macro = [sum(column) / len(rows) for column in zip(*rows, strict=True)] if rows else [zero_division] * 3
    assert list(ratios(result, "macro").values()) == pytest.approx(macro)

    best = [
        (max(s for i, (spans, _) in enumerate(texts) for other, s in spans if (i, *other) == key), key in gold)
        for key in found
    ]
    assert result["overall_ece"] == pytest.approx(twin_ece(best, num_bins), abs=1e-12)
    assert sum(entry["count"] for entry in result["reliability"]) == result["num_predicted"] == len(found)
    assert result["duplicates_removed"] == {
        "predictions": len(all_found) - len(found),
        "references": len(all_gold) - len(gold),
    }


@settings(max_examples=100, deadline=None)
@given(corpora, st.randoms(use_true_random=False))
def test_order_of_texts_and_spans_changes_no_bit(texts, rng):
    before = score_spans(*corpus_of(texts), num_bins=4)
    shuffled = [(rng.sample(found, len(found)), rng.sample(gold, len(gold))) for found, gold in texts]
    rng.shuffle(shuffled)
    assert score_spans(*corpus_of(shuffled), num_bins=4) == before


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(scores, st.booleans()), max_size=12), st.integers(1, 20))
def test_calibration_error_agrees_with_exact_sums(pairs, num_bins):
    result = calibration_error([s for s, _ in pairs], [c for _, c in pairs], num_bins)
    assert result["ece"] == pytest.approx(twin_ece(pairs, num_bins), abs=1e-12)
    assert 0.0 <= result["ece"] <= 1.0


def test_output_is_plain_python_and_json():
    predictions = [[{"start": np.int64(0), "end": np.int64(2), "label": np.str_("A"), "score": np.float32(0.5)}]]
    result = score_spans(predictions, [gold_spans((0, 2, "A"))], num_bins=2)
    assert "np." not in repr(result)  # numpy scalars show their type
    assert json.loads(json.dumps(result)) == result
    assert list(result) == [
        *("overall_precision", "overall_recall", "overall_f1", "overall_ece"),
        *("macro_precision", "macro_recall", "macro_f1"),
        *("boundary_precision", "boundary_recall", "boundary_f1"),
        *("num_gold", "num_predicted", "num_correct", "duplicates_removed", "reliability", "per_label"),
    ]


def test_further_keys_are_ignored():
    predictions = [[{**found_spans((0, 2, "A"))[0], "word": "x y"}]]
    assert score_spans(predictions, [[{**gold_spans((0, 2, "A"))[0], "id": 7}]])["overall_f1"] == 1.0


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ({"start": 0, "end": 1, "label": "A"}, r"predictions\[0\].*score is missing"),
        ({"start": 0, "end": 1, "score": 0.5}, r"predictions\[0\].*must have start, end and label"),
        ({"start": 2, "end": 2, "label": "A", "score": 0.5}, "0 <= start < end"),
        ({"start": -1, "end": 2, "label": "A", "score": 0.5}, "0 <= start < end"),
        ({"start": 0.5, "end": 2, "label": "A", "score": 0.5}, "integers"),
        ({"start": 0, "end": 2, "label": 3, "score": 0.5}, "label must be a string"),
        ({"start": 0, "end": 2, "label": None, "score": 0.5}, "label must be a string"),
    ],
)
def test_malformed_spans_are_refused(span, message):
    with pytest.raises(ValueError, match=message):
        score_spans([[span]], [[]])


def test_malformed_gold_span_is_refused():
    with pytest.raises(ValueError, match=r"references\[1\]: start and end"):
        score_spans([[], []], [[], gold_spans((3, 1, "A"))])


def test_unequal_lengths_are_refused():
    with pytest.raises(ValueError, match="2 predictions and 1 references"):
        score_spans([[], []], [[]])
    with pytest.raises(ValueError, match="equally long, got 2 and 1"):
        calibration_error([0.5, 0.5], [1])


def test_flags_that_are_neither_true_nor_false_are_refused():
    with pytest.raises(ValueError, match="correct must hold 0 or 1"):
        calibration_error([0.5, 0.5], [1, 2])


@pytest.mark.parametrize(
    ("options", "message"),
    [({"num_bins": value}, "num_bins must be an integer >= 1") for value in (0, -1, 2.5, "10", None)]
    + [({"zero_division": value}, r"zero_division must lie in \[0, 1\]") for value in (-0.5, 1.5, math.nan)],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        score_spans([[]], [[]], **options)


def test_ten_thousand_sentences_take_less_than_a_second():
    rng = random.Random(0)
    texts = []
    for index in range(10_000):
        spans = [(start, start + 2, rng.choice("ABCD")) for start in rng.sample(range(30), 2 + index % 2)]
        texts.append((found_spans(*spans, score=rng.random()), gold_spans(*spans)))
    predictions, references = [found for found, _ in texts], [gold for _, gold in texts]
    started = time.perf_counter()
    result = score_spans(predictions, references)
    assert time.perf_counter() - started < 1.0
    assert result["num_correct"] == result["num_gold"] == 25_000
