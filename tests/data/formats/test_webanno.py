"""WebAnno TSV 3, in the form in which INCEpTION writes it."""

import pytest

from hf_spanner.data.formats.webanno import unescaped

HEAD = "#FORMAT=WebAnno TSV 3.3\n"
NAMED = "#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value\n"
CUSTOM = "#T_SP=webanno.custom.Span|value\n"


FILE = (
    HEAD + NAMED + "#T_RL=webanno.custom.Rel|label|BT_webanno.custom.Span\n\n\n" + "#Text=\U0001f600 Ana Holt left.\n"
    "1-1\t0-2\t\U0001f600\t_\t_\t_\t_\t\n"
    "1-2\t3-6\tAna\t*[1]|*[2]\tPER[1]|NAME[2]\t_\t_\t\n"
    "1-3\t7-11\tHolt\t*[1]\tPER[1]\t_\t_\t\n"
    "1-4\t12-16\tleft\t_\t_\t_\t_\t\n"
    "1-5\t16-17\t.\t_\t_\t_\t_\t\n\n"
    "#Text=To Oslo\n"
    "2-1\t18-20\tTo\t_\t_\t_\t_\t\n"
    "2-2\t21-25\tOslo\t*\tLOC\\_x\t_\t_\t\n"
)


def test_numbers_join_tokens_and_stacked_values_are_entities_of_their_own(read):
    found, rows, report = read(FILE, details=True)
    assert found == [[("PER", "Ana Holt"), ("NAME", "Ana")], [("LOC_x", "Oslo")]]
    assert [row["text"] for row in rows] == ["\U0001f600 Ana Holt left.", "To Oslo"]
    assert {row["document"] for row in rows} == {"doc"}
    assert next(iter(report.formats.values())).startswith("WebAnno TSV 3, by '#FORMAT=WebAnno TSV 3.3'")


def test_an_entity_over_two_sentences_joins_them_and_is_counted(read):
    lines = "#Text=Ana\n1-1\t0-3\tAna\tX[1]\t\n\n#Text=left\n2-1\t4-8\tleft\tX[1]\t\n"
    found, _, report = read(HEAD + CUSTOM + "\n\n" + lines)
    assert found == [[("X", "Ana left")]]
    assert report.counts == {"changed, parts joined that an entity runs over": 1}


PIECE = HEAD + CUSTOM + "\n\n#Text=Osloer\n1-1\t0-6\tOsloer\t_\t\n1-1.1\t0-4\tOslo\tLOC\t\n"


def test_pieces_of_tokens_follow_the_choice(read):
    with pytest.raises(ValueError, match=r"line 7: webanno.custom.Span is 'Oslo' \(misaligned\)"):
        read(PIECE)
    found, _, report = read(PIECE, misaligned="widen")
    assert found == [[("LOC", "Osloer")]]
    assert report.counts == {"changed, misaligned entity widened to whole words": 1}


def test_spans_without_a_value_are_named_after_their_layer(read):
    text = HEAD + "#T_SP=webanno.custom.Person|\n\n\n#Text=Ana\n1-1\t0-3\tAna\t*\t\n"
    found, _, report = read(text)
    assert found == [[("Person", "Ana")]]
    assert report.counts == {"changed, span without value named after its layer": 1}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1-1 0-3 Ana", r"line 5: line is '1-1 0-3 Ana'"),
        ("1-1.1\t0-3\tAna\tX", "line 5: line is"),
        ("1-1\t0-3\tAna\tX\n1-2\t99999999997-100000000000\tAna\tX", "line 6: line is .* at most 7 digits"),
        ("1-1\t0-4\tAna\tX\t", r"line 5: offsets is \(0, 4\) \(surface\)"),
        ("1-1\t0-3\tAna\tX\t\n1-2\t2-4\tBo\t_\t", r"line 6: offsets is \(2, 4\)"),
    ],
)
def test_malformed_lines_are_refused(line, message, read):
    with pytest.raises(ValueError, match=message):
        read(HEAD + CUSTOM + f"\n#Text=Ana\n{line}\n")


def test_escapes_are_taken_off():
    assert unescaped(r"a\_b\[1\]\\c\td") == "a_b[1]\\c\td"
