import pytest

from hf_spanner.data.brat import brat_rows


def surfaces(rows):
    return [
        (entity["label"], " ".join(row["tokens"][entity["start"] : entity["end"]]))
        for row in rows
        for entity in row["entities"]
    ]


def pair(folder, text, annotation, name="a"):
    (folder / f"{name}.txt").write_bytes(text.encode())
    path = folder / f"{name}.ann"
    path.write_bytes(annotation.encode())
    return path


def test_a_row_is_a_line_unless_an_entity_runs_over_its_end(case_files, reading):
    rows = list(brat_rows(case_files / "d08_a.txt", reading(discontinuous="drop")))
    assert [row["tokens"] for row in rows] == [
        ["Ana", "and", "Bo", "Holt", "met", "in", "Oslo", "."],
        ["New", "Haven", "is", "calm", "."],
    ]
    assert [row["document"] for row in rows] == ["d08_a", "d08_a"]
    assert rows[1]["entities"] == [{"start": 0, "end": 2, "label": "LOC"}]


def test_a_folder_is_read_in_order_with_its_subfolders(tmp_path, reading):
    (tmp_path / "b").mkdir()
    pair(tmp_path / "b", "Bo\n", "T1\tPER 0 2\tBo\n")
    pair(tmp_path, "\ufeffAna\r\n\r\nOslo", "T1\tPER 0 3\tAna\r\nT2\tLOC 7 11\tOslo\r\n")
    (tmp_path / "notes.txt").write_text("no annotation", encoding="utf-8")
    strict = reading()
    rows = list(brat_rows(tmp_path, strict))
    assert surfaces(rows) == [("PER", "Ana"), ("LOC", "Oslo"), ("PER", "Bo")]
    assert [row["document"] for row in rows] == ["a", "a", "b/a"]
    assert strict.report.counts == {"dropped, text without an .ann file": 1}


def test_a_byte_order_mark_that_offsets_count_is_kept(tmp_path, reading):
    path = pair(tmp_path, "\ufeffAna met Bo", "T1\tPER 9 11\tBo\n")
    assert surfaces(brat_rows(path, reading())) == [("PER", "Bo")]


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ("T1 PER 0 3 Ana", "line"),
        ("T1\tPER 0 3;\tAna", "line"),
        ("X1\tPER 0 3\tAna", "line"),
        ("Ana is a note", "line"),
        ("T1\tPER 0 2\tAna", "surface"),
        ("T1\tPER 0 30\tAna", "range"),
        (f"T1\tPER 0 {'9' * 5000}\tAna", "line"),
        ("T1\tPER 3 0\tAna", "empty"),
        ("T1\tPER 0 2\tAn", "misaligned"),
        ("#1\tNote T1\tx\rT1\tPER 0 3\tAna", "line end"),
    ],
)
def test_malformed_lines_are_refused_or_dropped(tmp_path, reading, annotation, reason):
    path = pair(tmp_path, "Ana met Bo", f"{annotation}\nT2\tPER 8 10\tBo\n")
    with pytest.raises(ValueError, match=rf"a\.ann, line 1.*\({reason}\)"):
        list(brat_rows(path, reading()))
    lenient = reading(on_error="drop")
    assert surfaces(brat_rows(path, lenient)) == [("PER", "Bo")]
    assert lenient.report.counts == {f"dropped, {reason}": 1}


def test_overlapping_fragments_are_one_entity_to_the_last_end(tmp_path, reading):
    path = pair(tmp_path, "New York City", "T1\tLOC 0 13;4 8\tNew York City York\nT2\tLOC 0 3;4 8\tNew York\n")
    strict = reading()
    assert surfaces(brat_rows(path, strict)) == [("LOC", "New York City"), ("LOC", "New York")]
    assert strict.report.counts == {"changed, overlapping fragments joined": 1}


def test_another_normal_form_is_named(tmp_path, reading):
    path = pair(tmp_path, "Zoe\u0308 met Ana", "T1\tPER 0 4\tZo\u00eb\n")
    with pytest.raises(ValueError, match="differ only in Unicode's normal form"):
        list(brat_rows(path, reading()))
    path = pair(tmp_path, "Zoe\u0308 met Ana", "T1\tPER 8 11\tAna\n")
    with pytest.raises(ValueError, match="offsets count the text in Unicode's normal form NFC"):
        list(brat_rows(path, reading()))


def test_a_link_inside_the_folder_is_read(tmp_path, reading):
    pair(tmp_path, "Ana", "T1\tPER 0 3\tAna\n", name="real")
    (tmp_path / "a.ann").symlink_to(tmp_path / "real.ann")
    (tmp_path / "a.txt").symlink_to(tmp_path / "real.txt")
    assert surfaces(brat_rows(tmp_path, reading())) == [("PER", "Ana"), ("PER", "Ana")]


def test_missing_partners_and_empty_folders_are_refused(tmp_path, reading):
    with pytest.raises(ValueError, match=r"no \.ann file"):
        list(brat_rows(tmp_path, reading()))
    pair(tmp_path, "Ana", "").with_suffix(".txt").unlink()
    with pytest.raises(ValueError, match=r"a\.txt does not exist"):
        list(brat_rows(tmp_path, reading()))


def test_what_is_no_entity_is_counted_by_its_kind(tmp_path, reading):
    others = "R1\tKnows Arg1:T1 Arg2:T1\nA1\tSure T1\nM1\tSure T1\nN1\tRef T1 x:1\tAna\n"
    others += "E1\tX:T1\n#1\tNote T1\ty\n*\tEquiv T1 T1\n"
    strict = reading()
    assert surfaces(brat_rows(pair(tmp_path, "Ana", f"T1\tPER 0 3\tAna\n{others}"), strict)) == [("PER", "Ana")]
    assert strict.report.counts == {
        "skipped, relation": 1,
        "skipped, attribute": 2,
        "skipped, normalisation": 1,
        "skipped, event": 1,
        "skipped, note": 1,
        "skipped, equivalence": 1,
    }
