"""Configuration of Locate and Label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from hf_spanner.core.configuration_span_ner import PROBABILITY, RATE, SIZE, SWITCH, Interval, SpanNERConfig


@dataclass(frozen=True)
class Lengths:
    """A list of different whole numbers in rising order, each within [1, highest]."""

    highest: int

    def admits(self, value: object) -> bool:
        """Whether the value is such a list."""
        if not isinstance(value, list | tuple) or not value:
            return False
        is_whole = all(isinstance(length, int) and not isinstance(length, bool) for length in value)
        return is_whole and list(value) == sorted(set(value)) and value[0] >= 1 and value[-1] <= self.highest

    def __str__(self) -> str:
        """The rule in words, for messages."""
        return f"a list of different integers in [1, {self.highest}], rising"


WEIGHT = Interval(0, 1_000)


class LocateAndLabelConfig(SpanNERConfig):
    """Fields of the three heads, of the assignment of gold and of Soft-NMS, with the defaults of Shen et al. 2021.

    Shared fields have the package's defaults: the paper takes the mean of four layers and a sentence of context on each
    side.

    Args:
        seed_lengths: Lengths of the seed spans in training, in words; at inference all lengths up to the largest.
        head_size: Width of the hidden layer of filter, regressor and classifier.
        head_dropout: Dropout on the input of the three heads.
        use_filter: False classifies every seed (Table 3, "w/o filter").
        use_regressor: False leaves every seed where it is (Table 3, "w/o regressor").
        use_soft_nms: False keeps every classified span (Table 3, "w/o Soft-NMS").
        filter_threshold: Lowest filter probability of a proposal; not in the paper, odds of 1 to 5 in the
            official code.
        positive_iou: alpha_1; seeds above it are positive.
        soft_exponent: eta of the soft weights; 0 gives all examples the weight 1 (Table 3, "w/o soft examples").
        focal_gamma: gamma of the filter's focal loss.
        negatives_per_positive: Sampled negative seeds for each positive one of a sentence.
        min_negatives: Sampled negative seeds beyond that; not in the paper, 2 in the official code.
        filter_loss_weight: lambda_1.
        regression_loss_weight: lambda_2, on the smooth L1 loss of the offsets.
        overlap_loss_weight: lambda_2, on the overlap loss; the paper has one weight for both.
        classification_loss_weight: lambda_3.
        nms_iou: k; a span decays by each better one that it overlaps at least this much.
        nms_decay: u, the factor of the decay.
        nms_threshold: delta; spans whose decayed score is not above it are dropped.
    """

    model_type = "locate_and_label"
    decoding_parameters: ClassVar[tuple[str, ...]] = (
        *SpanNERConfig.decoding_parameters,
        "nms_iou",
        "nms_decay",
        "nms_threshold",
    )
    field_rules: ClassVar[dict[str, Any]] = SpanNERConfig.field_rules | {
        "seed_lengths": Lengths(512),
        "head_size": SIZE,
        "head_dropout": RATE,
        "use_filter": SWITCH,
        "use_regressor": SWITCH,
        "use_soft_nms": SWITCH,
        "filter_threshold": PROBABILITY,
        "positive_iou": Interval(0, 1, excludes_highest=True),
        "soft_exponent": Interval(0, 100),
        "focal_gamma": Interval(0, 100),
        "negatives_per_positive": Interval(0, 100_000, is_integer=True),
        "min_negatives": Interval(0, 100_000, is_integer=True),
        "filter_loss_weight": WEIGHT,
        "regression_loss_weight": WEIGHT,
        "overlap_loss_weight": WEIGHT,
        "classification_loss_weight": WEIGHT,
        "nms_iou": PROBABILITY,
        "nms_decay": PROBABILITY,
        "nms_threshold": PROBABILITY,
    }

    pooling: str = "max"
    lstm_layers: int = 1
    lstm_size: int = 1024
    lstm_dropout: float = 0.4
    overlap: str = "nested"
    seed_lengths: Sequence[int] = (1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15)
    head_size: int = 1024
    head_dropout: float | int = 0.5
    use_filter: bool = True
    use_regressor: bool = True
    use_soft_nms: bool = True
    filter_threshold: float | int = 1 / 6
    positive_iou: float | int = 0.7
    soft_exponent: float | int = 1.0
    focal_gamma: float | int = 2.0
    negatives_per_positive: int = 5
    min_negatives: int = 2
    filter_loss_weight: float | int = 1.0
    regression_loss_weight: float | int = 0.1
    overlap_loss_weight: float | int = 0.1
    classification_loss_weight: float | int = 1.0
    nms_iou: float | int = 0.7
    nms_decay: float | int = 0.8
    nms_threshold: float | int = 0.5

    def __post_init__(self, **kwargs: Any) -> None:
        """Check every range, and keep the lengths as the list that a file holds."""
        super().__post_init__(**kwargs)
        self.seed_lengths = list(self.seed_lengths)

    @property
    def max_seed_length(self) -> int:
        """Longest seed, in words."""
        return self.seed_lengths[-1]
