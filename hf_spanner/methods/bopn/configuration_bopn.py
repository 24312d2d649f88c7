"""Configuration of BOPN."""

from typing import ClassVar, Literal, cast

from hf_spanner.core.configuration_span_ner import (
    RATE,
    SIZE,
    SIZE_OR_OFF,
    SWITCH,
    Choice,
    Interval,
    SpanNERConfig,
)


class BOPNConfig(SpanNERConfig):
    """Fields of the offset predictor and of its decoding; defaults are those of Tang et al. 2023, Table 7.

    Args:
        max_offset: S, the farthest boundary offset that has a label; 0 leaves centre and out ("w/o BO").
        has_type_inputs: Encode the types with the sentence; if not, their vectors go straight to the biaffine.
        prompt_init: Start of the type prompts: `normal`, or the mean embedding of each label name's pieces.
        prompt_std: Standard deviation of `normal` (and of the type vectors without type inputs).
        region_embedding_size: d_e, tells the two triangles apart; 0 is none.
        distance_embedding_size: Width of an embedding of the bucketed signed distance of a cell's words; 0 is none. Not
            in the paper, 20 in the official code.
        biaffine_size: d_b, width of the type and span vectors that meet in the biaffine.
        biaffine_dropout: Dropout on the input of both layers before it.
        has_type_conditioned_term: Add a linear score of the type vector normalised under the span's condition; not in
            the paper, part of the official code.
        num_convolutions: l, 3-d convolutions of dilation 1 .. l; 0 is none.
        conv_style: `parallel` as in the paper, or `sequential_residual` as in the official code.
        conv_groups: None gives each label a kernel of its own, 1 one kernel over all labels.
        mask_lower: Leave the cells below the diagonal out of loss and convolutions.
        label_smoothing: Mass that a target spreads over all labels; not in the paper.
        loss_reduction: `mean` over the cells of a sentence (Eq. 7), or their `sum`.
        decode_mode: `center` reads centres only, `votes` adds spans with enough votes, `rules` adds spans whose votes
            pass the two rules of section 3.3, `all` adds every span with a vote.
        min_votes: Votes of one boundary that `votes` asks for; None takes S, as the official code.
        pool_votes: Count the votes of both boundaries together in `votes`.
        confidence: Score of a span: `label`, the probability of its centre label or else the mean one of its votes; or
            `sum`, its probability as a centre plus the mean probability of its votes, at most 1.
    """

    model_type = "bopn"
    decoding_parameters: ClassVar[tuple[str, ...]] = (
        *SpanNERConfig.decoding_parameters,
        "decode_mode",
        "min_votes",
        "pool_votes",
        "confidence",
    )
    field_rules: ClassVar[dict[str, Interval | Choice]] = SpanNERConfig.field_rules | {
        "max_offset": Interval(0, 16, is_integer=True),
        "has_type_inputs": SWITCH,
        "prompt_init": Choice(("normal", "label_names")),
        "prompt_std": Interval(0, 10, excludes_lowest=True),
        "region_embedding_size": SIZE_OR_OFF,
        "distance_embedding_size": SIZE_OR_OFF,
        "biaffine_size": SIZE,
        "biaffine_dropout": RATE,
        "has_type_conditioned_term": SWITCH,
        "num_convolutions": Interval(0, 3, is_integer=True),
        "conv_style": Choice(("parallel", "sequential_residual")),
        "conv_groups": Choice((None, 1)),
        "mask_lower": SWITCH,
        "label_smoothing": RATE,
        "loss_reduction": Choice(("mean", "sum")),
        "decode_mode": Choice(("center", "votes", "rules", "all")),
        "min_votes": Interval(1, 64, is_integer=True, or_none=True),
        "pool_votes": SWITCH,
        "confidence": Choice(("label", "sum")),
    }

    max_offset: int = 2
    has_type_inputs: bool = True
    prompt_init: Literal["normal", "label_names"] = "normal"
    prompt_std: float | int = 0.02
    region_embedding_size: int = 20
    distance_embedding_size: int = 0
    biaffine_size: int = 150
    biaffine_dropout: float | int = 0.2
    has_type_conditioned_term: bool = False
    num_convolutions: int = 2
    conv_style: Literal["parallel", "sequential_residual"] = "parallel"
    conv_groups: int | None = None
    mask_lower: bool = False
    label_smoothing: float | int = 0.0
    loss_reduction: Literal["mean", "sum"] = "mean"
    decode_mode: Literal["center", "votes", "rules", "all"] = "votes"
    min_votes: int | None = None
    pool_votes: bool = False
    confidence: Literal["label", "sum"] = "label"
    lstm_layers: int = 1
    lstm_size: int = 256

    @property
    def num_prompts(self) -> int:
        """M with type inputs, else 0."""
        return len(cast(dict[int, str], self.id2label)) if self.has_type_inputs else 0

    @property
    def num_offset_labels(self) -> int:
        """L = 4 S + 2."""
        return 4 * self.max_offset + 2

    def _encoder_capacity(self) -> int:
        capacity = super()._encoder_capacity()
        if capacity < 1:
            raise ValueError(
                f"id2label must leave room for tokens in the encoder's positions, got {self.num_labels} types, of "
                f"which at most {capacity + self.num_prompts - 1} fit"
            )
        return capacity
