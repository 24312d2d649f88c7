"""How surfaces are annotated elsewhere: by hand, and against counting each occurrence anew."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.annotation.surfaces import MAX_WORDS, MIN_ELSEWHERE, Occurrence, occurrences
from hf_spanner.data.schema import sorted_entities


def row(text: str, *entities: tuple[int, int, str]) -> dict[str, Any]:
    return {"tokens": text.split(), "entities": sorted_entities(entities)}


def test_an_odd_one_out_by_hand() -> None:
    """Oslo is a LOC three times, an ORG once, and once nothing; in Oslo Bank it is a part and does not count."""
    rows = [row("Oslo", (0, 1, "LOC"))] * 3
    rows += [row("in Oslo", (1, 2, "ORG")), row("Oslo"), row("Oslo Bank", (0, 2, "ORG"))]
    found = occurrences(rows)
    assert [place.row for place in found] == [0, 1, 2, 3, 4]
    assert found[3] == Occurrence(3, 1, 2, "ORG", "LOC", 3, 4)
    assert found[3].share == 3.5 / 5
    assert found[4] == Occurrence(4, 0, 1, None, "LOC", 3, 4)
    assert found[0] == Occurrence(0, 0, 1, "LOC", "LOC", 2, 4)


def test_ties_go_to_the_first_name_and_nothing_comes_last() -> None:
    rows = [row("X", (0, 1, "B")), row("X", (0, 1, "A")), row("X"), row("X", (0, 1, "C"))]
    assert [place.usual for place in occurrences(rows)] == ["A", "B", "A", "A"]


def test_few_occurrences_say_nothing() -> None:
    assert occurrences([row("X", (0, 1, "A"))] * MIN_ELSEWHERE) == []
    assert len(occurrences([row("X", (0, 1, "A"))] * (MIN_ELSEWHERE + 1))) == MIN_ELSEWHERE + 1


def test_long_surfaces_are_left_out() -> None:
    words = " ".join("abcdefghi"[: MAX_WORDS + 1])
    assert occurrences([row(words, (0, MAX_WORDS + 1, "A"))] * 5) == []
    assert len(occurrences([row(words, (0, MAX_WORDS, "A"))] * 5)) == 5


def counted(rows: list[dict[str, Any]]) -> list[Occurrence]:
    """The same, each place against all others one by one."""
    surfaces = {tuple(one["tokens"][e["start"] : e["end"]]) for one in rows for e in one["entities"]}
    places = []
    for number, one in enumerate(rows):
        for start in range(len(one["tokens"])):
            for end in range(start + 1, len(one["tokens"]) + 1):
                surface = tuple(one["tokens"][start:end])
                labels = [e["label"] for e in one["entities"] if (e["start"], e["end"]) == (start, end)]
                meets = any(e["start"] < end and start < e["end"] for e in one["entities"])
                if surface in surfaces and len(surface) <= MAX_WORDS and (labels or not meets):
                    places.append((number, start, end, surface, min(labels) if labels else None))
    found = []
    for place in places:
        number, start, end, surface, label = place
        counts = Counter(other[4] for other in places if other is not place and other[3] == surface)
        if counts.total() < MIN_ELSEWHERE:
            continue
        most = max(counts.values())
        usual = min((name for name in counts if counts[name] == most), key=lambda name: (name is None, name or ""))
        found.append(Occurrence(number, start, end, label, usual, most, counts.total()))
    return found


@st.composite
def corpora(draw: st.DrawFn) -> list[dict[str, Any]]:
    rows = []
    for _ in range(draw(st.integers(0, 8))):
        words = draw(st.lists(st.sampled_from("ab"), max_size=4))
        spans = [(s, e, label) for s in range(len(words)) for e in range(s + 1, len(words) + 1) for label in "XY"]
        entities = draw(st.lists(st.sampled_from(spans), max_size=3, unique=True)) if spans else []
        rows.append({"tokens": words, "entities": sorted_entities(entities)})
    return rows


@given(corpora())
def test_counting_once_equals_counting_each(rows: list[dict[str, Any]]) -> None:
    assert occurrences(rows) == counted(rows)
