"""Defaults from the paper, ranges checked before any tensor exists, and values kept on disk."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig

from hf_spanner.methods.boundary_smoothing import BoundarySmoothingConfig


def test_defaults_are_those_of_the_paper() -> None:
    """Section 4.1: affine size 150 with dropout 0.2, width embedding 25, one BiLSTM of 200 with dropout 0.5."""
    config = BoundarySmoothingConfig()
    assert (config.affine_size, config.affine_dropout, config.width_embedding_size) == (150, 0.2, 25)
    assert (config.lstm_layers, config.lstm_size, config.lstm_dropout, config.pooling) == (1, 200, 0.5, "mean")
    assert (config.reduction_dropout, config.max_width) == (0.4, 50)
    assert (config.overlap, config.threshold, config.multi_label) == ("flat", 0.0, False)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("smoothing_epsilon", -0.1),
        ("smoothing_epsilon", 0.5),  # the neighbours would outweigh the gold span
        ("smoothing_epsilon", float("nan")),
        ("smoothing_distance", 0),
        ("smoothing_distance", 65),
        ("affine_size", 0),
        ("affine_size", 10**12),
        ("affine_dropout", 1.0),
        ("reduction_dropout", -0.1),
        ("width_embedding_size", -1),
        ("width_embedding_size", 10**9),
        ("max_width", 0),
        ("max_width", 10**12),
        ("max_width", True),
        ("multi_label", True),
    ],
)
def test_values_out_of_range_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        BoundarySmoothingConfig(**{field: value})


@pytest.mark.parametrize("field", ["smoothing_distance", "affine_size", "max_width"])
def test_values_of_another_type_are_refused_by_name(field: str) -> None:
    with pytest.raises((ValueError, TypeError), match=field):
        BoundarySmoothingConfig(**{field: 1.5})


@pytest.mark.parametrize("fields", [{"smoothing_epsilon": 0}, {"smoothing_epsilon": 0.49}, {"width_embedding_size": 0}])
def test_ends_of_ranges_are_allowed(fields: dict[str, Any]) -> None:
    BoundarySmoothingConfig(**fields)


def test_every_own_field_comes_back_from_disk(tmp_path: Path) -> None:
    values = {
        "smoothing_epsilon": 0.3,
        "smoothing_distance": 2,
        "affine_size": 7,
        "affine_dropout": 0.1,
        "reduction_dropout": 0.0,
        "width_embedding_size": 0,
        "max_width": 9,
        "lstm_layers": 0,
    }
    BoundarySmoothingConfig(**values).save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    assert type(config) is BoundarySmoothingConfig
    assert {name: getattr(config, name) for name in values} == values
