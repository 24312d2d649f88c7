from collections.abc import Callable
from typing import Any

import pytest

from hf_spanner import SpanNERPipeline
from hf_spanner.export.check import compared, fitted_again


def entity(start: int, end: int, score: float = 0.5, label: str = "PER") -> dict[str, Any]:
    return {"start": start, "end": end, "label": label, "score": score}


def test_f1_ece_and_equal_rows_before_and_after() -> None:
    """Before: 2 of 2 right at .5, ECE |1 - .5|. After: 1 of 2, F1 = 2 / 4, ECE (|1 - .9| + |0 - .5|) / 2.

    The first row is equal though its score has changed.
    """
    gold = [[entity(0, 1)], [entity(1, 2)]]
    comparison = compared([[entity(0, 1)], [entity(1, 2)]], [[entity(0, 1, 0.9)], [entity(1, 3)]], gold)
    assert comparison.f1 == (100.0, 50.0)
    assert comparison.loss == 50.0
    assert comparison.ece == pytest.approx((0.5, 0.3))
    assert comparison.equal == 0.5
    assert "| exported | 50.00 | 0.3000 |" in str(comparison)
    assert "Equal entities in 50.00% of 2 rows." in str(comparison)


def test_a_row_with_another_label_or_one_more_entity_is_not_equal() -> None:
    before = [[entity(0, 1)], [entity(0, 1)], []]
    after = [[entity(0, 1, label="ORG")], [entity(0, 1), entity(1, 2)], []]
    assert compared(before, after, [[], [], []]).equal == pytest.approx(1 / 3)


def test_a_calibration_is_fitted_on_raw_scores_and_the_settings_stay(
    random_tagger: Callable[..., SpanNERPipeline],
) -> None:
    """The same map as from the raw scores of a model without one, whatever map and threshold it has."""
    rows = [{"tokens": ["Ana", "met", "Bo", "in", "Oslo"] * 2, "entities": [entity(0, 1)]}] * 40
    ner = random_tagger("boundary_smoothing")
    old = {
        "kind": "platt",
        "all": {"slope": 0.5, "intercept": 1.0},
        "per_label": {},
        "fitted_on": {"name": "dev", "num_rows": 3, "fingerprint": "ab"},
    }
    raw = fitted_again(old, ner, rows, "rows", 32)
    ner.model.config.calibration, ner.model.config.threshold = old, 0.9
    again = fitted_again(old, ner, rows, "rows", 32)
    assert again is not None
    assert again == raw
    assert again["fitted_on"]["num_rows"] == 40
    assert (ner.model.config.calibration, ner.model.config.threshold) == (old, 0.9)
    assert fitted_again(old, ner, rows[:1], "rows", 32) is None, "too few predictions"
