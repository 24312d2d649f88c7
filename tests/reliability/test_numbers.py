"""Mixed precision stays finite."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny_training import assert_all_gradients_are_finite
from transformers import set_seed

from hf_spanner import SpanNERCollator, SpanNERModel

Make = Callable[..., SpanNERModel]
LABELS = ("LOC", "ORG", "PER")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mixed_precision_is_finite(
    tiny_model: Make, method: str, tokenizer: Any, rows: list[dict[str, Any]], dtype: torch.dtype
) -> None:
    """Losses, gradients and scores are finite for padding and an empty sentence.

    So they are for a sentence whose words have no tokens, and for a long one.
    """
    odd = [{"tokens": [], "entities": []}, {"tokens": ["\u200b", " "], "entities": []}]
    long = {"tokens": ["Ana", "Bo", "Oslo"] * 15, "entities": [{"start": 0, "end": 1, "label": "PER"}]}
    collator = SpanNERCollator(tokenizer, {label: index for index, label in enumerate(LABELS)})
    batch = collator([*rows, *odd, long])
    model = tiny_model(method).train()
    set_seed(0)
    with torch.autocast("cpu", dtype=dtype):
        loss = model(**batch).loss
    assert loss.dtype == torch.float32
    assert loss.isfinite()
    assert loss >= 0
    loss.backward()
    assert_all_gradients_are_finite(model)
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=dtype):
        output = model(**batch)
        packed = model.candidate_spans(output, model.decoding())
    assert output.loss.isfinite()
    assert packed.dtype == torch.float32
    scores = packed[packed[..., 0] >= 0][:, 3]
    assert ((scores >= 0) & (scores <= 1)).all()
