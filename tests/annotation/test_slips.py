"""Slips that are planted, and what is learned from them."""

from typing import Any

import numpy as np
import pytest

from hf_spanner.annotation.slips import Place, learned_slips, planted, planted_places
from hf_spanner.annotation.suspects import reviewed
from hf_spanner.data.schema import sorted_entities

LABELS = ("A", "B", "C")


def rows_of(number: int) -> list[dict[str, Any]]:
    """Rows of nine words with two entities each."""
    return [
        {"tokens": ["w"] * 9, "entities": sorted_entities([(1, 3, LABELS[row % 3]), (5, 7, LABELS[row % 2])])}
        for row in range(number)
    ]


def keys(rows: list[dict[str, Any]]) -> set[tuple[int, int, int, str]]:
    return {
        (n, entity["start"], entity["end"], entity["label"]) for n, row in enumerate(rows) for entity in row["entities"]
    }


def test_planted_slips_are_the_difference_and_of_three_kinds() -> None:
    rows = rows_of(60)
    changed, slips = planted(rows, 0.25, seed=3)
    wrong, true = {wrong for wrong, _ in slips if wrong is not None}, {true for _, true in slips}
    assert len(slips) == len(true) == 30
    assert keys(rows) - keys(changed) == true
    assert keys(changed) - keys(rows) == wrong
    for turn, (given, was) in enumerate(slips):
        if turn % 3 == 2:
            assert given is None
        elif turn % 3 == 1:
            assert given is not None
            assert given[3] == was[3]
            assert abs(given[1] - was[1]) + abs(given[2] - was[2]) == 1
        else:
            assert given is not None
            assert given[:3] == was[:3]
    assert planted(rows, 0.25, seed=3)[1] == slips
    assert planted(rows, 0.25, seed=4)[1] != slips


def test_what_cannot_be_changed_is_left_out() -> None:
    rows = [{"tokens": ["w"], "entities": [{"start": 0, "end": 1, "label": "A"}]}]
    assert planted(rows, 1.0, seed=0) == ([{"tokens": ["w"], "entities": []}], [(None, (0, 0, 1, "A"))])


def test_a_slip_is_named_by_the_wrong_or_by_the_true_entity() -> None:
    slips = [((0, 1, 3, "A"), (0, 1, 2, "A")), (None, (1, 4, 5, "B"))]
    places: list[Place] = [
        (0, (1, 3, "A"), None),
        (0, None, (1, 2, "A")),
        (1, None, (4, 5, "B")),
        (1, None, (4, 5, "A")),
        (1, (1, 3, "A"), (4, 6, "B")),
    ]
    assert planted_places(places, slips) == [0, 0, 1, None, None]


def test_too_few_slips_teach_nothing() -> None:
    rows, place = rows_of(10), (0, None, (3, 4, "A"))
    slips = learned_slips(rows, [[[] for _ in rows]], [place], lambda _: [place])
    assert slips.rate is None
    assert np.isnan(slips.probabilities).all()


@pytest.mark.parametrize("floor", [None, 0.002])
def test_slips_are_told_from_hard_cases(floor: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every fourth row a model is sure of another label than the one that is annotated, to which it gives some score
    where the annotation is right and none where it is a slip: by scores alone both are alike.
    """
    clean = rows_of(400)
    answers, changed, slips = [], [], set()
    for number, row in enumerate(clean):
        answer = [{**entity, "score": 0.9} for entity in row["entities"]]
        first = row["entities"][0]
        other = LABELS[(LABELS.index(first["label"]) + 1) % 3]
        if number % 4 == 0:  # a hard case
            answer = [{**first, "label": other, "score": 0.8}, {**first, "score": 0.15}, answer[1]]
        if number % 40 == 1:
            row = {**row, "entities": sorted_entities([(1, 3, other), (5, 7, row["entities"][1]["label"])])}
            answer[0]["score"] = 0.8
            slips.add(number)
        answers.append(answer)
        changed.append(row)
    suspects = reviewed(changed, [answers], policy="flat", floor=floor).suspects
    assert {suspect.row for suspect in suspects[: len(slips)]} == slips
    assert suspects[len(slips) - 1].probability > suspects[len(slips)].probability
    monkeypatch.setattr("hf_spanner.annotation.suspects.SLIP_WEIGHT", 0.0)
    suspects = reviewed(changed, [answers], policy="flat", floor=None).suspects
    assert {suspect.row for suspect in suspects[: len(slips)]} != slips
