"""Work that is killed at chosen or random moments and gone on with, as a program: one start, a child for each piece.

python killed_processes.py train FOLDER METHOD MOMENT...     FOLDER holds rows.json and, for each
python killed_processes.py predict FOLDER METHOD MOMENT...   method, a model, a tokenizer and arguments; and texts.txt

Prints JSON: for each moment the exit codes of the children that were to be killed, and how the end differs from that of
work that nobody disturbed. The parent never computes, so that its children start fresh.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import transformers.modeling_utils
import transformers.trainer_utils
from transformers import AutoModel, AutoTokenizer, TrainerCallback, TrainerState

from hf_spanner.methods import trainer_of, training_arguments_of

KILLED_STEP = 6  # there are 10, with a checkpoint every second step
KILLED_CHUNK = 3
MAX_RANDOM_KILLS = 8
PREDICT = Path(__file__).parents[2] / "hf_spanner" / "commands" / "predict.py"


def main(work: str, folder: str, method: str, moments: list[str]) -> None:
    """Print what became of the work after each moment."""
    run = {"train": train, "predict": predict}[work]
    root = Path(folder)
    started = time.monotonic()
    assert in_child(lambda: run(root, method, root / "whole", None)) == 0
    seconds = time.monotonic() - started
    outcomes = {}
    for moment in moments:
        output = root / f"{work}-{moment}"
        codes = random_kills(root, method, output, run, seconds) if moment == "random" else []
        if moment != "random":
            codes = [in_child(lambda output=output, moment=moment: run(root, method, output, moment))]
        last = in_child(lambda output=output: run(root, method, output, None))
        outcomes[moment] = {"codes": codes, "last": last, "differences": differences(root / "whole", output)}
        shutil.rmtree(output)
    sys.stdout.write(json.dumps(outcomes))


def in_child(action: Callable[[], None], seconds: float | None = None) -> int:
    """The exit code of a child that does the action; -9 if it was killed, by itself or after some seconds."""
    child = os.fork()
    if child == 0:
        try:
            with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
                action()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def random_kills(root: Path, method: str, output: Path, run: Callable, seconds: float) -> list[int]:
    """Start the work again and again, and kill it each time at a random moment of its usual time."""
    draw = random.Random(method)
    codes = []
    while len(codes) < MAX_RANDOM_KILLS and 0 not in codes:
        codes.append(in_child(lambda: run(root, method, output, None), draw.uniform(0.1, 0.8) * seconds))
        if codes == [0]:  # it was done before it could be killed
            shutil.rmtree(output)
            codes, seconds = [], seconds / 2
    return codes


def kill() -> None:
    """Kill this process as `kill -9` would."""
    os.kill(os.getpid(), signal.SIGKILL)


def train(root: Path, method: str, output: Path, moment: str | None) -> None:
    """Train ten steps, starting from the last complete checkpoint if there is one, and save."""
    torch.set_num_threads(1)
    source = root / method
    args = training_arguments_of(method)(
        output_dir=str(output),
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
        max_steps=10,
        per_device_train_batch_size=2,
        learning_rate=1e-3,
        warmup_steps=0,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="steps",
        save_steps=2,
        save_total_limit=1,
        **json.loads((root / f"{method}.json").read_text(encoding="utf-8")),
    )
    rows = json.loads((root / "rows.json").read_text(encoding="utf-8"))
    trainer = trainer_of(method)(
        model=AutoModel.from_pretrained(source),
        args=args,
        train_dataset=rows,
        eval_dataset=rows,
        processing_class=AutoTokenizer.from_pretrained(source),
        callbacks=[KillAtStep()] if moment == "step" else None,
    )
    if moment in SABOTAGES:
        SABOTAGES[moment](f"checkpoint-{KILLED_STEP}")
    has_checkpoint = any(output.glob("checkpoint-*/trainer_state.json"))
    try:
        trainer.train(resume_from_checkpoint=has_checkpoint)
    except ValueError as error:
        if "no complete checkpoint" not in str(error):
            raise
        trainer.train()
    if moment == "final_save":
        in_weights(output.name)
    trainer.save_model()


class KillAtStep(TrainerCallback):
    """Ends the process between two checkpoints."""

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """End the process between two steps."""
        if state.global_step == KILLED_STEP - 1:
            kill()


def in_weights(part: str) -> None:
    """Kill when half of the weights in a path with this part are written."""
    save = safetensors.torch.save_file

    def half(tensors: dict, filename: str, metadata: dict | None = None) -> None:
        save(tensors, filename, metadata=metadata)
        if part in Path(filename).parts:
            os.truncate(filename, os.path.getsize(filename) // 2)
            kill()

    transformers.modeling_utils.safe_save_file = half


def in_optimizer(part: str) -> None:
    """Kill when half of the optimiser's state is written."""
    save = torch.save

    def half(value: Any, file: Any, *args: Any, **kwargs: Any) -> None:
        save(value, file, *args, **kwargs)
        if str(file).endswith(f"{part}/optimizer.pt"):
            os.truncate(file, os.path.getsize(file) // 2)
            kill()

    torch.save = half


def in_state(part: str) -> None:
    """Kill when half of the last file of a checkpoint is written."""
    save = TrainerState.save_to_json

    def half(state: TrainerState, path: str) -> None:
        save(state, path)
        if part in Path(path).parts:
            os.truncate(path, os.path.getsize(path) // 2)
            kill()

    TrainerState.save_to_json = half


def in_rotation(part: str) -> None:
    """Kill when the first file of an older checkpoint is removed, that of step 2 or 4."""

    def first_only(folder: str, **_: Any) -> None:
        if Path(folder).name.startswith("checkpoint-"):
            (Path(folder) / "model.safetensors").unlink()
            kill()

    transformers.trainer_utils.shutil.rmtree = first_only


SABOTAGES = {"weights": in_weights, "optimizer": in_optimizer, "state": in_state, "rotation": in_rotation}


def predict(root: Path, method: str, output: Path, moment: str | None) -> None:
    """Predict texts into `output/entities.jsonl`, after what is there already."""
    torch.set_num_threads(1)
    spec = spec_from_file_location("predict", PREDICT)
    assert spec is not None
    assert spec.loader is not None
    program = module_from_spec(spec)
    spec.loader.exec_module(program)
    program.CHUNK = 16
    output.mkdir(exist_ok=True)
    calls = []
    answered, flush = program.answered_records, program.flush

    def killed_before(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == KILLED_CHUNK:
            kill()
        return answered(*args)

    def killed_in_a_line(file: Any) -> None:
        calls.append(1)
        if len(calls) == KILLED_CHUNK:
            file.flush()
            os.truncate(file.name, os.path.getsize(file.name) - 300)
            kill()
        flush(file)

    if moment == "between":
        program.answered_records = killed_before
    if moment == "line":
        program.flush = killed_in_a_line
    files = [str(root / method), str(root / "texts.txt")]
    program.main([*files, "--output", str(output / "entities.jsonl"), "--resume", "--batch-size", "4"])


def differences(whole: Path, other: Path) -> list[str]:
    """Names of the files that are not byte for byte those of undisturbed work."""
    names = ("model.safetensors", "config.json", "checkpoint-10/model.safetensors", "entities.jsonl")
    kept = [name for name in names if (whole / name).exists()]
    assert kept
    return [name for name in kept if (whole / name).read_bytes() != (other / name).read_bytes()]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
