"""Overlap resolution against a quadratic twin that spells the rules out, and the trouble case on ties."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.core.overlap import resolve_overlaps
from hf_spanner.core.spans import Span

ID2LABEL = {0: "PER", 1: "LOC", 2: "ORG"}
SPANS = st.lists(
    st.builds(
        lambda start, length, label, score: Span(start, start + length, label, score),
        st.integers(0, 8),
        st.integers(1, 6),
        st.integers(0, 2),
        st.sampled_from([0.1, 0.5, 0.5000001, 0.9]),
    ),
    max_size=14,
)


def twin(spans: list[Span], policy: str, multi_label: bool) -> list[Span]:
    """The rules as sentences: the best candidate comes first, and nothing stays that clashes with what stands."""
    kept: list[Span] = []
    for span in sorted(
        spans,
        key=lambda candidate: (
            -candidate.score,
            -(candidate.end - candidate.start),
            candidate.start,
            ID2LABEL[candidate.label],
        ),
    ):
        words = set(range(span.start, span.end))
        clashes = False
        for other in kept:
            others = set(range(other.start, other.end))
            if words == others:
                clashes |= not multi_label or span.label == other.label or policy == "flat"
            elif policy == "flat":
                clashes |= bool(words & others)
            elif policy == "nested":
                clashes |= bool(words & others) and not (words < others or others < words)
        if not clashes:
            kept.append(span)
    return sorted(kept, key=lambda candidate: (candidate.start, -candidate.end, ID2LABEL[candidate.label]))


@given(SPANS, st.sampled_from(["flat", "nested", "any"]), st.booleans())
def test_same_as_the_twin(spans: list[Span], policy: str, multi_label: bool) -> None:
    resolved = resolve_overlaps(spans, policy=policy, id2label=ID2LABEL, multi_label=multi_label)
    assert resolved == twin(spans, policy, multi_label)


@given(SPANS, st.sampled_from(["flat", "nested", "any"]), st.randoms())
def test_order_of_candidates_does_not_matter(spans: list[Span], policy: str, shuffle: random.Random) -> None:
    shuffled = list(spans)
    shuffle.shuffle(shuffled)
    first, second = (resolve_overlaps(order, policy=policy, id2label=ID2LABEL) for order in (spans, shuffled))
    assert first == second


def test_ties_go_to_longer_then_earlier_then_label_name() -> None:
    shorter, longer = Span(0, 2, 0, 0.5), Span(1, 4, 0, 0.5)
    assert resolve_overlaps([shorter, longer], policy="flat", id2label=ID2LABEL) == [longer]
    later, earlier = Span(1, 3, 0, 0.5), Span(0, 2, 0, 0.5)
    assert resolve_overlaps([later, earlier], policy="flat", id2label=ID2LABEL) == [earlier]
    per, loc = Span(0, 2, 0, 0.5), Span(0, 2, 1, 0.5)
    assert resolve_overlaps([per, loc], policy="any", id2label=ID2LABEL) == [loc]


def test_no_candidates_and_unknown_policy() -> None:
    assert resolve_overlaps([], policy="nested", id2label=ID2LABEL) == []
    with pytest.raises(ValueError, match="overlap must be one of flat, nested, any, got 'greedy'"):
        resolve_overlaps([], policy="greedy", id2label=ID2LABEL)


def test_time_is_near_linear_in_the_number_of_candidates() -> None:
    """There are 40,000 short candidates; comparing each with each would take minutes."""
    generator = random.Random(1)
    spans = [
        Span(start, start + generator.randint(1, 5), 0, generator.random())
        for start in (generator.randrange(20_000) for _ in range(40_000))
    ]
    began = time.process_time()
    assert resolve_overlaps(spans, policy="nested", id2label=ID2LABEL)
    assert time.process_time() - began < 5
