"""A full disk and a folder that cannot be written give a clear error, and what was good before is still there."""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch
from method_facts import facts_of
from safetensors import SafetensorError
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerBase, TrainerCallback

from hf_spanner import SpanNERModel, SpanNERPipeline
from hf_spanner.methods import trainer_of, training_arguments_of
from hf_spanner.training.resume import last_complete_checkpoint
from hf_spanner.training.trainer import SpanNERTrainer

Make = Callable[..., SpanNERModel]
Rows = list[dict[str, Any]]
NOBODY = 65534
ROOT = Path(__file__).parents[2]


def limit_file_size(num_bytes: int) -> None:
    """No file of this process grows further, as on a full disk, but the error is EFBIG in place of ENOSPC."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@contextmanager
def full_disk(num_bytes: int | None = None) -> Iterator[None]:
    """Let files grow to so many bytes, or to what is set inside; this ends before the runner writes its own log."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        if num_bytes is not None:
            limit_file_size(num_bytes)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may write anywhere, so this process is nobody for a while."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.fixture
def read_only_folder() -> Iterator[Path]:
    """A folder to make read-only; it lies outside of the folders of tests, which only their owner may enter."""
    folder = Path(mkdtemp())
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def trainer_in(
    folder: Path, model: SpanNERModel, tokenizer: PreTrainedTokenizerBase, rows: Rows, *callbacks: TrainerCallback
) -> SpanNERTrainer:
    """A trainer of six steps that saves a checkpoint every second step and keeps the last one."""
    method = model.config.model_type
    args = training_arguments_of(method)(
        output_dir=str(folder),
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
        eval_strategy="no",
        save_strategy="steps",
        save_steps=2,
        save_total_limit=1,
        load_best_model_at_end=False,
        max_steps=6,
        per_device_train_batch_size=2,
        learning_rate=1e-3,
        **facts_of(method).short_training,
    )
    return trainer_of(method)(
        model=model, args=args, train_dataset=rows, processing_class=tokenizer, callbacks=list(callbacks)
    )


def test_a_full_disk_leaves_the_model_that_was_saved_before(tiny_model: Make, method: str, tmp_path: Path) -> None:
    tiny_model(method).save_pretrained(tmp_path)
    before = contents(tmp_path)
    with full_disk(50_000), pytest.raises((OSError, SafetensorError), match="File too large"):
        tiny_model(method, seed=1).save_pretrained(tmp_path)
    assert contents(tmp_path) == before
    with full_disk(500), pytest.raises(OSError, match="File too large"):
        tiny_model(method, seed=1).save_pretrained(tmp_path)  # not even the configuration has room
    assert contents(tmp_path) == before


class FullDiskAtStep(TrainerCallback):
    """Files stop growing before the checkpoint of a step is written."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Act at the step, before it is saved."""
        if state.global_step == self.step:
            limit_file_size(50_000)


def test_a_disk_that_fills_while_training_costs_two_steps(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    """The fourth step's checkpoint fails; the second's is whole and gives bit-equal weights at the end."""
    method = "diffusion_ner"  # it draws the most random numbers; all methods train on a disk that is really full below
    expected = trainer_in(tmp_path / "whole", tiny_model(method), tokenizer, rows)
    expected.train()
    folder = tmp_path / "run"
    with full_disk(), pytest.raises((OSError, SafetensorError), match="File too large"):
        trainer_in(folder, tiny_model(method), tokenizer, rows, FullDiskAtStep(4)).train()
    assert last_complete_checkpoint(folder) == folder / "checkpoint-2"
    resumed = trainer_in(folder, tiny_model(method, seed=5), tokenizer, rows)
    resumed.train(resume_from_checkpoint=True)
    assert resumed.state.global_step == 6
    state = resumed.model.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in expected.model.state_dict().items())


def test_a_disk_that_fills_while_predicting_loses_no_text(
    random_tagger: Callable[..., SpanNERPipeline], tmp_path: Path, run_recipe: Callable
) -> None:
    tagger = random_tagger("boundary_smoothing")
    tagger.save_pretrained(tmp_path / "model")
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(f"Ana met Bo {place} in Oslo" for place in range(60)), encoding="utf-8")
    arguments = [str(tmp_path / "model"), str(texts), "--output"]
    run_recipe("predict", CHUNK=16)([*arguments, str(tmp_path / "whole.jsonl")])
    expected = (tmp_path / "whole.jsonl").read_bytes()
    with full_disk(len(expected) // 2), pytest.raises(OSError, match="File too large"):
        run_recipe("predict", CHUNK=16)([*arguments, str(tmp_path / "out.jsonl")])
    assert 0 < (tmp_path / "out.jsonl").stat().st_size <= len(expected) // 2
    run_recipe("predict", CHUNK=16)([*arguments, str(tmp_path / "out.jsonl"), "--resume"])
    assert (tmp_path / "out.jsonl").read_bytes() == expected


def test_a_file_in_place_of_the_folder_is_an_error_that_names_it(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    """When training, the error comes before the first step."""
    place = tmp_path / "model"
    place.write_text("precious", encoding="utf-8")
    with pytest.raises(FileExistsError, match=str(place)):
        tiny_model().save_pretrained(place)
    with pytest.raises(FileExistsError, match=str(place)):
        trainer_in(place, tiny_model(), tokenizer, rows)
    assert place.read_text(encoding="utf-8") == "precious"


def test_a_read_only_folder_is_an_error_that_names_it(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, read_only_folder: Path
) -> None:
    """When training, the error comes before the first step."""
    tiny_model().save_pretrained(read_only_folder)
    before, model = contents(read_only_folder), tiny_model(seed=1)
    trainer = trainer_in(read_only_folder, tiny_model(seed=1), tokenizer, rows)
    read_only_folder.chmod(0o555)
    with unprivileged():
        with pytest.raises(PermissionError, match=str(read_only_folder)):
            model.save_pretrained(read_only_folder)
        with pytest.raises(PermissionError, match=str(read_only_folder)):
            trainer.train()
    assert trainer.state.global_step == 0
    assert contents(read_only_folder) == before


def test_an_explicit_checkpoint_must_be_complete(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    trainer = trainer_in(tmp_path, tiny_model(), tokenizer, rows)
    with pytest.raises(ValueError, match="holds no complete checkpoint"):
        trainer.train(resume_from_checkpoint=True)
    trainer.train()
    folder = last_complete_checkpoint(tmp_path)
    text = (folder / "trainer_state.json").read_text(encoding="utf-8")
    (folder / "trainer_state.json").write_text(text[:50], encoding="utf-8")
    with pytest.raises(ValueError, match=r"checkpoint-6 is no complete checkpoint: trainer_state.json is not whole"):
        trainer_in(tmp_path, tiny_model(), tokenizer, rows).train(resume_from_checkpoint=str(folder))


def test_weights_of_another_cut_leave_no_older_ones_behind(tiny_model: Make, tmp_path: Path) -> None:
    """Whole weights beside newer shards would be the ones that are loaded."""
    tiny_model().save_pretrained(tmp_path)
    newer = tiny_model(seed=1)
    newer.save_pretrained(tmp_path, max_shard_size="50KB")
    assert not (tmp_path / "model.safetensors").exists()
    loaded = AutoModel.from_pretrained(tmp_path).state_dict()
    assert all(torch.equal(value, loaded[name]) for name, value in newer.state_dict().items())
    tiny_model(seed=2).save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.glob("model*.safetensors*")} == {"model.safetensors"}


def test_saving_over_the_folder_it_was_loaded_from(tiny_model: Make, tmp_path: Path) -> None:
    """Loaded weights may lie in the memory of the very file that is written."""
    tiny_model().save_pretrained(tmp_path)
    (tmp_path / ".unfinished").mkdir()  # it is left by a process that was killed
    (tmp_path / ".unfinished" / "model.safetensors").write_bytes(b"half")
    loaded = AutoModel.from_pretrained(tmp_path)
    loaded.save_pretrained(tmp_path)
    reloaded, first = AutoModel.from_pretrained(tmp_path).state_dict(), tiny_model().state_dict()
    assert all(torch.equal(value, reloaded[name]) for name, value in first.items())
    assert not (tmp_path / ".unfinished").exists()
    assert len({path.stat().st_mode for path in tmp_path.iterdir()}) == 1


SMALL_DISK = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[1:4]
from test_disk import fill_a_real_disk
fill_a_real_disk(Path(sys.argv[4]), sys.argv[5])
"""


def fill_a_real_disk(folder: Path, method: str) -> None:
    """Train on a disk with room for one checkpoint and a half, then after making room.

    It is called in a namespace of its own.
    """
    rows = json.loads((folder / "rows.json").read_text(encoding="utf-8"))
    source, disk = folder / method, folder / "disk"
    tokenizer = AutoTokenizer.from_pretrained(source)

    def trainer() -> SpanNERTrainer:
        return trainer_in(disk / "run", AutoModel.from_pretrained(source), tokenizer, rows)

    whole = trainer_in(folder / "whole", AutoModel.from_pretrained(source), tokenizer, rows)
    whole.train()
    size = sum(map(len, contents(folder / "whole" / "checkpoint-6").values()))
    (disk / "ballast").write_bytes(bytes(8_000_000 - size * 3 // 2))
    full = "No space left on device|unexpected pos"  # torch.save has no better words, so the note says more
    with pytest.raises((OSError, SafetensorError, RuntimeError), match=full) as error:
        trainer().train()
    assert "bytes free on its disk" in error.value.__notes__[-1]
    assert last_complete_checkpoint(disk / "run").name == "checkpoint-2"
    (disk / "ballast").unlink()
    resumed = trainer()
    resumed.train(resume_from_checkpoint=True)
    state = resumed.model.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in whole.model.state_dict().items())


@pytest.mark.slow
def test_a_disk_that_is_really_full(saved_by_method: Callable, method: str, tmp_path: Path) -> None:
    """The disk is a file system of 8 MB in memory, mounted in a namespace of its own."""
    folder = saved_by_method(method)
    (folder / "disk").mkdir()
    own_namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=8m none {folder / 'disk'}"
    if shutil.which("unshare") is None or subprocess.run([*own_namespace, mount], check=False).returncode:
        pytest.skip("needs Linux and the right to make a mount namespace")
    script = tmp_path / "fill.py"
    script.write_text(SMALL_DISK, encoding="utf-8")
    run = f'{mount} && exec "$0" "$@"'
    paths = [str(ROOT), str(Path(__file__).parent), str(ROOT / "tests"), str(folder), method]
    finished = subprocess.run(
        [*own_namespace, run, sys.executable, str(script), *paths],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
