"""Configuration of DiffusionNER."""

from typing import Annotated, ClassVar, Literal

from hf_spanner.core.configuration_span_ner import SpanNERConfig
from hf_spanner.core.field_rules import Interval, LossWeight, LSTMLayers, Pooling, Probability, Rate, Size

Count = Annotated[int, Interval(1, 4_096)]


class DiffusionNERConfig(SpanNERConfig):
    """Fields of the diffusion process, the denoiser, its loss and its sampling; defaults are those of Shen et al. 2023.

    The denoiser is as wide as the word vectors: `lstm_size`, or the encoder's width without a BiLSTM. The paper's
    BiLSTM is as wide as its encoder.
    """

    model_type = "diffusion_ner"
    decoding_parameters: ClassVar[tuple[str, ...]] = (
        *SpanNERConfig.decoding_parameters,
        "num_steps",
        "num_spans",
        "spans_per_word",
        "num_draws",
        "seed",
        "eta",
        "phi",
        "confidence",
    )

    # Words
    pooling: Pooling = "max"
    lstm_layers: LSTMLayers = 2
    lstm_dropout: Rate = 0.0
    lstm_layer_dropout: Rate | None = 0.1  # not in the paper, 0.1 in the official code

    # Scorer: the diffusion process
    num_timesteps: Annotated[int, Interval(2, 100_000)] = 1000  # T
    schedule: Literal["linear", "cosine", "constant"] = "cosine"  # how noise grows with time
    # lambda, boundaries lie in [-lambda, lambda]
    signal_scale: Annotated[float, Interval(0, 1_000, excludes_lowest=True)] = 1.0
    # What is noised: `lr`, left and right boundary (the paper), or `lw`, left boundary and width less one (official
    # code)
    span_form: Literal["lr", "lw"] = "lr"

    # Scorer: the denoiser
    # A span's vector from its words: their `mean` (the paper), or `boundary`, a projection of first and last word
    # (official code)
    span_pooling: Literal["mean", "boundary"] = "mean"
    # Layers of the span encoder; one in the paper, 2 in the official code
    num_decoder_layers: Annotated[int, Interval(1, 64)] = 2
    num_attention_heads: Size = 8  # heads of its attention; they divide the width
    feedforward_size: Size = 1024  # width of its feed-forward layers; not in the paper, 1024 in the official code
    decoder_dropout: Rate = 0.1  # dropout in the denoiser; not in the paper, 0.1 in the official code
    has_self_attention: bool = True  # whether noisy spans see each other (Table 4)
    has_cross_attention: bool = True  # whether they see the sentence (Table 4)
    # Two layers after the sinusoid of the time (official code; the paper adds the sinusoid itself)
    has_time_mlp: bool = True
    # Add an embedding of the number 0..K-1 of a noisy span in attention (official code)
    has_slot_embedding: bool = False
    # R, farthest distance in words with a score of its own in both pointers, counted from each boundary of the noisy
    # span, so that a pointer knows where its span lies; 0 is none, as in the paper and the official code
    position_range: Annotated[int, Interval(0, 512)] = 0
    # What the type head reads of a span: its vector, which comes from the `noisy` span (the paper), or the words that
    # its pointers point at and those between them, `pointed`; then it is taught by where spans lie, not by the
    # matching: noisy, predicted and gold spans have the type of the gold span with their boundaries, or none; not in
    # the paper
    type_reading: Literal["noisy", "pointed"] = "noisy"
    # Whether the right pointer reads the word that the left one points at and, with a `position_range`, scores the
    # distance from it, so that both point at one entity; not in the paper, where they know nothing of each other
    right_reads_left: bool = False

    # Training targets
    num_train_spans: Count = 60  # K in training, noisy spans of a sentence
    # How K rows are made from N gold spans: `repetition` of them, or `random` spans beside them
    expansion: Literal["repetition", "random"] = "random"
    # Match noisy spans with the gold spans repeated up to K, so that none is left for "no entity" (official
    # configurations); otherwise with each gold span once (the paper)
    repeat_targets: bool = True
    # `bce` over all words (official code), or `nll` of the gold word under a softmax over words
    boundary_loss: Literal["bce", "nll"] = "bce"
    boundary_loss_weight: LossWeight = 1.0  # weight of both boundary losses
    type_loss_weight: LossWeight = 1.0
    # Weight of spans without gold in the type loss; None is 1 with repeated targets, where all spans of a sentence are
    # matched or none is, and with `pointed` types, and otherwise their balance, matched over unmatched
    none_weight: LossWeight | None = None

    # Inference
    multi_label: Literal[False] = False  # of equal spans the surest stays, with its likeliest type
    num_steps: Annotated[int, Interval(1, 100_000)] = 5  # gamma, steps of denoising
    num_spans: Count = 60  # K
    # Noisy spans for each word of a text, at most `num_spans`; 0 takes `num_spans` for all texts
    spans_per_word: Annotated[float, Interval(0, 1_000)] = 0.0
    # Independent draws of noise; the confidence of a span is its mean over them, 0 where it is not found
    num_draws: Annotated[int, Interval(1, 256)] = 1
    seed: Annotated[int, Interval(0, 2**31 - 1)] = 42  # seed of the noise
    eta: Probability = 0.0  # 0 for deterministic steps (the paper), 1 for fresh noise in each (official code)
    phi: Annotated[float, Interval(0, 3)] = 2.5  # a span is kept if its three probabilities add up to more than this
    # Score of a span from left, right and type probability: their `product` (lowest calibration error as measured),
    # `mean` or `geometric` mean, or `type` alone
    confidence: Literal["type", "mean", "geometric", "product"] = "product"

    @property
    def denoiser_size(self) -> int:
        """Width of word vectors and denoiser."""
        return self.lstm_size if self.lstm_layers > 0 else self.encoder_config.hidden_size

    def _check_relations(self) -> None:
        super()._check_relations()
        if self.denoiser_size % self.num_attention_heads:
            raise ValueError(
                f"num_attention_heads must divide the width of the word vectors, {self.denoiser_size}, "
                f"got {self.num_attention_heads}"
            )
        if self.num_steps > self.num_timesteps:
            raise ValueError(f"num_steps must be at most num_timesteps = {self.num_timesteps}, got {self.num_steps}")
        if self.denoiser_size % 2 or self.denoiser_size < 4:
            raise ValueError(f"the width of the word vectors must be even and at least 4, got {self.denoiser_size}")
