"""Trouble cases by id, and what many of them run on."""

from collections.abc import Callable
from typing import Any
from zlib import crc32

import pytest

from hf_spanner import METHODS

KINDS = ("wordpiece", "bpe", "unigram")


@pytest.fixture
def case(request: pytest.FixtureRequest, cases: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """The case that a test names."""
    return cases(request.param)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test every method and every kind of tokenizer, but not every pair of them.

    Scores are the method's, pieces the tokenizer's, and a test of one never fails for a single pair; so which method
    meets which tokenizer moves on with the name of the test.
    """
    methods = sorted(METHODS)
    first = crc32(metafunc.definition.originalname.encode())
    if {"method", "kind"} <= set(metafunc.fixturenames):
        pairs = [(method, KINDS[(first + place) % len(KINDS)]) for place, method in enumerate(methods)]
        metafunc.parametrize(("method", "kind"), pairs, scope="module")
    elif "method" in metafunc.fixturenames:
        metafunc.parametrize("method", methods, scope="module")
    elif "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", KINDS, scope="module")
