"""Records with the entities found in them: those of the pipeline, for texts and for words."""

from collections.abc import Callable
from typing import Any

import pytest

from hf_spanner import SpanNERPipeline
from hf_spanner.data.answers import answered_records, record_problem

TEXT = "Mira Stone works for the Bank of Oslo."
WORDS = ["Ana", "met", "Bo"]


def test_texts_and_words_get_the_entities_of_the_pipeline_in_their_order(
    random_tagger: Callable[..., SpanNERPipeline],
) -> None:
    """Offsets are characters of a text, whose words are told too, and words of a list."""
    ner = random_tagger("boundary_smoothing")
    both = {"text": "Ana met  Bo", "tokens": WORDS}
    records = [{"tokens": WORDS, "id": "x"}, {"text": TEXT}, {"text": ""}, {"tokens": []}, both]
    first, second, *empty, last = answered_records(ner, records)
    assert record_problem(both) is None
    assert last == {**both, "entities": first["entities"]}
    (words,), (text,) = ner([WORDS], pretokenized=True), ner([TEXT])
    assert first["id"] == "x"
    assert [(e["start"], e["end"], e["score"]) for e in first["entities"]] == [
        (e["word_start"], e["word_end"], pytest.approx(e["score"])) for e in words
    ]
    assert "word_start" not in first["entities"][0]
    assert second["entities"] == [
        {"label": e["entity_group"], "text": e["word"], "score": pytest.approx(e["score"])}
        | {name: e[name] for name in ("start", "end", "word_start", "word_end")}
        for e in text
    ]
    assert [TEXT[e["start"] : e["end"]] for e in second["entities"]] == [e["text"] for e in second["entities"]] != []
    assert [record["entities"] for record in empty] == [[], []]


def test_texts_and_words_of_one_document_are_context_to_each_other(
    random_tagger: Callable[..., SpanNERPipeline],
) -> None:
    """In hyphenated words too, which the model's configuration splits."""
    ner = random_tagger("boundary_smoothing", context_sentences=1, split_hyphens=True)
    texts = [{"text": text, "document": "d"} for text in (TEXT, "Ana met Bo-Oslo", "It rained .")]
    words = {"tokens": ["Ana", "met", "Bo", "-", "Oslo"], "document": "d"}
    mixed = answered_records(ner, [texts[0], words, texts[2]])
    assert [mixed[0], mixed[2]] == answered_records(ner, texts)[::2] != answered_records(ner, texts[::2])


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({}, "fields is [] (type); allowed: text or tokens"),
        ({"text": "a b", "tokens": ["a"]}, "text is 'a b' (two truths); allowed: a text of the words of tokens, ['a']"),
        ({"text": 7}, "text is 7 (type); allowed: a string"),
        ({"tokens": "a"}, "tokens is 'a' (type); allowed: a list of strings"),
        ({"tokens": [1]}, "tokens"),
    ],
)
def test_a_record_has_a_text_or_words(record: dict[str, Any], words: str) -> None:
    problem = record_problem(record)
    assert problem is not None
    assert words in str(problem)
    assert record_problem({"text": ""}) is None
    assert record_problem({"tokens": []}) is None
    assert record_problem({"text": None, "tokens": None}) is not None


def test_null_is_as_good_as_none(random_tagger: Callable[..., SpanNERPipeline]) -> None:
    records = [{"text": TEXT, "tokens": None}, {"text": None, "tokens": WORDS}]
    assert [record_problem(record) for record in records] == [None, None]
    expected = answered_records(ner := random_tagger("boundary_smoothing"), [{"text": TEXT}, {"tokens": WORDS}])
    answered = answered_records(ner, records)
    assert [record["entities"] for record in answered] == [record["entities"] for record in expected]
