"""Damaged files: an error names file and line; what is left out on request is counted, and nothing is lost."""

import codecs
import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.core.words import split_words
from hf_spanner.data.brat import OTHER_LINE
from hf_spanner.data.lines import has_bare_return
from hf_spanner.data.policy import ReadReport
from hf_spanner.data.readers import read_rows

CONLL = b"""-DOCSTART- -X- O

Ana NNP B-PER
Holt NNP I-PER
met VBD O

Bo NNP B-PER
\tin\tIN\tO
Oslo NNP B-LOC
Caf\xc3\xa9 NNP B-ORG

"""
TSV = b"Lake Tarn\tB-LOC\r\nis\tO\r\n\r\n#7\tB-ID\r\n\r\nBo\tB-PER\r\nLi\tI-PER"
COMMENTED = b"""# newdoc id = d
# sent_id = 1
# text = Ana Holt met
Ana\tNNP\tB-PER
Holt\tNNP\tI-PER
#met\tVBD\tO

# sent_id = 2
#7\tCD\tB-ID
Caf\xc3\xa9\tNNP\tB-ORG

# the end
"""
OLD = b"Ana B-PER\rHolt I-PER\rmet O\r\rBo B-PER\r\r-DOCSTART- O\r\rCaf\xc3\xa9 B-ORG\r"
JSONL = b"""{"tokens": ["Ana", "met", "Bo"], "entities": [{"start": 0, "end": 1, "label": "PER"}], "id": 3}
{"text": "Ana met Bo in Caf\xc3\xa9 Luna", "entities": [[0, 3, "PER"], {"start": 14, "end": 23, "label": "ORG"}]}
{"tokens": ["Ana", "met"], "ner_tags": ["B-PER", "O"], "document": "d"}
{"tokenized_text": ["Lake", "Tarn"], "ner": [[0, 1, "LOC"]]}
{"text": "\\ud83c\\udf89 Oslo", "entities": [[2, 6, "LOC"]]}
"""
TEXT = b"Ana and Bo Holt met in Oslo.\nNew\nHaven is calm.\r\nCaf\xc3\xa9 Luna\n"
ANNOTATION = b"""T1\tPER 0 3\tAna
T2\tPER 8 15\tBo Holt
T3\tLOC 23 27\tOslo
T4\tLOC 29 32;33 38\tNew Haven
R1\tKnows Arg1:T1 Arg2:T2
T5\tORG 49 58\tCaf\xc3\xa9 Luna
T6\tPER 0 3;8 10\tAna Bo
"""
ARRAY = b"[\n" + JSONL.strip().replace(b"\n", b",\n") + b"\n]\n"
PIECES = [b"\n", b"\n\n", b"\r\n", b"\r", b"\t", b" ", b"\xff", b"\xc3", b"\x00", b"O", b"B-X", b"I-PER"]
PIECES += [b"-DOCSTART-", b"0", b"-1", b"{", b"}", b"[", b"]", b'"', b",", b"null", b"1e400", b'"text"', b";", b"T9\t"]
PIECES += [b"\\ud800", codecs.BOM_UTF8, b"9" * 5000]


@st.composite
def mutations(draw: st.DrawFn) -> list[tuple[str, float, bytes]]:
    """What to do, where to do it (as a share of the file or of its lines), and with which bytes."""
    actions = ("replace", "insert", "delete", "cut", "drop line", "repeat line", "swap lines", "cut line")
    pieces = st.one_of(st.sampled_from(PIECES), st.binary(min_size=1, max_size=3))
    return draw(st.lists(st.tuples(st.sampled_from(actions), st.floats(0, 1), pieces), min_size=1, max_size=4))


def mutated(data: bytes, changes: list[tuple[str, float, bytes]]) -> bytes:
    for action, share, piece in changes:
        place, lines = int(share * len(data)), data.split(b"\n")
        row = int(share * (len(lines) - 1))
        if action == "cut":
            data = data[:place]
        elif action == "drop line":
            data = b"\n".join(lines[:row] + lines[row + 1 :])
        elif action == "repeat line":
            data = b"\n".join([*lines[: row + 1], *lines[row:]])
        elif action == "swap lines":
            lines[row], lines[0] = lines[0], lines[row]
            data = b"\n".join(lines)
        elif action == "cut line":
            lines[row] = lines[row][: len(lines[row]) // 2]
            data = b"\n".join(lines)
        else:
            end = {"insert": place, "replace": place + len(piece), "delete": place + len(piece)}[action]
            data = data[:place] + (b"" if action == "delete" else piece) + data[end:]
    return data


def text_of(data: bytes) -> str | None:
    """The text of a file, or None if the file is not text."""
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError:
        return None


def num_records(data: bytes) -> int:
    """The number of lines of a JSON lines file that are not blank."""
    return sum(bool(line.strip()) for line in (text_of(data) or "").split("\n"))


def num_sentences(data: bytes) -> int:
    """The number of runs of lines of a column file between blank lines and marks."""
    count, is_inside = 0, False
    text = text_of(data) or ""
    for line in text.split("\n") if "\n" in text else text.removesuffix("\r").split("\r"):
        has_word = bool(line.strip()) and (line.split()[0] != "-DOCSTART-" or has_bare_return(line))
        count += has_word and not is_inside
        is_inside = has_word
    return count


FILES = {
    "a.conll": (CONLL, num_sentences),
    "a.tsv": (TSV, num_sentences),
    "a.conllu": (COMMENTED, num_sentences),
    "a.bio": (OLD, num_sentences),
    "a.jsonl": (JSONL, num_records),
}


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_right_before_they_are_damaged(name: str, tmp_path: Path) -> None:
    data, num_rows = FILES[name]
    (tmp_path / name).write_bytes(data)
    report = ReadReport()
    assert len(list(read_rows(tmp_path / name, report=report))) > 1
    assert report.num_rows == num_rows(data) - (name == "a.conllu")  # whose last comment stands alone
    assert report.counts == ({"skipped, comment line": 5} if name == "a.conllu" else {})


def test_an_array_gives_the_rows_of_its_lines(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(ARRAY)
    (tmp_path / "a.jsonl").write_bytes(JSONL)
    assert list(read_rows(tmp_path / "a.json")) == list(read_rows(tmp_path / "a.jsonl"))


@given(changes=mutations())
def test_a_damaged_array_is_read_or_names_file_and_line(
    changes: list[tuple[str, float, bytes]], tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(mutated(ARRAY, changes))
    assert_reads_or_names_the_place(lambda: read_rows(path), path)
    assert_reads_or_names_the_place(lambda: read_rows(path, on_error="drop"), path)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", FILES)
@given(changes=mutations())
def test_an_error_names_file_and_line_and_no_row_is_lost(
    changes: list[tuple[str, float, bytes]], name: str, packed: bool, tmp_path: Path
) -> None:
    data, num_rows = FILES[name]
    data = mutated(data, changes)
    path = tmp_path / (name + ".gz" if packed else name)
    path.write_bytes(gzip.compress(data, 1) if packed else data)
    assert_reads_or_names_the_place(lambda: read_rows(path), path)
    report = ReadReport()
    if assert_reads_or_names_the_place(lambda: read_rows(path, on_error="drop", report=report), path):
        num_comments = report.counts["skipped, comment line"]
        assert 0 <= num_rows(data) - report.num_rows - report.num_dropped_rows <= num_comments
        assert report.num_dropped_rows <= report.counts.total()
    else:
        assert text_of(data) is None or (report.num_rows == 0 < report.num_dropped_rows)


@given(changes=mutations())
def test_damaged_gzip_data_names_the_file(changes: list[tuple[str, float, bytes]], tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(mutated(gzip.compress(JSONL), changes))
    assert_reads_or_names_the_place(lambda: read_rows(path, on_error="drop"), path)


@given(changes=mutations(), damages_text=st.booleans())
def test_an_error_of_a_brat_pair_names_file_and_line_and_no_line_is_lost(
    changes: list[tuple[str, float, bytes]], damages_text: bool, tmp_path: Path
) -> None:
    """Every word of the text is in a row, and every line of the annotation an entity or a count."""
    text, annotation = (mutated(TEXT, changes), ANNOTATION) if damages_text else (TEXT, mutated(ANNOTATION, changes))
    (tmp_path / "a.txt").write_bytes(text)
    (tmp_path / "a.ann").write_bytes(annotation)
    assert_reads_or_names_the_place(lambda: read_rows(tmp_path / "a.ann"), tmp_path / "a")
    report, rows = ReadReport(), []
    if not assert_reads_or_names_the_place(
        lambda: read_rows(tmp_path / "a.ann", on_error="drop", report=report), tmp_path / "a", rows
    ):
        assert None in (text_of(text), text_of(annotation))
        return
    assert sum(len(row["tokens"]) for row in rows) == len(split_words(text_of(text) or ""))
    lines = [line.removesuffix("\r") for line in (text_of(annotation) or "").split("\n")]
    wanted = [line for line in lines if has_bare_return(line) or (line.strip() and not OTHER_LINE.match(line))]
    num_dropped = sum(count for reason, count in report.counts.items() if reason.startswith("dropped"))
    assert report.num_entities + num_dropped == len(wanted)


def assert_reads_or_names_the_place(read: Callable[[], object], path: Path, rows: list | None = None) -> bool:
    """Whether the rows could be read; if not, the error is ours and says where."""
    try:
        new_rows = list(read())  # type: ignore[call-overload]
    except ValueError as error:
        is_placed = re.match(rf"{re.escape(str(path))}\S*(, (after )?line \d+|: nothing could be read, )", str(error))
        if is_placed is None:
            raise
        return False
    if rows is not None:
        rows += new_rows
    for row in new_rows:
        assert all(0 <= entity["start"] < entity["end"] <= len(row["tokens"]) for entity in row["entities"])
    return True
