from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from hf_spanner.export.check import Comparison

ROWS = [{"tokens": ["Ana", "met", "Bo"], "entities": [{"start": 0, "end": 1, "label": "PER"}]}]


def test_what_was_given_reaches_the_export_and_the_comparison_is_printed(
    program: Callable[[str], ModuleType],
    write_jsonl: Callable[..., Path],
    saved_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls = []

    def export_model(*arguments: object, **options: object) -> Comparison:
        calls.append((arguments, options))
        return Comparison(1, (90.0, 89.5), (0.1, 0.2), 0.75)

    command = program("export")
    monkeypatch.setattr(command, "export_model", export_model)
    data = write_jsonl("held_out.jsonl", ROWS)
    options = ["--to", "openvino", "--precision", "int8", "--check", str(data), "--max-loss", "1", "--overlap", "flat"]
    command.main([str(saved_model), "--output", str(tmp_path / "out"), *options])
    ((source, output), given) = calls[0]
    assert (source, output) == (str(saved_model), tmp_path / "out")
    rows = given.pop("check")
    assert [(row["tokens"], row["entities"]) for row in rows] == [(ROWS[0]["tokens"], ROWS[0]["entities"])]
    assert given == {
        "to": "openvino",
        "precision": "int8",
        "check_name": "held_out.jsonl",
        "max_loss": 1.0,
        "decoding": {"overlap": "flat"},
        "batch_size": 32,
    }
    printed = capsys.readouterr().out
    assert "| exported | 89.50 | 0.2000 |" in printed
    assert "Equal entities in 75.00% of 1 rows." in printed


def test_without_rows_it_says_that_nothing_was_checked(
    program: Callable[[str], ModuleType],
    saved_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = program("export")
    monkeypatch.setattr(command, "export_model", lambda *_, **__: None)
    command.main([str(saved_model), "--output", str(tmp_path / "out")])
    assert "not checked: no rows were given (--check)" in capsys.readouterr().out
