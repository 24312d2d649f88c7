import gzip

import pytest

from hf_spanner.data.columns import column_rows


def sentences(path, reading):
    return [
        {"tokens": row["tokens"], "spans": [list(entity.values()) for entity in row["entities"]]}
        for row in column_rows(path, reading)
    ]


def written(tmp_path, text, name="a.conll"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_without_marks_the_document_is_unknown(tmp_path, reading):
    path = written(tmp_path, "a O\n\nb O\n")
    assert [row["document"] for row in column_rows(path, reading())] == [None, None]


def test_documents_are_named_after_the_whole_file_name(tmp_path, reading):
    paths = [written(tmp_path, "-DOCSTART- O\n\na O\n", name) for name in ("eng.testa", "eng.testb")]
    documents = [row["document"] for path in paths for row in column_rows(path, reading())]
    assert documents == ["eng.testa-0", "eng.testb-0"]


@pytest.mark.parametrize("text", ["Oslo B-LOC\rBo B-PER\r\rx O\r", "-DOCSTART- O\rBo B-PER\r", "\rx O"])
def test_bare_carriage_returns_are_refused_or_dropped(tmp_path, reading, text):
    path = tmp_path / "a.conll"
    path.write_bytes(b"a O\r\n\r\n" + text.encode() + b"\n\nb O\r\r\n")
    with pytest.raises(ValueError, match=r"a\.conll, line 3: .*\(line end\); allowed: .*\\r\\n"):
        sentences(path, reading())
    lenient = reading(on_error="drop")
    assert [sentence["tokens"] for sentence in sentences(path, lenient)] == [["a"], ["b"]]
    assert lenient.report.counts == {"dropped, line end": 1}


def test_a_word_that_only_begins_like_a_mark_is_a_word(tmp_path, reading):
    path = written(tmp_path, "-DOCSTART-ing O\n")
    assert sentences(path, reading()) == [{"tokens": ["-DOCSTART-ing"], "spans": []}]


def test_words_keep_white_space_other_than_blank_and_tab(tmp_path, reading):
    path = written(tmp_path, "a\u00a0b \t B-X\n\u3000 O\n\u2028 O\n")
    assert sentences(path, reading()) == [{"tokens": ["a\u00a0b", "\u3000", "\u2028"], "spans": [[0, 1, "X"]]}]


def test_columns_are_chosen_from_either_end(tmp_path, reading):
    path = written(tmp_path, "1\tAna\tB-PER\tO\n2\tlives\tO\tO\n", "a.tsv")
    parsed = sentences(path, reading(token_column=1, tag_column=-2))
    assert parsed == [{"tokens": ["Ana", "lives"], "spans": [[0, 1, "PER"]]}]


def test_packed_tsv_is_cut_at_tabs(tmp_path, reading):
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b"Lake Tarn\tS-LOC\r\n"))
    assert sentences(path, reading()) == [{"tokens": ["Lake Tarn"], "spans": [[0, 1, "LOC"]]}]


@pytest.mark.parametrize(
    ("text", "options", "mentions"),
    [
        ("a\nb\n", {}, ["line 1", "missing column"]),
        ("a O\n", {"tag_column": 2}, ["line 1", "missing column"]),
        ("a O\n", {"token_column": 1}, ["line 1", "two different"]),
        ("a\tO\n\tO\n", {"delimiter": "tab"}, ["line 2", "empty word"]),
        ("Lake Tarn B-LOC\nis O\n", {}, ["line 2", "3 columns", 'delimiter="tab"']),
    ],
)
def test_malformed_lines_name_line_and_reason(tmp_path, reading, text, options, mentions):
    with pytest.raises(ValueError, match=r"a\.conll, ") as error:
        sentences(written(tmp_path, text), reading(**options))
    assert [part for part in mentions if part not in str(error.value)] == []


def test_dropping_leaves_out_the_sentence_of_a_malformed_line(tmp_path, reading):
    lenient = reading(on_error="drop")
    path = written(tmp_path, "a B-X\n\nb\nc O\n\nd 0\n\ne I-Y\n\nf B-X\n")
    kept = [{"tokens": ["a"], "spans": [[0, 1, "X"]]}, {"tokens": ["e"], "spans": []}]
    assert sentences(path, lenient) == [*kept, {"tokens": ["f"], "spans": [[0, 1, "X"]]}]
    assert lenient.report.counts == {
        "dropped, number of columns": 1,
        "dropped, unknown tag": 1,
        "dropped, ill-formed tags": 1,
    }


def test_a_file_without_words_has_no_rows(tmp_path, reading):
    assert sentences(written(tmp_path, "\n-DOCSTART- O\n \n"), reading()) == []
