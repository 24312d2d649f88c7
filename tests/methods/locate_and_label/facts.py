"""What the shared tests must know of Locate and Label."""

from typing import Any

import torch
from method_facts import SURE, MethodFacts
from torch import Tensor, nn

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
    output.proposals = model._proposals(output, model.config.filter_threshold)
    class_logits = output.class_logits
    label_of = {(row, *span[:2]): span[2] for row, spans in enumerate(labels.tolist()) for span in reversed(spans)}
    classes = [label_of[tuple(proposal)] for proposal in output.proposals.tolist()]
    classes = torch.tensor(classes, dtype=torch.long)
    output.class_logits = SURE * nn.functional.one_hot(classes, class_logits.shape[-1]).float()
    return output


FACTS = MethodFacts(
    tiny={"head_size": 16, "nms_threshold": 0.0},
    whole_steps={"negatives_per_positive": 1_000, "min_negatives": 1_000},
    none_bias="classifier.output_layer.bias",
    perfect_scores=perfect_scores,
    checkpoint={"head_size": 8, "nms_threshold": 0.0, "threshold": 0.1},
    size_field="head_size",
    max_mib=200,  # measured with torch 2.13: 129
)
