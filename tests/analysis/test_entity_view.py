"""Entities drawn in their text, and as displaCy's data."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner import EntityView, SpanNERPipeline
from hf_spanner.analysis.entity_view import COLOURS, label_colours, readable, with_rows

TEXT = "The University of New York opened"
NESTED = [
    {"entity_group": "ORG", "score": 0.5, "start": 4, "end": 26},
    {"entity_group": "LOC", "score": 1.0, "start": 18, "end": 26},
]


class Drawing(HTMLParser):
    """Reads a view back: its text, and for each line drawn its title, its row and the text above it."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[tuple[str, int]] = []
        self.lines: list[tuple[str, int, str]] = []
        self.text, self.names = "", ""
        self.is_name = False
        self.feed(markup)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "span":
            self.open.append((str(dict(attrs)["title"]), len(self.text)))
        self.is_name = tag == "bdi"

    def handle_endtag(self, tag: str) -> None:
        if tag == "span":
            title, start = self.open.pop()
            self.lines.append((title, start, self.text[start:]))
        self.is_name = False

    def handle_data(self, data: str) -> None:
        if self.is_name:
            self.names += data
        else:
            self.text += data


def test_nested_entities_have_lines_under_one_another_in_the_order_of_their_tags() -> None:
    view = EntityView(TEXT, NESTED)
    assert [(entity.label, entity.row) for entity in view.entities] == [("ORG", 1), ("LOC", 0)]
    drawing = Drawing(view.to_html())
    assert drawing.text == TEXT
    assert drawing.lines == [("LOC 1.000", 18, "New York"), ("ORG 0.500", 4, "University of New York")]
    assert drawing.names.split() == ["LOC", "1.00", "ORG", "0.50"]
    (_, _), (_, outer), (_, inner), *_ = drawing.tags
    assert "padding-bottom:5px" in str(outer["style"])
    assert "padding-bottom:0px" in str(inner["style"])


def test_a_higher_score_is_a_deeper_colour() -> None:
    scores = (0.0, 0.5, 1.0, None)
    views = [EntityView("Ana", [{"label": "PER", "start": 0, "end": 3, "score": score}]) for score in scores]
    depths = [re.findall(r"solid rgba\(0,114,178,(.+?)\)", view.to_html()) for view in views]
    assert depths == [["0.30"], ["0.65"], ["1.00"], ["1.00"]]


def test_crossing_entities_are_cut_where_they_cross_and_named_once() -> None:
    crossing = [{"label": "A", "start": 0, "end": 5}, {"label": "B", "start": 3, "end": 9}]
    drawing = Drawing(EntityView("abcdefghij", crossing).to_html())
    assert drawing.lines == [("A", 0, "abc"), ("A", 3, "de"), ("B", 3, "defghi")]
    assert drawing.names.split() == ["A", "B"]


@st.composite
def drawn_texts(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]]]:
    """Any text with any entities in it, also crossing, repeated and empty ones."""
    text = draw(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=20))
    border = st.integers(0, len(text))
    entity = st.tuples(border, border, st.sampled_from(["A", '<"&>', "C"]))
    return text, [
        {"start": min(a, b), "end": max(a, b), "label": label} for a, b, label in draw(st.lists(entity, max_size=6))
    ]


@given(drawn_texts())
def test_every_entity_is_drawn_whole_and_named_once_and_no_two_lines_meet(
    drawn: tuple[str, list[dict[str, Any]]],
) -> None:
    text, entities = drawn
    view = EntityView(text, entities)
    drawing = Drawing(view.to_html())
    assert drawing.text == text
    assert sorted(drawing.names.split()) == sorted(entity["label"] for entity in entities)
    covered = [(title, place) for title, start, line in drawing.lines for place in range(start, start + len(line))]
    assert sorted(covered) == sorted((e["label"], place) for e in entities for place in range(e["start"], e["end"]))
    for first, entity in enumerate(view.entities):
        for other in view.entities[first + 1 :]:
            if max(entity.start, other.start) < min(entity.end, other.end):
                assert entity.row != other.row


@given(drawn_texts())
def test_displacy_data_names_the_characters_of_every_entity(drawn: tuple[str, list[dict[str, Any]]]) -> None:
    text, entities = drawn
    data = EntityView(text, entities).to_displacy()
    assert len(data["spans"]) == sum(bool(text[e["start"] : e["end"]].strip()) for e in entities)
    for span in data["spans"]:
        tokens = data["tokens"][span["start_token"] : span["end_token"]]
        assert "".join("".join(tokens).split()) == "".join(text[span["start"] : span["end"]].split())
    ends = [0, *(entity["end"] for entity in data["ents"])]
    assert all(entity["start"] >= end for entity, end in zip(data["ents"], ends, strict=False))


def test_displacy_draws_both_of_its_styles() -> None:
    displacy = pytest.importorskip("spacy.displacy")
    data = EntityView(TEXT, NESTED).to_displacy()
    assert data["tokens"] == TEXT.split()
    assert [(span["start_token"], span["end_token"]) for span in data["spans"]] == [(1, 5), (3, 5)]
    assert data["ents"] == [{"start": 18, "end": 26, "label": "LOC"}]  # the better score
    flat = displacy.render(data, style="ent", manual=True, jupyter=False)
    assert flat.count("<mark") == 1
    nested = displacy.render(data, style="span", manual=True, jupyter=False)
    assert {"ORG", "LOC"} <= set(re.findall(r"[A-Z]{3}", nested))


def test_right_to_left_text_keeps_its_order_and_names_do_not_change_it() -> None:
    """The direction comes from the text; names are isolated from it; no box of its own takes a word out of its line."""
    text = "\u05d3\u05d5\u05d3 \u05d2\u05e8 \u05d1-Haifa"
    markup = EntityView(text, [{"label": "PER", "start": 0, "end": 3}]).to_html()
    drawing = Drawing(markup)
    assert drawing.tags[0][1]["dir"] == "auto"
    assert {tag for tag, _ in drawing.tags} == {"div", "span", "bdi"}
    assert "inline-block" not in markup
    assert "text-align:start" in markup


def test_the_view_needs_nothing_beside_it_and_keeps_the_colours_of_the_page() -> None:
    markup = EntityView(TEXT, NESTED).to_html()
    assert not re.search(r"<script|<style|<link|url\(|class=|http", markup)
    assert not re.search(r"[;\"]color:", markup)
    assert all("rgba(" in ground for ground in re.findall(r"background:([^;]+)", markup))
    assert EntityView(TEXT, NESTED)._repr_html_() == markup


def test_words_take_entities_of_rows_and_answers_of_pipelines(
    random_tagger: Callable[..., SpanNERPipeline],
) -> None:
    words = TEXT.split()
    rows = EntityView(words, [{"start": 3, "end": 5, "label": "LOC"}])
    assert [rows.text[entity.start : entity.end] for entity in rows.entities] == ["New York"]
    ner = random_tagger("boundary_smoothing", overlap="nested")
    for given_text, answers in ((TEXT, ner(TEXT)), (words, ner(words, pretokenized=True))):
        assert answers
        view = EntityView(given_text, answers)
        surfaces = [view.text[entity.start : entity.end] for entity in view.entities]
        assert sorted(surfaces) == sorted(answer["word"] for answer in answers)


@pytest.mark.parametrize("text", [TEXT, TEXT.split()], ids=["text", "words"])
def test_an_entity_outside_of_the_text_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match=r"entities must lie within the \d+ \w+ of the text, got .*99"):
        EntityView(text, [{"start": 3, "end": 99, "label": "LOC"}])


def test_a_label_has_one_colour_in_all_views() -> None:
    (org,) = {EntityView("Ana", [{"label": "ORG", "start": 0, "end": 3}], labels=["LOC", "ORG"]).colours["ORG"]}
    assert org == 1
    unknown = EntityView("Ana", [{"label": "NEW", "start": 0, "end": 3}], labels=["LOC", "ORG"])
    assert unknown.colours["NEW"] == 2
    colours = label_colours([f"L{place}" for place in range(len(COLOURS) + 1)])
    assert colours["L0"] == colours[f"L{len(COLOURS)}"] == 0


def test_what_no_file_can_hold_is_replaced() -> None:
    assert readable("a\ud800<b>").encode("utf-8") == b"a?&lt;b&gt;"


def test_rows_are_given_from_the_shortest_on() -> None:
    spans = [(0, 9, "A", None), (2, 4, "B", None), (5, 7, "C", None), (2, 4, "D", None)]
    assert [(entity.label, entity.row) for entity in with_rows(spans, 9)] == [("A", 2), ("B", 0), ("D", 1), ("C", 0)]
