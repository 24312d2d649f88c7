"""What a model thinks of spans that it does not find: all spans and labels of some probability, not only the likeliest.

Two methods score spans with a probability for each label, Boundary Smoothing all of them and Locate and Label its
proposals; the others say nothing of what they do not find.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hf_spanner.core.configuration_span_ner import SpanNERConfig
from hf_spanner.core.pipeline_span_ner import SpanNERPipeline
from hf_spanner.core.prediction import predicted_spans
from hf_spanner.core.spans import EntityLists, named_span, pack_candidates

FLOOR = 0.002  # spans of a lower probability are left out


def has_alternatives(config: SpanNERConfig) -> bool:
    """Whether the method of a configuration has probabilities of what it does not find, one for each class."""
    return config.model_type in ALTERNATIVES and not config.multi_label


def scored_spans(ner: SpanNERPipeline, rows: Sequence[Mapping[str, Any]], batch_size: int) -> EntityLists:
    """All spans of rows whose label has a probability of at least the floor, calibrated as the model is.

    Args:
        ner: A pipeline whose method has alternatives.
        rows: Rows with `tokens` and, for context, `document`.
        batch_size: Windows run through the model at once.

    Returns:
        For each row its spans (start, end, label, score), several labels of a span and overlaps among them.
    """
    alternatives, model = ALTERNATIVES[ner.model.config.model_type], ner.model
    decoding = model.decoding({"threshold": 0.0, "overlap": "any"})

    @torch.inference_mode()
    def candidates(batch: dict[str, np.ndarray]) -> np.ndarray:
        inputs = {name: torch.from_numpy(array).to(model.device) for name, array in batch.items()}
        return alternatives(model(**inputs, decoding=decoding, return_dict=True)).cpu().numpy()

    spans = predicted_spans(
        ner.reader.texts([row["tokens"] for row in rows], [row.get("document") for row in rows]),
        candidates,
        reader=ner.reader,
        settings={**model.config.merge_settings(), "multi_label": True},
        decoding=decoding,
        batch_size=batch_size,
    )
    id2label = model.config.id2label
    return [[named_span(span, id2label) for span in row_spans] for row_spans in spans]


def of_all_spans(output: Any) -> Tensor:
    """(B, K, 4) packed: each legal span with each label of at least the floor, for an output of (B, N, N, C + 1)."""
    scores = output.logits.softmax(dim=-1, dtype=torch.float32)[..., :-1]  # (B, N, N, C)
    is_legal = output.word_mask[:, :, None] & output.word_mask[:, None, :]  # (B, N, N)
    kept = (scores >= FLOOR) & is_legal.triu()[..., None]
    sentence, starts, lasts, labels = kept.nonzero(as_tuple=True)  # (P,)
    return pack_candidates(sentence, starts, lasts + 1, labels, scores[kept], len(output.word_mask))


def of_proposals(output: Any) -> Tensor:
    """(B, K, 4) packed: each proposal with each label of at least the floor, for an output of Locate and Label."""
    scores = output.class_logits.softmax(dim=-1, dtype=torch.float32)[:, :-1]  # (P, C)
    if output.trust is not None:
        scores = scores * output.trust[:, None]
    kept = scores >= FLOOR
    place, labels = kept.nonzero(as_tuple=True)  # (Q,)
    sentence, starts, ends = output.proposals[place].unbind(dim=-1)
    return pack_candidates(sentence, starts, ends, labels, scores[kept], len(output.word_mask))


ALTERNATIVES: dict[str, Callable[[Any], Tensor]] = {
    "boundary_smoothing": of_all_spans,
    "locate_and_label": of_proposals,
}
