"""Configuration of BOPN."""

from typing import Annotated, ClassVar, Literal, cast

from hf_spanner.core.configuration_span_ner import SpanNERConfig
from hf_spanner.core.field_rules import Interval, LSTMLayers, Rate, Size, SizeOrOff


class BOPNConfig(SpanNERConfig):
    """Fields of the offset predictor and of its decoding; defaults are those of Tang et al. 2023, Table 7."""

    model_type = "bopn"
    decoding_parameters: ClassVar[tuple[str, ...]] = (
        *SpanNERConfig.decoding_parameters,
        "decode_mode",
        "min_votes",
        "pool_votes",
        "confidence",
    )

    # Encoder
    has_type_inputs: bool = (
        True  # encode the types with the sentence; if not, their vectors go straight to the biaffine
    )
    # Start of the type prompts: `normal`, or the mean embedding of each label name's pieces
    prompt_init: Literal["normal", "label_names"] = "normal"
    # Standard deviation of `normal` (and of the type vectors without type inputs)
    prompt_std: Annotated[float, Interval(0, 10, excludes_lowest=True)] = 0.02

    # Words
    lstm_layers: LSTMLayers = 1
    lstm_size: Size = 256

    # Scorer
    # S, the farthest boundary offset that has a label; 0 leaves centre and out ("w/o BO")
    max_offset: Annotated[int, Interval(0, 16)] = 2
    region_embedding_size: SizeOrOff = 20  # d_e, tells the two triangles apart; 0 is none
    # Width of an embedding of the bucketed signed distance of a cell's words; 0 is none. Not in the paper, 20 in the
    # official code
    distance_embedding_size: SizeOrOff = 0
    biaffine_size: Size = 150  # d_b, width of the type and span vectors that meet in the biaffine
    biaffine_dropout: Rate = 0.2  # dropout on the input of both layers before it
    # Add a linear score of the type vector normalised under the span's condition; not in the paper, part of the
    # official code
    has_type_conditioned_term: bool = False
    num_convolutions: Annotated[int, Interval(0, 3)] = 2  # l, 3-d convolutions of dilation 1 .. l; 0 is none
    # `parallel` as in the paper, or `sequential_residual` as in the official code
    conv_style: Literal["parallel", "sequential_residual"] = "parallel"
    conv_groups: Literal[1] | None = None  # None gives each label a kernel of its own, 1 one kernel over all labels

    # Training targets
    mask_lower: bool = False  # leave the cells below the diagonal out of loss and convolutions
    label_smoothing: Rate = 0.0  # mass that a target spreads over all labels; not in the paper
    loss_reduction: Literal["mean", "sum"] = "mean"  # over the cells of a sentence; the mean is Eq. 7

    # Inference
    # `center` reads centres only, `votes` adds spans with enough votes, `rules` adds spans whose votes pass the two
    # rules of section 3.3, `all` adds every span with a vote
    decode_mode: Literal["center", "votes", "rules", "all"] = "votes"
    # Votes of one boundary that `votes` asks for; None takes S, as the official code
    min_votes: Annotated[int, Interval(1, 64)] | None = None
    pool_votes: bool = False  # count the votes of both boundaries together in `votes`
    # Score of a span: `label`, the probability of its centre label or else the mean one of its votes; `sum`, its
    # probability as a centre plus the mean probability of its votes, at most 1; or `product`, `label` times the mean
    # probability with which the cells around it point at it
    confidence: Literal["label", "sum", "product"] = "label"

    @property
    def num_prompts(self) -> int:
        """M with type inputs, else 0."""
        return len(cast(dict[int, str], self.id2label)) if self.has_type_inputs else 0

    @property
    def num_offset_labels(self) -> int:
        """L = 4 S + 2."""
        return 4 * self.max_offset + 2

    def encoder_capacity(self) -> int:
        """As in the base class; there must be room for at least one token."""
        capacity = super().encoder_capacity()
        if capacity < 1:
            raise ValueError(
                f"id2label must leave room for tokens in the encoder's positions, got {self.num_labels} types, of "
                f"which at most {capacity + self.num_prompts - 1} fit"
            )
        return capacity
