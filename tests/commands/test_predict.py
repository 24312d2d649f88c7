"""The prediction program: formats, order, resume, errors."""

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from transformers import pipeline

from hf_spanner import load_rows

TEXTS = ["Ana met Bo in Oslo .", "", "Mira Stone works for the Bank of Oslo", "Oslo"]


@pytest.fixture
def predict(program: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.chdir(tmp_path)
    return program("predict")


def give(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


@pytest.fixture
def answered(predict: ModuleType, saved_model: Path, tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Runs the program with files and options; gives what out.jsonl then holds."""

    def run(*arguments: str | Path) -> list[dict[str, Any]]:
        predict.main([str(saved_model), *map(str, arguments), "--output", str(tmp_path / "out.jsonl")])
        return lines_of(tmp_path / "out.jsonl")

    return run


def expected_entities(folder: Path, texts: list, **settings: Any) -> list[list[tuple[int, int, str]]]:
    unit = "word_" if settings.get("pretokenized") else ""
    return [
        [(entity[f"{unit}start"], entity[f"{unit}end"], entity["entity_group"]) for entity in entities]
        for entities in pipeline("span-ner", model=str(folder))(texts, **settings)
    ]


def spans(record: dict[str, Any]) -> list[tuple[int, int, str]]:
    return [(entity["start"], entity["end"], entity["label"]) for entity in record["entities"]]


def test_texts_and_words_of_several_files_keep_their_order(answered: Callable, saved_model: Path, texts: Path) -> None:
    words = [text.split() for text in TEXTS]
    mixed = [{"tokens": words[0], "id": "x"}, {"text": TEXTS[2]}, {"tokens": []}, {"tokens": words[2]}]
    with gzip.open("b.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n\n" for record in mixed)
    records = answered(texts, "b.jsonl.gz")
    text_entities = expected_entities(saved_model, TEXTS)
    word_entities = expected_entities(saved_model, words, pretokenized=True)
    assert text_entities[0] != []
    assert [spans(record) for record in records] == [
        *text_entities,
        word_entities[0],
        text_entities[2],
        [],
        word_entities[2],
    ]
    assert [record.get("text") for record in records[:4]] == TEXTS
    assert records[4]["id"] == "x"
    assert all(
        record["text"][entity["start"] : entity["end"]] == entity["text"]
        for record in records[:4]
        for entity in record["entities"]
    )


def test_output_reads_as_data_again(answered: Callable, texts: Path) -> None:
    records = answered(texts)
    rows = load_rows("out.jsonl")
    assert [len(row["entities"]) for row in rows] == [len(record["entities"]) for record in records]


def test_decoding_parameters_reach_the_model(answered: Callable, saved_model: Path, texts: Path) -> None:
    predicted = [spans(record) for record in answered(texts, "--threshold", "0.6", "--overlap", "flat")]
    assert predicted == expected_entities(saved_model, TEXTS, threshold=0.6, overlap="flat")
    assert sum(map(len, predicted)) < sum(map(len, expected_entities(saved_model, TEXTS)))


def test_standard_input_to_standard_output(
    predict: ModuleType, saved_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are in UTF-8 whatever the locale says."""
    give(monkeypatch, "Oslo\r\nZo\u00eb \u0141\n")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written := io.BytesIO(), "latin-1"))
    predict.main([str(saved_model)])
    lines = written.getvalue().decode().splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["Oslo", "Zo\u00eb \u0141"]


def test_a_byte_order_mark_of_standard_input_is_left_out(
    predict: ModuleType, saved_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    for line, options in ((TEXTS[0], []), (json.dumps({"text": TEXTS[0]}), ["--format", "jsonl"])):
        give(monkeypatch, f"\ufeff{line}\n")
        predict.main([str(saved_model), *options])
        (record,) = [json.loads(answer) for answer in capsys.readouterr().out.splitlines()]
        assert record["text"] == TEXTS[0]
        assert spans(record) == expected_entities(saved_model, TEXTS[:1])[0]


def test_resume_cuts_a_broken_line_and_gives_the_same_file(answered: Callable, texts: Path) -> None:
    whole, target = answered(texts), Path("out.jsonl")
    lines = target.read_bytes().splitlines(keepends=True)
    for broken in (lines[2][:9], bytes(8)):  # the second as a power cut leaves it
        target.write_bytes(b"".join(lines[:2]) + broken)
        assert list(map(spans, answered(texts, "--resume"))) == list(map(spans, whole))
    before = target.read_bytes()
    answered(texts, "--resume")
    assert target.read_bytes() == before


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ('{"text": "another", "entities": []}\n', 1),
        (json.dumps({"text": TEXTS[0]}) + "\n", 1),  # no entities
        ("hello\n", 1),
        ("[1, 2]\n", 1),
        ("hello", 1),
        ((json.dumps({"text": TEXTS[3], "entities": []}) + "\n") * 5, 5),  # more than the input has
        ((json.dumps({"text": TEXTS[3], "entities": []}) + "\n") * 1024, 1024),
    ],
)
def test_resume_refuses_what_is_no_output_of_this_input(
    answered: Callable, texts: Path, written: str, line: int
) -> None:
    Path("out.jsonl").write_text(written, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"out\.jsonl, line {line}, is not from this input"):
        answered(texts, "--resume")
    assert Path("out.jsonl").read_text(encoding="utf-8") == written


def test_an_input_is_no_output(answered: Callable, capsys: pytest.CaptureFixture) -> None:
    """Labelled rows look like answers to themselves."""
    Path("out.jsonl").write_text('{"tokens": ["Ana"], "entities": []}\n', encoding="utf-8")
    with pytest.raises(SystemExit):
        answered("out.jsonl", "--resume")
    assert "is a file to read" in capsys.readouterr().err


def test_an_input_that_cannot_be_read_leaves_no_output(answered: Callable) -> None:
    with pytest.raises(FileNotFoundError):
        answered("missing.txt")
    assert not Path("out.jsonl").exists()


def test_resume_with_a_model_that_does_not_load_leaves_the_output(predict: ModuleType) -> None:
    target = Path("out.jsonl")
    Path("a.txt").write_text("Oslo\nAna\n", encoding="utf-8")
    target.write_text('{"text": "Oslo", "entities": []}\n', encoding="utf-8")
    with pytest.raises(OSError, match="absent"):
        predict.main(["./absent", "a.txt", "--output", str(target), "--resume"])
    assert [record["text"] for record in lines_of(target)] == ["Oslo"]


@pytest.mark.parametrize("options", [["--output", "no_such_folder/x.jsonl"], ["--batch-size", "0"]], ids=" ".join)
def test_impossible_options_are_refused_before_work(
    predict: ModuleType, options: list[str], capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit):
        predict.main(["model", "a.txt", *options])
    assert f"argument {options[0]}: must be" in capsys.readouterr().err


def test_options_of_the_engine_are_refused_without_it(predict: ModuleType, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        predict.main(["model", "a.txt", "--workers", "1", "--gpus", "0"])
    assert "error: --workers, --gpus only go with --engine" in capsys.readouterr().err


def test_an_output_is_not_overwritten(predict: ModuleType, capsys: pytest.CaptureFixture) -> None:
    Path("out.jsonl").write_text("precious", encoding="utf-8")
    with pytest.raises(SystemExit):
        predict.main(["model", "a.txt", "--output", "out.jsonl"])
    assert "exists" in capsys.readouterr().err
    assert Path("out.jsonl").read_text(encoding="utf-8") == "precious"


def test_chunks_are_written_before_a_later_line_fails(
    predict: ModuleType, answered: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "CHUNK", 2)
    source = Path("a.jsonl")
    source.write_text('{"text": "Oslo"}\n{"text": "Ana"}\n{"text": "Bo"}\n{"text": 3}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.jsonl, line 4: text is 3 .* a string"):
        answered(source)
    assert [record["text"] for record in lines_of(Path("out.jsonl"))] == ["Oslo", "Ana"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line is '{'"),
        ("[1]", "one JSON object a line"),
        ('{"id": "a"}', "fields is .*text or tokens"),
        ('{"tokens": ["a", 3]}', r"tokens\[1\] is 3"),
        ('{"text": "\\ud800"}', "one JSON object a line.*surrogates"),
    ],
)
def test_a_malformed_line_is_named_with_its_field(predict: ModuleType, line: str, message: str) -> None:
    Path("a.jsonl").write_text("\n" * 6 + line, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"a\.jsonl, line 7: .*{message}"):
        next(predict.input_records("a.jsonl", {}))


def test_an_array_is_read_from_a_file_and_from_standard_input(
    predict: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [{"text": "Oslo", "id": "x"}, {"tokens": ["Bo"]}]
    Path("a.json").write_text(json.dumps(records, indent=1), encoding="utf-8")
    assert list(predict.input_records("a.json", {})) == records
    give(monkeypatch, json.dumps(records))
    assert list(predict.input_records("-", {"format": "jsonl"})) == records
    Path("a.json").write_text('[{"text": "Oslo"},\n{"text": 3}]', encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.json, line 2: text is 3"):
        list(predict.input_records("a.json", {}))


def test_words_of_any_data_are_read_with_the_choices_of_the_reader(
    predict: ModuleType, answered: Callable, saved_model: Path
) -> None:
    """The entities of the data are not in the output."""
    Path("a.conll").write_text("#id 1\nAna\tperson\nmet\tO\n\nOslo\tplace\n", encoding="utf-8")
    records = answered("a.conll", "--scheme", "IO", "--comments", "skip")
    words = [["Ana", "met"], ["Oslo"]]
    assert [record["tokens"] for record in records] == words
    assert [spans(record) for record in records] == expected_entities(saved_model, words, pretokenized=True)
    Path("a.txt").write_text("Oslo\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.txt: comments, scheme must be left out for text"):
        next(predict.input_records("a.txt", {"scheme": "IO", "comments": "skip"}))
    with pytest.raises(ValueError, match="format of standard input must be text or jsonl, got 'conll'"):
        next(predict.input_records("-", {"format": "conll"}))


def test_an_unknown_suffix_asks_for_the_format(predict: ModuleType) -> None:
    Path("a.csv").write_text("Oslo\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.csv: the suffix is none of \.txt, .*\.conll.* give --format"):
        next(predict.input_records("a.csv", {}))
    assert next(predict.input_records("a.csv", {"format": "text"})) == {"text": "Oslo"}


def test_records_are_read_as_they_are_needed(predict: ModuleType) -> None:
    """A bad line after the first does no harm until it is reached."""
    Path("a.jsonl").write_text('{"text": "Oslo"}\nbad\n', encoding="utf-8")
    records = predict.input_records("a.jsonl", {})
    assert next(records) == {"text": "Oslo"}
    with pytest.raises(ValueError, match="line 2"):
        next(records)
