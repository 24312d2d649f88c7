"""What the shared tests must know of BOPN."""

from typing import Any

from method_facts import SURE, MethodFacts
from torch import Tensor, nn

from hf_spanner import SpanNEROutput
from hf_spanner.methods.bopn.loss_bopn import offset_targets


def perfect_scores(model: Any, words: Tensor, word_mask: Tensor, labels: Tensor) -> SpanNEROutput:
    """Scores with which the offset label of each cell is certain."""
    max_offset = model.config.max_offset
    targets = offset_targets(labels, word_mask.shape[1], max_offset=max_offset, num_labels=model.config.num_labels)
    return SpanNEROutput(logits=SURE * nn.functional.one_hot(targets, 4 * max_offset + 2).float(), word_mask=word_mask)


FACTS = MethodFacts(
    tiny={"biaffine_size": 16, "region_embedding_size": 4},
    every_part={
        "conv_style": "sequential_residual",
        "has_type_conditioned_term": True,
        "distance_embedding_size": 4,
    },
    talkative={"decode_mode": "all"},
    none_bias="convolutions.output.bias",
    perfect_scores=perfect_scores,
    checkpoint={"biaffine_size": 8, "region_embedding_size": 4, "decode_mode": "all", "temperature": 2.0},
    size_field="biaffine_size",
    max_mib=700,  # measured with torch 2.13: 561
    two_labels={"multi_label": True},
)
