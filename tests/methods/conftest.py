"""A tiny model and a collator for each method."""

from collections.abc import Callable

import pytest
from transformers import PreTrainedTokenizerBase

from hf_spanner import METHODS, SpanNERCollator, SpanNERModel

LABELS = ("LOC", "ORG", "PER")


@pytest.fixture(params=sorted(METHODS))
def method(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def model(tiny_model: Callable[..., SpanNERModel], method: str) -> SpanNERModel:
    return tiny_model(method)


@pytest.fixture
def collator(tokenizer: PreTrainedTokenizerBase) -> SpanNERCollator:
    return SpanNERCollator(tokenizer, {label: index for index, label in enumerate(LABELS)})
