"""Defaults from the paper, ranges checked before any tensor exists, and values kept on disk."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoConfig

from hf_spanner.methods.locate_and_label import LocateAndLabelConfig


def test_defaults_are_those_of_the_paper() -> None:
    """Table 6: lengths 1-7, 9, 11, 13, 15; alpha_1 .7, eta 1, gamma 2, lambda 1 : .1 : 1."""
    config = LocateAndLabelConfig()
    assert config.seed_lengths == [1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15]
    assert config.max_seed_length == 15
    assert (config.positive_iou, config.soft_exponent, config.focal_gamma) == (0.7, 1.0, 2.0)
    assert (config.filter_loss_weight, config.regression_loss_weight, config.overlap_loss_weight) == (1.0, 0.1, 0.1)
    assert config.classification_loss_weight == 1.0
    assert (config.head_dropout, config.negatives_per_positive, config.pooling) == (0.5, 5, "max")
    assert config.filter_threshold == pytest.approx(1 / 6)
    assert (config.threshold, config.overlap) == (0.0, "nested")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seed_lengths", []),
        ("seed_lengths", [0, 1]),
        ("seed_lengths", [2, 1]),
        ("seed_lengths", [1, 1]),
        ("seed_lengths", [1, 2.0]),
        ("seed_lengths", [True]),
        ("seed_lengths", [1, 513]),
        ("seed_lengths", "1-7"),
        ("head_size", 0),
        ("head_dropout", 1.0),
        ("use_filter", 1),
        ("filter_threshold", 1.5),
        ("positive_iou", 1.0),
        ("soft_exponent", -1),
        ("focal_gamma", float("nan")),
        ("negatives_per_positive", -1),
        ("min_negatives", 0.5),
        ("filter_loss_weight", -0.1),
        ("nms_iou", 2),
        ("nms_decay", -0.1),
        ("nms_threshold", "high"),
    ],
)
def test_values_out_of_range_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        LocateAndLabelConfig(**{field: value})


def test_values_survive_the_disk(tmp_path: Path) -> None:
    config = LocateAndLabelConfig(seed_lengths=(1, 2, 4), use_filter=False, nms_iou=0.6, nms_decay=0.9)
    config.save_pretrained(tmp_path)
    loaded = AutoConfig.from_pretrained(tmp_path)
    assert type(loaded) is LocateAndLabelConfig
    assert (loaded.use_filter, loaded.nms_iou, loaded.nms_decay) == (False, 0.6, 0.9)
    assert loaded.seed_lengths == [1, 2, 4]


def test_soft_nms_is_set_by_a_call() -> None:
    config = LocateAndLabelConfig()
    decoding = config.decoding({"nms_iou": 0.9, "nms_decay": 0.5, "nms_threshold": 0.1})
    assert (decoding["nms_iou"], decoding["nms_decay"], decoding["nms_threshold"]) == (0.9, 0.5, 0.1)
    with pytest.raises(ValueError, match="nms_iou must be"):
        config.decoding({"nms_iou": 1.1})


@pytest.mark.parametrize(("use_soft_nms", "expected"), [(True, [(0, 4)]), (False, [(0, 4), (0, 4), (0, 3)])])
def test_candidates_of_a_graph_are_sifted_by_soft_nms(use_soft_nms: bool, expected: list[tuple[int, int]]) -> None:
    """IoU .75 >= .7, so .6 decays to .48, below delta .5; a proposal that comes twice counts once."""
    config = LocateAndLabelConfig(use_soft_nms=use_soft_nms, id2label={0: "PER"})
    candidates = np.array([[0, 4, 0, 0.99], [0, 4, 0, 0.99], [0, 3, 0, 0.6]], dtype=np.float32)
    sifted = config.sifted(candidates, config.decoding())
    assert [tuple(row) for row in sifted[:, :2].astype(int).tolist()] == expected
    assert sifted[0, 3] == np.float32(0.99)
    assert config.sifted(candidates[:0], config.decoding()).shape == (0, 4)
