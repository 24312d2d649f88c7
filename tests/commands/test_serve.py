"""The service as a process: its command line, its signals, and the image that runs it."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from transformers import pipeline

TEXTS = ["Ana met Bo in Oslo .", "The University of New York opened"] * 128
WAITING = "span_ner_waiting "
DOCKERFILE = Path(__file__).parents[2] / "Dockerfile"


@contextmanager
def serving(model: Path, *options: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """The process and the address of a service that is ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "hf_spanner", "serve", str(model), "--port", str(port), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(600):
            try:
                urlopen(f"http://127.0.0.1:{port}/ready").close()
                break
            except URLError:
                assert process.poll() is None, process.communicate()[1]
                time.sleep(0.1)
        yield process, f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_requests_that_were_taken_are_answered_before_a_signal_ends_the_service(saved_model: Path) -> None:
    pytest.importorskip("fastapi")
    expected = pipeline("span-ner", model=str(saved_model), threshold=0.3)(TEXTS)
    with serving(saved_model, "--threshold", "0.3") as (process, address):
        connections = [HTTPConnection(address, timeout=60) for _ in range(8)]
        for connection in connections:
            connection.request("POST", "/entities", json.dumps({"inputs": TEXTS}), {"Content-Type": "application/json"})
        while num_waiting(address) < 3:
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        answers = [connection.getresponse() for connection in connections]
        assert [answer.status for answer in answers] == [200] * 8
        for answer in answers:
            found = json.load(answer)
            assert [spans(entities) for entities in found] == [spans(entities) for entities in expected]
        assert process.wait(20) == -signal.SIGTERM  # it ended in order and then as the signal asks
    assert sum(map(len, expected)) > 100


def num_waiting(address: str) -> float:
    """Requests that wait, as the service says."""
    with urlopen(f"http://{address}/metrics") as page:
        return next(float(line.split()[1]) for line in page.read().decode().splitlines() if line.startswith(WAITING))


def spans(entities: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    return [(entity["start"], entity["end"], entity["entity_group"]) for entity in entities]


def test_limits_and_settings_are_options(program: Callable[[str], ModuleType], capsys: pytest.CaptureFixture) -> None:
    given = program("serve").parsed_arguments(["m", "--max-texts", "3", "--threshold", "{LOC: .5}", "--overlap", "any"])
    assert (given.max_texts, given.max_bytes, given.threshold, given.overlap) == (3, None, {"LOC": 0.5}, "any")
    with pytest.raises(SystemExit):
        program("serve").parsed_arguments(["m", "--max-texts", "0"])
    assert "must be at least 1, got 0" in capsys.readouterr().err


def test_every_limit_has_an_option(program: Callable[[str], ModuleType]) -> None:
    pytest.importorskip("fastapi")
    from hf_spanner.integrations.serving import Limits

    assert set(program("serve").LIMITS) == set(vars(Limits()))


def test_the_end_waits_no_longer_than_a_request(program: Callable, saved_model: Path, monkeypatch: Any) -> None:
    pytest.importorskip("fastapi")
    options = {}
    monkeypatch.setattr("uvicorn.run", lambda _, **given: options.update(given))
    monkeypatch.setattr(sys, "setswitchinterval", float)
    program("serve").main([str(saved_model), "--max-seconds", "7"])
    assert options["timeout_graceful_shutdown"] == 7


def test_the_image_runs_the_command_as_a_user_without_rights(program: Callable[[str], ModuleType]) -> None:
    lines = [line.split(maxsplit=1) for line in DOCKERFILE.read_text(encoding="utf-8").splitlines() if line.strip()]
    values = dict(lines)
    user = values["USER"]
    assert user.isdigit()
    assert int(user) > 0
    assert [name for name, _ in lines].index("USER") > max(
        place for place, (name, _) in enumerate(lines) if name in ("RUN", "COPY")
    )
    name, *arguments = json.loads(values["CMD"])[1:]
    given = program(name).parsed_arguments(arguments)
    assert (name, given.host, str(given.port)) == ("serve", "0.0.0.0", values["EXPOSE"])
