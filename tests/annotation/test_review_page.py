"""The page of suspects."""

import re

from hf_spanner.annotation.corrections import suspect_record
from hf_spanner.annotation.noise import LabelNoise
from hf_spanner.annotation.review_page import review_page, suspect_example
from hf_spanner.annotation.suspects import Suspect
from hf_spanner.data.schema import sorted_entities

WORDS = ["Ana", "of", "the", "<b>Bank</b>", "of", "Oslo", *(f"w{number}" for number in range(40))]
ROW = {"tokens": WORDS, "entities": sorted_entities([(0, 1, "LOC"), (2, 6, "ORG"), (5, 6, "LOC"), (16, 46, "ORG")])}
LABEL = suspect_record(Suspect(0, "wrong_label", 0.95, (0, 1, "LOC"), (0, 1, "PER"), 0.99), 1, ROW)
MISSED = suspect_record(Suspect(0, "missed_entity", 0.4, None, (3, 4, "PER"), 0.9), 2, ROW)


def test_both_sides_show_all_entities_around() -> None:
    annotated, suggested = suspect_example(LABEL, ROW, ["LOC", "ORG", "PER"]).marks
    assert (annotated.side, suggested.side) == ("annotated", "suggested")
    assert [entity.label for entity in annotated.view.entities] == ["LOC", "ORG", "LOC"]
    assert [(entity.label, entity.score) for entity in suggested.view.entities] == [
        ("PER", 0.95),
        ("ORG", None),
        ("LOC", None),
    ]
    assert annotated.view.text == suggested.view.text == " ".join([*WORDS[:13], "…"])


def test_an_entity_at_the_edge_is_shown_whole() -> None:
    """Twelve words to the right of word 4 begin the long entity at 16 only if they reach over it; from 5 on they do."""
    record = suspect_record(Suspect(0, "no_entity", 0.4, (5, 6, "LOC"), None, 0.0), 1, ROW)
    view = suspect_example(record, ROW, ["LOC"]).marks[0].view
    assert view.text == " ".join(WORDS)
    assert [entity.label for entity in view.entities] == ["LOC", "ORG", "LOC", "ORG"]


def test_the_page_stands_alone() -> None:
    page = review_page([LABEL, MISSED], [ROW], LabelNoise(0.021), {"Data": "x.jsonl"})
    text = " ".join(re.sub(r"<[^>]*>", " ", page).split())
    assert "1. 0.95 wrong label; row 0" in text
    assert "90% and more" in text
    assert "Kinds an entity is missing 1, wrong label 1" in text
    assert "Ranks 2 to 2" in text
    assert "30% to 50%" in text
    assert "Expected to be wrong 1" in text
    assert "2.1% of all entities" in text
    assert "&lt;b&gt;Bank&lt;/b&gt;" in page
    assert "<b>" not in page
    assert not re.search(r"<script|<link|https?://|url\(|@import", page)
