"""Prediction over a cluster: equal to the pipeline, whatever happens to workers, and started again where it ended."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from hf_spanner import SpanNERPipeline
from hf_spanner.commands.predict import main
from hf_spanner.data.answers import answered_records
from hf_spanner.integrations.partitions import Part, PartCounts
from hf_spanner.integrations.ray_data import PLAN, PartWorker, _remaining_parts, predict_folder

TEXTS = [f"{name} met Bo in Oslo ." for name in ("Ana", "Mira", "Li Stone", "The Bank of Oslo")]
NUM_FILES = 8


@pytest.fixture
def model(random_tagger: Callable[..., SpanNERPipeline], tmp_path: Path) -> Path:
    random_tagger("boundary_smoothing").save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Files with all texts each, and one line that cannot be read."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(NUM_FILES):
        lines = [json.dumps({"text": text, "id": f"{number}-{place}"}) for place, text in enumerate(TEXTS)]
        (folder / f"{number}.jsonl").write_text("\n".join([*lines, "{"] if number == 0 else lines), encoding="utf-8")
    return folder


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return pytest.importorskip("ray")


def output_lines(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("part-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def expected_lines(model: Path) -> list[dict[str, Any]]:
    ner = PartWorker(str(model), "", "", {}, num_threads=1, trust_remote_code=False).ner
    records = [{"text": text, "id": f"{n}-{place}"} for n in range(NUM_FILES) for place, text in enumerate(TEXTS)]
    return answered_records(ner, records)


@pytest.mark.slow
def test_two_workers_give_the_answers_of_the_pipeline_and_a_second_start_does_what_is_left(
    ray: Any, model: Path, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    arguments = [str(model), str(source), "--output", str(output), "--engine", "ray", "--workers", "2"]
    main(arguments)
    assert output_lines(output) == expected_lines(model)
    assert not ray.is_initialized()
    assert "32 records with " in capsys.readouterr().out
    (wrong,) = (output / "wrong").iterdir()
    assert "0.jsonl, line 5: " in json.loads(wrong.read_text())["problem"]
    with pytest.raises(ValueError, match="exists; give another name, or --resume"):
        main(arguments)
    (output / "part-000000002.jsonl").unlink()
    stamps = {path: path.stat().st_mtime_ns for path in output.glob("part-*")}
    assert predict_folder(str(model), str(source), str(output), resume=True, batch_size=32).records == len(TEXTS)
    assert output_lines(output) == expected_lines(model)
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert predict_folder(str(model), str(source), str(output), resume=True, batch_size=32) == PartCounts()


@pytest.mark.slow
def test_a_killed_worker_loses_and_doubles_nothing(ray: Any, model: Path, source: Path, tmp_path: Path) -> None:
    """Killed in the middle of the input: Ray starts another, and what it had begun is done again."""
    output = tmp_path / "out"
    killed = []

    def kill_one() -> None:
        while not list(output.glob("part-*")):
            time.sleep(0.01)
        commands = {process.pid: process.cmdline() for process in psutil.Process().children(recursive=True)}
        worker = next(pid for pid, words in commands.items() if words and words[0].startswith("ray::MapWorker"))
        os.kill(worker, signal.SIGKILL)
        killed.append(len(list(output.glob("part-*"))))

    thread = threading.Thread(target=kill_one)
    thread.start()
    predict_folder(str(model), str(source), str(output), num_workers=2)
    thread.join()
    assert killed[0] < NUM_FILES
    assert output_lines(output) == expected_lines(model)
    assert not [path for path in output.rglob("*") if path.name.startswith(".unfinished")]


def test_an_output_of_something_else_or_with_half_a_plan_is_refused(tmp_path: Path) -> None:
    output, part = str(tmp_path / "out"), Part(0, "a.txt", 0, 4)
    for source in (str(tmp_path), output, f"{output}/in"):
        with pytest.raises(ValueError, match="out must lie beside the input"):
            _remaining_parts([Part(0, f"{source}/a.txt", 0, 4)], {"source": source}, output, resume=False)
    plan = {"model": "m", "source": f"{output}put"}
    assert _remaining_parts([part], plan, output, resume=False) == [part]
    assert [path.name for path in (tmp_path / "out").iterdir()] == [PLAN]
    with pytest.raises(ValueError, match="was begun with another model and another parts"):
        _remaining_parts([], plan | {"model": "other"}, output, resume=True)
    (tmp_path / "out" / PLAN).write_text('{"model"')
    with pytest.raises(ValueError, match=f"out/{PLAN} cannot be read: Expecting ':'"):
        _remaining_parts([part], plan, output, resume=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["a", "b", "--output", "x"], "takes one file or folder, and --output"),
        (["a"], "takes one file or folder, and --output"),
        (["a", "--output", "x", "--format", "jsonl"], "has no choices of the reader, got format"),
    ],
)
def test_options_of_the_engine_are_checked(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["model", *options, "--engine", "ray"])
    assert words in capsys.readouterr().err
