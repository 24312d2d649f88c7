"""The selection command on a tiny saved model."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hf_spanner import load_rows, read_rows

TEXTS = ["Ana  met Bo in Oslo.", "It rained.", "Mira Stone works for the Bank of Oslo.", "Bo Li left."]


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_texts_become_ranked_tasks(program: Callable, saved_model: Path, tmp_path: Path, capsys) -> None:
    data, folder = tmp_path / "texts.txt", tmp_path / "next"
    data.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    program("select").main([str(saved_model), str(data), "--number", "3", "--output", str(folder)])
    printed = capsys.readouterr()
    assert "3 texts of 4 texts" in printed.out
    assert "scores are raw" in printed.err
    chosen = lines(folder / "selected.jsonl")
    assert [row["rank"] for row in chosen] == [1, 2, 3]
    assert {row["text"] for row in chosen} < set(TEXTS)
    tasks = list(read_rows(folder / "tasks.json", annotator="predictions", details=True))
    assert [task["text"] for task in tasks] == [row["text"] for row in chosen]
    found = [(entity["start"], entity["end"], entity["label"], entity["score"]) for entity in chosen[0]["entities"]]
    assert found
    assert [(e["start"], e["end"], e["label"], e["score"]) for e in tasks[0]["entities"]] == found
    assert [row["tokens"] for row in load_rows(str(folder / "selected.jsonl"))] == [row["tokens"] for row in chosen]


def test_documents_and_words_that_are_known(
    program: Callable, saved_model: Path, write_jsonl: Callable, tmp_path: Path, capsys
) -> None:
    texts = [{"text": text, "tokens": text.split(), "document": f"d{number // 2}"} for number, text in enumerate(TEXTS)]
    data, folder = write_jsonl("texts.jsonl", texts), tmp_path / "next"
    options = ["--number", "1", "--output", str(folder), "--documents", "--tasks", "prodigy"]
    program("select").main([str(saved_model), str(data), *options])
    before = lines(folder / "selected.jsonl")
    assert "1 documents of 4 texts" in capsys.readouterr().out
    assert len({row["document"] for row in before}) == 1
    assert [row["text"].split() for row in before] == [row["tokens"] for row in before]
    assert len(before) == len(lines(folder / "tasks.jsonl")) == 2
    known = write_jsonl("rows.jsonl", [{name: row[name] for name in ("tokens", "entities")} for row in before])
    program("select").main([str(saved_model), str(data), *options, "--labelled", str(known)])
    after = lines(folder / "selected.jsonl")
    assert after[0]["expected_errors"] < before[0]["expected_errors"]


def test_choices_of_the_reader_hold_for_rows_that_were_labelled(
    program: Callable, saved_model: Path, write_jsonl: Callable, tmp_path: Path
) -> None:
    data = write_jsonl("texts.jsonl", [{"text": text} for text in TEXTS])
    known = write_jsonl("rows.jsonl", [{"text": "Osloers met", "entities": [{"start": 0, "end": 4, "label": "LOC"}]}])
    options = ["--number", "1", "--output", str(tmp_path / "next"), "--labelled", str(known)]
    with pytest.raises(ValueError, match=r'rows\.jsonl, line 1: .*misaligned="widen"'):
        program("select").main([str(saved_model), str(data), *options])
    program("select").main([str(saved_model), str(data), *options, "--misaligned", "widen"])
    assert len(lines(tmp_path / "next" / "selected.jsonl")) == 1
    with pytest.raises(ValueError, match="misaligned must be left out for jsonl"):
        program("select").main([str(saved_model), str(data), *options[:-2], "--misaligned", "widen"])
