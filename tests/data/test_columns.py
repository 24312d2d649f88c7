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


def test_a_file_with_bare_returns_alone_is_read_and_names_its_lines(tmp_path, reading):
    path = tmp_path / "a.conll"
    path.write_bytes(b"Oslo B-LOC\ris O\r\rBo B-PER\r")
    expected = [{"tokens": ["Oslo", "is"], "spans": [[0, 1, "LOC"]]}, {"tokens": ["Bo"], "spans": [[0, 1, "PER"]]}]
    assert sentences(path, reading()) == expected
    path.write_bytes(b"Oslo B-LOC\ris O\r\rBo\r")
    with pytest.raises(ValueError, match=r"a\.conll, line 4: "):
        sentences(path, reading())


ANA = [{"tokens": ["Ana", "met", "#Bo"], "spans": [[0, 1, "PER"], [2, 3, "PER"]]}]
COMMENTED = {
    "conllu": ("# newdoc id = d\n# sent_id = 1\n# text = Ana met #Bo O\n", "{0}\t{1}\t_\t{2}\n", (1, -1), "x.conllu"),
    "conllu_plus": ("# global.columns = ID FORM X NER\n# text = Ana\n", "{0}\t{1}\t_\t{2}\n", (1, -1), "x.conllup"),
    "universal_ner": ("# sent_id = a-1\n# text = Ana met #Bo\n", "{0}\t{1}\t{2}\t-\t-\n", (1, 2), "x.iob2"),
    "multiconer": ("# id 5239-1b2c\tdomain=en\n", "{1} _ _ {2}\n", (0, -1), "x.conll"),
    "germeval": ("#\thttp://de.wikipedia.org/wiki/Ana [2009-10-17]\n", "{0}\t{1}\t{2}\tO\n", (1, 2), "x.tsv"),
    "ontonotes": ("#begin document (bc/cctv/00/cctv_0000); part 000\n", "{0} {1} {2}\n", (1, 2), "x.conll"),
    "ontonotes_apart": ("#begin document (bc/a); part 000\n\n", "{0} {1} {2}\n", (1, 2), "x.conll"),
}


@pytest.mark.parametrize("name", COMMENTED)
@pytest.mark.parametrize("mode", ["auto", "skip"])
def test_comments_are_skipped_and_counted_and_words_with_the_sign_stay(tmp_path, reading, name, mode):
    comments, line, (token_column, tag_column), file = COMMENTED[name]
    words = [("1", "Ana", "B-PER"), ("2", "met", "O"), ("3", "#Bo", "B-PER")]
    text = comments + "".join(line.format(*word) for word in words)
    end = "\n#end document\n" if name.startswith("ontonotes") else "\n"
    path = written(tmp_path, (text + end) * 2, file)
    counted = reading(token_column=token_column, tag_column=tag_column, comments=mode)
    assert sentences(path, counted) == ANA * 2
    num_comments = 2 * (comments.count("#") - comments.count("#Bo") + end.count("#"))
    assert counted.report.counts == {"skipped, comment line": num_comments}
    assert counted.report.examples["skipped, comment line"][0].startswith(f"{path}, line 1: '#")
    with pytest.raises(ValueError, match=r"line \d+: "):
        sentences(path, reading(token_column=token_column, tag_column=tag_column, comments="keep"))


def test_comments_that_open_a_document_name_it(tmp_path, reading):
    for opening, file in (("#begin document (a); part 000", "o.conll"), ("# newdoc id = a", "u.conll")):
        path = written(tmp_path, f"{opening}\na O\n\nb O\n\n{opening}\nc O\n", file)
        documents = [row["document"] for row in column_rows(path, reading())]
        assert documents == [f"{file}-0", f"{file}-0", f"{file}-1"]


@pytest.mark.parametrize("mode", ["auto", "keep"])
@pytest.mark.parametrize("first", ["#Bo B-PER", "# O", "#\tO", "#begin O", "# B-PER"])
def test_a_word_that_begins_with_the_sign_stays_a_word_wherever_it_stands(tmp_path, reading, first, mode):
    path = written(tmp_path, f"{first}\nmet O\n\nin O\n{first}\n\n{first}\n")
    strict = reading(comments=mode)
    word = first.split()[0]
    assert [sentence["tokens"] for sentence in sentences(path, strict)] == [[word, "met"], ["in", word], [word]]
    assert strict.report.counts == {}


def test_a_comment_is_none_in_the_midst_of_a_sentence(tmp_path, reading):
    path = written(tmp_path, "Ana NNP B-PER\n# a comment of five words\nmet VBD O\n")
    with pytest.raises(ValueError, match=r'line 2: .*number of columns.*comments="skip" takes all lines'):
        sentences(path, reading())


def test_all_lines_with_the_sign_at_the_head_are_comments_if_asked(tmp_path, reading):
    path = written(tmp_path, "#text:Ana\n#O O\nAna B-PER\n#Bo B-PER\n")
    assert sentences(path, reading(comments="skip")) == [
        {"tokens": ["Ana", "#Bo"], "spans": [[0, 1, "PER"], [1, 2, "PER"]]}
    ]
    with pytest.raises(ValueError, match="line 1: line is '#text:Ana' .*2 columns"):
        sentences(path, reading())


def test_a_column_that_counts_the_words_is_none_of_words(tmp_path, reading):
    path = written(tmp_path, "# x\n1\tAna\tB-PER\n2-3\tdes\tO\n2\tde\tO\n3\tles\tO\n\n1\tBo\tO\n", "a.conllu")
    with pytest.raises(ValueError, match=r"line 2: token_column is 0 \(word numbers\); .*\['1', '2-3'.*=.conllu"):
        sentences(path, reading(on_error="drop"))
    assert sentences(written(tmp_path, "1 O\n2 O\n\n7 O\n"), reading())[0]["tokens"] == ["1", "2"]


def test_an_empty_word_keeps_its_place_and_is_counted(tmp_path, reading):
    counted = reading(delimiter="tab")
    assert sentences(written(tmp_path, "a\tO\n\tO\nBo\tB-PER\n"), counted) == [
        {"tokens": ["a", "", "Bo"], "spans": [[2, 3, "PER"]]}
    ]
    assert counted.report.counts == {"kept, empty word": 1}
