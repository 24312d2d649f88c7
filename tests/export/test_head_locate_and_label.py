from collections.abc import Callable
from typing import Any

import pytest
import torch
from candidate_heads import assert_equal_candidates

from hf_spanner import SpanNERModel
from hf_spanner.export.head_locate_and_label import LocateAndLabelHead, clamped_maxima
from hf_spanner.methods.locate_and_label.span_pooling_locate_and_label import pooled_spans, range_maxima


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"confidence": "product"},
        {"use_filter": False, "confidence": "product"},
        {"multi_label": True},
        {"use_regressor": False, "seed_lengths": [1, 2, 5, 12]},
    ],
)
def test_the_head_gives_the_classified_proposals_of_the_model(
    fields: dict[str, Any], tiny_model: Callable[..., SpanNERModel]
) -> None:
    """Also in sentences that are shorter than the longest seed, and with words without tokens."""
    model = tiny_model("locate_and_label", seed=4, use_soft_nms=False, filter_threshold=0.2, **fields)
    model.classifier.output_layer.bias.data[-1] = -1.0
    assert_equal_candidates(model, LocateAndLabelHead)


@pytest.mark.parametrize("num_words", [1, 2, 7, 20])
def test_a_table_of_maxima_with_more_rows_gives_the_same_maxima(num_words: int) -> None:
    words = torch.randn(2, num_words, 3, generator=torch.Generator().manual_seed(0))
    places = torch.combinations(torch.arange(num_words + 1))  # (P, 2), all spans
    sentence = torch.ones(len(places), dtype=torch.long)
    tables = [clamped_maxima(words, 8), range_maxima(words)]
    first, second = (pooled_spans(table, sentence, *places.unbind(dim=1)) for table in tables)
    torch.testing.assert_close(first, second, rtol=0, atol=0)
