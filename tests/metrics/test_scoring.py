import json
import math
import random
import time

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from nervaluate.evaluator import Evaluator
from seqeval.metrics import classification_report
from seqeval.scheme import IOB2

from hf_spanner.data.tags import tags_to_spans
from hf_spanner.metrics.span_ner.curves import precision_recall_curve
from hf_spanner.metrics.span_ner.reliability import brier_split, calibration_error
from hf_spanner.metrics.span_ner.resampling import bootstrap_intervals
from hf_spanner.metrics.span_ner.scoring import score_spans, score_text

OFF_BY = 1e-5


def test_an_undefined_score_reads_as_none():
    assert [score_text(value) for value in (None, 0.0, 0.12345)] == ["none", "0.0000", "0.1235"]
    assert score_text(12.345, 1) == "12.3"


def gold_spans(*spans):
    return [{"start": start, "end": end, "label": label} for start, end, label in spans]


def predicted_spans(*spans, score=0.5):
    return [{"start": start, "end": end, "label": label, "score": score} for start, end, label in spans]


def ratios(result, prefix):
    return {name: result[f"{prefix}_{name}"] for name in ("precision", "recall", "f1")}


def approx(values):
    return pytest.approx(values, abs=OFF_BY)


def test_boundary_score_counts_a_span_of_two_labels_once():
    """Strictly 1 of 2 predictions is correct; by boundaries alone 1 of 1 is."""
    result = score_spans([predicted_spans((0, 2, "A"), (0, 2, "B"))], [gold_spans((0, 2, "A"))])
    assert ratios(result, "overall") == approx({"precision": 0.5, "recall": 1.0, "f1": 2 / 3})
    assert ratios(result, "boundary") == {"precision": 1.0, "recall": 1.0, "f1": 1.0}


@pytest.mark.parametrize("score", [1.2, -0.1, math.nan, math.inf, None, "0.5", np.float32(1.5)])
def test_what_is_no_score_is_refused(score):
    """These are the errors of case E-06: the message names the score and the range, also for a repeat."""
    good, bad = predicted_spans((0, 1, "A"), score=0.5), predicted_spans((0, 1, "A"), score=score)
    for text in (bad, good + bad, bad + good):
        with pytest.raises(ValueError, match=r"predictions\[1\].*score must be a number in \[0, 1\], got"):
            score_spans([[], text], [[], []])


def test_repeated_prediction_keeps_its_best_score():
    predictions = predicted_spans((0, 1, "A"), score=0.25) + predicted_spans((0, 1, "A"), score=0.75)
    for text in (predictions, predictions[::-1]):
        result = score_spans([text], [gold_spans((0, 1, "A"))], num_bins=4)
        assert result["overall_ece"] == 0.25
        assert [entry["count"] for entry in result["reliability"]] == [0, 0, 1, 0]


def test_calibration_error_is_taken_over_strict_matches_of_the_given_spans():
    """A right span with a wrong label is not correct; the missed gold span has no part: (|1 - .9| + |0 - .6|) / 2."""
    predictions = [predicted_spans((0, 1, "A"), score=0.9) + predicted_spans((2, 3, "B"), score=0.6)]
    result = score_spans(predictions, [gold_spans((0, 1, "A"), (2, 3, "A"), (5, 6, "A"))])
    assert result["overall_ece"] == pytest.approx(0.35)


scores = st.one_of(st.floats(0, 1), st.integers(0, 20).map(lambda k: k / 20), st.integers(0, 10).map(lambda k: k / 10))
keys = st.tuples(st.integers(0, 2), st.integers(3, 5), st.sampled_from("AB"))
corpora = st.lists(st.tuples(st.lists(st.tuples(keys, scores), max_size=6), st.lists(keys, max_size=6)), max_size=4)


def corpus_of(texts):
    predictions = [[predicted_spans(key, score=score)[0] for key, score in predicted] for predicted, _ in texts]
    return predictions, [gold_spans(*gold) for _, gold in texts]


def twin_ratios(predicted, gold, zero_division):
    """Precision, recall and F1 of two lists without repeats, by looking for each element of one in the other."""
    hits = [item for item in predicted if any(item == other for other in gold)]
    precision = len(hits) / len(predicted) if predicted else zero_division
    recall = len(hits) / len(gold) if gold else zero_division
    if not predicted and not gold:
        return precision, recall, zero_division
    if not hits:
        return precision, recall, 0.0
    return precision, recall, 2 * precision * recall / (precision + recall)


def without_repeats(items):
    return [item for index, item in enumerate(items) if item not in items[:index]]


@given(corpora, st.integers(1, 20), st.sampled_from([0.0, 0.5, 1.0]))
def test_scores_agree_with_a_brute_force_twin(texts, num_bins, zero_division):
    result = score_spans(*corpus_of(texts), num_bins=num_bins, zero_division=zero_division)
    all_predicted = [(index, *key) for index, (predicted, _) in enumerate(texts) for key, _ in predicted]
    all_gold = [(index, *key) for index, (_, gold) in enumerate(texts) for key in gold]
    predicted, gold = without_repeats(all_predicted), without_repeats(all_gold)

    assert tuple(ratios(result, "overall").values()) == pytest.approx(twin_ratios(predicted, gold, zero_division))
    boundaries = [without_repeats([key[:3] for key in side]) for side in (predicted, gold)]
    assert tuple(ratios(result, "boundary").values()) == pytest.approx(twin_ratios(*boundaries, zero_division))

    rows = []
    for label in [label for label in "AB" if any(key[3] == label for key in predicted + gold)]:
        sides = [[key for key in side if key[3] == label] for side in (predicted, gold)]
        rows.append(twin_ratios(*sides, zero_division))
        entry = result["per_label"][label]
        assert (entry["precision"], entry["recall"], entry["f1"]) == pytest.approx(rows[-1])
        assert (entry["num_predicted"], entry["support"]) == (len(sides[0]), len(sides[1]))
    assert len(result["per_label"]) == len(rows)
    macro = [sum(column) / len(rows) for column in zip(*rows, strict=True)] if rows else [zero_division] * 3
    assert list(ratios(result, "macro").values()) == pytest.approx(macro)

    best = [
        (max(s for i, (spans, _) in enumerate(texts) for other, s in spans if (i, *other) == key), key in gold)
        for key in predicted
    ]
    ece = calibration_error([s for s, _ in best], [c for _, c in best], num_bins)["ece"]
    assert result["overall_ece"] == (ece if best else None)
    assert sum(entry["count"] for entry in result["reliability"]) == result["num_predicted"] == len(predicted)
    assert result["duplicates_removed"] == {
        "predictions": len(all_predicted) - len(predicted),
        "references": len(all_gold) - len(gold),
    }


@given(corpora, st.randoms(use_true_random=False))
def test_order_of_texts_and_spans_changes_no_bit(texts, rng):
    before = score_spans(*corpus_of(texts), num_bins=4)
    shuffled = [(rng.sample(predicted, len(predicted)), rng.sample(gold, len(gold))) for predicted, gold in texts]
    rng.shuffle(shuffled)
    assert score_spans(*corpus_of(shuffled), num_bins=4) == before


def test_output_is_plain_python_and_json():
    predictions = [[{"start": np.int64(0), "end": np.int64(2), "label": np.str_("A"), "score": np.float32(0.5)}]]
    result = score_spans(predictions, [gold_spans((0, 2, "A"))], num_bins=2)
    assert "np." not in repr(result)  # numpy scalars show their type
    assert json.loads(json.dumps(result)) == result
    assert list(result) == [
        *("overall_precision", "overall_recall", "overall_f1", "overall_ece"),
        *("overall_mce", "overall_ece_mass", "overall_brier", "brier_split", "average_precision"),
        *("macro_precision", "macro_recall", "macro_f1"),
        *("boundary_precision", "boundary_recall", "boundary_f1"),
        *("num_gold", "num_predicted", "num_correct", "duplicates_removed", "reliability", "per_label"),
    ]


def test_further_keys_are_ignored():
    predictions = [[{**predicted_spans((0, 2, "A"))[0], "word": "x y"}]]
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


@pytest.mark.parametrize(
    ("options", "message"),
    [({"num_bins": value}, "num_bins must be an integer >= 1") for value in (0, -1, 2.5, "10", None)]
    + [({"zero_division": value}, r"zero_division must lie in \[0, 1\]") for value in (-0.5, 1.5, math.nan)],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        score_spans([[]], [[]], **options)


def test_ten_thousand_sentences_take_less_than_a_second():
    """Of this process, so that a busy machine changes nothing."""
    rng = random.Random(0)
    texts = []
    for index in range(10_000):
        spans = [(start, start + 2, rng.choice("ABCD")) for start in rng.sample(range(30), 2 + index % 2)]
        texts.append((predicted_spans(*spans, score=rng.random()), gold_spans(*spans)))
    predictions, references = [predicted for predicted, _ in texts], [gold for _, gold in texts]
    started = time.process_time()
    result = score_spans(predictions, references)
    assert time.process_time() - started < 1.0
    assert result["num_correct"] == result["num_gold"] == 25_000


FOUND = [
    predicted_spans((0, 1, "A"), score=0.9) + predicted_spans((2, 3, "B"), score=0.6),
    predicted_spans((0, 2, "A"), score=0.75),
    predicted_spans((4, 5, "B"), score=0.3),
]
GOLD = [gold_spans((0, 1, "A"), (2, 3, "A")), gold_spans((0, 2, "A")), gold_spans((4, 5, "B"), (7, 8, "B"))]


def test_calibration_of_all_and_of_each_label_is_that_of_its_functions():
    """.9, .75 and .3 are right; A has .9 and .75, and B has .6, which is wrong, and .3."""
    scores, correct = [0.9, 0.6, 0.75, 0.3], [True, False, True, True]
    result = score_spans(FOUND, GOLD, num_bins=4)
    errors = {binning: calibration_error(scores, correct, 4, binning=binning) for binning in ("width", "mass")}
    assert result["overall_ece"] == errors["width"]["ece"]
    assert result["overall_mce"] == errors["width"]["mce"] == pytest.approx(0.7)
    assert result["overall_ece_mass"] == errors["mass"]["ece"]
    split = brier_split(scores, correct, 4)
    assert result["overall_brier"] == split["brier"] == pytest.approx((0.01 + 0.36 + 0.0625 + 0.49) / 4)
    assert result["brier_split"] == {name: value for name, value in split.items() if name != "brier"}
    assert result["average_precision"] == precision_recall_curve(scores, correct, 5)["average_precision"]
    assert result["per_label"]["A"]["ece"] == pytest.approx((0.1 + 0.25) / 2)
    assert result["per_label"]["B"]["ece"] == pytest.approx((0.6 + 0.7) / 2)


def test_average_precision_without_gold_takes_zero_division():
    assert score_spans(FOUND, [[], [], []], zero_division=1.0)["average_precision"] == 1.0
    assert score_spans([[], [], []], GOLD, zero_division=1.0)["average_precision"] == 0.0


def test_intervals_are_those_of_the_bootstrap_and_there_only_on_request():
    options = {"documents": ["a", "a", None], "num_resamples": 30, "confidence_level": 0.8, "seed": 4}
    result = score_spans(FOUND, GOLD, num_bins=4, zero_division=1.0, **options)
    assert result["intervals"] == bootstrap_intervals(FOUND, GOLD, num_bins=4, zero_division=1.0, **options)
    without = score_spans(FOUND, GOLD, num_bins=4, zero_division=1.0)
    assert without == {name: value for name, value in result.items() if name != "intervals"}
    with pytest.raises(ValueError, match="num_resamples must be an integer >= 1, got -1"):
        score_spans(FOUND, GOLD, num_resamples=-1)


@st.composite
def tagged_texts(draw):
    """Well-formed gold and predicted IOB2 tags of one text."""
    length = draw(st.integers(1, 8))
    sides = []
    for _ in range(2):
        tags, position = ["O"] * length, 0
        while position < length:
            label, size = draw(st.tuples(st.sampled_from(["O", "A", "B"]), st.integers(1, 3)))
            for place in range(position, min(position + size, length)) if label != "O" else ():
                tags[place] = ("B-" if place == position else "I-") + label
            position += size
        sides.append(tags)
    return sides


@given(st.lists(tagged_texts(), min_size=1, max_size=4))
def test_well_formed_tags_score_as_seqeval_scores_them(texts):
    """Precision, recall and F1 are micro, macro and per label, in its strict mode with 0 for 0 / 0."""
    assume(any(tag != "O" for text in texts for side in text for tag in side))  # else it divides by 0
    gold, predicted = zip(*texts, strict=True)
    result = scores_of_tags(texts)
    report = classification_report(
        list(gold), list(predicted), mode="strict", scheme=IOB2, output_dict=True, zero_division=0
    )
    assert [*result["per_label"], "micro avg", "macro avg", "weighted avg"] == list(report)
    ours = {"micro avg": ratios(result, "overall"), "macro avg": ratios(result, "macro"), **result["per_label"]}
    for name, label_scores in ours.items():
        expected = [report[name][ratio] for ratio in ("precision", "recall", "f1-score")]
        assert [label_scores[ratio] for ratio in ("precision", "recall", "f1")] == pytest.approx(expected)


@given(st.lists(tagged_texts(), min_size=1, max_size=4))
def test_flat_spans_score_as_nervaluate_scores_them(texts):
    """Its `strict` is our strict score, its `exact` that of boundaries alone."""
    gold, predicted = zip(*texts, strict=True)
    result = scores_of_tags(texts)
    theirs = Evaluator(list(gold), list(predicted), tags=["A", "B"], loader="list").evaluate()["overall"]
    for prefix, name in (("overall", "strict"), ("boundary", "exact")):
        expected = [theirs[name].precision, theirs[name].recall, theirs[name].f1]
        assert list(ratios(result, prefix).values()) == pytest.approx(expected)


def scores_of_tags(texts):
    """Scores of the spans of well-formed tags, given as gold and predicted tags of each text."""
    read = [[tags_to_spans(tags, scheme="IOB2") for tags in text] for text in texts]
    return score_spans([predicted_spans(*predicted) for _, predicted in read], [gold_spans(*gold) for gold, _ in read])
