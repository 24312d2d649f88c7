"""Prediction by Ray Data on this machine beside the plain program: throughput, and memory of a worker over the parts.

    python benchmarks/cluster.py MODEL --data test.jsonl --texts 20000 --workers 0 1 2

The texts are those of the data, over and over, in files of 1,000 lines; 0 workers is the same work in this process,
with one thread as each worker. A rate counts from the first part that is finished, since a run of hours does not feel
its start; the seconds before it are told. Memory is the largest of any worker when a tenth of the parts is finished,
and in all.
"""

import argparse
import json
import os
import threading
import time
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import torch

from hf_spanner import load_rows
from hf_spanner.integrations.partitions import parts_of
from hf_spanner.integrations.ray_data import PartWorker, predict_folder

LINES = 1_000


class Watch:
    """Looks each tenth of a second at what is finished in a folder and how large the workers are."""

    def __init__(self, folder: Path, num_parts: int) -> None:
        self.folder, self.num_parts = folder, num_parts
        self.started, self.first = time.perf_counter(), 0.0
        self.finished, self.early, self.largest = 0, 0, 0  # parts at that time, and bytes
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self) -> None:
        """Until it is over, keep the time of the first part and the largest memory so far."""
        while not self.over.wait(0.1):
            finished = len(list(self.folder.glob("part-*")))
            if finished and not self.first:
                self.first, self.finished = time.perf_counter(), finished
            self.largest = max(self.largest, largest_worker())
            if finished <= max(1, self.num_parts // 10):
                self.early = self.largest


def largest_worker() -> int:
    """Resident bytes of the largest process that answers parts: this one, or one of Ray's."""
    sizes = [0]
    for process in psutil.Process().children(recursive=True):
        try:
            if process.cmdline()[:1] and process.cmdline()[0].startswith("ray::MapWorker"):
                sizes.append(process.memory_info().rss)
        except psutil.Error:  # it has just ended
            continue
    return max(sizes) or psutil.Process().memory_info().rss


def main() -> None:
    """Measure what the command line names and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="folder of a saved model")
    parser.add_argument("--data", required=True, help="file of rows, whose words joined by blanks are the texts")
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
    lines = [json.dumps({"text": " ".join(row["tokens"])}) + "\n" for row in load_rows(arguments.data)]
    with TemporaryDirectory() as folder:
        source = Path(folder, "texts")
        source.mkdir()
        endless = cycle(lines)
        for number in range(-(-arguments.texts // LINES)):
            file = source / f"{number:05d}.jsonl"
            file.write_text("".join(islice(endless, min(LINES, arguments.texts - number * LINES))), encoding="utf-8")
        print(f"{'workers':<9}{'texts/s':>9}{'of plain':>10}{'start, s':>10}{'MiB, early':>12}{'MiB':>8}{'load':>6}")
        plain = 0.0
        for num_workers in arguments.workers:
            rate, watch = measured(
                arguments.model, source, Path(folder, f"out{num_workers}"), num_workers, arguments.texts
            )
            plain = plain or rate
            mib = [size / 2**20 for size in (watch.early, watch.largest)]
            print(
                f"{num_workers:<9}{rate:>9.0f}{rate / plain:>10.2f}{watch.first - watch.started:>10.1f}"
                f"{mib[0]:>12.0f}{mib[1]:>8.0f}{os.getloadavg()[0]:>6.1f}",
                flush=True,
            )


def measured(model: str, source: Path, output: Path, num_workers: int, num_texts: int) -> tuple[float, Watch]:
    """Texts a second after the first part, by so many workers."""
    parts = parts_of(str(source))
    watch = Watch(output, len(parts))
    watch.thread.start()
    if num_workers == 0:
        worker = PartWorker(model, str(source), str(output), {}, num_threads=1, trust_remote_code=False)
        for part in parts:
            worker(part._asdict())
    else:
        predict_folder(model, str(source), str(output), num_workers=num_workers)
    ended = time.perf_counter()
    watch.over.set()
    watch.thread.join()
    return num_texts * (1 - watch.finished / len(parts)) / (ended - watch.first), watch


if __name__ == "__main__":
    main()
