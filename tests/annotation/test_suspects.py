"""Suspects and their probabilities by hand; with so few suggestions r is .05 and scores are taken as they are."""

from typing import Any

import pytest

from hf_spanner.annotation.noise import LabelNoise
from hf_spanner.annotation.suspects import KINDS, Suspect, mean_predictions, reviewed
from hf_spanner.data.schema import sorted_entities

WORDS = [f"w{number}" for number in range(6)]


def row(*entities: tuple[int, int, str], words: list[str] | None = None) -> dict[str, Any]:
    return {"tokens": WORDS if words is None else words, "entities": sorted_entities(entities)}


def found(*entities: tuple[int, int, str, float]) -> list[dict[str, Any]]:
    return [{"start": start, "end": end, "label": label, "score": score} for start, end, label, score in entities]


def wrong(score: float, rate: float = 0.05) -> float:
    """Of true suggestions r is not annotated: r s / (r s + 1 - s)."""
    return rate * score / (rate * score + 1 - score)


def one(row_: dict[str, Any], *answers: list[dict[str, Any]], **options: Any) -> list[Suspect]:
    return reviewed([row_], [[answer] for answer in answers], policy=options.pop("policy", "flat"), **options).suspects


def test_means_of_two_models() -> None:
    first, second = found((0, 1, "A", 0.9), (2, 3, "B", 0.4)), found((0, 1, "A", 0.5))
    assert mean_predictions([[first], [second]]) == [found((0, 1, "A", 0.7), (2, 3, "B", 0.2))]
    with pytest.raises(ValueError, match=r"of the same rows, got \[1, 2\] rows"):
        mean_predictions([[first], [first, second]])
    with pytest.raises(ValueError, match="got"):
        mean_predictions([])


@pytest.mark.parametrize(
    ("annotated", "suggested", "kind"),
    [
        (None, (1, 2, "A"), "missed_entity"),
        ((1, 2, "B"), (1, 2, "A"), "wrong_label"),
        ((1, 3, "A"), (1, 2, "A"), "wrong_boundary"),
        ((0, 2, "A"), (1, 2, "A"), "wrong_boundary"),
        ((0, 3, "A"), (1, 2, "A"), "wrong_boundary"),
        ((0, 2, "B"), (1, 2, "A"), "wrong_boundary_and_label"),
    ],
)
def test_kinds_of_disagreement(annotated: Any, suggested: Any, kind: str) -> None:
    (suspect,) = one(row(*filter(None, [annotated])), found((*suggested, 0.8)))
    assert suspect == Suspect(0, kind, pytest.approx(wrong(0.8)), annotated, suggested, 0.8)
    assert wrong(0.8) == pytest.approx(0.04 / 0.24)
    assert kind in KINDS


def test_agreement_is_no_suspect() -> None:
    assert one(row((1, 2, "A")), found((1, 2, "A", 0.6))) == []


def test_an_entity_that_no_model_gives_by_hand() -> None:
    """One entity is missing with .05 * .8 / .24 = 1/6, of 4 annotated: e = 1/24.

    Of the annotated, the models give two with .9, one with .3 that then loses against the .8, and one not at all. Where
    it is not given, F = 1/4: e / (e + (1 - e) / 4) = 4 / (4 + 23).
    """
    rows = [row((0, 1, "A"), (2, 3, "A"), (4, 5, "B")), row((0, 1, "A"))]
    answers = [found((0, 1, "A", 0.9), (2, 3, "A", 0.9), (3, 4, "C", 0.8)), found((0, 1, "A", 0.3), (2, 3, "D", 0.1))]
    review = reviewed(rows, [answers], policy="flat")
    by_kind = {suspect.kind: suspect for suspect in review.suspects if suspect.probability > 0.1}
    missed = 1 / 6 + wrong(0.1)
    added = missed / 4
    expected = added / (added + (1 - added) / 4)
    assert by_kind["no_entity"] == Suspect(0, "no_entity", pytest.approx(expected), (4, 5, "B"), None, 0.0)
    assert expected == pytest.approx(4 / 27, abs=0.02)
    assert review.noise == LabelNoise(0.05)


def test_a_weaker_suggestion_yields_to_what_is_annotated() -> None:
    """What is annotated has the better score, so there is nothing to say."""
    assert one(row((0, 2, "A")), found((0, 2, "A", 0.4)), found((1, 3, "B", 0.3))) == []
    (suspect,) = one(row((0, 2, "A")), found((0, 2, "A", 0.3)), found((1, 3, "B", 0.4)))
    assert (suspect.kind, suspect.annotated, suspect.suggested) == (
        "wrong_boundary_and_label",
        (0, 2, "A"),
        (1, 3, "B"),
    )
    assert suspect.score == 0.2


def test_whichever_label_is_right_an_entity_is_missing() -> None:
    """One model says A and the other B, with .6 each: together it is an entity with .6; .3 is the score of a label."""
    (suspect,) = one(row(), found((1, 2, "A", 0.6)), found((1, 2, "B", 0.6)))
    assert (suspect.kind, suspect.suggested, suspect.score) == ("missed_entity", (1, 2, "A"), 0.3)
    assert suspect.probability == pytest.approx(wrong(0.6))


def test_an_inner_entity_may_be_missing() -> None:
    answer = found((0, 3, "A", 0.9), (1, 2, "B", 0.8))
    (suspect,) = one(row((0, 3, "A")), answer, policy="nested")
    assert (suspect.kind, suspect.annotated, suspect.suggested) == ("missed_entity", None, (1, 2, "B"))
    assert one(row((0, 3, "A")), answer, policy="flat") == []


def test_an_odd_label_of_one_surface_by_hand() -> None:
    """Oslo is LOC in three rows and ORG in one: share (3 + .5) / 4 = .875, of which .05 * .875 / .16875 = .2593.

    The model gives the ORG with .4, so what is annotated is doubted with .6: .1556. A model that says LOC itself, with
    .9, is surer than the surface: 1 - .9 takes the ORG's place, and .045 / .145 = .3103.
    """
    rows = [row((0, 1, "LOC"), words=["Oslo"])] * 3 + [row((0, 1, "ORG"), words=["Oslo"])]
    agreeing = [found((0, 1, "LOC", 0.9))] * 3
    review = reviewed(rows, [[*agreeing, found((0, 1, "ORG", 0.4))]], policy="flat")
    (suspect,) = review.suspects
    assert (suspect.kind, suspect.row, suspect.annotated, suspect.suggested) == (
        "inconsistent",
        3,
        (0, 1, "ORG"),
        (0, 1, "LOC"),
    )
    assert suspect.probability == pytest.approx(0.25925926 * 0.6)
    assert suspect.elsewhere is not None
    assert (suspect.elsewhere.num_usual, suspect.elsewhere.num_elsewhere) == (3, 3)
    (suspect,) = reviewed(rows, [[*agreeing, found((0, 1, "LOC", 0.9))]], policy="flat").suspects
    assert (suspect.kind, suspect.probability) == ("wrong_label", pytest.approx(0.045 / 0.145))
    assert suspect.elsewhere is not None


def test_a_surface_left_out_once() -> None:
    """Nothing is annotated in the last row, no model gives it, and every annotated entity is given: no doubt at all."""
    rows = [row((0, 1, "LOC"), words=["Oslo"])] * 3 + [row(words=["Oslo"])]
    answers = [found((0, 1, "LOC", 0.9))] * 3
    (suspect,) = reviewed(rows, [[*answers, []]], policy="flat").suspects
    assert (suspect.kind, suspect.annotated, suspect.suggested) == ("inconsistent", None, (0, 1, "LOC"))
    assert suspect.probability == 0.0
    suspect = reviewed(rows, [[*answers[:2], [], []]], policy="flat").suspects[0]
    assert (suspect.row, suspect.kind) == (3, "inconsistent")
    assert suspect.probability == pytest.approx(wrong(0.875) / 3)  # a third of the annotated is given by no model


def test_a_surface_that_has_its_usual_label_beside_another_is_as_usual() -> None:
    rows = [row((0, 1, "GPE"), (0, 1, "LOC"), words=["Oslo"]), *[row((0, 1, "LOC"), words=["Oslo"])] * 8]
    suspects = reviewed(rows, [[[] for _ in rows]], policy="flat").suspects
    assert not [suspect for suspect in suspects if suspect.kind == "inconsistent"]


def test_the_most_probable_come_first_and_the_rate_may_be_given() -> None:
    rows = [row(), row(), row()]
    answers = [found((0, 1, "A", 0.3)), found((0, 1, "A", 0.9)), found((0, 1, "A", 0.3))]
    review = reviewed(rows, [answers], policy="flat", rate=0.5)
    assert [suspect.row for suspect in review.suspects] == [1, 0, 2]
    assert [suspect.probability for suspect in review.suspects] == pytest.approx(
        [wrong(0.9, 0.5), wrong(0.3, 0.5), wrong(0.3, 0.5)]
    )


def test_what_the_models_think_of_the_annotated_decides_where_they_say_it() -> None:
    """Of three annotated entities .05 * 3 = .15 are wrong, shared out by q = .9, .3 and .001 with the same odds l."""
    rows = [row((0, 1, "A"), (2, 3, "A"), (4, 5, "B"))]
    answer = found((0, 1, "A", 0.9), (2, 3, "A", 0.3), (2, 3, "B", 0.6), (3, 4, "C", 0.4), (5, 6, "C", 0.2))
    suspects = reviewed(rows, [[answer]], policy="flat", floor=0.001).suspects
    by_kind = {suspect.kind: suspect for suspect in suspects}
    assert set(by_kind) == {"missed_entity", "wrong_label", "no_entity"}
    assert by_kind["missed_entity"].probability == pytest.approx(0.02 / 0.62)
    assert (by_kind["wrong_label"].annotated, by_kind["wrong_label"].suggested) == ((2, 3, "A"), (2, 3, "B"))
    odds = [by_kind[kind].probability / (1 - by_kind[kind].probability) for kind in ("wrong_label", "no_entity")]
    assert odds[0] * 0.3 / 0.7 == pytest.approx(odds[1] * 0.001 / 0.999)  # the same l
    third = odds[0] * 0.3 / 0.7 * 0.1 / 0.9
    total = by_kind["wrong_label"].probability + by_kind["no_entity"].probability + third / (1 + third)
    assert total == pytest.approx(0.15)


def test_numbers_of_rows_must_agree() -> None:
    with pytest.raises(ValueError, match="of 2 rows, got 1"):
        reviewed([row(), row()], [[found()]], policy="flat")


def test_nothing_is_suspected_of_nothing() -> None:
    assert reviewed([], [[]], policy="flat").suspects == []
    assert reviewed([row()], [[[]]], policy="flat").suspects == []
