from collections.abc import Callable
from typing import Any

import pytest
import torch
from candidate_heads import assert_equal_candidates

from hf_spanner import SpanNERModel
from hf_spanner.export.head_diffusion_ner import DiffusionNERHead, distinct_rows
from hf_spanner.methods.diffusion_ner.process_diffusion_ner import distinct_spans

PARTS = {"position_range": 3, "type_reading": "pointed", "right_reads_left": True}


@pytest.mark.parametrize(
    "settings",
    [
        {"num_steps": 1},
        {"num_steps": 3, "num_draws": 3, "confidence": "geometric"},
        {"num_steps": 3, "eta": 1.0, "spans_per_word": 3.0, "seed": 7},
        {"num_steps": 1, "num_draws": 2, "spans_per_word": 2.0, "phi": 0.5},
    ],
    ids=lambda value: "-".join(map(str, value.values())),
)
@pytest.mark.parametrize(
    "fields",
    [
        {**PARTS},
        {"boundary_loss": "bce", "span_form": "lw", "span_pooling": "boundary", "has_slot_embedding": True},
        {"has_self_attention": False, "has_cross_attention": False, "boundary_loss": "bce"},
    ],
    ids=["all_parts", "official_code", "no_attention"],
)
def test_the_head_gives_the_candidates_of_the_model(
    settings: dict[str, Any], fields: dict[str, Any], tiny_model: Callable[..., SpanNERModel]
) -> None:
    model = tiny_model("diffusion_ner", seed=4, phi=0.0, num_spans=40, **fields)
    for name, value in settings.items():
        setattr(model.config, name, value)
    for pointer in (model.denoiser.left, model.denoiser.right):  # so that spans point at different words
        for weight in (pointer.spans.weight, pointer.output.weight):
            weight.data *= 30
        if pointer.from_first is not None:
            torch.nn.init.normal_(pointer.from_first.expand.weight, std=10.0)
    model.denoiser.types[2].bias.data[-1] = -10.0
    assert_equal_candidates(model, DiffusionNERHead)


@pytest.mark.parametrize("has_mask", [False, True])
def test_rows_are_the_different_spans_in_the_order_of_their_first(has_mask: bool) -> None:
    """Spans, their counts and the sums over rows are those of `distinct_spans`."""
    generator = torch.Generator().manual_seed(3)
    spans = torch.randint(4, (2, 3, 20, 2), generator=generator).sort(dim=-1).values
    is_wanted = torch.arange(20) < torch.tensor([[20], [9 if has_mask else 20]])
    rows, counts, places = distinct_rows(spans, is_wanted)
    other_rows, other_counts, _ = distinct_spans(spans, is_wanted)
    for one, other in zip(
        torch.cat([rows, counts[..., None]], dim=-1).flatten(0, 1).tolist(),
        torch.cat([other_rows, other_counts[..., None]], dim=-1).flatten(0, 1).tolist(),
        strict=True,
    ):
        assert sorted(row for row in one if row[2]) == sorted(row for row in other if row[2])
    found = rows.flatten(1, 2).gather(1, places[..., None].expand(-1, -1, 2)).view_as(spans)
    is_real = is_wanted[:, None].expand(found.shape[:3])
    assert torch.equal(found[is_real], spans[is_real])
