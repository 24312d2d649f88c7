"""The groups of the trainer's optimiser: rates of encoder and rest, weight decay, and optimisers that are given."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tiny_training import trainer_for
from transformers import PreTrainedTokenizerBase

from hf_spanner import SpanNERModel, SpanNERTrainer, SpanNERTrainingArguments

Rows = list[dict[str, Any]]
Make = Callable[..., SpanNERModel]


def test_optimiser_has_two_rates_and_decays_no_bias_or_norm(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    trainer = trainer_for(
        tiny_model(),
        tokenizer,
        tmp_path,
        train_dataset=rows,
        learning_rate=1e-5,
        head_learning_rate=1e-3,
        weight_decay=0.1,
    )
    groups = trainer.create_optimizer().param_groups
    settings_by_parameter = {id(p): (group["lr"], group["weight_decay"]) for group in groups for p in group["params"]}
    named = dict(trainer.model.named_parameters())
    assert len(settings_by_parameter) == len(named) == sum(len(group["params"]) for group in groups)
    for name, parameter in named.items():
        rate = 1e-5 if name.startswith("word_encoder.encoder.") else 1e-3
        is_free = "bias" in name or "LayerNorm" in name
        assert settings_by_parameter[id(parameter)] == (rate, 0.0 if is_free else 0.1), name


def test_one_rate_is_enough(tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path) -> None:
    trainer = trainer_for(tiny_model(), tokenizer, tmp_path, train_dataset=rows, learning_rate=1e-4)
    assert {group["lr"] for group in trainer.create_optimizer().param_groups} == {1e-4}


def test_an_optimiser_that_is_given_with_its_settings_is_taken(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    """Its rate is the encoder's; the rest keeps a rate of its own if it has one."""
    args = SpanNERTrainingArguments(
        output_dir=str(tmp_path), use_cpu=True, eval_strategy="no", load_best_model_at_end=False, head_learning_rate=0.1
    )
    trainer = SpanNERTrainer(
        tiny_model(), args, processing_class=tokenizer, optimizer_cls_and_kwargs=(torch.optim.SGD, {"lr": 0.5})
    )
    optimizer = trainer.create_optimizer()
    assert type(optimizer) is torch.optim.SGD
    assert {group["lr"] for group in optimizer.param_groups} == {0.5, 0.1}
