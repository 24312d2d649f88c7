"""Settings of inference that have been checked."""

from collections.abc import Callable

import pytest

from hf_spanner import SpanNERModel
from hf_spanner.core.decoding import Decoding


def test_they_are_a_mapping_that_nobody_changes() -> None:
    values = {"threshold": 0.5, "overlap": "flat"}
    decoding = Decoding(values, None)
    values["threshold"] = 0.9
    assert dict(decoding) == {"threshold": 0.5, "overlap": "flat"}
    assert len(decoding) == 2
    with pytest.raises(TypeError):
        decoding["threshold"] = 0.1  # type: ignore[index]


def test_only_their_own_configuration_takes_them_unchecked(
    tiny_model: Callable[..., SpanNERModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, other = tiny_model(), tiny_model(labels=("A", "B"))
    decoding = model.decoding({"threshold": {"LOC": 0.5, "ORG": 0.1, "PER": 0.2}})
    assert model.decoding(decoding) is decoding
    with pytest.raises(ValueError, match="threshold must be a number or name each of A, B"):
        other.decoding(decoding)
