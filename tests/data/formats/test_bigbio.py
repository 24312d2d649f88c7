"""Records in BigBio's schema of knowledge bases."""

import pytest
from datasets import Dataset

from hf_spanner.data.formats.bigbio import bigbio_rows
from hf_spanner.data.policy import ReadReport
from hf_spanner.data.readers import load_rows


def entity(offsets, label, *text):
    return {"id": "T", "type": label, "offsets": offsets, "text": list(text), "normalized": []}


def document(*entities, **fields):
    passages = [
        {"id": "1", "type": "title", "text": ["Fever in Oslo."], "offsets": [[0, 14]]},
        {"id": "2", "type": "abstract", "text": ["Acute and chronic fever."], "offsets": [[15, 39]]},
    ]
    return {"id": "0", "document_id": "77", "passages": passages, "entities": list(entities), **fields}


FEVER = entity([[0, 5]], "Disease", "Fever")
ACUTE = entity([[15, 20], [33, 38]], "Disease", "Acute", "fever")


def test_passages_are_rows_of_one_document(placed, reading, surfaces):
    strict = reading()
    rows = list(bigbio_rows(placed(document(FEVER, relations=[{"id": "r"}])), "f", strict))
    assert surfaces(rows) == [[("Disease", "Fever")], []]
    assert [row["document"] for row in rows] == ["77", "77"]
    assert strict.report.counts == {"skipped, relation": 1}


@pytest.mark.parametrize(
    ("policy", "entities"),
    [
        ("split", [("Disease", "Acute"), ("Disease", "fever")]),
        ("cover", [("Disease", "Acute and chronic fever")]),
        ("first", [("Disease", "Acute")]),
        ("drop", []),
    ],
)
def test_entities_in_pieces_follow_the_choice_and_are_counted(policy, entities, placed, reading, surfaces):
    with pytest.raises(ValueError, match=r"entities\[0\] is \[\(15, 20\), \(33, 38\)\] \(discontinuous\)"):
        list(bigbio_rows(placed(document(ACUTE)), "f", reading()))
    chosen = reading(discontinuous=policy)
    assert surfaces(bigbio_rows(placed(document(ACUTE)), "f", chosen))[1] == entities
    assert sum(chosen.report.counts.values()) == 1


def test_a_dataset_is_known_by_its_columns(surfaces):
    report = ReadReport()
    rows = load_rows(Dataset.from_list([document(FEVER), document(FEVER)]), report=report)
    assert surfaces(rows) == [[("Disease", "Fever")], []] * 2
    assert report.formats["dataset"].startswith("BigBio's records, by passages, entities")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (document() | {"passages": [{"text": ["a"], "offsets": [[0, 2]]}]}, "passages with text and offsets"),
        (document(entity([], "X")), r"entities\[0\] is \[\] \(empty\)"),
        (document(entity([[0, 4]], "X", "Oslo")), r"surface is 'Oslo'"),
        (document({"type": "X"}), r"entities\[0\] is \{'type'"),
    ],
)
def test_malformed_documents_are_refused_or_dropped(record, message, refused):
    refused(bigbio_rows, record, message)
