"""From annotated texts to rows."""

import pytest

from hf_spanner.data.texts import AnnotatedText, TextEntity, lines_of, text_rows, words_of


def entity(start, end, label="X", surface=None, score=None):
    return TextEntity("f", "e", [(start, end)], label, surface, score)


def test_parts_are_rows_joined_where_an_entity_runs_over_a_border(reading):
    text = "Ana left.\nNew\nYork is far."
    annotated = AnnotatedText("f", text, [entity(10, 18)], id="i", document="d", parts=lines_of(text))
    rows = list(text_rows(annotated, reading(details=True)))
    assert [row["tokens"] for row in rows] == [["Ana", "left", "."], ["New", "York", "is", "far", "."]]
    assert rows[1]["entities"] == [{"start": 0, "end": 2, "label": "X"}]
    assert [row["text"] for row in rows] == ["Ana left.", "New\nYork is far."]
    for row in rows:
        assert [row["text"][start:end] for start, end in row["offsets"]] == row["tokens"]


def test_entities_in_any_order_go_to_their_parts(reading):
    annotated = AnnotatedText(
        "f", "a b\nc d\ne", [entity(8, 9), entity(4, 7), entity(0, 1), entity(6, 7)], parts=[0, 4, 8]
    )
    rows = list(text_rows(annotated, reading()))
    assert [[(e["start"], e["end"]) for e in row["entities"]] for row in rows] == [[(0, 1)], [(0, 2), (1, 2)], [(0, 1)]]


def test_words_before_the_first_part_are_not_lost(reading):
    rows = list(text_rows(AnnotatedText("f", "a b c", [], parts=[2, 4]), reading()))
    assert [row["tokens"] for row in rows] == [["a"], ["b"], ["c"]]


def test_words_are_those_of_the_file_or_what_blanks_part(reading):
    text = "Ana's U.S.-based\u00a0firm ,"
    assert [text[start:end] for start, end in words_of(text, reading(words="blanks").options)] == [
        "Ana's",
        "U.S.-based\u00a0firm",
        ",",
    ]
    given = AnnotatedText("f", "Ana's", [entity(0, 3)], words=[(0, 3), (3, 5)])
    assert next(text_rows(given, reading()))["tokens"] == ["Ana", "'s"]


def test_scores_are_kept_with_details_alone(reading):
    annotated = AnnotatedText("f", "Ana met", [entity(0, 3, score=0.5), entity(0, 3, score=0.4)])
    strict = reading(details=True)
    assert next(text_rows(annotated, strict))["entities"] == [{"start": 0, "end": 1, "label": "X", "score": 0.5}]
    assert strict.report.counts == {"dropped, repeated entity": 1}
    assert next(text_rows(annotated, reading()))["entities"] == [{"start": 0, "end": 1, "label": "X"}]


def test_units_of_utf_16_are_known_by_the_surfaces_after_an_emoji(reading):
    text = "Ana \U0001f600 Bo \U0001f600 Bo"
    units = reading()
    spans = [entity(0, 3, surface="Ana"), entity(7, 9, surface="Bo"), entity(13, 15, surface="Bo")]
    row = next(text_rows(AnnotatedText("f", text, spans), units))
    assert [item["start"] for item in row["entities"]] == [0, 2, 4]
    assert units.report.counts == {"changed, offsets in units of UTF-16 to characters": 1}
    characters = reading()
    spans = [entity(0, 3, surface="Ana"), entity(6, 8, surface="Bo"), entity(11, 13, surface="Bo")]
    assert len(next(text_rows(AnnotatedText("f", text, spans), characters))["entities"]) == 3
    assert not characters.report.counts
    with pytest.raises(ValueError, match="surface"):
        list(text_rows(AnnotatedText("f", text, [entity(1, 3, surface="Bo")]), reading()))


def test_an_entity_without_pieces_is_refused(reading):
    with pytest.raises(ValueError, match=r"e is \[\] \(empty\)"):
        list(text_rows(AnnotatedText("f", "Ana", [TextEntity("f", "e", [], "X")]), reading()))
