"""What every method promises of training, run over METHODS; no method is named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_training import f1, largest_difference, row, trained, without_dropout
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from hf_spanner import SpanNERCollator, SpanNERModel, SpanNEROutput

Rows = list[dict[str, Any]]
Make = Callable[..., SpanNERModel]


NESTED = [
    row("The University of New York opened .", (0, 5, "ORG"), (3, 5, "LOC"), (1, 5, "ORG")),
    row("Mira Stone works for the Bank of Oslo", (0, 2, "PER"), (5, 8, "ORG"), (7, 8, "LOC")),
    row("Bo Li 's sister visited Lake Tarn", (0, 2, "PER"), (0, 4, "PER"), (5, 7, "LOC"), (6, 7, "LOC")),
]


def test_overfits_three_sentences(tiny_model: Make, method: str, collator: SpanNERCollator) -> None:
    """Strict F1 is 1.0 on three sentences of nested entities within 1,000 steps; flat ones are case R-01."""
    model = without_dropout(tiny_model(method, overlap="nested", encoder_dropout=0.0)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3)
    batch = collator(NESTED)
    for step in range(1000):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if step % 10 == 9 and f1(model, batch, NESTED) == 1.0:
            return
    pytest.fail(f"F1 {f1(model, batch, NESTED)} after 1,000 steps")


def test_activation_checkpointing_equals_the_plain_run(
    tiny_model: Make, method: str, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    runs = [
        trained(tiny_model(method), tokenizer, rows, tmp_path, max_steps=1, activation_checkpointing=switch)
        for switch in (False, True)
    ]
    assert runs[1].model.is_activation_checkpointing
    assert largest_difference(runs[0].model, runs[1].model) < 1e-6


def test_a_loss_function_of_the_library_takes_output_gold_and_number_of_sentences(
    tiny_model: Make, method: str, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    """In one step of two batches, a function that gives back the method's own loss trains as no function does."""
    seen = []

    def own_loss(outputs: SpanNEROutput, labels: Tensor, num_items_in_batch: Tensor | None = None) -> Tensor:
        seen.append((labels[labels[..., 0] >= 0], num_items_in_batch))
        return outputs.loss

    doubled = [{**sentence, "entities": sentence["entities"] * 2} for sentence in rows]
    settings = {"max_steps": 1, "per_device_train_batch_size": 3, "gradient_accumulation_steps": 2}
    plain, with_function = (
        trained(tiny_model(method), tokenizer, doubled, tmp_path, compute_loss_func=function, **settings)
        for function in (None, own_loss)
    )
    assert largest_difference(plain.model, with_function.model) == 0.0
    assert [int(number) for _, number in seen] == [5, 5]
    assert sum(len(gold) for gold, _ in seen) == sum(len(sentence["entities"]) for sentence in rows)
