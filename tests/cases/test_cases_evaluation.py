"""Cases E: the metric on lists of spans, and the calibration error on pairs of score and truth."""

import itertools
import math
from typing import Any

import pytest

from hf_spanner.data.tags import tags_to_spans
from hf_spanner.metrics.span_ner.scoring import calibration_error, score_spans

Case = dict[str, Any]
NAMES = ("precision", "recall", "f1")


def spans(texts: list[list[list[Any]]]) -> list[list[dict[str, Any]]]:
    """Spans of texts as the metric takes them; the score has no part here."""
    return [
        [{"start": start, "end": end, "label": label, "score": 0.5} for start, end, label in text] for text in texts
    ]


def ratios(result: dict[str, Any], prefix: str) -> dict[str, float]:
    return {name: result[f"{prefix}_{name}"] for name in NAMES}


def approx(values: dict[str, float]) -> Any:
    return pytest.approx(values, abs=1e-5)


@pytest.mark.parametrize("case", ["E-01", "E-02"], indirect=True)
def test_micro_macro_and_counts(case: Case) -> None:
    result = score_spans(spans(case["input"]["predictions"]), spans(case["input"]["references"]))
    expected = case["expected"]
    assert ratios(result, "overall") == approx(expected["micro"])
    assert ratios(result, "macro") == approx(expected["macro"])
    assert list(result["per_label"]) == sorted(expected["per_label"])
    for label, scores in expected["per_label"].items():
        label_scores = result["per_label"][label]
        assert {name: label_scores[name] for name in scores} == approx(scores)
    counts = [result["num_gold"], result["num_predicted"], result["num_correct"]]
    assert counts == [expected["n_gold"], expected["n_pred"], expected["n_correct"]]
    assert result["duplicates_removed"] == expected.get("duplicates_removed", {"predictions": 0, "references": 0})


@pytest.mark.parametrize("case", ["E-03"], indirect=True)
def test_undefined_ratios_take_zero_division(case: Case) -> None:
    """There is one label at most, so micro, macro and boundary-only scores agree."""
    for item, answers in zip(case["input"]["items"], case["expected"]["items"], strict=True):
        predicted, gold = spans(item["predictions"]), spans(item["references"])
        for zero_division, expected in zip(case["input"]["zero_division"], answers, strict=True):
            result = score_spans(predicted, gold, zero_division=zero_division)
            for prefix in ("overall", "macro", "boundary"):
                assert ratios(result, prefix) == expected
            assert (result["overall_ece"] is None) == (result["num_predicted"] == 0)
            assert all(math.isfinite(value) for value in result.values() if isinstance(value, float))
    with pytest.raises(ValueError, match="1 predictions and 0 references"):
        score_spans([[]], [])


@pytest.mark.parametrize("case", ["E-04"], indirect=True)
def test_the_reading_of_ill_formed_tags_decides_the_score(case: Case) -> None:
    def read(texts: list[list[str]], policy: str) -> list[list[dict[str, Any]]]:
        scheme = case["input"]["scheme"]
        return spans([[list(span) for span in tags_to_spans(tags, scheme=scheme, policy=policy)] for tags in texts])

    gold = read(case["input"]["references"], "error")
    for policy, expected in case["expected"].items():
        assert ratios(score_spans(read(case["input"]["predictions"], policy), gold), "overall") == approx(expected)


@pytest.mark.parametrize("case", ["E-05"], indirect=True)
def test_strict_and_boundary_scores_are_apart_in_every_order(case: Case) -> None:
    orders = [
        [list(itertools.permutations(text)) for text in case["input"][side]] for side in ("predictions", "references")
    ]
    results = []
    for predicted in itertools.product(*orders[0]):
        for gold in itertools.product(*orders[1]):
            for texts in itertools.permutations(zip(predicted, gold, strict=True)):
                predictions, references = zip(*texts, strict=True)
                results.append(score_spans(spans(predictions), spans(references)))
    assert len(results) == 8
    assert ratios(results[0], "overall") == case["expected"]["strict"]
    assert ratios(results[0], "boundary") == approx(case["expected"]["boundary_only"])
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("case", ["E-06"], indirect=True)
def test_calibration_error_on_bin_borders(case: Case) -> None:
    for item, expected in zip(case["input"]["items"], case["expected"]["items"], strict=True):
        scores, correct = [score for score, _ in item["pairs"]], [flag for _, flag in item["pairs"]]
        if expected.get("outcome") == "error":
            with pytest.raises(ValueError, match="score") as error:
                calibration_error(scores, correct, item["n_bins"])
            assert [text for text in expected["mentions"] if text not in str(error.value)] == []
            continue
        result = calibration_error(scores, correct, item["n_bins"])
        assert result["ece"] == pytest.approx(expected["ece"], abs=1e-5), expected.get("wrong_values")
        assert result["count"] == expected["n"]
