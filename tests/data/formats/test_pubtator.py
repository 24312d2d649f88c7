"""PubTator's files."""

import pytest

from hf_spanner.data.policy import ReadReport
from hf_spanner.data.readers import read_rows
from hf_spanner.data.writers import save_rows


def test_a_file_of_the_package_bioc_is_read(tool_files, surfaces):
    report = ReadReport()
    rows = list(read_rows(tool_files / "pubtator.txt", format="pubtator", report=report))
    assert surfaces(rows) == [[("Disease", "Fever"), ("Place", "Oslo")], [("Disease", "fever")], [], []]
    assert [row["document"] for row in rows] == ["77", "77", "78", "78"]
    assert report.counts == {"skipped, relation": 1}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("77\t0\t5\tFevers\tDisease", r"line 3: surface is 'Fevers' \(surface\); allowed: 'Fever'"),
        ("77\t0\t500\tFever\tDisease", r"line 3: mention.*\(range\)"),
        ("77\t0\t5", r"line 3: line is .*number, start, end"),
        ("77\t-1\t5\tFever\tDisease\tD1", r"line 3: line is .*number, start, end"),
        ("78\t0\t5\tFever\tDisease", r"line 3: line is .*\(article\)"),
        ("77|a|fell", r"line 3: line is .*\(article\)"),
    ],
)
def test_malformed_lines_are_refused_or_dropped(line, message, tmp_path):
    path = tmp_path / "a.pubtator"
    path.write_text(f"77|t|Fever\n77|a|rose\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        list(read_rows(path))
    report = ReadReport()
    assert len(list(read_rows(path, on_error="drop", report=report))) == 2
    assert sum(report.counts.values()) == 1


def test_a_new_number_begins_an_article_without_a_blank_line(tmp_path):
    path = tmp_path / "a.pubtator"
    path.write_text("1|t|a\n1\t0\t1\ta\tX\n2|t|b\n2|a|c|d\n3|t|e\n3|a|\n", encoding="utf-8")
    rows = [(row["document"], "".join(row["tokens"])) for row in read_rows(path)]
    assert rows == [("1", "a"), ("2", "b"), ("2", "c|d"), ("3", "e")]


def test_an_article_without_title_is_refused(tmp_path):
    (tmp_path / "a.pubtator").write_text("77|a|rose\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"line 1: article is '77' \(form\)"):
        list(read_rows(tmp_path / "a.pubtator"))


def test_the_first_row_of_a_document_is_its_title(tmp_path):
    rows = [
        {"document": "7", "tokens": ["Fever", "!"], "entities": [{"start": 0, "end": 1, "label": "D"}]},
        {"document": "7", "tokens": ["It"], "entities": []},
        {"document": "7", "tokens": ["rose"], "entities": [{"start": 0, "end": 1, "label": "V"}]},
        {"id": "x", "tokens": ["Bo"], "entities": []},
    ]
    path = tmp_path / "a.pubtator"
    save_rows(rows, path)
    assert path.read_text(encoding="utf-8") == (
        "7|t|Fever !\n7|a|It rose\n7\t0\t5\tFever\tD\t-\n7\t11\t15\trose\tV\t-\n\nx|t|Bo\nx|a|\n\n"
    )
    assert [row["tokens"] for row in read_rows(path)] == [["Fever", "!"], ["It", "rose"], ["Bo"]]
    with pytest.raises(ValueError, match="a name without tabs"):
        save_rows([{"document": "a|b", "tokens": ["a"], "entities": []}], tmp_path / "b.pubtator")
