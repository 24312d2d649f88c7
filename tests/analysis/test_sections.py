"""Parts of the report: which numbers and words stand in them."""

from typing import Any

import pytest

from hf_spanner.analysis.errors import KINDS
from hf_spanner.analysis.groups import scores_by_group
from hf_spanner.analysis.html_report import Example
from hf_spanner.analysis.landscape import Landscape
from hf_spanner.analysis.sections import (
    GROUPINGS,
    calibration_section,
    error_section,
    group_section,
    landscape_section,
    threshold_section,
    training_section,
)
from hf_spanner.analysis.training_curves import TrainingCurves
from hf_spanner.metrics.span_ner.curves import precision_recall_curve
from hf_spanner.metrics.span_ner.scoring import score_spans

GOLD = [[{"start": 0, "end": 1, "label": "A"}, {"start": 2, "end": 3, "label": "B"}]]


def scores(score: float) -> dict[str, Any]:
    """Scores of one right span with this score."""
    return score_spans([[GOLD[0][0] | {"score": score}]], GOLD)


def test_calibration_before_and_after() -> None:
    section = calibration_section(scores(0.75), scores(0.5))
    errors, labels, raw, calibrated = section.tables
    assert errors.header == ["measure", "raw", "calibrated"]
    assert errors.rows[0] == ["ECE, bins of equal width", "0.5000", "0.2500"]
    assert labels.rows == [["A", "0.5000", "0.2500"]]  # no span of B was predicted
    assert raw.rows == [["0.4 to 0.5", "1", "0.500", "1.000"]]
    assert calibrated.rows == [["0.7 to 0.8", "1", "0.750", "1.000"]]
    assert "before and after the model's calibration" in section.text


def test_without_calibration_there_is_one_side() -> None:
    section = calibration_section(scores(0.5), None)
    assert section.tables[0].header == ["measure", "raw"]
    assert "without a calibration" in section.text


def test_thresholds() -> None:
    curve = precision_recall_curve([0.95, 0.25], [True, False], 2)
    section = threshold_section(curve, 0.0)
    assert section.tables[0].rows[2:4] == [["0.2", "50.0", "50.0", "50.0"], ["0.3", "100.0", "50.0", "66.7"]]
    assert "Average precision, the area under the lower curve by steps: 0.500." in section.text
    assert "for each label" not in section.text
    assert "for each label" in threshold_section(curve, {"A": 0.5, "B": 0.2}).text


def test_every_grouping_has_a_section_that_defines_it() -> None:
    keys = [(0, 0, 1, "A"), (0, 2, 3, "B")]
    groups = scores_by_group(keys[:1], keys, [["a", "b", "c"]], [])
    assert set(groups) == set(GROUPINGS)
    for name, group_scores in groups.items():
        section = group_section(name, group_scores)
        assert [picture.name for picture in section.pictures] == [f"f1_by_{name}"]
        assert section.text.startswith(GROUPINGS[name][1])
        assert [row[0] for row in section.tables[0].rows] == list(group_scores)


def test_errors_name_how_many_are_shown() -> None:
    counts = dict.fromkeys(KINDS, 0) | {"missed": 1200}
    section = error_section(counts, {"missed": [Example("row 1", [])]})
    assert section.examples == {"missed (1 of 1,200)": [Example("row 1", [])]}


def test_training_without_curves_says_so() -> None:
    section = training_section(None)
    assert "no trainer_state.json" in section.text
    assert not section.pictures
    curves = TrainingCurves([(1.0, 2.0)], [(1.0, 2.0)], [(1.0, 0.5)], [])
    assert [picture.name for picture in training_section(curves).pictures] == ["training"]


@pytest.mark.parametrize("names", [["one"], ["one", "two"]])
def test_landscape(names: list[str]) -> None:
    landscape = Landscape([-1.0, 0.0, 1.0], {"data": [2.0, 1.0, 2.0]}, {"data": [0.0, 0.5, 0.0]}, 0)
    section = landscape_section(dict.fromkeys(names, landscape))
    assert [picture.name for picture in section.pictures] == ["landscape"]
    assert section.pictures[0].png.startswith(b"\x89PNG")
