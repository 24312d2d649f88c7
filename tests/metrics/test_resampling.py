"""The bootstrap: sums of documents against scoring from scratch, and what intervals and p-values promise."""

import json
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.metrics.span_ner.resampling import (
    bootstrap_intervals,
    document_sums,
    headline_values,
    num_documents,
    paired_bootstrap,
)
from hf_spanner.metrics.span_ner.scoring import score_spans

HEADLINES = ("overall_f1", "overall_precision", "overall_recall", "overall_ece")


def random_corpus(num_texts, seed, rate=0.7):
    """Gold spans, and predictions of which about `rate` are right and some are repeated."""
    rng = random.Random(seed)
    gold, predicted = [], []
    for _ in range(num_texts):
        spans = [{"start": 3 * i, "end": 3 * i + 2, "label": rng.choice("AB")} for i in range(rng.randrange(4))]
        gold.append(spans)
        kept = [{**span, "score": rng.random()} for span in spans if rng.random() < rate]
        wrong = [{"start": 50, "end": 51, "label": "A", "score": rng.random()}] if rng.random() > rate else []
        predicted.append([*kept, *wrong, *({**span, "score": 0.01} for span in kept[:1])])
    return predicted, gold


def documents_of(names):
    """The texts of each document, in the order of the documents' first texts."""
    places = {}
    for place, name in enumerate(names):
        places.setdefault(("own", place) if name is None else name, []).append(place)
    return list(places.values())


def twin_values(predicted, gold, names, num_resamples, seed, num_bins):
    """Headline values of resamples, by scoring the drawn texts from scratch, where each draw is a text of its own."""
    documents = documents_of(names)
    generator = np.random.default_rng(seed)
    values = []
    for _ in range(num_resamples):
        drawn = [documents[i] for i in generator.integers(len(documents), size=len(documents))]
        texts = [place for document in drawn for place in document]
        result = score_spans(
            [predicted[i] for i in texts], [gold[i] for i in texts], num_bins=num_bins, zero_division=1.0
        )
        values.append([result[name] for name in HEADLINES])
    return np.array(values)


NAMES = ["x", None, "y", "x", None, "y", "z", "x"]
OPTIONS = {"documents": NAMES, "num_resamples": 50, "seed": 3, "num_bins": 4, "zero_division": 1.0}


def test_intervals_agree_with_scoring_each_resample_from_scratch():
    predicted, gold = random_corpus(8, seed=1)
    result = bootstrap_intervals(predicted, gold, confidence_level=0.8, **OPTIONS)
    values = twin_values(predicted, gold, NAMES, 50, 3, 4)
    for column, name in zip(values.T, HEADLINES, strict=True):
        low, high = np.quantile(column, [0.1, 0.9])
        assert result[name] == pytest.approx({"low": low, "high": high}, abs=1e-12)
        assert low < high
    assert (result["num_documents"], result["num_resamples"], result["confidence_level"]) == (5, 50, 0.8)


def test_paired_differences_agree_with_scoring_each_resample_from_scratch():
    first, gold = random_corpus(8, seed=1)
    second = [spans[1:] for spans in first]
    result = paired_bootstrap(first, second, gold, **OPTIONS)
    differences = twin_values(first, gold, NAMES, 50, 3, 4) - twin_values(second, gold, NAMES, 50, 3, 4)
    whole = [score_spans(predicted, gold, num_bins=4, zero_division=1.0) for predicted in (first, second)]
    for column, name in zip(differences.T, HEADLINES, strict=True):
        expected = whole[0][name] - whole[1][name]
        low, high = np.quantile(column, [0.025, 0.975])
        assert result[name] == pytest.approx(
            {
                "first": whole[0][name],
                "second": whole[1][name],
                "difference": expected,
                "low": low,
                "high": high,
                "p_value": (1 + sum(abs(difference - expected) >= abs(expected) - 1e-12 for difference in column)) / 51,
            },
            abs=1e-12,
        )


texts = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 3), st.sampled_from("AB"), st.integers(0, 10)), max_size=4),
        st.lists(st.tuples(st.integers(0, 3), st.sampled_from("AB")), max_size=4),
        st.sampled_from(["x", "y", None]),
    ),
    max_size=6,
)


@given(texts, st.integers(1, 8), st.sampled_from([0.0, 1.0]))
def test_sums_of_all_documents_give_the_scores(corpus, num_bins, zero_division):
    predicted = [[{"start": s, "end": 9, "label": k, "score": v / 10} for s, k, v in spans] for spans, _, _ in corpus]
    gold = [[{"start": s, "end": 9, "label": k} for s, k in spans] for _, spans, _ in corpus]
    names = [name for *_, name in corpus]
    sums = document_sums(predicted, gold, documents=names, num_bins=num_bins)
    assert sums.shape == (num_documents(names), 3 + num_bins) == (len(documents_of(names)), 3 + num_bins)
    result = score_spans(predicted, gold, num_bins=num_bins, zero_division=zero_division)
    values = headline_values(sums.sum(axis=0), zero_division)
    expected = {name: math.nan if result[name] is None else result[name] for name in HEADLINES}
    assert {name: float(value) for name, value in values.items()} == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_sums_of_documents_by_hand():
    """Document x has .9 right, .4 wrong and two gold; the one without a name has .4 right.

    The bins (0, .5] and (.5, 1] hold correct minus score.
    """
    predicted = [
        [{"start": 0, "end": 1, "label": "A", "score": 0.9}],
        [{"start": 0, "end": 1, "label": "A", "score": 0.4}],
        [{"start": 0, "end": 1, "label": "B", "score": 0.4}],
    ]
    gold = [
        [{"start": 0, "end": 1, "label": "A"}],
        [{"start": 0, "end": 1, "label": "A"}],
        [{"start": 5, "end": 6, "label": "B"}],
    ]
    sums = document_sums(predicted, gold, documents=["x", None, "x"], num_bins=2)
    assert sums == pytest.approx(np.array([[1, 2, 2, -0.4, 0.1], [1, 1, 1, 0.6, 0.0]]))


def test_the_same_model_twice_differs_in_nothing():
    predicted, gold = random_corpus(20, seed=2)
    result = paired_bootstrap(predicted, predicted, gold, num_resamples=20)
    for name in HEADLINES:
        assert result[name] | {"first": 0, "second": 0} == {
            **{"first": 0, "second": 0, "difference": 0.0, "low": 0.0, "high": 0.0},
            "p_value": 1.0,
        }


def test_exchanging_the_models_turns_the_sign():
    first, gold = random_corpus(20, seed=2)
    second = [spans[:1] for spans in first]
    differences, turned = paired_bootstrap(first, second, gold), paired_bootstrap(second, first, gold)
    for name in HEADLINES:
        assert differences[name]["difference"] == -turned[name]["difference"] != 0
        assert differences[name]["low"] == pytest.approx(-turned[name]["high"])
        assert differences[name]["p_value"] == turned[name]["p_value"]


def test_a_clear_difference_has_the_smallest_p_value():
    _, gold = random_corpus(60, seed=3)
    first = [[{**span, "score": 0.9} for span in spans] for spans in gold]
    second = [[{**span, "end": span["end"] + 1, "score": 0.9} for span in spans] for spans in gold]
    result = paired_bootstrap(first, second, gold, num_resamples=99)
    assert result["overall_f1"]["p_value"] == 1 / 100
    assert (result["overall_f1"]["low"], result["overall_f1"]["high"]) == (1.0, 1.0)


def test_a_resample_without_predictions_has_no_calibration_error():
    """Only x is predicted, with .9 and rightly: every resample with x has the ECE .1, and one without it has none."""
    gold = [[{"start": 0, "end": 1, "label": "A"}], [{"start": 0, "end": 1, "label": "A"}]]
    predicted = [[{"start": 0, "end": 1, "label": "A", "score": 0.9}], []]
    interval = bootstrap_intervals(predicted, gold, num_resamples=50)["overall_ece"]
    assert interval == pytest.approx({"low": 0.1, "high": 0.1})
    assert bootstrap_intervals([[], []], gold, num_resamples=5)["overall_ece"] == {"low": None, "high": None}
    pair = paired_bootstrap(predicted, [[], []], gold, num_resamples=5)
    assert pair["overall_ece"] == {
        "first": pytest.approx(0.1),
        **dict.fromkeys(("second", "difference", "low", "high", "p_value")),
    }
    assert pair["overall_f1"]["difference"] == pytest.approx(2 / 3)


def test_one_document_less_makes_intervals_wider():
    """Ten sentences of one document stand or fall together: as documents of their own they would promise too much."""
    rng = random.Random(5)
    gold, predicted, names = [], [], []
    for document in range(12):
        is_right = rng.random() < 0.5
        for _ in range(10):
            gold.append([{"start": 0, "end": 1, "label": "A"}])
            predicted.append([{"start": 0, "end": 1 if is_right else 2, "label": "A", "score": 0.5}])
            names.append(str(document))
    together, apart = bootstrap_intervals(predicted, gold, documents=names), bootstrap_intervals(predicted, gold)
    widths = [intervals["overall_f1"]["high"] - intervals["overall_f1"]["low"] for intervals in (together, apart)]
    assert widths[0] > 2 * widths[1]


def test_intervals_hold_the_true_precision_as_often_as_they_say():
    """There are 200 draws of 60 documents with precision .7 by construction.

    Between 92 and 97.5 of 100 intervals hold it.
    """
    generator = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        rights = generator.random((60, 4)) < 0.7
        gold = [[{"start": 2 * i, "end": 2 * i + 1, "label": "A"} for i in range(4)] for _ in rights]
        predicted = [
            [
                {"start": 2 * i, "end": 2 * i + (1 if right else 2), "label": "A", "score": 0.7}
                for i, right in enumerate(row)
            ]
            for row in rights
        ]
        interval = bootstrap_intervals(predicted, gold, num_resamples=200, seed=generator)["overall_precision"]
        held += interval["low"] <= 0.7 <= interval["high"]
    assert 0.92 <= held / 200 <= 0.975


def test_seed_and_generator_decide_the_draws():
    predicted, gold = random_corpus(20, seed=4)
    results = [bootstrap_intervals(predicted, gold, num_resamples=20, seed=seed) for seed in (1, 1, 2)]
    assert results[0] == results[1] != results[2]
    assert bootstrap_intervals(predicted, gold, num_resamples=20, seed=np.random.default_rng(1)) == results[0]


def test_output_is_plain_python():
    predicted, gold = random_corpus(5, seed=4)
    for result in (bootstrap_intervals(predicted, gold), paired_bootstrap(predicted, gold_as_predicted(gold), gold)):
        assert json.loads(json.dumps(result)) == result
        assert "np." not in repr(result)


def gold_as_predicted(gold):
    return [[{**span, "score": 1.0} for span in spans] for spans in gold]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_resamples": 0}, "num_resamples must be an integer >= 1, got 0"),
        ({"num_resamples": 2.5}, "num_resamples must be an integer >= 1, got 2.5"),
        ({"confidence_level": 1.0}, r"confidence_level must lie in \(0, 1\), got 1.0"),
        ({"documents": ["x"]}, "documents must hold one entry per text, got 1 for 3 texts"),
        ({"documents": ["x", "x", "x"]}, "documents must be at least 2 to be resampled, got 1"),
    ],
)
def test_impossible_options_are_refused(options, message):
    predicted, gold = random_corpus(3, seed=0)
    with pytest.raises(ValueError, match=message):
        bootstrap_intervals(predicted, gold, **options)
    with pytest.raises(ValueError, match=message):
        paired_bootstrap(predicted, predicted, gold, **options)
