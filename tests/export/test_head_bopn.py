from collections.abc import Callable
from typing import Any

import pytest
from candidate_heads import assert_equal_candidates

from hf_spanner import SpanNERModel
from hf_spanner.export.head_bopn import BOPNHead

SETTINGS = [
    {"decode_mode": "center"},
    {"decode_mode": "votes", "min_votes": 1},
    {"decode_mode": "votes", "min_votes": 3, "pool_votes": True},
    {"decode_mode": "all", "confidence": "sum"},
    {"confidence": "product"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda value: "-".join(map(str, value.values())))
@pytest.mark.parametrize("fields", [{}, {"mask_lower": True, "num_convolutions": 0, "has_type_inputs": False}])
def test_votes_counted_in_a_table_give_the_candidates_of_the_model(
    settings: dict[str, Any], fields: dict[str, Any], tiny_model: Callable[..., SpanNERModel]
) -> None:
    """In each mode, with and without convolutions, type inputs and the lower triangle."""
    model = tiny_model("bopn", seed=4, **settings, **fields)
    model.type_maps.bias.data[-1] = -1.0
    assert_equal_candidates(model, BOPNHead)


def test_rules_are_refused(tiny_model: Callable[..., SpanNERModel]) -> None:
    model = tiny_model("bopn", decode_mode="rules")
    with pytest.raises(ValueError, match="decode_mode must be center, votes or all in a graph, got 'rules'"):
        BOPNHead(model, model.decoding())
