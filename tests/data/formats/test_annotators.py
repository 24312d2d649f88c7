"""Whose annotation is taken."""

import pytest

from hf_spanner.data.formats.annotators import Annotation, chosen_entities
from hf_spanner.data.texts import TextEntity


def annotation(name, *spans):
    return Annotation([name], [TextEntity("f", "x", [(start, end)], label) for start, end, label in spans])


A, B, C = (
    annotation("a", (0, 1, "X"), (2, 3, "Y")),
    annotation("b", (0, 1, "X"), (2, 3, "Z")),
    annotation("c", (2, 3, "Z")),
)


def spans(entities):
    return [(*entity.fragments[0], entity.label) for entity in entities]


def test_annotations_that_agree_are_one(reading):
    strict = reading()
    assert spans(chosen_entities([A, A], "f", strict)) == [(0, 1, "X"), (2, 3, "Y")]
    assert not strict.report.counts


def test_annotations_that_differ_are_refused_or_dropped_without_a_choice(reading):
    with pytest.raises(ValueError, match=r"annotators is \['a', 'b'\].*first"):
        chosen_entities([A, B], "f", reading())
    with pytest.raises(ValueError, match="allowed: predictions that agree"):
        chosen_entities([A, B], "f", reading(annotator="predictions"))
    lenient = reading(on_error="drop")
    assert chosen_entities([A, B], "f", lenient) is None
    assert (lenient.report.num_dropped_rows, lenient.report.counts) == (1, {"dropped, annotators": 1})


@pytest.mark.parametrize(("choice", "label"), [("first", "Y"), ("last", "Z"), ("a", "Y"), ("b", "Z")])
def test_a_choice_is_taken_and_the_others_are_counted(choice, label, reading):
    chosen = reading(annotator=choice)
    assert spans(chosen_entities([A, B], "f", chosen))[1] == (2, 3, label)
    assert chosen.report.counts == {"skipped, annotation of another annotator": 1}


def test_a_text_without_the_annotator_asked_for_is_dropped_and_counted(reading):
    chosen = reading(annotator=7)
    assert chosen_entities([A], "f", chosen) is None
    assert chosen.report.num_dropped_rows == 1
    assert spans(chosen_entities([annotation("7", (0, 1, "X"))], "f", chosen)) == [(0, 1, "X")]


def test_a_majority_is_more_than_half_and_the_others_are_counted(reading):
    chosen = reading(annotator="majority")
    assert spans(chosen_entities([A, B, C], "f", chosen)) == [(0, 1, "X"), (2, 3, "Z")]
    assert chosen.report.counts == {"dropped, entity of a minority of annotators": 1}
    assert spans(chosen_entities([A, B], "f", reading(annotator="majority"))) == [(0, 1, "X")]
