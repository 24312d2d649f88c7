"""Pictures: what they show (by hand), titles and units, colours, files that open, and no state shared by figures."""

import struct
from collections.abc import Callable

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from hf_spanner.analysis.landscape import Landscape
from hf_spanner.analysis.pictures import (
    BLUE,
    COLOURS,
    DOTS_PER_INCH,
    GREY,
    WIDTH,
    error_picture,
    group_picture,
    landscape_picture,
    png_bytes,
    reliability_picture,
    threshold_picture,
    training_picture,
)
from hf_spanner.analysis.training_curves import TrainingCurves
from hf_spanner.metrics.span_ner.curves import precision_recall_curve
from hf_spanner.metrics.span_ner.reliability import calibration_error

SCORES, CORRECT = [0.95, 0.95, 0.55, 0.55, 0.15], [True, True, True, False, False]
BINS = calibration_error(SCORES, CORRECT)["bins"]
CURVE = precision_recall_curve(SCORES, CORRECT, 4)
GROUPS = {
    "1": {"precision": 0.5, "recall": 1.0, "f1": 2 / 3, "num_gold": 1, "num_predicted": 2, "num_correct": 1},
    "2": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "num_gold": 1200, "num_predicted": 0, "num_correct": 0},
}
CURVES = TrainingCurves(
    loss=[(0.5, 9.0), (1.0, 3.0), (2.0, 1.0)],
    eval_loss=[(1.0, 2.0), (2.0, 2.5)],
    eval_f1=[(1.0, 0.4), (2.0, 0.6)],
    eval_ece=[],
)
LANDSCAPE = Landscape([-1.0, 0.0, 1.0], {"dev": [4.0, 1.0, 3.0]}, {"dev": [0.1, 0.8, 0.2]}, 0)
PICTURES: dict[str, Callable[[], Figure]] = {
    "reliability": lambda: reliability_picture({"raw": BINS, "calibrated": BINS}, "title"),
    "thresholds": lambda: threshold_picture(CURVE, 0.5, "title"),
    "groups": lambda: group_picture(GROUPS, "length (words)", "title"),
    "errors": lambda: error_picture({"missed": 3, "invented": 0}, "title"),
    "training": lambda: training_picture(CURVES, "title"),
    "landscape": lambda: landscape_picture({"a": LANDSCAPE, "b": LANDSCAPE}, "title"),
}


@pytest.mark.parametrize("make", PICTURES.values(), ids=PICTURES)
def test_every_picture_has_a_title_and_named_axes(make: Callable[[], Figure]) -> None:
    figure = make()
    assert figure.axes[0].get_title() == "title"
    assert all(axes.get_ylabel() for axes in figure.axes)
    assert figure.axes[-1].get_xlabel()


@pytest.mark.parametrize("make", PICTURES.values(), ids=PICTURES)
def test_every_picture_is_a_png_as_wide_as_a_phone_needs_and_leaves_no_global_state(
    make: Callable[[], Figure],
) -> None:
    settings = dict(matplotlib.rcParams)
    png = png_bytes(make())
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">I", png[16:20])[0] == WIDTH * DOTS_PER_INCH
    assert pyplot.get_fignums() == []
    assert dict(matplotlib.rcParams) == settings


@pytest.mark.parametrize("make", PICTURES.values(), ids=PICTURES)
def test_lines_and_bars_have_colours_of_the_palette(make: Callable[[], Figure]) -> None:
    allowed = {colour.lower() for colour in (*COLOURS, GREY)}
    figure = make()
    lines = [to_hex(line.get_color()) for axes in figure.axes for line in axes.get_lines()]
    bars = [to_hex(bar.get_facecolor()) for axes in figure.axes for bar in axes.patches]
    assert lines + bars
    assert set(lines + bars) <= allowed


def test_reliability_shows_exact_intervals_and_counts() -> None:
    """Clopper and Pearson's intervals: 5 of 10 right give [0.1871, 0.8129], 10 of 10 0.025^(1/10) = 0.6915 to 1."""
    bins = calibration_error([0.35] * 10 + [0.95] * 10, [True, False] * 5 + [True] * 10)["bins"]
    upper, lower = reliability_picture({"raw": bins}, "title").axes
    _, _, (bars,) = upper.containers[0]
    first, second = bars.get_segments()
    assert first == pytest.approx(np.array([[0.35, 0.1871], [0.35, 0.8129]]), abs=1e-4)
    assert second == pytest.approx(np.array([[0.95, 0.6915], [0.95, 1.0]]), abs=1e-4)
    assert [bar.get_height() for bar in lower.patches] == [0, 0, 0, 10, 0, 0, 0, 0, 0, 10]


def test_reliability_sets_both_sides_side_by_side() -> None:
    other = calibration_error([0.25] * 3, [True, False, False])["bins"]
    figure = reliability_picture({"raw": BINS, "calibrated": other}, "title")
    _, raw, calibrated = figure.legends[0].get_texts()
    assert (raw.get_text(), calibrated.get_text()) == ("raw", "calibrated")
    bars = figure.axes[1].patches
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars]
    assert ends[9][1] == pytest.approx(ends[19][0])  # that of the last bin
    assert [bar.get_height() for bar in bars[10:]] == [0, 0, 3, 0, 0, 0, 0, 0, 0, 0]


def test_a_threshold_keeps_the_scores_at_or_above_it() -> None:
    """Down to 0.55 two of two are right, down to 0.15 three of four, and from there to 0 three of five."""
    upper, lower = threshold_picture(CURVE, None, "title").axes
    line = upper.get_lines()[0]
    assert list(line.get_xdata(orig=True)) == [0.95, 0.55, 0.15, 0.0]
    assert list(line.get_ydata(orig=True)) == [1.0, 0.75, 0.6, 0.6]
    assert line.get_drawstyle() == "steps-post"
    marks = {text.get_text(): text.xy for text in lower.texts}
    assert marks == {"0.9": (0.5, 1.0), "0.5": (0.75, 0.75), "0.1": (0.75, 0.6)}


def test_the_threshold_in_use_is_marked_once() -> None:
    upper, _ = threshold_picture(CURVE, 0.0, "title").axes
    marks = [line for line in upper.get_lines() if line.get_label() == "threshold in use"]
    assert [list(line.get_xdata()) for line in marks] == [[0.0, 0.0]]
    assert upper.get_xlim()[0] < 0.0  # or else the axis would hide it


def test_bars_of_groups_have_their_counts() -> None:
    (axes,) = group_picture(GROUPS, "length (words)", "title").axes
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([200 / 3, 0.0])
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["1\n1 gold, 2 pred.", "2\n1,200 gold, 0 pred."]
    assert [text.get_text() for text in axes.texts] == ["66.7", "0.0"]


@pytest.mark.parametrize("name", [r"$\foo$", "$PRICE_$"])
def test_a_name_with_dollars_is_no_formula(name: str) -> None:
    for figure in (group_picture({name: GROUPS["1"]}, "label", "title"), landscape_picture({name: LANDSCAPE}, "title")):
        assert png_bytes(figure).startswith(b"\x89PNG")


def test_bars_of_errors_have_their_share() -> None:
    (axes,) = error_picture({"missed": 3, "invented": 1}, "title").axes
    assert [text.get_text() for text in axes.texts] == ["3 (75 %)", "1 (25 %)"]


def test_training_marks_the_lowest_loss_and_the_highest_f1() -> None:
    _, middle, lower = training_picture(CURVES, "title").axes
    assert [text.get_text() for text in middle.get_legend().get_texts()] == ["lowest, epoch 1: 2"]
    assert [text.get_text() for text in lower.get_legend().get_texts()] == ["highest, epoch 2: 60.0"]
    assert list(lower.get_lines()[0].get_ydata()) == [40.0, 60.0]


def test_landscape_has_a_colour_a_model_and_a_line_a_split() -> None:
    landscape = Landscape(
        [-1.0, 0.0, 1.0], {"train": [1.0] * 3, "dev": [2.0] * 3}, {"train": [0.5] * 3, "dev": [0.4] * 3}, 0
    )
    upper, lower = landscape_picture({"smoothed": landscape, "hard": landscape}, "title").axes
    styles = [(line.get_label(), line.get_color(), line.get_linestyle()) for line in upper.get_lines()]
    assert styles == [
        ("smoothed, train", COLOURS[0], "-"),
        ("smoothed, dev", COLOURS[0], "--"),
        ("hard, train", COLOURS[1], "-"),
        ("hard, dev", COLOURS[1], "--"),
    ]
    assert COLOURS[0] == BLUE
    assert list(lower.get_lines()[1].get_ydata()) == [40.0] * 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: reliability_picture({"raw": calibration_error([], [])["bins"]}, "title"),
        lambda: threshold_picture(precision_recall_curve([], [], 2), 0.0, "title"),
        lambda: group_picture({}, "label", "title"),
        lambda: error_picture({"missed": 0, "invented": 0}, "title"),
        lambda: training_picture(TrainingCurves([], [(1.0, 2.0)], [], []), "title"),
    ],
    ids=["reliability", "thresholds", "groups", "errors", "training"],
)
@pytest.mark.filterwarnings("error")
def test_nothing_to_show_is_still_a_picture(make: Callable[[], Figure]) -> None:
    assert png_bytes(make()).startswith(b"\x89PNG")
