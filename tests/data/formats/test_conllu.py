"""CoNLL-U Plus, and CoNLL-U with entities in MISC."""

import pytest

PLUS = """# global.columns = ID FORM UPOS X:NE
# newdoc id = d1
# sent_id = s1
# text = Don't\tleave Lake Tarn
1-2\tDon't\t_\t*
1\tDo\tVERB\t*
2\tn't\tADV\t*
3\tleave\tVERB\t*
4\tLake\tPROPN\tB-LOC
5\tTarn\tPROPN\tI-LOC

# sent_id = s2
1\tAna\tPROPN\tB-PER

"""
MISC = """# newdoc
1\tAna\tAna\tPROPN\t_\t_\t0\troot\t_\tNER=B-PER|SpaceAfter=No
2\t's\t's\tPART\t_\t_\t1\tcase\t_\t_
2.1\tleft\t_\t_\t_\t_\t_\t_\t_\t_

"""


def test_columns_are_known_by_name(read):
    found, rows, report = read(PLUS)
    assert found == [[("LOC", "Lake Tarn")], [("PER", "Ana")]]
    assert [(row["id"], row["document"]) for row in rows] == [("s1", "d1"), ("s2", "d1")]
    assert rows[0]["tokens"] == ["Do", "n't", "leave", "Lake", "Tarn"]
    assert report.counts == {"skipped, line of several words or of none": 1}
    assert "CoNLL-U Plus, by '# global.columns" in next(iter(report.formats.values()))


def test_the_words_are_those_of_the_package_conllu(read):
    conllu = pytest.importorskip("conllu")
    own = [[token["form"] for token in sentence if type(token["id"]) is int] for sentence in conllu.parse(PLUS)]
    assert [row["tokens"] for row in read(PLUS)[1]] == own


def test_keys_of_misc_are_read_where_the_format_is_given(read):
    found, rows, report = read(MISC, name="a.conllu", format="conllu")
    assert found == [[("PER", "Ana")]]
    assert rows[0]["document"] == "a.conllu-0"
    assert report.counts == {"skipped, line of several words or of none": 1}
    assert read(MISC, name="b.conllu", format="conllu", layer="NER")[0] == found
    with pytest.raises(ValueError, match="missing column"):
        read(MISC, name="c.conllu", format="conllu", layer="Entity")


def test_numbered_spans_may_overlap_and_have_gaps(read):
    lines = "1\tThe\t1:ORG\n2\tBank\t1\n3\tof\t_\n4\tOslo\t1;2:LOC\n\n"
    found, _, report = read("# global.columns = ID FORM NE\n" + lines, discontinuous="cover")
    assert found == [[("ORG", "The Bank of Oslo"), ("LOC", "Oslo")]]
    assert report.counts == {"changed, discontinuous (cover)": 1}
    with pytest.raises(ValueError, match=r"line 2: span is .*\(discontinuous\)"):
        read("# global.columns = ID FORM NE\n" + lines)


def test_malformed_lines_are_refused(read):
    with pytest.raises(ValueError, match=r"line 3: line is .*\(number of columns\)"):
        read("# global.columns = ID FORM NE\n1\tAna\tB-PER\n2\tleft\n")
    with pytest.raises(ValueError, match=r"line 2: line is .*one of them FORM"):
        read("# global.columns = ID WORD NER\n1\tAna\tO\n")
    with pytest.raises(ValueError, match=r"line 2: tag is 'X-PER' \(unknown tag\)"):
        read("# global.columns = ID FORM NE\n1\tAna\tX-PER\n")
