"""Which of several overlapping spans stay: flat, nested or any, with one order of preference."""

from collections.abc import Iterable, Mapping

import numpy as np

from hf_spanner.core.spans import Span

POLICIES = ("flat", "nested", "any")


def resolve_overlaps(
    spans: Iterable[Span], *, policy: str, id2label: Mapping[int, str], multi_label: bool = False
) -> list[Span]:
    """Spans that survive a greedy choice by score, each (start, end, label) once.

    Order of preference: higher score, then longer, then earlier, then label name. `flat` keeps spans without a shared
    word, `nested` also spans inside one another but none that cross, `any` all. Each accepted or refused span costs
    time in proportion to its length, so the whole is near-linear in the number of spans.

    Args:
        spans: Candidates of one text, in any order, repeats allowed.
        policy: `flat`, `nested` or `any`.
        id2label: Label names by index; ties are broken by name.
        multi_label: Keep several labels of one (start, end); otherwise only the first in the order of preference stays.

    Returns:
        Kept spans by start, then longer first, then label name.

    Raises:
        ValueError: If the policy is unknown.
    """
    if policy not in POLICIES:
        raise ValueError(f"overlap must be one of {', '.join(POLICIES)}, got {policy!r}")
    ranked = sorted(spans, key=lambda span: (-span.score, span.start - span.end, span.start, id2label[span.label]))
    unique: dict[tuple[int, ...], Span] = {}
    for span in ranked:
        unique.setdefault(span[:3] if multi_label else span[:2], span)
    kept = list(unique.values())
    if policy != "any" and len(kept) > 1:
        kept = _without_clashes(kept, policy)
    return sorted(kept, key=lambda span: (span.start, -span.end, id2label[span.label]))


def _without_clashes(ranked: list[Span], policy: str) -> list[Span]:
    """Spans of the ranked list that clash with none accepted before them."""
    num_words = max(span.end for span in ranked)
    covered = np.zeros(num_words, dtype=bool)
    furthest_end = np.zeros(num_words + 1, dtype=np.int64)  # the furthest end of accepted spans by start
    nearest_start = np.full(num_words + 1, num_words, dtype=np.int64)  # the nearest start of accepted spans by end
    kept = []
    for span in ranked:
        start, end = span.start, span.end
        if policy == "flat":
            clashes = covered[start:end].any()
        else:
            inside = slice(start + 1, end)
            clashes = end - start > 1 and (furthest_end[inside].max() > end or nearest_start[inside].min() < start)
        if clashes:
            continue
        kept.append(span)
        covered[start:end] = True
        furthest_end[start] = max(furthest_end[start], end)
        nearest_start[end] = min(nearest_start[end], start)
    return kept
