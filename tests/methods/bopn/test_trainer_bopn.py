"""The paper's optimisation recipe as defaults, and the accuracies and votes in the log."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from hf_spanner import SpanNERModel, SpanNEROutput
from hf_spanner.methods.bopn.loss_bopn import offset_names, offset_targets
from hf_spanner.methods.bopn.trainer_bopn import BOPNTrainer, BOPNTrainingArguments
from hf_spanner.training.logged_numbers import logged_parts

ROW = {"tokens": ["a"] * 6, "entities": [{"start": 1, "end": 3, "label": "PER"}]}
LONE = {"tokens": ["a"], "entities": [{"start": 0, "end": 1, "label": "PER"}]}


def test_defaults_are_the_recipe_of_the_paper(tmp_path: Path) -> None:
    """Table 7, and the configuration of ACE in the official code."""
    args = BOPNTrainingArguments(output_dir=str(tmp_path))
    assert (args.num_train_epochs, args.per_device_train_batch_size, args.max_grad_norm) == (50, 8, 1.0)
    assert (args.learning_rate, args.head_learning_rate) == (1e-5, 1e-3)
    assert (args.warmup_steps, args.lr_scheduler_type, args.weight_decay) == (0.1, "linear", 0.0)
    assert "adamw" in args.optim


def sums_of_parts(model: SpanNERModel, output: SpanNEROutput, labels: Tensor) -> dict[str, float]:
    return {name: values.sum().item() for name, values in model.compute_loss(output, labels)[1].items()}


def test_parts_of_the_targets_themselves(
    tiny_model: Callable[..., SpanNERModel], trainer_for: Callable[..., BOPNTrainer]
) -> None:
    """Where logits equal the targets all accuracies are 1, and votes can recover one of the two gold spans."""
    model = tiny_model("bopn").train()
    batch = trainer_for(model, [ROW]).span_collator([ROW, LONE])
    targets = offset_targets(batch["labels"], 6, max_offset=2, num_labels=3)
    output = SpanNEROutput(logits=torch.nn.functional.one_hot(targets, 10).float(), word_mask=batch["word_mask"])
    logged = logged_parts(sums_of_parts(model, output, batch["labels"]))
    names = {f"accuracy_{name}" for name in offset_names(2)} - {"accuracy_-2S", "accuracy_2S", "accuracy_-2E"}
    assert set(logged) == names | {"vote_reach", "vote_recall"}
    assert all(logged[name] == 1.0 for name in names)
    assert logged["vote_reach"] == logged["vote_recall"] == 0.5
    output.logits[...] = torch.arange(10.0)
    logged = logged_parts(sums_of_parts(model, output, batch["labels"]))
    assert (logged["accuracy_out"], logged["accuracy_0"]) == (1.0, 0.0)
    assert (logged["vote_reach"], logged["vote_recall"]) == (0.5, 0.0)


def test_training_logs_ratios_and_no_totals(
    tiny_model: Callable[..., SpanNERModel], trainer_for: Callable[..., BOPNTrainer]
) -> None:
    trainer = trainer_for(tiny_model("bopn"), [ROW, LONE], logging_strategy="epoch")
    trainer.train()
    (logged,) = [entry for entry in trainer.state.log_history if "vote_reach" in entry]
    assert logged["vote_reach"] == 0.5
    assert 0 <= logged["accuracy_out"] <= 1
    assert not any("total" in name for name in logged)
