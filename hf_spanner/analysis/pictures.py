"""Pictures of an analysis, legible on a phone, in colours that colour-blind readers can tell apart."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.stats import binomtest

from hf_spanner.analysis.landscape import Landscape
from hf_spanner.analysis.training_curves import TrainingCurves

# Okabe and Ito 2008, "Color Universal Design"
BLUE, VERMILLION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
COLOURS = (BLUE, VERMILLION, GREEN, ORANGE)
MARKERS, LINES = ("o", "s", "^", "D"), ("-", "--", ":", "-.")
GREY = "#666666"
WIDTH, DOTS_PER_INCH = 4.5, 200  # inches: text of 10 points stays legible where a phone shows the whole width
SMALL = 9  # points
SHARES = (-0.02, 1.02)  # ends of an axis, so that what lies on an end of [0, 1] is seen whole


def png_bytes(figure: Figure) -> bytes:
    """The figure as a PNG file."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH)
    return buffer.getvalue()


def reliability_picture(bins: Mapping[str, Sequence[Mapping[str, Any]]], title: str) -> Figure:
    """Precision of each bin against its mean score, with intervals, and below it the number of spans in each bin.

    The bars are exact binomial intervals of the precision at 95 % (Clopper and Pearson 1934), with spans
    taken as independent.

    Args:
        bins: By name of the scores, such as `raw`, their bins of equal width as `calibration_error` gives them.
        title: Heading of the picture.

    Returns:
        The figure.
    """
    figure, (upper, lower) = _panels(6.4, title, ratios=(3, 1.2))
    upper.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="score = precision")
    for place, (name, score_bins) in enumerate(bins.items()):
        held = [score_bin for score_bin in score_bins if score_bin["count"]]
        precision = np.array([score_bin["precision"] for score_bin in held])
        ends = np.array([_exact_interval(score_bin) for score_bin in held]).reshape(-1, 2)  # (K, 2)
        upper.errorbar(
            [score_bin["confidence"] for score_bin in held],
            precision,
            yerr=np.clip([precision - ends[:, 0], ends[:, 1] - precision], 0.0, None),  # rounding may cross
            color=COLOURS[place],
            marker=MARKERS[place],
            markerfacecolor="white" if place else COLOURS[place],
            linestyle=LINES[place],
            linewidth=1,
            capsize=3,
            label=name,
        )
        width = (score_bins[0]["high"] - score_bins[0]["low"]) * 0.8 / len(bins)
        middles = [
            (score_bin["low"] + score_bin["high"]) / 2 + (place - (len(bins) - 1) / 2) * width
            for score_bin in score_bins
        ]
        counts = [score_bin["count"] for score_bin in score_bins]
        lower.bar(middles, counts, width, color=COLOURS[place], hatch="///" if place else None, edgecolor="white")
    upper.set(ylabel="precision (share of right spans)", xlim=(0, 1), ylim=SHARES)
    figure.legend(*upper.get_legend_handles_labels(), loc="outside lower center", fontsize=SMALL)
    lower.set(xlabel="score of the span (0 to 1)", ylabel="spans", xticks=np.arange(0, 1.1, 0.2))
    lower.yaxis.set_major_formatter("{x:,.0f}")
    return figure


def threshold_picture(curve: Mapping[str, Any], threshold: float | None, title: str) -> Figure:
    """Precision, recall and F1 over thresholds, and below precision against recall.

    Args:
        curve: As `precision_recall_curve` gives it.
        threshold: The one in use, marked in the upper panel; None where each label has its own.
        title: Heading of the picture.

    Returns:
        The figure.
    """
    figure = Figure(figsize=(WIDTH, 7.2), layout="constrained")
    upper, lower = figure.subplots(2)
    upper.set_title(title, fontsize=11)
    thresholds, precision, recall = (np.array(curve[name]) for name in ("thresholds", "precision", "recall"))
    for place, (label, name) in enumerate({"precision": "precision", "recall": "recall", "F1": "f1"}.items()):
        # thresholds fall, and down to the next score, or to 0, the predictions stay the same
        values = [*curve[name], *curve[name][-1:]]
        upper.step(
            [*thresholds, 0.0][: len(values)],
            values,
            where="post",
            color=COLOURS[place],
            linestyle=LINES[place],
            label=label,
        )
    lower.step(recall, precision, where="pre", color=BLUE)
    marked = np.array([np.inf, np.inf])
    for mark in np.arange(9, 0, -1) / 10:
        point = np.array([(recall[place], precision[place]) for place in np.flatnonzero(thresholds >= mark)[-1:]])
        if len(point) and np.abs(point[0] - marked).max() > 0.04:  # nearer ones would hide each other
            marked = point[0]
            _point(lower, marked, f"{mark:.1f}")
    if threshold is not None:
        upper.axvline(threshold, color=GREY, linewidth=1, linestyle=(0, (1, 1)), label="threshold in use")
    upper.set(xlabel="threshold (lowest score that is kept)", ylabel="share", xlim=SHARES, ylim=SHARES)
    figure.legend(*upper.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=SMALL)
    lower.set(xlabel="recall (share of gold spans found)", ylabel="precision (share right)")
    lower.set(xlim=SHARES, ylim=SHARES)
    for axes in (upper, lower):
        _plain(axes)
    return figure


def group_picture(groups: Mapping[str, Mapping[str, Any]], axis: str, title: str) -> Figure:
    """A bar of strict F1 for each group, with the numbers of gold and predicted spans beside its name.

    Args:
        groups: As `group_scores` gives them.
        axis: What the groups are, such as `length (words)`.
        title: Heading of the picture.

    Returns:
        The figure.
    """
    figure = Figure(figsize=(WIDTH, 1.3 + 0.5 * max(len(groups), 1)), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, fontsize=11)
    values = [100 * scores["f1"] for scores in groups.values()]
    bars = axes.barh(range(len(groups)), values, height=0.65, color=BLUE)
    axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=SMALL)
    names = [f"{name}\n{group['num_gold']:,} gold, {group['num_predicted']:,} pred." for name, group in groups.items()]
    axes.set_yticks(range(len(groups)), names, fontsize=SMALL, parse_math=False)
    axes.invert_yaxis()
    axes.margins(y=0.02)
    axes.set(xlabel="strict F1 (%)", ylabel=axis, xlim=(0, 112), xticks=range(0, 101, 20))
    _plain(axes, grid="x")
    return figure


def error_picture(counts: Mapping[str, int], title: str) -> Figure:
    """A bar for each kind of error.

    Args:
        counts: Number of errors by the name of their kind.
        title: Heading of the picture.

    Returns:
        The figure.
    """
    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, fontsize=11)
    bars = axes.barh(range(len(counts)), list(counts.values()), height=0.65, color=VERMILLION)
    total = max(sum(counts.values()), 1)
    labels = [f"{count:,} ({100 * count / total:.0f} %)" for count in counts.values()]
    axes.bar_label(bars, labels, padding=3, fontsize=SMALL)
    axes.set_yticks(range(len(counts)), [name.replace(" and ", "\nand ") for name in counts], fontsize=SMALL)
    axes.invert_yaxis()
    axes.set(xlabel="errors (number)", ylabel="kind", xlim=(0, 1.5 * max(*counts.values(), 1)))
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    _plain(axes, grid="x")
    return figure


def training_picture(curves: TrainingCurves, title: str) -> Figure:
    """Training loss, development loss and development F1 over epochs, one below the other; the best are marked.

    Where development loss is lowest long before F1 is highest, the two disconnect (Zhu and Li 2022, Appendix A). It has
    an axis of its own, since its rise is small beside the fall of training loss.

    Args:
        curves: What was logged.
        title: Heading of the picture.

    Returns:
        The figure.
    """
    figure, (upper, middle, lower) = _panels(6.6, title, ratios=(1, 1, 1))
    if curves.loss:
        upper.plot(*_columns(curves.loss), color=BLUE, marker=".")
    if curves.eval_loss:
        epochs, losses = _columns(curves.eval_loss)
        lowest = int(np.argmin(losses))
        label = f"lowest, epoch {epochs[lowest]:g}: {losses[lowest]:.3g}"
        _marked_curve(middle, epochs, losses, lowest, label, color=VERMILLION, marker="v")
    if curves.eval_f1:
        epochs, values = _columns(curves.eval_f1)
        best = int(np.argmax(values))
        label = f"highest, epoch {epochs[best]:g}: {100 * values[best]:.1f}"
        _marked_curve(lower, epochs, 100 * values, best, label, color=GREEN, marker="^")
    upper.set(ylabel="training loss\n(nats a sentence, log)", yscale="log")
    middle.set(ylabel="dev. loss\n(nats a sentence)")
    lower.set(xlabel="epoch", ylabel="dev. strict F1 (%)")
    lower.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    return figure


def landscape_picture(landscapes: Mapping[str, Landscape], title: str) -> Figure:
    """Loss along one random direction, and below it strict F1; each model has a colour, each split a kind of line.

    The scale of the loss is logarithmic, so that models of different losses can be seen beside each other.

    Args:
        landscapes: By name of the model, one or two.
        title: Heading of the picture.

    Returns:
        The figure.
    """
    figure, (upper, lower) = _panels(6.0, title, ratios=(1, 1))
    for place, (name, landscape) in enumerate(landscapes.items()):
        for split_place, split in enumerate(landscape.losses):
            color, line, label = COLOURS[place], LINES[split_place], f"{name}, {split}"
            upper.plot(landscape.distances, landscape.losses[split], color=color, linestyle=line, label=label)
            lower.plot(landscape.distances, 100 * np.array(landscape.f1[split]), color=color, linestyle=line)
    upper.set(ylabel="loss (nats a sentence, log)", yscale="log")
    lower.set(xticks=np.arange(-1, 1.1, 0.5))
    lower.set(xlabel="distance (share of each weight tensor's norm)", ylabel="strict F1 (%)", xlim=(-1, 1))
    legend = figure.legend(*upper.get_legend_handles_labels(), loc="outside lower center", fontsize=SMALL)
    for text in legend.get_texts():
        text.set_parse_math(False)  # a model's name may hold dollars
    return figure


def _panels(height: float, title: str, *, ratios: Sequence[float]) -> tuple[Figure, Sequence[Axes]]:
    """A figure of panels one above the other, with one horizontal axis."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    panels = figure.subplots(len(ratios), sharex=True, height_ratios=ratios)
    panels[0].set_title(title, fontsize=11)
    for axes in panels:
        _plain(axes)
    return figure, panels


def _marked_curve(
    axes: Axes, epochs: np.ndarray, values: np.ndarray, place: int, label: str, *, color: str, marker: str
) -> None:
    """A curve with one of its points marked and named."""
    axes.plot(epochs, values, color=color, marker=".")
    axes.plot(epochs[place], values[place], color=color, marker=marker, markersize=9, linestyle="", label=label)
    axes.legend(fontsize=SMALL)


def _plain(axes: Axes, grid: Literal["both", "x"] = "both") -> None:
    """Light grid behind the data, no frame above and on the right."""
    axes.grid(axis=grid, color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _point(axes: Axes, place: np.ndarray, text: str) -> None:
    """A marked point of a curve, (2,) right and up, with its threshold."""
    right, up = place.tolist()
    axes.plot(right, up, color=VERMILLION, marker="o", markersize=4)
    axes.annotate(text, (right, up), xytext=(-4, -10), textcoords="offset points", fontsize=SMALL, ha="right")


def _exact_interval(score_bin: Mapping[str, Any]) -> tuple[float, float]:
    """Interval of a bin's precision at 95 %."""
    interval = binomtest(round(score_bin["precision"] * score_bin["count"]), score_bin["count"]).proportion_ci(
        0.95, method="exact"
    )
    return interval.low, interval.high


def _columns(curve: Sequence[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Epochs and values of a curve."""
    epochs, values = zip(*curve, strict=True)
    return np.array(epochs), np.array(values)
