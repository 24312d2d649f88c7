"""Configuration of Boundary Smoothing."""

from typing import ClassVar

from hf_spanner.core.configuration_span_ner import RATE, SIZE, SIZE_OR_OFF, Choice, Interval, SpanNERConfig


class BoundarySmoothingConfig(SpanNERConfig):
    """Fields of the biaffine scorer and of the smoothed targets; defaults are those of Zhu and Li 2022, section 4.1.

    Args:
        smoothing_epsilon: epsilon, the probability that a gold span hands to its neighbours; 0 gives hard targets. Half
            is the limit, where the neighbours would together outweigh the gold span.
        smoothing_distance: D, the largest Manhattan distance of a neighbour.
        affine_size: d, width of the boundary vectors.
        affine_dropout: Dropout on boundary vectors and width embedding.
        reduction_dropout: Dropout on the input of both boundary layers; not in the paper, 0.4 in the official code.
        width_embedding_size: d_w; 0 leaves the width out.
        max_width: Widths j - i above this share one embedding; not in the paper, 50 buckets in the official code.
    """

    model_type = "boundary_smoothing"
    field_rules: ClassVar[dict[str, Interval | Choice]] = SpanNERConfig.field_rules | {
        "smoothing_epsilon": Interval(0, 0.5, excludes_highest=True),
        "smoothing_distance": Interval(1, 64, is_integer=True),
        "affine_size": SIZE,
        "affine_dropout": RATE,
        "reduction_dropout": RATE,
        "width_embedding_size": SIZE_OR_OFF,
        "max_width": SIZE,
    }

    smoothing_epsilon: float | int = 0.1
    smoothing_distance: int = 1
    affine_size: int = 150
    affine_dropout: float | int = 0.2
    reduction_dropout: float | int = 0.4
    width_embedding_size: int = 25
    max_width: int = 50
    lstm_layers: int = 1
