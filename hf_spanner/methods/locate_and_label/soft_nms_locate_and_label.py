"""Soft-NMS over spans (Shen et al. 2021, Algorithm 1)."""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from hf_spanner.core.overlap import resolve_overlaps
from hf_spanner.core.spans import Span


def after_soft_nms(spans: Sequence[Span], decoding: Mapping[str, Any], id2label: Mapping[int, str]) -> list[Span]:
    """Spans of one sentence that Soft-NMS keeps and that clash with none ahead of them.

    Where one (start, end) has several labels, the likeliest takes part for all, which stay or go together.

    Args:
        spans: Spans with the classifier's probabilities.
        decoding: `overlap` and the three settings of Soft-NMS.
        id2label: Label names by index.

    Returns:
        Spans with the scores that they came with.
    """
    labels: dict[tuple[int, int], list[Span]] = {}
    for span in sorted(spans, key=lambda span: -span.score):
        labels.setdefault(span[:2], []).append(span)
    best = [same[0] for same in labels.values()]
    bounds = np.array([span[:2] for span in best]).reshape(-1, 2)
    limits = {name: decoding[f"nms_{name}"] for name in ("iou", "decay", "threshold")}
    decayed_scores = soft_nms(bounds, np.array([span.score for span in best]), **limits).tolist()
    ranked = zip(best, decayed_scores, strict=True)
    decayed = [span._replace(score=score) for span, score in ranked if score >= 0]
    kept = resolve_overlaps(decayed, policy=decoding["overlap"], id2label=id2label)
    return [span for first in kept for span in labels[first[:2]]]


def soft_nms(spans: np.ndarray, scores: np.ndarray, *, iou: float, decay: float, threshold: float) -> np.ndarray:
    """Scores after each span has been decayed by the better ones that it overlaps.

    Spans are taken from a priority queue, the best first. Each taken span multiplies the score of every span left in
    the queue that it overlaps by at least `iou`. The queue ends with the first score that is not above the threshold.

    Args:
        spans: (K, 2) int, (start, end), half-open.
        scores: (K,) float.
        iou: k.
        decay: u.
        threshold: delta.

    Returns:
        (K,) float, the score at which a span was taken; -1 for a span that was not.
    """
    starts, ends = spans[:, 0], spans[:, 1]
    current = scores.astype(np.float64)
    taken = np.full(len(scores), -1.0)
    is_left = np.ones(len(scores), dtype=bool)
    # ties: the longer span, then the earlier
    rows = enumerate(zip(current, starts, ends, strict=True))
    queue = [(-score, start - end, start, place) for place, (score, start, end) in rows]
    heapify(queue)
    while queue:
        negative, *_, place = heappop(queue)
        if not is_left[place] or -negative != current[place]:
            continue  # its score has decayed since it was put there
        if current[place] <= threshold:
            break
        taken[place], is_left[place] = current[place], False
        inner = np.minimum(ends, ends[place]) - np.maximum(starts, starts[place])
        outer = np.maximum(ends, ends[place]) - np.minimum(starts, starts[place])
        for other in np.flatnonzero(is_left & (inner > 0) & (inner >= iou * outer)):
            current[other] *= decay
            heappush(queue, (-current[other], starts[other] - ends[other], starts[other], int(other)))
    return taken
