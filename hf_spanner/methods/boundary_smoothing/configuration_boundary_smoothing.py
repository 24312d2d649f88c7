"""Configuration of Boundary Smoothing."""

from typing import Annotated, Literal

from hf_spanner.core.configuration_span_ner import SpanNERConfig
from hf_spanner.core.field_rules import Interval, LSTMLayers, Rate, Size, SizeOrOff


class BoundarySmoothingConfig(SpanNERConfig):
    """Fields of the biaffine scorer and of the smoothed targets; defaults are those of Zhu and Li 2022, section 4.1."""

    model_type = "boundary_smoothing"

    # Words
    lstm_layers: LSTMLayers = 1

    # Inference
    multi_label: Literal[False] = False  # a span has one distribution over its types

    # Scorer
    affine_size: Size = 150  # d, width of the boundary vectors
    affine_dropout: Rate = 0.2  # dropout on boundary vectors and width embedding
    reduction_dropout: Rate = 0.4  # on the input of both boundary layers; not in the paper, 0.4 in the official code
    width_embedding_size: SizeOrOff = 25  # d_w; 0 leaves the width out
    # Widths j - i above it share one embedding; not in the paper, 50 buckets in the official code, later a quantile of
    # the gold widths
    max_width: Size = 50

    # Training targets
    # epsilon, the probability that a gold span hands to its neighbours; 0 gives hard targets. Half is the limit, where
    # the neighbours would together outweigh the gold span
    smoothing_epsilon: Annotated[float, Interval(0, 0.5, excludes_highest=True)] = 0.1
    # Where the share of a neighbour that is no span goes: back to the gold span at the `center` (official code, not in
    # the paper), or to `none`
    edge_mass: Literal["center", "none"] = "center"
    smoothing_distance: Annotated[int, Interval(1, 64)] = 1  # D, the largest Manhattan distance of a neighbour
