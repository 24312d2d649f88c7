"""BRAT pairs, columns and Parquet."""

import pytest

from hf_spanner.data.policy import ReadReport
from hf_spanner.data.readers import read_rows
from hf_spanner.data.writers import save_rows


def row(words, *entities, document=None):
    spans = [{"start": start, "end": end, "label": label} for start, end, label in entities]
    return {"id": None, "document": document, "tokens": words.split(" "), "entities": spans}


ROWS = [
    row("The University of New York opened", (0, 5, "ORG"), (3, 5, "LOC"), document="a/b.1"),
    row("It rained .", document="a/b.1"),
    row("Ana 's U.S.-based firm", (0, 1, "PER"), (2, 3, "X"), document="c"),
]


def test_brat_folders_come_back_with_lines_and_documents(tmp_path):
    report = ReadReport()
    save_rows(ROWS, tmp_path / "brat", format="brat", report=report)
    assert (tmp_path / "brat" / "a" / "b.1.txt").read_text() == "The University of New York opened\nIt rained .\n"
    assert (tmp_path / "brat" / "a" / "b.1.ann").read_text() == (
        "T1\tORG 0 26\tThe University of New York\nT2\tLOC 18 26\tNew York\n"
    )
    assert list(read_rows(tmp_path / "brat", words="blanks")) == ROWS
    assert not report.counts


def test_brat_keeps_the_raw_text_and_counts_what_it_leaves_out(tmp_path):
    raw = row("Ana left", (0, 1, "PER")) | {"id": "7", "text": "Ana\nleft", "offsets": [(0, 3), (4, 8)]}
    report = ReadReport()
    rows = [raw, row(""), row("Bo", (0, 1, "a b"))]
    with pytest.raises(ValueError, match="a label without blanks"):
        save_rows(rows, tmp_path / "no", format="brat")
    assert list(tmp_path.iterdir()) == []
    save_rows(rows, tmp_path / "brat", format="brat", report=report, on_error="drop")
    assert (tmp_path / "brat" / "rows.txt").read_text() == "Ana left\n\nBo\n"
    assert report.counts == {
        "changed, rows without document written as one": 1,
        "left out, id of a row": 1,
        "left out, row without words": 1,
        "dropped, label": 1,
    }
    assert (report.num_rows, report.num_entities) == (2, 1)


@pytest.mark.parametrize("name", ["../x", "/x", "a//b", "", "./a"])
def test_documents_that_lead_out_of_the_folder_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match="stays in the folder"):
        save_rows([row("a", document=name)], tmp_path / "brat", format="brat")


def test_documents_never_overwrite_each_other(tmp_path):
    save_rows([row("a"), row("b", document="rows")], tmp_path / "brat", format="brat")
    assert [item["tokens"] for item in read_rows(tmp_path / "brat")] == [["b"], ["a"]]
    with pytest.raises(ValueError, match="document is 'a', allowed: a name of its own"):
        save_rows([row("a", document="a.ann/b"), row("a", document="a")], tmp_path / "no", format="brat")


@pytest.mark.parametrize("format", ["brat", "pubtator"])
def test_documents_that_are_torn_apart_are_refused(tmp_path, format):
    with pytest.raises(ValueError, match="must stand together"):
        save_rows([ROWS[0], ROWS[2], ROWS[1]], tmp_path / "out", format=format)


FLAT = [row("# a", (0, 1, "X"), document="d.tsv-0"), row("Lake Tarn", (0, 2, "LOC"), document="d.tsv-0")]


@pytest.mark.parametrize("scheme", ["IOB2", "IOB1", "IOBES", "BILOU", "BMES"])
@pytest.mark.parametrize("name", ["d.tsv", "d.conll"])
def test_columns_come_back_in_every_scheme(tmp_path, name, scheme):
    save_rows(FLAT, tmp_path / name, scheme=scheme)
    rows = list(read_rows(tmp_path / name, scheme=scheme))
    assert rows == [item | {"document": f"{name}-0"} for item in FLAT]


def test_columns_refuse_or_count_what_they_cannot_hold(tmp_path):
    blank = row("a", (0, 1, "X")) | {"tokens": ["New York"]}
    for bad, reason in ((ROWS[0], "overlap"), (blank, "word"), (row("a", (0, 1, "b c")), "label")):
        with pytest.raises(ValueError, match=rf"\({reason}\)"):
            save_rows([bad], tmp_path / "a.conll")
    report = ReadReport()
    save_rows([ROWS[0], blank, row(""), row("b")], tmp_path / "a.conll", on_error="drop", report=report)
    rows = list(read_rows(tmp_path / "a.conll"))
    assert [item["entities"] for item in rows] == [ROWS[0]["entities"][:1], []]
    assert (report.num_rows, report.num_entities) == (2, 1)
    assert report.counts == {"dropped, overlap": 1, "dropped, word": 2}
    save_rows([blank], tmp_path / "a.tsv")
    assert next(read_rows(tmp_path / "a.tsv"))["tokens"] == ["New York"]


def test_parquet_comes_back(tmp_path):
    save_rows(ROWS, tmp_path / "a.parquet")
    assert list(read_rows(tmp_path / "a.parquet")) == ROWS
