"""CAS files, written by dkpro-cassis."""

import zipfile

import pytest

cassis = pytest.importorskip("cassis")

from hf_spanner.data.formats.cas import SENTENCE, TOKEN  # noqa: E402
from hf_spanner.data.formats.layers import NAMED_ENTITY  # noqa: E402
from hf_spanner.data.policy import ReadReport  # noqa: E402
from hf_spanner.data.readers import read_rows  # noqa: E402

TEXT = "\U0001f600 Ana left. The Bank of Oslo"
OTHER = "webanno.custom.Other"


def made(*entities, others=()):
    types = cassis.TypeSystem()
    made_types = {name: types.create_type(name) for name in (TOKEN, SENTENCE, NAMED_ENTITY, OTHER)}
    for name in (NAMED_ENTITY, OTHER):
        types.create_feature(made_types[name], "value", "uima.cas.String")
    cas = cassis.Cas(typesystem=types)
    cas.sofa_string, cas.sofa_mime = TEXT, "text/plain"
    for start, end in ((0, 1), (2, 5), (6, 10), (10, 11), (12, 15), (16, 20), (21, 23), (24, 28)):
        cas.add(made_types[TOKEN](begin=start, end=end))
    for start, end in ((0, 11), (12, 28)):
        cas.add(made_types[SENTENCE](begin=start, end=end))
    for name, spans in ((NAMED_ENTITY, entities), (OTHER, others)):
        for start, end, value in spans:
            cas.add(made_types[name](begin=start, end=end, value=value))
    return cas


def saved(cas, folder, suffix):
    if suffix == ".json":
        cas.to_json(folder / "doc.json")
        return folder / "doc.json"
    cas.to_xmi(folder / "doc.xmi")
    cas.typesystem.to_xml(folder / "TypeSystem.xml")
    if suffix == ".zip":
        with zipfile.ZipFile(folder / "doc.zip", "w") as archive:
            for name in ("doc.xmi", "TypeSystem.xml"):
                archive.write(folder / name, name)
    return folder / f"doc{suffix}"


ENTITIES = [(2, 5, "PER"), (12, 28, "ORG"), (24, 28, "LOC")]


@pytest.mark.parametrize("suffix", [".xmi", ".zip", ".json"])
def test_sentences_are_rows_and_an_emoji_moves_nothing(suffix, tmp_path, surfaces):
    rows = list(read_rows(saved(made(*ENTITIES), tmp_path, suffix), format="cas"))
    assert surfaces(rows) == [[("PER", "Ana")], [("ORG", "The Bank of Oslo"), ("LOC", "Oslo")]]
    assert rows[0]["tokens"] == ["\U0001f600", "Ana", "left", "."]
    assert {row["document"] for row in rows} == {"doc"}


def test_another_layer_is_a_choice_and_the_one_left_is_counted(tmp_path, surfaces):
    path = saved(made((2, 5, "PER"), others=[(6, 10, None)]), tmp_path, ".xmi")
    report = ReadReport()
    assert surfaces(read_rows(path, report=report))[0] == [("PER", "Ana")]
    assert report.counts == {"skipped, layer": 1}
    report = ReadReport()
    assert surfaces(read_rows(path, layer="Other", report=report))[0] == [("Other", "left")]
    assert report.counts["changed, span without value named after its layer"] == 1


@pytest.mark.parametrize(("name", "text"), [("a.json", "{}"), ("a.json", "["), ("a.zip", "a"), ("TypeSystem.xml", "<")])
def test_broken_files_are_refused(name, text, tmp_path):
    saved(made(), tmp_path, ".xmi")
    (tmp_path / name).write_text(text)
    path = tmp_path / name.replace("TypeSystem.xml", "doc.xmi")
    with pytest.raises(ValueError, match=f"^{path} is not a CAS"):
        list(read_rows(path, format="cas"))


def test_a_file_without_its_type_system_or_too_large_is_refused(tmp_path, monkeypatch):
    path = saved(made(), tmp_path, ".zip")
    monkeypatch.setattr("hf_spanner.data.formats.cas.MOST_BYTES", 9)
    with pytest.raises(ValueError, match="more than 9 bytes"):
        list(read_rows(path, format="cas"))
    (tmp_path / "TypeSystem.xml").unlink()
    with pytest.raises(ValueError, match="doc.xmi is not a CAS .*TypeSystem.xml"):
        list(read_rows(path.with_suffix(".xmi")))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "a")
    with pytest.raises(ValueError, match=r"holds \['a.txt'\]"):
        list(read_rows(path, format="cas"))
