"""Mixed precision stays finite, and the answer of a text does not depend on its neighbours."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import set_seed

from hf_spanner import SpanNERCollator, SpanNERModel, SpanNERPipeline

Make = Callable[..., SpanNERModel]
TOLERANCE = 1e-5  # of a score, between a text alone and in any batch; spans must be the same
LABELS = ("LOC", "ORG", "PER")
TEXTS = [
    "Ana met Bo in Oslo .",
    "",
    "Oslo",
    "The University of New York opened a laboratory in the north of the city last year . " * 3,
    "\u200b \u200d",
    "Mira Stone , who works for the Bank of Oslo , visited Bo Li 's sister on Monday morning .",
    "a aa aaa b bb c " * 20,
    "it rained all the way",
]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mixed_precision_is_finite(
    tiny_model: Make, method: str, tokenizer: Any, rows: list[dict[str, Any]], dtype: torch.dtype
) -> None:
    """Padding, an empty sentence, one whose words have no tokens and a long one; losses, gradients and scores."""
    odd = [{"tokens": [], "entities": []}, {"tokens": ["\u200b", " "], "entities": []}]
    long = {"tokens": ["Ana", "Bo", "Oslo"] * 40, "entities": [{"start": 0, "end": 1, "label": "PER"}]}
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
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=dtype):
        output = model(**batch)
        packed = model.candidate_spans(output, model.decoding())
    assert output.loss.isfinite()
    assert packed.dtype == torch.float32
    scores = packed[packed[..., 0] >= 0][:, 3]
    assert ((scores >= 0) & (scores <= 1)).all()


def keyed(entities: list[dict[str, Any]]) -> dict[tuple, float]:
    return {(entity["start"], entity["end"], entity["entity_group"]): entity["score"] for entity in entities}


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_neighbours_in_a_batch_do_not_matter(
    random_tagger: Callable[..., SpanNERPipeline], method: str, kind: str, record_property: Callable[[str, Any], None]
) -> None:
    """Alone, in batches of 3 and 8, and in another order; the largest difference of a score is recorded."""
    tagger = random_tagger(method, kind)
    alone = [keyed(tagger(text, overlap="any")) for text in TEXTS]
    assert any(alone)
    order = torch.randperm(len(TEXTS), generator=torch.Generator().manual_seed(3)).tolist()
    shuffled: list[dict[tuple, float]] = [{}] * len(TEXTS)
    for place, entities in zip(
        order, tagger([TEXTS[place] for place in order], batch_size=3, overlap="any"), strict=True
    ):
        shuffled[place] = keyed(entities)
    runs = [shuffled, *([keyed(one) for one in tagger(TEXTS, batch_size=size, overlap="any")] for size in (3, 8))]
    largest = 0.0
    for run in runs:
        for expected, found in zip(alone, run, strict=True):
            assert found.keys() == expected.keys()
            largest = max([largest, *(abs(found[key] - expected[key]) for key in expected)])
    record_property("largest_difference", largest)
    assert largest <= TOLERANCE
