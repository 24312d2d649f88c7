"""Entities of more text than one machine takes, by Ray Data: a pool of workers, each of which loads the model once."""

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import add
from typing import Any

import torch
from pyarrow import fs
from tqdm import tqdm
from transformers import AutoModel, AutoTokenizer

from hf_spanner.core.own_encoders import register_saved_encoder
from hf_spanner.core.pipeline_span_ner import SpanNERPipeline
from hf_spanner.integrations.partitions import (
    UNFINISHED,
    Part,
    PartCounts,
    file_system,
    finished_file,
    named,
    parts_of,
    write_part,
)

logger = logging.getLogger(__name__)

PLAN = "_plan.json"  # in the folder of the output: what its parts are parts of


class PartWorker:
    """Answers parts in a process of its own; Ray Data makes it once in each.

    Args:
        model: Folder or Hub name of the model, which every worker can read.
        source: The input, a path or URI.
        folder: Folder of the output, a path or URI.
        settings: Arguments of the pipeline.
        num_threads: Threads of torch.
        trust_remote_code: Run the code that lies in the model for an encoder of its own.
    """

    def __init__(
        self,
        model: str,
        source: str,
        folder: str,
        settings: Mapping[str, Any],
        *,
        num_threads: int,
        trust_remote_code: bool,
    ) -> None:
        torch.set_num_threads(num_threads)
        if trust_remote_code:
            register_saved_encoder(model, {})
        self.source, self.folder = source, folder
        self.ner = SpanNERPipeline(
            model=AutoModel.from_pretrained(model), tokenizer=AutoTokenizer.from_pretrained(model), **settings
        )

    def __call__(self, row: Mapping[str, Any]) -> dict[str, int]:
        """Answer one part and write it; how much was in it."""
        return write_part(self.ner, Part(**row), self.source, self.folder)._asdict()


def predict_folder(
    model: str,
    source: str,
    folder: str,
    *,
    num_workers: int = 1,
    threads_per_worker: int = 1,
    gpus_per_worker: float = 0,
    resume: bool = False,
    trust_remote_code: bool = False,
    **settings: Any,
) -> PartCounts:
    """Write the entities of all records of a folder into another, a file for each part of the input.

    The names of the output's files have the order of the input, and so have the records in each. A worker that dies is
    replaced, and its part done again. The cluster is the one that `RAY_ADDRESS` names or that the process has joined;
    without one, workers are started on this machine.

    Args:
        model: Folder or Hub name of the model, which every worker can read.
        source: A file or folder of `.parquet`, `.jsonl` or `.txt`, the last two also packed; a path or a URI of Arrow.
        folder: Folder of the output, a path or URI; it must not exist.
        num_workers: Processes that each load the model.
        threads_per_worker: CPUs of each.
        gpus_per_worker: Accelerators of each; a share is allowed.
        resume: Go on with a folder that exists: parts that are finished are left as they are.
        trust_remote_code: Run the code that lies in the model for an encoder of its own; read it first.
        settings: Arguments of the pipeline, such as `batch_size` and settings of inference.

    Returns:
        What was done now: records answered, entities found, and records that cannot be read, which are in the folder
        `wrong` of the output, each with its problem.

    Raises:
        ModuleNotFoundError: If Ray is not installed, which the extra `ray` brings.
        ValueError: If the folder exists and `resume` is false, or holds the output of something else; if the cluster
            has too few CPUs.
    """
    import ray  # type: ignore[import-not-found]  # an extra of its own
    from ray.data import ActorPoolStrategy  # type: ignore[import-not-found]

    remaining = _remaining_parts(
        parts_of(source), {"model": model, "source": source, "settings": settings}, folder, resume
    )
    total = PartCounts()
    if not remaining:
        return total
    if len(remaining) < num_workers:
        logger.warning("%d of %d workers have work: there are as many parts", len(remaining), num_workers)
        num_workers = len(remaining)
    with _cluster(ray, num_workers * threads_per_worker):
        rows = ray.data.from_items([part._asdict() for part in remaining], override_num_blocks=len(remaining))
        counted = rows.map(
            PartWorker,
            fn_constructor_args=(model, source, folder, settings),
            fn_constructor_kwargs={"num_threads": threads_per_worker, "trust_remote_code": trust_remote_code},
            compute=ActorPoolStrategy(size=num_workers),
            num_cpus=threads_per_worker,
            num_gpus=gpus_per_worker or None,
        )
        with tqdm(total=len(remaining), unit=" parts") as progress:
            for counts in counted.iter_rows():
                total = PartCounts(*map(add, total, PartCounts(**counts)))
                progress.update()
    _remove_unfinished(*file_system(folder))
    return total


def _remaining_parts(parts: list[Part], plan: Mapping[str, Any], folder: str, resume: bool) -> list[Part]:
    """The parts that the folder does not hold yet; a new folder gets the plan, an old one must have the same.

    Raises:
        ValueError: If the folder holds input, exists and may not, or has another plan, where the message names what
            differs, or half of one.
    """
    system, target = file_system(folder)
    source = file_system(plan["source"])[1]
    if f"{target}/".startswith(f"{source}/") or any(part.path.startswith(f"{target}/") for part in parts):
        raise ValueError(f"output {folder} must lie beside the input {plan['source']}, and not in it or around it")
    plan = json.loads(json.dumps({**plan, "parts": parts}))
    found = system.get_file_info(fs.FileSelector(target, allow_not_found=True))
    names = {info.base_name for info in found if not info.base_name.startswith(UNFINISHED)}
    if not names:
        with finished_file(system, f"{target}/{PLAN}") as file:
            file.write(json.dumps(plan).encode("utf-8"))
        return parts
    if not resume:
        raise ValueError(f"output {folder} exists; give another name, or --resume to go on with it")
    if PLAN not in names:
        raise ValueError(f"output {folder} must hold {PLAN} of an earlier start, got other files")
    with named(f"{folder}/{PLAN}"), system.open_input_stream(f"{target}/{PLAN}") as file:
        earlier = json.loads(file.read())
    if differing := [name for name in plan if plan[name] != earlier.get(name)]:
        raise ValueError(f"output {folder} was begun with another {' and another '.join(differing)}")
    return [part for part in parts if part.output not in names]


@contextmanager
def _cluster(ray: Any, num_cpus: int) -> Iterator[None]:
    """Join the cluster, or start one here for as long, with one CPU to spare, without which Ray Data waits forever.

    Raises:
        ValueError: If the cluster has too few CPUs.
    """
    is_ours = not ray.is_initialized()
    if is_ours:
        here = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": num_cpus + 1, "include_dashboard": False}
        ray.init(**here)
    try:
        there = ray.cluster_resources().get("CPU", 0)
        if there <= num_cpus:
            raise ValueError(f"workers times threads must be below the {there:g} CPUs of the cluster, got {num_cpus}")
        yield
    finally:
        if is_ours:
            ray.shutdown()


def _remove_unfinished(system: fs.FileSystem, target: str) -> None:
    """Remove what workers left that died while they wrote."""
    for info in system.get_file_info(fs.FileSelector(target, recursive=True)):
        if info.base_name.startswith(UNFINISHED):
            system.delete_file(info.path)
