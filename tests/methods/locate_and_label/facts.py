"""What the shared tests must know of Locate and Label."""

from typing import Any

import torch
from method_facts import SURE, MethodFacts
from torch import Tensor

from hf_spanner import SpanNEROutput
from hf_spanner.methods.locate_and_label.loss_locate_and_label import assign_gold


def perfect_scores(model: Any, words: Tensor, word_mask: Tensor, labels: Tensor) -> SpanNEROutput:
    """The filter keeps seeds near gold, moved onto it, and each proposal takes the type of its gold."""
    output = type(model).score_spans(model, words, word_mask, None, model.decoding())
    seeds = output.seeds.expand(len(words), -1, -1)
    pairs = assign_gold(seeds, labels)
    is_positive = pairs.iou > model.config.positive_iou
    output.logits = torch.where(is_positive, SURE, -SURE)
    output.offsets = torch.where(is_positive[..., None], pairs.gold - seeds, 0).float()
    output.proposals, _ = model._proposals(output, model.config.filter_threshold)
    labels_of: dict[tuple[int, ...], list[int]] = {}
    for row, spans in enumerate(labels.tolist()):
        for start, end, label in spans:
            labels_of.setdefault((row, start, end), []).append(label)
    output.class_logits = torch.full((len(output.proposals), model.classifier.num_outputs), -SURE)
    for place, proposal in enumerate(output.proposals.tolist()):
        found = labels_of[tuple(proposal)]
        output.class_logits[place, found if model.config.multi_label else found[:1]] = SURE
    return output


FACTS = MethodFacts(
    tiny={"head_size": 16, "nms_threshold": 0.0},
    whole_steps={"negatives_per_positive": 1_000, "min_negatives": 1_000},
    none_bias="classifier.output_layer.bias",
    perfect_scores=perfect_scores,
    checkpoint={"head_size": 8, "nms_threshold": 0.0, "threshold": 0.1},
    size_field="head_size",
    two_labels={"multi_label": True},
    max_mib=200,  # measured with torch 2.13: 129
)
