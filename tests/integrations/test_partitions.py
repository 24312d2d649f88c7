"""Parts of large inputs: every record is in one of them, each is written as a whole, and answers are the pipeline's."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hf_spanner import SpanNERPipeline, load_rows
from hf_spanner.data.answers import answered_records
from hf_spanner.integrations import partitions
from hf_spanner.integrations.partitions import Part, PartCounts, file_system, parts_of, write_part

TEXTS = ["Ana met Bo in Oslo.", "", "Mira Stone works for the Bank of Oslo", "Ünï cøde 😀 Oslo"]
WORDS = ["Ana", "met", "Bo"]
LINE = st.text(st.characters(exclude_characters="\n\r", exclude_categories=("Cs",)), max_size=12)


@pytest.fixture
def ner(random_tagger: Callable[..., SpanNERPipeline]) -> SpanNERPipeline:
    return random_tagger("boundary_smoothing")


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def answered(ner: SpanNERPipeline, source: Path, output: Path) -> PartCounts:
    """Answer all parts of an input."""
    counts = [write_part(ner, part, str(source), str(output)) for part in parts_of(str(source))]
    return PartCounts(*map(sum, zip(*counts, strict=True)))


@given(lines=st.lists(LINE, min_size=1, max_size=12), size=st.integers(1, 40), ends=st.booleans())
@example(lines=["\ufeffa", "b", "", "ü"], size=1, ends=True)
@example(lines=["\ufeffa", "b", "c"], size=6, ends=True)
def test_every_line_is_in_one_part_in_order(lines: list[str], size: int, ends: bool, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes(("\n".join(lines) + "\n" * ends).encode("utf-8"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitions, "PART_BYTES", size)
        parts = parts_of(str(path)) if path.stat().st_size else []
    system, _ = file_system(str(path))
    read = [line.decode("utf-8") for part in parts for line in partitions._lines_of(system, part)]
    expected = path.read_bytes().removeprefix(b"\xef\xbb\xbf").decode("utf-8").removesuffix("\n").split("\n")
    assert read == (expected if path.stat().st_size else [])
    assert [part.number for part in parts] == list(range(len(parts)))


def scores_taken_out(records: list[dict[str, Any]]) -> list[float]:
    """The scores, to compare within rounding: a part is another batch, which may round the last bit otherwise."""
    return [entity.pop("score") for record in records for entity in record["entities"]]


def test_files_of_a_folder_give_what_the_pipeline_gives(
    ner: SpanNERPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text, JSON and packed files in the order of their paths, cut into parts of 40 bytes, and read as data again."""
    monkeypatch.setattr(partitions, "PART_BYTES", 40)
    source = tmp_path / "in" / "deep"
    source.mkdir(parents=True)
    (source / "a.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    records = [{"text": TEXTS[2], "id": "x"}, {"tokens": WORDS, "document": "d"}]
    with gzip.open(source.parent / "z.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write("\n\n".join(map(json.dumps, records)))
    for name in ("_SUCCESS", ".ipynb_checkpoints/a.txt", "deep/_temporary/0/b.txt"):
        (source.parent / name).parent.mkdir(parents=True, exist_ok=True)
        (source.parent / name).write_text("Ana", encoding="utf-8")
    counts = answered(ner, source.parent, tmp_path / "out")
    files = sorted((tmp_path / "out").iterdir())
    assert len(files) == 3
    found = [record for file in files for record in lines_of(file)]
    expected = answered_records(ner, [*({"text": text} for text in TEXTS), *records])
    assert scores_taken_out(found) == pytest.approx(scores_taken_out(expected))
    assert found == expected
    assert counts == PartCounts(6, sum(len(record["entities"]) for record in expected), 0)
    last = list(load_rows(str(files[-1])))
    words = [(entity["start"], entity["end"]) for entity in last[0]["entities"]]
    assert words == [(e["word_start"], e["word_end"]) for e in expected[4]["entities"]] != []


def test_parquet_keeps_its_columns_and_adds_entities(
    ner: SpanNERPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "PART_ROWS", 3)
    table = pa.table(
        {
            "id": pa.array([1, 2, 3, 4, 5], pa.int16()),
            "text": [TEXTS[0], None, None, TEXTS[2], None],
            "tokens": pa.array([None, WORDS, None, None, []], pa.list_(pa.string())),
        }
    )
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=2)
    counts = answered(ner, tmp_path / "in.parquet", tmp_path / "out")
    first, last = (pq.read_table(tmp_path / "out" / f"part-00000000{number}.parquet") for number in (0, 1))
    assert (first.num_rows, last.num_rows) == (3, 1)
    rows = [*first.to_pylist(), *last.to_pylist()]
    assert [row["id"] for row in rows] == [1, 2, 4, 5]
    assert first.schema.field("id").type == pa.int16()
    given = [{"text": TEXTS[0]}, {"tokens": WORDS}, {"text": TEXTS[2]}, {"tokens": []}]
    for row, record in zip(rows, answered_records(ner, given), strict=True):
        unset = {} if "text" in record else {"word_start": None, "word_end": None}
        assert row["entities"] == [entity | unset for entity in record["entities"]]
    assert counts == PartCounts(4, sum(len(row["entities"]) for row in rows), 1)
    (wrong,) = lines_of(tmp_path / "out" / "wrong" / "part-000000000.jsonl")
    assert "in.parquet, row 2 (from 0) of row group 0 on: text is None (type)" in wrong["problem"]
    assert json.loads(wrong["line"]) == {"id": 3, "text": None, "tokens": None}


def test_lines_that_cannot_be_read_are_kept_with_their_problem(ner: SpanNERPipeline, tmp_path: Path) -> None:
    lines = [b'{"text": "Ana"}', b"{broken", b'{"text": 7}', b'{"text": "\xff"}', b'{"tokens": ["Bo"]}', b"[1]"]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    counts = answered(ner, tmp_path / "a.jsonl", tmp_path / "out")
    assert (counts.records, counts.wrong) == (2, 4)
    wrong = lines_of(tmp_path / "out" / "wrong" / "part-000000000.jsonl")
    assert [entry["line"] for entry in wrong] == ["{broken", '{"text": 7}', '{"text": "\ufffd"}', "1"]
    for number, words, entry in zip((2, 3, 4, 6), ("JSON", "text is 7", "UTF-8", "object"), wrong, strict=True):
        assert f"a.jsonl, line {number}" in entry["problem"]
        assert words in entry["problem"]


def test_what_is_wrong_in_an_array_leaves_its_other_records(ner: SpanNERPipeline, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('[{"text": "Ana"}, {"text": 5}, {"text": "Bo"}, 7, {"text": "Oslo"}]\n')
    assert answered(ner, tmp_path / "a.jsonl", tmp_path / "out")[::2] == (3, 2)
    wrong = lines_of(tmp_path / "out" / "wrong" / "part-000000000.jsonl")
    assert [entry["line"] for entry in wrong] == ['{"text": 5}', "7"]
    assert "a.jsonl, line 1, item 3 of it (from 0): " in wrong[1]["problem"]


def test_of_an_array_that_breaks_off_nothing_counts(ner: SpanNERPipeline, tmp_path: Path) -> None:
    line = '[{"text": "Ana"}, 7, {"text": "Bo"} {"text": "Oslo"}]'
    (tmp_path / "a.txt.jsonl").write_text(line + "\n")
    assert answered(ner, tmp_path / "a.txt.jsonl", tmp_path / "out") == (0, 0, 1)
    (wrong,) = lines_of(tmp_path / "out" / "wrong" / "part-000000000.jsonl")
    assert wrong["line"] == line


def test_neighbouring_sentences_are_read_across_chunks(
    random_tagger: Callable[..., SpanNERPipeline], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ner = random_tagger("boundary_smoothing", context_sentences=1)
    records = [{"text": text, "document": "d"} for text in (*TEXTS, *TEXTS)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    monkeypatch.setattr(partitions, "CHUNK", 3)
    answered(ner, tmp_path / "a.jsonl", tmp_path / "out")
    expected = answered_records(ner, records)
    assert expected != answered_records(ner, [{"text": record["text"]} for record in records]), "context acts"
    for found, record in zip(lines_of(tmp_path / "out" / "part-000000000.jsonl"), expected, strict=True):
        assert [entity | {"score": 0} for entity in found["entities"]] == [e | {"score": 0} for e in record["entities"]]


def test_a_part_that_ends_with_an_error_leaves_no_file_of_its_name(
    ner: SpanNERPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("Oslo\n" * 3, encoding="utf-8")
    (part,) = parts_of(str(tmp_path / "a.txt"))

    def broken(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(partitions, "answered_records", broken)
    with pytest.raises(MemoryError):
        write_part(ner, part, str(tmp_path / "a.txt"), str(tmp_path / "out"))
    assert not (tmp_path / "out" / part.output).exists()


@pytest.mark.parametrize(
    ("name", "message"), [("a.csv", "a.csv: the suffix is none of .parquet"), (None, "must be a f")]
)
def test_an_input_that_cannot_be_read_is_refused(name: str | None, message: str, tmp_path: Path) -> None:
    if name:
        (tmp_path / name).write_text("x", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        parts_of(str(tmp_path))


@pytest.mark.parametrize("name", ["a.txt.gz", "a.parquet"])
def test_a_damaged_file_is_named(name: str, ner: SpanNERPipeline, tmp_path: Path) -> None:
    path = tmp_path / name
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(b"Oslo\n" * 99)[:-9])
    else:
        pq.write_table(pa.table({"text": TEXTS}), path)
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=f"{path} cannot be read: "):
        answered(ner, path, tmp_path / "out")


def test_a_part_knows_its_output() -> None:
    assert Part(12, "/a/b.jsonl.gz", 0, -1).output == "part-000000012.jsonl"
    assert Part(3, "/a/b.parquet", 0, 2).output == "part-000000003.parquet"
