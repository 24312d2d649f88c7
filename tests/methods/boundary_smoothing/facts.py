"""What the shared tests must know of Boundary Smoothing."""

from typing import Any

from method_facts import MethodFacts
from torch import Tensor

from hf_spanner import SpanNEROutput
from hf_spanner.methods.boundary_smoothing.loss_boundary_smoothing import legal_spans, smoothed_targets


def perfect_scores(model: Any, words: Tensor, word_mask: Tensor, labels: Tensor) -> SpanNEROutput:
    """The logarithms of the smoothed targets."""
    config = model.config
    targets = smoothed_targets(
        labels,
        legal_spans(word_mask),
        epsilon=config.smoothing_epsilon,
        distance=config.smoothing_distance,
        num_labels=config.num_labels,
    )
    return SpanNEROutput(logits=targets.log(), word_mask=word_mask)


FACTS = MethodFacts(
    tiny={"affine_size": 16, "width_embedding_size": 4, "max_width": 8},
    none_bias="biaffine.bias",
    perfect_scores=perfect_scores,
    checkpoint={
        "affine_size": 8,
        "width_embedding_size": 4,
        "max_width": 6,
        "overlap": "nested",
        "calibration": {
            "kind": "platt",
            "all": {"slope": 0.8, "intercept": -0.25},
            "per_label": {"PER": {"slope": 1.5, "intercept": 0.5}},
            "fitted_on": {"name": "dev", "num_rows": 3, "fingerprint": "ab"},
        },
    },
    size_field="affine_size",
    max_mib=512,  # the limit of the trouble case R-03; measured with torch 2.13: 33
    scores_every_span=True,
    names_in_cases={"max_span_length": "max_width"},
)
