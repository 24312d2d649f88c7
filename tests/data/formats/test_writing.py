"""What all writers share."""

import pytest

from hf_spanner.data.formats.writing import Writing, entities_in_text, open_output, row_text
from hf_spanner.data.policy import ReadReport
from hf_spanner.data.schema import Problem

ROW = {"tokens": ["", "Ana"], "entities": [{"start": 0, "end": 1, "label": "X"}, {"start": 0, "end": 2, "label": "Y"}]}


def writing(on_error="error"):
    return Writing(on_error, "IOB2", ReadReport())


def test_an_entity_of_empty_words_is_refused_or_dropped_and_counted():
    text, offsets = row_text(ROW)
    with pytest.raises(ValueError, match=r'row 0: entities\[0\] is \[\'\'\] \(empty\).*on_error="drop"'):
        entities_in_text(ROW, text, offsets, "row 0", writing())
    lenient = writing("drop")
    list(lenient.counted([ROW]))
    assert [entity.text for entity in entities_in_text(ROW, text, offsets, "row 0", lenient)] == [" Ana"]
    assert (lenient.report.num_rows, lenient.report.num_entities) == (1, 1)
    assert lenient.report.counts == {"dropped, empty": 1}


@pytest.mark.parametrize(
    "row", [{"tokens": "Ana", "entities": []}, {"tokens": ["a"], "entities": [{"start": 0, "end": 2, "label": "X"}]}]
)
def test_rows_that_are_none_are_refused(row):
    with pytest.raises(ValueError, match=r"row 0 \(from 0\): "):
        list(writing("drop").counted([row]))


def test_what_a_format_leaves_out_is_counted():
    row = {"id": "7", "tokens": ["a"], "entities": [{"start": 0, "end": 1, "label": "X", "score": 0.1}], "text": "a"}
    some = writing()
    list(some.counted([row]))
    assert some.report.counts == {
        "left out, raw text beside the words": 1,
        "left out, scores of a row's entities": 1,
    }
    all_kept = writing()
    list(all_kept.counted([row], text=True, scores=True))
    assert not all_kept.report.counts


def test_a_problem_is_counted_by_its_reason():
    lenient = writing("drop")
    lenient.refuse("row 1", Problem("overlap", "entities[0]", 3, "none"))
    assert lenient.report.examples == {"dropped, overlap": ["row 1: entities[0] is 3 (overlap); allowed: none"]}


def test_packed_output_is_packed(tmp_path):
    with open_output(tmp_path / "a.gz") as file:
        file.write("a\n")
    assert (tmp_path / "a.gz").read_bytes()[:2] == b"\x1f\x8b"
