"""What the score of a span is."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from hf_spanner import SpanNERCollator, SpanNERModel
from hf_spanner.core.spans import unpack_spans
from hf_spanner.methods.locate_and_label.loss_locate_and_label import moved_spans

Make = Callable[..., SpanNERModel]


def test_a_score_may_be_the_product_with_the_best_seed_that_the_filter_let_pass(
    tiny_model: Make, collator: SpanNERCollator, rows: list[dict[str, Any]]
) -> None:
    model = tiny_model("locate_and_label", filter_threshold=0.1, use_soft_nms=False)
    model.classifier.output_layer.bias.data[-1] = -1.0
    batch = collator(rows)
    plain = model(**batch)
    output = model(**batch, decoding={"confidence": "product"})
    assert plain.trust is None
    assert torch.equal(output.proposals, plain.proposals)
    lengths = batch["word_mask"].sum(dim=1)
    moved = moved_spans(output.seeds, output.offsets, lengths[:, None])
    expected = [
        max(
            (torch.sigmoid(output.logits[row, seed]).item())
            for seed in range(len(output.seeds))
            if moved[row, seed].tolist() == [start, end] and output.seeds[seed, 1] <= lengths[row]
        )
        for row, start, end in output.proposals.tolist()
    ]
    assert output.trust.tolist() == pytest.approx(expected)
    settings = [model.decoding({"confidence": kind}) for kind in ("class", "product")]
    before, after = (
        [{span[:3]: span[3] for span in spans} for spans in unpack_spans(model.candidate_spans(*given))]
        for given in zip((plain, output), settings, strict=True)
    )
    factors = {tuple(place): factor for place, factor in zip(output.proposals.tolist(), expected, strict=True)}
    assert after == [
        {span: pytest.approx(score * factors[row, *span[:2]], rel=1e-5) for span, score in spans.items()}
        for row, spans in enumerate(before)
    ]
    assert any(before)
