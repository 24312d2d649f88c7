"""The paper's optimisation recipe as defaults; accuracies and votes in the log."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hf_spanner import SpanNERModel
from hf_spanner.methods.bopn.loss_bopn import cell_mask, offset_names, offset_targets
from hf_spanner.methods.bopn.trainer_bopn import BOPNTrainer, BOPNTrainingArguments, gold_votes, label_counts

ROW = {"tokens": ["a"] * 6, "entities": [{"start": 1, "end": 3, "label": "PER"}]}
LONE = {"tokens": ["a"], "entities": [{"start": 0, "end": 1, "label": "PER"}]}


def test_defaults_are_the_recipe_of_the_paper(tmp_path: Path) -> None:
    """Table 7 and the configuration of ACE in the official code."""
    args = BOPNTrainingArguments(output_dir=str(tmp_path))
    assert (args.num_train_epochs, args.per_device_train_batch_size, args.max_grad_norm) == (50, 8, 1.0)
    assert (args.learning_rate, args.head_learning_rate) == (1e-5, 1e-3)
    assert (args.warmup_steps, args.lr_scheduler_type, args.weight_decay) == (0.1, "linear", 0.0)
    assert "adamw" in args.optim


def test_counts_of_labels_by_hand() -> None:
    """Two words, S = 0, one type; the lower cell (1, 0) does not count: centre right, out 1 of 2 right."""
    targets = torch.tensor([[[[0], [1]], [[0], [1]]]])
    best = torch.tensor([[[[0], [1]], [[1], [0]]]])
    is_upper = cell_mask(torch.ones(1, 2, dtype=torch.bool), mask_lower=True)
    of_label, right = label_counts(best, targets, is_upper, 2)
    assert of_label.tolist() == [[1.0, 2.0]]
    assert right.tolist() == [[1.0, 1.0]]


def test_votes_for_gold_by_hand() -> None:
    """(1, 2) in six words, S = 2, perfect labels. Start votes: (0, 2), (2, 2); end votes: (1, 1), (1, 3), (1, 4).

    With (1, 3) wrongly out there are two end votes. (0, 0) in a sentence of one word gets no vote, padding neither.
    """
    word_mask = torch.arange(6) < torch.tensor([[6], [1]])
    labels = torch.tensor([[[1, 3, 0]], [[0, 1, 0]]])
    targets = offset_targets(labels, word_mask, max_offset=2, num_labels=1)
    is_upper = cell_mask(word_mask, mask_lower=True)
    assert gold_votes(targets, labels, is_upper, 2).tolist() == [[[2, 3]], [[0, 0]]]
    targets[0, 1, 3, 0] = 9
    assert gold_votes(targets, labels, is_upper, 2).tolist() == [[[2, 2]], [[0, 0]]]


def test_parts_of_the_targets_themselves(
    tiny_model: Callable[..., SpanNERModel], trainer_for: Callable[..., BOPNTrainer]
) -> None:
    """Logits that equal the targets: all accuracies 1; of the two gold spans one can be recovered by votes."""
    model = tiny_model("bopn")
    trainer = trainer_for(model, [ROW])
    batch = trainer.span_collator([ROW, LONE])
    output = model(**batch)
    assert output.targets is not None
    output.logits = torch.nn.functional.one_hot(output.targets, 10).float()
    parts = {name: values.sum().item() for name, values in trainer.loss_parts(output, batch["labels"]).items()}
    logged = trainer.logged_parts(parts)
    names = {f"accuracy_{name}" for name in offset_names(2)} - {"accuracy_-2S", "accuracy_2S", "accuracy_-2E"}
    assert set(logged) == names | {"vote_reach", "vote_recall"}
    assert all(logged[name] == 1.0 for name in names)
    assert logged["vote_reach"] == logged["vote_recall"] == 0.5
    output.logits[...] = torch.arange(10.0)
    parts = {name: values.sum().item() for name, values in trainer.loss_parts(output, batch["labels"]).items()}
    logged = trainer.logged_parts(parts)
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


def test_scores_loss_and_parts_never_wait_for_the_device(
    tiny_model: Callable[..., SpanNERModel], trainer_for: Callable[..., BOPNTrainer], no_synchronisation: Any
) -> None:
    model = tiny_model("bopn").train()
    trainer = trainer_for(model, [ROW])
    batch = trainer.span_collator([ROW, LONE])
    states = model.encode(**{name: value for name, value in batch.items() if name != "labels"})
    with no_synchronisation:
        output = model.score_spans(states, batch["word_mask"], batch["labels"], model.decoding())
        losses = model.compute_loss(output, batch["labels"])
        trainer.loss_parts(output, batch["labels"])
    with pytest.raises(AssertionError), no_synchronisation:
        losses.sum().item()
