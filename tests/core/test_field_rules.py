"""What an annotation admits, how it reads, and that a class checks its fields whenever they are set."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pytest
from transformers import PreTrainedConfig

from hf_spanner.core.field_rules import (
    CheckedFields,
    Interval,
    Probability,
    ProbabilityByLabel,
    Size,
    admits,
    in_words,
    numbered_labels,
)


class Even:
    """A rule that is not one of ours."""

    def admits(self, value: int) -> bool:
        return value % 2 == 0

    def __str__(self) -> str:
        return "that is even"


HALF = Annotated[float, Interval(0, 0.5, excludes_highest=True)]
POSITIVE = Annotated[int, Interval(0, 10, excludes_lowest=True)]


@pytest.mark.parametrize(
    ("kind", "allowed", "refused", "words"),
    [
        (HALF, [0, 0.49], [-0.1, 0.5, float("nan"), "0", True, None, [0]], "a number in [0, 0.5)"),
        (POSITIVE | None, [1, 10, None], [0, 11, 1.0, True, False], "an integer in (0, 10], or None"),
        (Literal["flat", 1], ["flat", 1], ["any", True, 1.0, None, ["flat"]], "one of 'flat', 1"),
        (bool, [True, False], [0, 1, "true", None], "one of False, True"),
        (str, ["", "a"], [0, b"a", None], "a text"),
        (
            ProbabilityByLabel,
            [0, 1.0, {}, {"A": 0.5, "B": 1}],
            [2, {"A": 2}, {1: 0.5}, {"A": None}, [0.5], "0.5"],
            "a number in [0, 1], or one for each label",
        ),
        (Sequence[Probability], [[], [0, 1], (0.5,)], [[2], "01", {0: 1}, 0.5], "a list, each a number in [0, 1]"),
        (Annotated[int, Even()], [0, 4], [3, 4.0, True], "an integer that is even"),
        (Annotated[dict[str, Any], Even()], [], [[], None, {1: 2}], "a mapping that is even"),
    ],
)
def test_an_annotation_admits_what_it_says(kind: Any, allowed: list[Any], refused: list[Any], words: str) -> None:
    assert all(admits(kind, value) for value in allowed)
    assert not any(admits(kind, value) for value in refused)
    assert in_words(kind) == words


class First(CheckedFields, PreTrainedConfig):
    """Has two fields that have rules, and one that is free."""

    model_type = "first_of_the_test"

    width: Size = 3
    threshold: Probability = 0.5
    anything: Any = None


class Second(First):
    """Has another default, a narrower rule, and a field written as a text, as modules with postponed annotations do."""

    model_type = "second_of_the_test"

    width: Size = 5
    threshold: HALF = 0.25
    depth: "Size" = 1


def test_a_subclass_has_the_rules_of_both() -> None:
    assert set(First.field_rules) == {"width", "threshold"}
    assert set(Second.field_rules) == {"width", "threshold", "depth"}
    assert First(threshold=0.75).threshold == 0.75
    assert (Second().width, Second(anything=b"").anything) == (5, b"")
    for name, value in (("threshold", 0.75), ("width", 0), ("depth", 1.5)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            Second(**{name: value})


def test_a_refused_value_changes_nothing() -> None:
    config = Second(depth=2)
    with pytest.raises(ValueError, match=r"depth must be an integer in \[1, 65536\], got 0"):
        config.depth = 0
    config.width = 7
    config.output_hidden_states = True
    assert (config.depth, config.width, config.output_hidden_states) == (2, 7, True)


def test_labels_are_a_list_of_names_and_no_text() -> None:
    assert numbered_labels(["LOC", "PER"]) == {0: "LOC", 1: "PER"}
    assert numbered_labels(("L",)) == numbered_labels(["L"]) == {0: "L"}
    for text in ("LOC", "", b"LOC"):
        with pytest.raises(ValueError, match="labels must be a list of names"):
            numbered_labels(text)
