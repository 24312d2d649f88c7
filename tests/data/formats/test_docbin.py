"""Files of spaCy, written by spaCy."""

import pytest

spacy = pytest.importorskip("spacy")
from spacy.tokens import DocBin, Span, SpanGroup  # noqa: E402

from hf_spanner.data.policy import ReadReport  # noqa: E402
from hf_spanner.data.readers import read_rows  # noqa: E402
from hf_spanner.data.writers import save_rows  # noqa: E402


def saved(path, *docs):
    DocBin(docs=docs, store_user_data=True).to_disk(path)
    return path


@pytest.fixture
def nlp():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    return nlp


def with_ents(doc, *spans):
    doc.set_ents([doc.char_span(start, end, label=label) for start, end, label in spans])
    return doc


def test_sentences_are_rows_and_white_space_is_no_word(nlp, tmp_path, surfaces):
    doc = with_ents(nlp("Ana Holt left.\n\nBo met her in Oslo."), (0, 8, "PER"), (16, 18, "PER"), (30, 34, "LOC"))
    rows = list(read_rows(saved(tmp_path / "a.spacy", doc)))
    assert surfaces(rows) == [[("PER", "Ana Holt")], [("PER", "Bo"), ("LOC", "Oslo")]]
    assert [row["tokens"] for row in rows][0] == ["Ana", "Holt", "left", "."]
    assert {row["document"] for row in rows} == {"a.spacy-0"}


def test_documents_without_annotation_are_dropped_and_those_without_entities_kept(nlp, tmp_path):
    report = ReadReport()
    path = saved(tmp_path / "a.spacy", nlp("Nobody looked."), with_ents(nlp("It rained.")), with_ents(nlp("")))
    assert [row["tokens"] for row in read_rows(path, report=report)] == [["It", "rained", "."], []]
    assert report.counts == {"dropped, document without annotation of entities": 1}


def test_layers_that_differ_want_a_choice(nlp, tmp_path, surfaces):
    doc = with_ents(nlp("The Bank of Oslo"), (0, 16, "ORG"))
    doc.spans["sc"] = [Span(doc, 1, 4, "ORG"), Span(doc, 3, 4, "LOC")]
    path = saved(tmp_path / "a.spacy", doc)
    with pytest.raises(ValueError, match=r"layers \['ents', 'sc'\] hold different entities"):
        list(read_rows(path))
    assert surfaces(read_rows(path, layer="ents")) == [[("ORG", "The Bank of Oslo")]]
    assert surfaces(read_rows(path, layer="sc")) == [[("ORG", "Bank of Oslo"), ("LOC", "Oslo")]]
    with pytest.raises(ValueError, match=r"layer is 'x', allowed: \['ents', 'sc'\]"):
        list(read_rows(path, layer="x"))


def test_scores_of_spancat_are_kept(nlp, tmp_path):
    doc = nlp("Ana left")
    doc.spans["sc"] = SpanGroup(doc, spans=[Span(doc, 0, 1, "PER")], attrs={"scores": [0.5]})
    (row,) = read_rows(saved(tmp_path / "a.spacy", doc), details=True)
    assert row["entities"] == [{"start": 0, "end": 1, "label": "PER", "score": 0.5}]


def test_a_file_that_is_none_of_spacys_is_refused(tmp_path):
    (tmp_path / "a.spacy").write_bytes(b"no")
    with pytest.raises(ValueError, match="is not a DocBin that spaCy can read"):
        list(read_rows(tmp_path / "a.spacy"))


ENTITIES = [
    {"start": 0, "end": 5, "label": "ORG", "score": 0.5},
    {"start": 3, "end": 5, "label": "LOC", "score": 0.25},
]


@pytest.mark.parametrize("text", ["The University of New York opened", "  The University of\nNew  York\n opened "])
def test_what_is_written_is_read_by_spacy_and_comes_back(text, tmp_path):
    words = text.split()
    starts = [text.index(word) for word in words]
    offsets = [(start, start + len(word)) for start, word in zip(starts, words, strict=True)]
    row = {"id": "7", "document": "d", "tokens": words, "entities": ENTITIES, "text": text, "offsets": offsets}
    report = ReadReport()
    save_rows([row, {"tokens": [], "entities": []}], tmp_path / "a.spacy", report=report)
    doc, empty = DocBin().from_disk(tmp_path / "a.spacy").get_docs(spacy.blank("en").vocab)
    assert doc.text == text
    assert [span.text.split() for span in doc.ents] == [["The", "University", "of", "New", "York"]]
    assert len(doc.spans["sc"]) == 2
    assert len(empty) == 0
    rows = list(read_rows(tmp_path / "a.spacy", details=True))
    assert rows[0] == row
    assert rows[1]["tokens"] == []
    assert (report.num_rows, report.num_entities) == (2, 2)


def test_rows_with_empty_words_are_refused_or_dropped(tmp_path):
    row = {"tokens": ["", "Ana"], "entities": [{"start": 1, "end": 2, "label": "X"}]}
    with pytest.raises(ValueError, match="empty word"):
        save_rows([row], tmp_path / "a.spacy")
    report = ReadReport()
    save_rows([row], tmp_path / "a.spacy", on_error="drop", report=report)
    assert (report.num_rows, report.num_entities, dict(report.counts)) == (0, 0, {"dropped, empty word": 1})
