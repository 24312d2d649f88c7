from collections.abc import Callable

import pytest
import torch
from candidate_heads import assert_equal_candidates

from hf_spanner import SpanNERModel
from hf_spanner.export.head_boundary_smoothing import BoundarySmoothingHead, width_scores


@pytest.mark.parametrize("num_words", [1, 5, 20])
def test_scores_of_widths_read_cell_by_cell_equal_those_of_the_model(
    num_words: int, tiny_model: Callable[..., SpanNERModel]
) -> None:
    """Longer than the table of widths and shorter."""
    biaffine = tiny_model(max_width=8).biaffine
    weight = torch.randn(4, biaffine.widths.embedding_dim)
    with torch.no_grad():
        torch.testing.assert_close(
            width_scores(biaffine, num_words, weight), biaffine._width_scores(num_words, weight), rtol=0, atol=0
        )


@pytest.mark.parametrize("width_embedding_size", [0, 4])
def test_the_head_gives_the_candidates_of_the_model(
    width_embedding_size: int, tiny_model: Callable[..., SpanNERModel]
) -> None:
    model = tiny_model(seed=4, width_embedding_size=width_embedding_size)
    model.biaffine.bias.data[-1] = -1.0
    assert_equal_candidates(model, BoundarySmoothingHead)
