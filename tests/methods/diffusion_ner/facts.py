"""What the shared tests must know of DiffusionNER."""

from typing import Any

import torch
from method_facts import SURE, MethodFacts
from torch import Tensor, nn

from hf_spanner import SpanNEROutput


def perfect_scores(model: Any, words: Tensor, word_mask: Tensor, labels: Tensor) -> SpanNEROutput:
    """The model's own noisy spans, matched with gold as in its loss, each certain of what it is matched with."""
    output = type(model).score_spans(model, words, word_mask, None, model.decoding())
    matched = model.matched(output, labels)
    is_matched = matched >= 0
    gold = labels.gather(1, matched.clamp(min=0)[..., None].expand(-1, -1, 3))
    classes = torch.where(is_matched, gold[..., 2], model.config.num_labels)
    starts, lasts = (side.clamp(0, word_mask.shape[1] - 1) for side in (gold[..., 0], gold[..., 1] - 1))
    for name, targets in (("logits", classes), ("left", starts), ("right", lasts)):
        scores = output[name]
        scores.copy_(SURE * nn.functional.one_hot(targets, scores.shape[-1]))
    return output


FACTS = MethodFacts(
    tiny={
        "lstm_layers": 0,
        "num_train_spans": 12,
        "num_spans": 12,
        "num_decoder_layers": 1,
        "feedforward_size": 32,
        "boundary_loss": "nll",  # it learns soonest
    },
    every_part={"position_range": 3, "type_reading": "pointed", "right_reads_left": True},
    talkative={"phi": 0.0},
    short_training={"freeze_encoder_epochs": 0.0},
    none_bias="denoiser.types.2.bias",
    perfect_scores=perfect_scores,
    checkpoint={
        "lstm_layers": 0,
        "num_spans": 8,
        "num_train_spans": 8,
        "num_decoder_layers": 1,
        "feedforward_size": 16,
        "phi": 0.0,
    },
    size_field="feedforward_size",
    max_mib=30,  # measured with torch 2.13: 14
    most_entities=12,
    names_in_cases={"num_proposals": "num_spans"},
)
