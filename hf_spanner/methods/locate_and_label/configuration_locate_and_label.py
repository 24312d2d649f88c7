"""Configuration of Locate and Label."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np

from hf_spanner.core.configuration_span_ner import SpanNERConfig
from hf_spanner.core.field_rules import (
    Interval,
    LossWeight,
    LSTMLayers,
    Overlap,
    Pooling,
    Probability,
    Rate,
    Size,
)
from hf_spanner.core.spans import Span
from hf_spanner.methods.locate_and_label.soft_nms_locate_and_label import after_soft_nms


class Rising:
    """At least one number, each larger than the one before it."""

    def admits(self, value: Sequence[int]) -> bool:
        """Whether the numbers rise."""
        return len(value) > 0 and list(value) == sorted(set(value))

    def __str__(self) -> str:
        """The rule in words, after those of the type."""
        return "above the one before it, at least one"


Count = Annotated[int, Interval(0, 100_000)]
Exponent = Annotated[float, Interval(0, 100)]


class LocateAndLabelConfig(SpanNERConfig):
    """Fields of the three heads, of the assignment of gold and of Soft-NMS, with the defaults of Shen et al. 2021.

    Shared fields have the package's defaults: the paper takes the mean of four layers and a sentence of context on each
    side.
    """

    model_type = "locate_and_label"
    decoding_parameters: ClassVar[tuple[str, ...]] = (
        *SpanNERConfig.decoding_parameters,
        "filter_threshold",
        "nms_iou",
        "nms_decay",
        "nms_threshold",
        "confidence",
    )

    # Words
    pooling: Pooling = "max"
    lstm_layers: LSTMLayers = 1
    lstm_size: Size = 1024
    lstm_dropout: Rate = 0.0  # silent; the official code's rate of .4 acts between layers, so not with one

    # Scorer
    # Lengths of the seed spans in training, in words; at inference all lengths up to the largest
    seed_lengths: Annotated[Sequence[Annotated[int, Interval(1, 512)]], Rising()] = (1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15)
    head_size: Size = 1024  # width of the hidden layer of filter, regressor and classifier
    head_dropout: Rate = 0.5  # dropout on the input of the three heads
    use_filter: bool = True  # False classifies every seed (Table 3, "w/o filter")
    use_regressor: bool = True  # False leaves every seed where it is (Table 3, "w/o regressor")

    # Training targets
    positive_iou: Rate = 0.7  # alpha_1; seeds above it are positive
    soft_exponent: Exponent = 1.0  # eta of the soft weights; 0 weighs all examples alike (Table 3, "w/o soft examples")
    focal_gamma: Exponent = 2.0  # gamma of the filter's focal loss
    negatives_per_positive: Count = 5  # sampled negative seeds for each positive one of a sentence
    min_negatives: Count = 2  # sampled negative seeds beyond that; not in the paper, 2 in the official code
    filter_loss_weight: LossWeight = 1.0  # lambda_1
    regression_loss_weight: LossWeight = 0.1  # lambda_2, on the smooth L1 loss of the offsets
    overlap_loss_weight: LossWeight = 0.1  # lambda_2, on the overlap loss; the paper has one weight for both
    classification_loss_weight: LossWeight = 1.0  # lambda_3

    # Inference
    overlap: Overlap = "nested"
    # Lowest filter probability of a proposal; not in the paper, odds of 1 to 5 in the official code
    filter_threshold: Probability = 1 / 6
    use_soft_nms: bool = True  # False keeps every classified span (Table 3, "w/o Soft-NMS")
    nms_iou: Probability = 0.7  # k; a span decays by each better one that it overlaps at least this much
    nms_decay: Probability = 0.8  # u, the factor of the decay
    nms_threshold: Probability = 0.5  # delta; spans whose decayed score is not above it are dropped
    # Score of a span: the classifier's probability of its `class` (the paper), or its `product` with the filter's
    # probability of the seed, which is nearer to the truth; without a filter it is the first
    confidence: Literal["class", "product"] = "class"

    def __post_init__(self, **kwargs: Any) -> None:
        """Check every range, and keep the lengths as the list that a file holds."""
        super().__post_init__(**kwargs)
        self.seed_lengths = list(self.seed_lengths)

    @property
    def max_seed_length(self) -> int:
        """Longest seed, in words."""
        return self.seed_lengths[-1]

    def sifted(self, candidates: np.ndarray, decoding: Mapping[str, Any]) -> np.ndarray:
        """The proposals that Soft-NMS leaves, each once."""
        ordered = candidates[np.argsort(candidates[:, 3], kind="stable")]  # of equal spans the likeliest stays
        spans = {(start, end): Span(int(start), int(end), int(label), score) for start, end, label, score in ordered}
        if not self.use_soft_nms or not spans:
            return candidates
        kept = after_soft_nms(list(spans.values()), decoding, cast(dict[int, str], self.id2label))
        return np.array(kept, dtype=np.float32).reshape(-1, 4)
