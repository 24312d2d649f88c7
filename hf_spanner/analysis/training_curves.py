"""Loss and scores over the epochs of a training, from the Trainer's saved state; Zhu and Li 2022, Appendix A."""

import json
from dataclasses import dataclass, fields
from math import isfinite
from pathlib import Path
from typing import Any

from hf_spanner.training.resume import checkpoint_step

STATE = "trainer_state.json"
Curve = list[tuple[float, float]]


@dataclass
class TrainingCurves:
    """What was logged over a training, each as (epoch, value) in the order of epochs; empty if it was not logged.

    Values that are no finite numbers are left out.

    Args:
        loss: Mean training loss since the point before.
        eval_loss: Loss of the evaluated rows.
        eval_f1: Strict F1 in [0, 1].
        eval_ece: Expected calibration error in [0, 1].
    """

    loss: Curve
    eval_loss: Curve
    eval_f1: Curve
    eval_ece: Curve


def training_curves(folder: str | Path) -> TrainingCurves | None:
    """Curves of a model folder.

    Args:
        folder: Folder with `trainer_state.json`, as `Trainer.save_state` writes it after training; without it, that
            of the highest `checkpoint-N` in the folder counts, which ends at its own step.

    Returns:
        The curves, or None if there is no such file or it holds none of them.

    Raises:
        ValueError: If the file is malformed; the message names file and field.
    """
    path = state_file(Path(folder))
    if path is None:
        return None
    curves = TrainingCurves(*([] for _ in fields(TrainingCurves)))
    for place, entry in enumerate(logged_entries(path)):
        for name, curve in vars(curves).items():
            if name in entry:
                values = [number(entry, key, f"{path}: log_history[{place}]") for key in ("epoch", name)]
                if all(map(isfinite, values)):  # the loss of a training that diverges is none
                    curve.append(tuple(values))
    return curves if any(vars(curves).values()) else None


def state_file(folder: Path) -> Path | None:
    """The folder's own state, else that of its last checkpoint, else None."""
    paths = [path.parent for path in folder.glob(f"checkpoint-*/{STATE}")]
    checkpoints = {step: path for path in paths if (step := checkpoint_step(path)) is not None}
    newest = [checkpoints[max(checkpoints)]] if checkpoints else []
    return next((place / STATE for place in [folder, *newest] if (place / STATE).is_file()), None)


def logged_entries(path: Path) -> list[dict[str, Any]]:
    """`log_history` of a state, checked to be a list of objects."""
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be JSON in UTF-8, got {error}") from error
    entries = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"{path}: log_history must be a list of objects, got {str(entries)[:60]}")
    return entries


def number(entry: dict[str, Any], key: str, place: str) -> float:
    """A value of a log entry."""
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{place}.{key} must be a number, got {value!r}")
    return float(value)
