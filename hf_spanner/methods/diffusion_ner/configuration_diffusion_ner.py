"""Configuration of DiffusionNER."""

from typing import ClassVar, Literal

from hf_spanner.core.configuration_span_ner import (
    RATE,
    SIZE,
    SWITCH,
    Choice,
    Interval,
    SpanNERConfig,
)

WEIGHT = Interval(0, 1_000)
COUNT = Interval(1, 4_096, is_integer=True)


class DiffusionNERConfig(SpanNERConfig):
    """Fields of the diffusion process, the denoiser, its loss and its sampling; defaults are those of Shen et al. 2023.

    The denoiser is as wide as the word vectors: `lstm_size`, or the encoder's width without a BiLSTM. The paper's
    BiLSTM is as wide as its encoder.

    Args:
        num_train_spans: K in training, noisy spans of a sentence.
        num_timesteps: T.
        schedule: How noise grows with time: `linear`, `cosine` or `constant`.
        signal_scale: lambda, boundaries lie in [-lambda, lambda].
        expansion: How K rows are made from N gold spans: `repetition` of them, or `random` spans beside them.
        repeat_targets: Match noisy spans with the gold spans repeated up to K, so that none is left for "no entity"
            (official configurations); otherwise with each gold span once (the paper).
        span_form: What is noised: `lr`, left and right boundary (the paper), or `lw`, left boundary and width less one
            (official code).
        span_pooling: A span's vector from its words: their `mean` (the paper), or `boundary`, a projection of first and
            last word (official code).
        num_decoder_layers: Layers of the span encoder; not in the paper, 2 in the official code.
        num_attention_heads: Heads of its attention; they divide the width.
        feedforward_size: Width of its feed-forward layers; not in the paper, 1024 in the official code.
        decoder_dropout: Dropout in the denoiser; not in the paper, 0.1 in the official code.
        has_self_attention: Whether noisy spans see each other (Table 4).
        has_cross_attention: Whether they see the sentence (Table 4).
        has_time_mlp: Two layers behind the sinusoid of the time (official code; the paper adds the sinusoid itself).
        has_slot_embedding: Add an embedding of the number 0..K-1 of a noisy span in attention (official code).
        boundary_loss: `bce` over all words (official code) or `nll` of the gold word under a softmax over words.
        boundary_loss_weight: Weight of both boundary losses.
        type_loss_weight: Weight of the type loss.
        none_weight: Weight of spans without gold in the type loss; None is their balance, matched over unmatched.
        num_steps: gamma, steps of denoising at inference.
        num_spans: K at inference.
        spans_per_word: Noisy spans for each word of a text, at most `num_spans`; 0 takes `num_spans` for all texts.
        num_draws: Independent draws of noise; the confidence of a span is its mean over them, 0 where it is not found.
        seed: Seed of the noise at inference.
        eta: 0 for deterministic steps (the paper), 1 for fresh noise in each (official code).
        phi: A span is kept if its three probabilities add up to more than this.
        confidence: Score of a span from left, right and type probability: their `product` (lowest calibration error as
            measured), `mean` or `geometric` mean, or `type` alone.
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
    field_rules: ClassVar[dict[str, Interval | Choice]] = SpanNERConfig.field_rules | {
        "num_train_spans": COUNT,
        "num_timesteps": Interval(2, 100_000, is_integer=True),
        "schedule": Choice(("linear", "cosine", "constant")),
        "signal_scale": Interval(0, 1_000, excludes_lowest=True),
        "expansion": Choice(("repetition", "random")),
        "repeat_targets": SWITCH,
        "span_form": Choice(("lr", "lw")),
        "span_pooling": Choice(("mean", "boundary")),
        "num_decoder_layers": Interval(1, 64, is_integer=True),
        "num_attention_heads": SIZE,
        "feedforward_size": SIZE,
        "decoder_dropout": RATE,
        "has_self_attention": SWITCH,
        "has_cross_attention": SWITCH,
        "has_time_mlp": SWITCH,
        "has_slot_embedding": SWITCH,
        "boundary_loss": Choice(("bce", "nll")),
        "boundary_loss_weight": WEIGHT,
        "type_loss_weight": WEIGHT,
        "none_weight": Interval(0, 1_000, or_none=True),
        "num_steps": Interval(1, 100_000, is_integer=True),
        "num_spans": COUNT,
        "spans_per_word": Interval(0, 1_000),
        "num_draws": Interval(1, 256, is_integer=True),
        "seed": Interval(0, 2**31 - 1, is_integer=True),
        "eta": Interval(0, 1),
        "phi": Interval(0, 3),
        "confidence": Choice(("type", "mean", "geometric", "product")),
    }

    num_train_spans: int = 60
    num_timesteps: int = 1000
    schedule: Literal["linear", "cosine", "constant"] = "cosine"
    signal_scale: float | int = 1.0
    expansion: Literal["repetition", "random"] = "random"
    repeat_targets: bool = True
    span_form: Literal["lr", "lw"] = "lr"
    span_pooling: Literal["mean", "boundary"] = "mean"
    num_decoder_layers: int = 2
    num_attention_heads: int = 8
    feedforward_size: int = 1024
    decoder_dropout: float | int = 0.1
    has_self_attention: bool = True
    has_cross_attention: bool = True
    has_time_mlp: bool = True
    has_slot_embedding: bool = False
    boundary_loss: Literal["bce", "nll"] = "bce"
    boundary_loss_weight: float | int = 1.0
    type_loss_weight: float | int = 1.0
    none_weight: float | int | None = None
    num_steps: int = 5
    num_spans: int = 60
    spans_per_word: float | int = 0.0
    num_draws: int = 1
    seed: int = 42
    eta: float | int = 0.0
    phi: float | int = 2.5
    confidence: Literal["type", "mean", "geometric", "product"] = "product"
    pooling: Literal["mean", "max", "first"] = "max"
    lstm_layers: int = 2
    lstm_dropout: float = 0.1

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
