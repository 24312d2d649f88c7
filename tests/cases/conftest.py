"""Trouble cases by id, and what many of them run on."""

from collections.abc import Callable
from typing import Any

import pytest

from hf_spanner import METHODS

KINDS = ("wordpiece", "bpe", "unigram")


@pytest.fixture
def case(request: pytest.FixtureRequest, cases: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """The case that `of_cases` names."""
    return cases(request.param)


@pytest.fixture(scope="module", params=sorted(METHODS))
def method(request: pytest.FixtureRequest) -> str:
    """Name of each method."""
    return request.param


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of tokenizer."""
    return request.param
