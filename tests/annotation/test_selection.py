"""What to label next: worked by hand, and the queue against valuing every unit each time."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.annotation.selection import READING, Choice, selected_units


def row(text: str, document: str | None = None) -> dict[str, Any]:
    return {"tokens": text.split(), "document": document}


def entity(start: int, end: int, label: str, score: float) -> dict[str, Any]:
    return {"start": start, "end": end, "label": label, "score": score}


def test_the_order_by_hand() -> None:
    """Six words and 1.2 expected errors: m = .2. Each sentence has 2 words and costs 12.

    First: Oslo .5 + .4 = .9; Rome .4 + .4 = .8; the other Oslo .3 + .4 = .7. After Oslo the other one is worth
    .3 / 2 + .2 / 2 + .2 / 2 = .35, and Rome .4 + .2 / 2 + .2 = .7, since both share the word "in".
    """
    rows = [row("in Oslo"), row("in Rome"), row("in Oslo")]
    answers = [[entity(1, 2, "LOC", score)] for score in (0.5, 0.6, 0.7)]
    cost = 2 + READING
    first, second, third = selected_units(rows, answers, 5)
    assert first == Choice((0,), pytest.approx(0.9), cost)
    assert second == Choice((1,), pytest.approx(0.7), cost)
    assert third == Choice((2,), pytest.approx(0.3 / 2 + 0.2 / 4 + 0.2 / 2), cost)


def test_repeats_within_a_unit_count_less() -> None:
    """Twice the same sure surface has no doubt; of four words two are repeats of one: m (1 + 1/2 + 1/4 + 1)."""
    rows = [row("no no no yes"), row("x")]
    answers = [[], [entity(0, 1, "A", 0.5)]]
    by_rows = {choice.rows: choice.errors for choice in selected_units(rows, answers, 2)}
    assert by_rows[0,] == pytest.approx(0.1 * 2.75)
    assert by_rows[1,] == pytest.approx(0.5 + 0.1)


def test_spans_that_are_not_found_are_missed_with_their_probability() -> None:
    """Ana .2 wrong, and .3 that she is an ORG; the other row misses .4, and nothing where no alternative stands."""
    rows = [row("Ana ran"), row("in Oslo"), row("x y")]
    answers = [[entity(0, 1, "PER", 0.8)], [], []]
    spans = [[entity(0, 1, "PER", 0.8), entity(0, 1, "ORG", 0.3)], [entity(1, 2, "LOC", 0.4)], []]
    choices = selected_units(rows, answers, 3, alternatives=spans)
    assert [choice.rows for choice in choices] == [(0,), (1,), (2,)]
    assert [choice.errors for choice in choices] == pytest.approx([0.5, 0.4, 0.0])
    known = [{"tokens": ["Ana"], "entities": [entity(0, 1, "PER", 1.0), entity(0, 1, "ORG", 1.0)]}]
    first, second, _ = selected_units(rows, answers, 3, alternatives=spans, labelled=known)
    assert (first.rows, second.rows, second.errors) == ((1,), (0,), pytest.approx(0.25))


def test_the_second_error_of_a_sentence_is_worth_less() -> None:
    """One sentence of 8 words with errors .5 and .5, two of 2 words with one: 1 / 18 < sqrt(.5) / 12."""
    rows = [row("a b c d e f g h"), row("k l"), row("m n")]
    answers = [[entity(0, 1, "A", 0.5), entity(1, 2, "A", 0.5)], [entity(0, 1, "A", 0.5)], [entity(0, 1, "A", 0.5)]]
    assert [choice.rows for choice in selected_units(rows, answers, 3, alternatives=answers)] == [(1,), (2,), (0,)]


def test_long_texts_must_be_worth_their_words() -> None:
    rows = [row(" ".join(f"w{number}" for number in range(50))), row("a b")]
    answers = [[entity(0, 1, "A", 0.4)], [entity(0, 1, "A", 0.5)]]
    assert [choice.rows for choice in selected_units(rows, answers, 2)] == [(1,), (0,)]


def test_words_that_were_labelled_are_worth_less() -> None:
    rows = [row("a"), row("b"), row("c")]
    answers = [[], [], [entity(0, 1, "A", 0.5)]]
    known = [{"tokens": ["a"], "entities": []}]
    assert [choice.rows for choice in selected_units(rows, answers, 3, labelled=known)] == [(2,), (1,), (0,)]


def test_documents_are_chosen_as_wholes() -> None:
    rows = [row("a", "d"), row("b", "e"), row("c", "d"), row("e")]
    answers = [[], [entity(0, 1, "A", 0.9)], [entity(0, 1, "A", 0.1)], []]
    choices = selected_units(rows, answers, 9, whole_documents=True)
    assert [choice.rows for choice in choices] == [(0, 2), (1,), (3,)]
    assert [choice.cost for choice in choices] == [2 + 2 * READING, 1 + READING, 1 + READING]


def test_nothing_to_choose() -> None:
    assert selected_units([], [], 3) == []
    assert selected_units([row("")], [[]], 3) == []
    with pytest.raises(ValueError, match="number must be at least 1, got 0"):
        selected_units([], [], 0)
    with pytest.raises(ValueError, match="of 1 rows, got 0"):
        selected_units([row("a")], [], 1)
    with pytest.raises(ValueError, match="alternatives must be of 1 rows, got 0"):
        selected_units([row("a")], [[]], 1, alternatives=[])


def greedy(rows: list[dict[str, Any]], answers: list[Any], number: int) -> list[tuple[int, ...]]:
    """The same sentences, each valued anew for each choice."""
    doubts = sum(1 - one["score"] for entities in answers for one in entities)
    missed = doubts / max(1, sum(len(one["tokens"]) for one in rows))
    left = {place for place, one in enumerate(rows) if one["tokens"]}
    chosen: Counter[Any] = Counter()
    order = []
    while left and len(order) < number:
        values = {}
        for place in left:
            seen = Counter(chosen)
            errors = 0.0
            items: list[tuple[Any, float]] = [(word, missed) for word in rows[place]["tokens"]]
            for one in answers[place]:
                surface = tuple(rows[place]["tokens"][one["start"] : one["end"]])
                items.append(((surface, one["label"]), 1 - one["score"]))
            for name, worth in items:
                errors += worth / 2 ** seen[name]
                seen[name] += 1
            values[place] = errors**0.5 / (len(rows[place]["tokens"]) + READING)
        best = min(left, key=lambda place: (-values[place], place))
        left.remove(best)
        order.append((best,))
        names = set(rows[best]["tokens"])
        names |= {(tuple(rows[best]["tokens"][one["start"] : one["end"]]), one["label"]) for one in answers[best]}
        chosen.update(names)
    return order


@st.composite
def pools(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[Any]]:
    rows, answers = [], []
    for _ in range(draw(st.integers(0, 7))):
        words = draw(st.lists(st.sampled_from("abcde"), max_size=4))
        rows.append({"tokens": words})
        starts = draw(st.lists(st.integers(0, len(words) - 1), max_size=2, unique=True)) if words else []
        answers.append([entity(start, start + 1, "A", draw(st.integers(0, 8)) / 8) for start in starts])
    return rows, answers


@given(pools(), st.integers(1, 8))
def test_the_queue_chooses_as_valuing_all_each_time(pool: tuple[list[Any], list[Any]], number: int) -> None:
    rows, answers = pool
    assert [choice.rows for choice in selected_units(rows, answers, number)] == greedy(rows, answers, number)
