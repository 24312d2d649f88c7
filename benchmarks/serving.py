"""Load on `hf-spanner serve`: requests a second, latency, errors and memory at several numbers of clients.

    python benchmarks/serving.py MODEL --data test.jsonl --clients 1 8 32 --seconds 20

The service is a process of its own. Each client sends one text, waits for its answer and sends the next; all clients
share one process, which takes its part of the machine. The first answers of a stage are not counted. Options that are
not its own go to the service, such as `--batch-size 1`.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from hf_spanner import load_rows

HEADERS = {"Content-Type": "application/json"}


@dataclass
class Stage:
    """What one number of clients saw: seconds of each answer, and what went wrong."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def main() -> None:
    """Start the service, load it, and print the table."""
    parser = argparse.ArgumentParser(description="Load on `hf-spanner serve`, which gets all other options.")
    parser.add_argument("model", help="folder of a saved or exported model")
    parser.add_argument("--data", required=True, help="file of rows whose texts are asked about")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each stage")
    parser.add_argument("--warm-up", type=float, default=2.0, help="seconds of a stage that are not counted")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    arguments, options = parser.parse_known_args()
    texts = [" ".join(row["tokens"]) for row in load_rows(arguments.data)]
    stages = []
    print(
        f"{'clients':>8}{'answers/s':>11}"
        f"{'p50 ms':>8}{'p95 ms':>8}{'p99 ms':>8}{'errors':>8}{'texts a run':>13}{'MiB':>7}"
    )
    with serving(arguments.model, options) as address:
        for clients in arguments.clients:
            before = numbers(address)
            stage = loaded(address, texts, clients, arguments.seconds, arguments.warm_up)
            stages.append(summary(clients, stage, arguments.seconds - arguments.warm_up, before, numbers(address)))
            print(
                "{clients:>8}{rate:>11.1f}{p50:>8.1f}{p95:>8.1f}{p99:>8.1f}{errors:>8}{texts_a_run:>13.1f}"
                "{memory:>7.0f}".format(**stages[-1])
            )
    print(f"load of the machine after: {os.getloadavg()[0]:.2f}; Python {sys.version.split()[0]}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(stages, indent=2) + "\n", encoding="utf-8")


@contextmanager
def serving(model: str, options: list[str]) -> Iterator[str]:
    """The address of a service that is ready; its process ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "hf_spanner", "serve", model, "--port", str(port), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"127.0.0.1:{port}"
    try:
        while not is_ready(address):
            if process.poll() is not None:
                raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
            time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait()


def is_ready(address: str) -> bool:
    """Whether the service would take a request now."""
    try:
        return page(address, "/ready")[0] == 200
    except OSError:
        return False


def page(address: str, path: str) -> tuple[int, str]:
    """Status and body of a page of the service."""
    connection = HTTPConnection(address)
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


def loaded(address: str, texts: list[str], clients: int, seconds: float, warm_up: float) -> Stage:
    """What some clients saw together, each a thread with a connection of its own."""
    stage, begin = Stage(), time.perf_counter()

    def ask_on(first: int) -> None:
        connection = HTTPConnection(address, timeout=120)
        for text in islice(cycle(texts), first * len(texts) // clients, None):
            asked = time.perf_counter()
            if asked > begin + seconds:
                return
            try:
                connection.request("POST", "/entities", json.dumps({"inputs": text}), HEADERS)
                response = connection.getresponse()
                body = response.read()
            except (OSError, HTTPException) as error:
                stage.errors.append(repr(error))
                connection.close()
                continue
            if response.status != 200:
                stage.errors.append(body.decode())
            elif asked > begin + warm_up:
                stage.seconds.append(time.perf_counter() - asked)

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(ask_on, range(clients)))
    return stage


def numbers(address: str) -> dict[str, float]:
    """The service's own numbers by name."""
    lines = page(address, "/metrics")[1].splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def summary(
    clients: int, stage: Stage, seconds: float, before: dict[str, float], after: dict[str, float]
) -> dict[str, Any]:
    """A row of the table."""
    p50, p95, p99 = np.percentile(stage.seconds, [50, 95, 99]) * 1000
    runs, texts = (after[name] - before[name] for name in ("span_ner_run_texts_count", "span_ner_run_texts_sum"))
    return {
        "clients": clients,
        "rate": len(stage.seconds) / seconds,
        "p50": p50,
        "p95": p95,
        "p99": p99,
        "errors": len(stage.errors),
        "texts_a_run": texts / runs,
        "memory": after["process_resident_memory_bytes"] / 2**20,
    }


if __name__ == "__main__":
    main()
