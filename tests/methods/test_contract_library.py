"""What every method promises to the library's own tools, run over METHODS; no method is named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bare_process import BareProcess
from tiny_training import QUIET, largest_difference, without_dropout
from transformers import AutoModel, Trainer, TrainingArguments

from hf_spanner import SpanNERCollator, SpanNERModel

Rows = list[dict[str, Any]]
Make = Callable[..., SpanNERModel]
SEED = 3  # of the noise in training, where a method has noise


def plainly_trained(model: SpanNERModel, collator: SpanNERCollator, rows: Rows, folder: Path, **settings: Any) -> Any:
    """A model after one step of plain gradient descent by the library's own Trainer, and what the Trainer logged."""
    arguments = {"max_steps": 1, "learning_rate": 0.1, "max_grad_norm": 0.0, "optim": "sgd", **QUIET, **settings}
    args = TrainingArguments(
        str(folder), remove_unused_columns=False, save_strategy="no", train_sampling_strategy="sequential", **arguments
    )
    model.training_seed = SEED  # type: ignore[assignment]
    trainer = Trainer(model, args, data_collator=collator, train_dataset=rows)
    return trainer.train()


@pytest.mark.parametrize(("size", "accumulation"), [(4, 1), (2, 2), (1, 4)])
def test_the_librarys_trainer_takes_the_mean_over_sentences(
    tiny_model: Make,
    method: str,
    whole_steps: Callable[[str], dict[str, Any]],
    collator: SpanNERCollator,
    rows: Rows,
    tmp_path: Path,
    size: int,
    accumulation: int,
) -> None:
    """Weights, and the loss it tells, are those of one step by hand on the mean loss of four sentences."""
    fields = whole_steps(method)
    expected, trained = (without_dropout(tiny_model(method, **fields)) for _ in range(2))
    expected.training_seed = SEED  # type: ignore[assignment]
    loss = expected.train()(**collator(rows[:4])).loss
    loss.backward()
    torch.optim.SGD(expected.parameters(), lr=0.1).step()
    settings = {"per_device_train_batch_size": size, "gradient_accumulation_steps": accumulation}
    result = plainly_trained(trained, collator, rows[:4], tmp_path, **settings)
    assert result.training_loss == pytest.approx(loss.item(), rel=1e-4)
    assert largest_difference(expected, trained) < 1e-5


def test_the_librarys_trainer_survives_steps_without_entities(
    tiny_model: Make, method: str, collator: SpanNERCollator, rows: Rows, tmp_path: Path
) -> None:
    model, before = tiny_model(method), tiny_model(method)
    empty = [{**row, "entities": []} for row in rows[:4]]
    plainly_trained(model, collator, empty, tmp_path, max_steps=2, per_device_train_batch_size=2)
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert 0 < largest_difference(before, model) < 100


BARE_TRAINING = """
import sys

import torch
from transformers import AutoModel, Trainer, TrainingArguments

folder, batch = sys.argv[1], torch.load("batch.pt")
model = AutoModel.from_pretrained(folder, trust_remote_code=True)
names = [name for name in batch]
rows = [{name: batch[name][row] for name in names} for row in range(len(batch["labels"]))]
args = TrainingArguments("out", max_steps=20, learning_rate=3e-3, report_to="none", use_cpu=True, disable_tqdm=True)
trainer = Trainer(model, args, train_dataset=rows, eval_dataset=rows)
before = trainer.evaluate()["eval_loss"]
trainer.train()
trainer.save_model(folder + "-tuned")
print("LOSSES", before, trainer.evaluate()["eval_loss"])
"""


@pytest.mark.slow
def test_a_shipped_model_is_fine_tuned_by_the_librarys_trainer_without_the_package(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows, tmp_path: Path, bare_process: BareProcess
) -> None:
    """The loss falls, and the package loads what was saved."""
    model.save_pretrained(tmp_path / "shipped")
    torch.save(collator(rows), tmp_path / "batch.pt")
    printed = bare_process.run(BARE_TRAINING, tmp_path / "shipped", cwd=tmp_path)
    before, after = map(float, printed.rpartition("LOSSES")[2].split())
    assert after < 0.9 * before
    tuned = AutoModel.from_pretrained(tmp_path / "shipped-tuned")
    assert type(tuned) is type(model)
    assert tuned.eval()(**collator(rows)).loss.item() == pytest.approx(after, rel=1e-4)
