"""Configuration that all methods share: labels, encoder, word vectors, windows and decoding."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

from transformers import AutoConfig, PreTrainedConfig
from transformers.configuration_utils import SubConfigSpec
from transformers.utils import logging

from hf_spanner.core.calibration import PROMISES, CalibrationRule, promised_threshold
from hf_spanner.core.decoding import Decoding

logger = logging.get_logger(__name__)

VERSION = "0.1.0"
PIPELINES = {"span-ner": {"impl": "pipeline_span_ner.SpanNERPipeline", "pt": ["AutoModel"], "type": "text"}}
MAX_SIZE = 65_536


@dataclass(frozen=True)
class Interval:
    """Range of a number; `is_integer` admits whole numbers only, `excludes_...` opens an end, `or_none` admits None."""

    lowest: float
    highest: float
    is_integer: bool = False
    excludes_lowest: bool = False
    excludes_highest: bool = False
    or_none: bool = False

    def admits(self, value: object) -> bool:
        """Whether the value is a number of the right kind within the range (NaN never is)."""
        if value is None:
            return self.or_none
        if isinstance(value, bool) or not isinstance(value, int if self.is_integer else (int, float)):
            return False
        above = value > self.lowest if self.excludes_lowest else value >= self.lowest
        return above and (value < self.highest if self.excludes_highest else value <= self.highest)

    def __str__(self) -> str:
        """The range in words, for messages."""
        kind = "an integer" if self.is_integer else "a number"
        left, right = "(" if self.excludes_lowest else "[", ")" if self.excludes_highest else "]"
        return f"{kind} in {left}{self.lowest}, {self.highest}{right}" + (" or None" if self.or_none else "")


@dataclass(frozen=True)
class Choice:
    """The values that a field may take."""

    values: tuple

    def admits(self, value: object) -> bool:
        """Whether the value is one of the choices, of the same type."""
        return any(value == allowed and type(value) is type(allowed) for allowed in self.values)

    def __str__(self) -> str:
        """The choices in words, for messages."""
        return "one of " + ", ".join(map(repr, self.values))


@dataclass(frozen=True)
class NumberOrByLabel:
    """A number within a range, or a mapping from label names to such numbers."""

    interval: Interval

    def admits(self, value: object) -> bool:
        """Whether the number, or each number of the mapping, is admitted; the labels are checked elsewhere."""
        if isinstance(value, Mapping):
            return all(isinstance(label, str) for label in value) and all(map(self.interval.admits, value.values()))
        return self.interval.admits(value)

    def __str__(self) -> str:
        """The rule in words, for messages."""
        return f"{self.interval}, or one for each label"


SIZE = Interval(1, MAX_SIZE, is_integer=True)
SIZE_OR_OFF = Interval(0, MAX_SIZE, is_integer=True)
RATE = Interval(0, 1, excludes_highest=True)
PROBABILITY = Interval(0, 1)
PROBABILITY_BY_LABEL = NumberOrByLabel(PROBABILITY)
SWITCH = Choice((False, True))


class _Registered(dict):
    """Names the task of an installed class; `pipeline` then takes the registered pipeline and needs no trust."""

    def __contains__(self, task: object) -> bool:
        return False


class SpanNERConfig(PreTrainedConfig):
    """Fields common to all methods. `id2label` holds the entity types only; none is the class behind the last.

    Args:
        encoder_config: The encoder's own configuration.
        pooling: How the tokens of a word become its vector: `mean`, `max` or `first`.
        num_encoder_layers: The encoder's last layers whose mean is a token's vector; 1 is the last layer alone.
        encoder_dropout: Hidden and attention dropout of the encoder; None keeps the encoder's own.
        lstm_layers: Layers of a BiLSTM over the words; 0 is none.
        lstm_size: Width of its output, both directions together; even.
        lstm_dropout: Dropout on its input.
        window_size: Most tokens read at once, special tokens not counted; None: all that the encoder allows.
        window_overlap: Most tokens that neighbouring windows share, also the most tokens read of one word; None is a
            quarter of the window.
        context_sentences: Sentences of the same document that are read on each side as context.
        split_hyphens: Split raw text at hyphens inside words, as some corpora do.
        overlap: Which overlaps the output may have: `flat`, `nested` or `any`.
        multi_label: Whether one span may have several labels.
        threshold: Lowest calibrated score of an entity that is given out; a number, or one for each label by name.
        temperature: Divides the log-odds of a raw score; set by hand, 1 changes nothing. Must be 1 with `calibration`.
        calibration: Monotone maps from raw score to probability and the rows that they were fitted on, as
            `recipes/calibrate.py` writes them; None keeps raw scores.
        spanner_version: Version of the package that wrote the configuration.

    Raises:
        ValueError: If a value lies outside its range; the message names field, value and range.
    """

    model_type = "span_ner"
    _auto_class = "AutoConfig"
    sub_configs_defaults = {"encoder_config": SubConfigSpec(config_class=AutoConfig, model_type="bert")}
    decoding_parameters: ClassVar[tuple[str, ...]] = ("threshold", "overlap")
    field_rules: ClassVar[dict[str, Any]] = {
        "pooling": Choice(("mean", "max", "first")),
        "num_encoder_layers": SIZE,
        "encoder_dropout": Interval(0, 1, excludes_highest=True, or_none=True),
        "lstm_layers": Interval(0, 16, is_integer=True),
        "lstm_size": SIZE,
        "lstm_dropout": RATE,
        "window_size": Interval(1, 1_000_000, is_integer=True, or_none=True),
        "window_overlap": Interval(1, 1_000_000, is_integer=True, or_none=True),
        "context_sentences": Interval(0, 1_000, is_integer=True),
        "split_hyphens": SWITCH,
        "overlap": Choice(("flat", "nested", "any")),
        "multi_label": SWITCH,
        "threshold": PROBABILITY_BY_LABEL,
        "temperature": Interval(0, 1_000, excludes_lowest=True),
        "calibration": CalibrationRule(),
    }

    encoder_config: Any = None  # given as a configuration, a dict or nothing; a PreTrainedConfig from then on
    pooling: Literal["mean", "max", "first"] = "mean"
    num_encoder_layers: int = 1
    encoder_dropout: float | None = None
    lstm_layers: int = 0
    lstm_size: int = 200
    lstm_dropout: float = 0.5
    window_size: int | None = None
    window_overlap: int | None = None
    context_sentences: int = 0
    split_hyphens: bool = False
    overlap: Literal["flat", "nested", "any"] = "flat"
    multi_label: bool = False
    threshold: float | int | dict[str, Any] = 0.0
    temperature: float | int = 1.0
    calibration: dict[str, Any] | None = None
    pad_token_id: int | None = None
    spanner_version: str = VERSION

    def __post_init__(self, **kwargs: Any) -> None:
        """Check every range, then fill what follows from labels and encoder."""
        self._check_labels(kwargs.get("num_labels"))
        has_label2id = self.id2label is not None and self.label2id is not None
        known = set(PreTrainedConfig().to_dict()) | {
            "num_labels",
            "use_cache",
            "name_or_path",
            "custom_pipelines",
            "auto_map",
            "dtype",
        }
        unknown = sorted(
            set(kwargs) - known - {"torch_dtype", "attn_implementation", "model_type", "transformers_version"}
        )
        if unknown:
            logger.warning_once(f"{type(self).__name__} does not know {', '.join(unknown)}; kept without effect")
        super().__post_init__(**kwargs)
        self._check_version()
        for name in self.field_rules:
            self.check_field(name, getattr(self, name))
        label2id = {label: index for index, label in cast(dict[int, str], self.id2label).items()}
        if has_label2id and self.label2id != label2id:
            raise ValueError(f"label2id must be the inverse of id2label, {label2id!r:.200}, got {self.label2id!r:.200}")
        self.label2id = label2id
        encoder = self.encoder_config
        encoder._name_or_path = "" if encoder._name_or_path.startswith((".", "/", "~")) else encoder._name_or_path
        self.pad_token_id = encoder.pad_token_id
        if self.encoder_dropout is not None:
            self._set_encoder_dropout()
        if self.window_size is None:
            self.window_size = self._encoder_capacity()
        if self.window_overlap is None:
            self.window_overlap = max(1, self.window_size // 4)
        self._check_relations()
        is_remote = type(self).__module__.startswith("transformers_modules")
        self.custom_pipelines = deepcopy(PIPELINES) if is_remote else _Registered(PIPELINES)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """As in the base class; labels and fields given beside the file are checked as the file's own are."""
        given = {name: kwargs.pop(name) for name in ("id2label", "label2id", *cls.field_rules) if name in kwargs}
        if "id2label" in given:
            config_dict = {name: value for name, value in config_dict.items() if name != "label2id"}
        return super().from_dict(config_dict | given, **kwargs)

    def to_dict(self) -> dict[str, Any]:
        """Plain values to save, without the live `custom_pipelines`, in which the library keeps classes."""
        values = super().to_dict()
        values.pop("custom_pipelines", None)
        return values

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> PreTrainedConfig:
        """The encoder's configuration, which holds the vocabulary."""
        return self.encoder_config

    @property
    def num_prompts(self) -> int:
        """Vectors that the method puts before the tokens; they take part of the encoder's positions."""
        return 0

    @classmethod
    def check_field(cls, name: str, value: object) -> None:
        """Raise a ValueError that names field, value and range unless the value is allowed."""
        if not cls.field_rules[name].admits(value):
            raise ValueError(f"{name} must be {cls.field_rules[name]}, got {value!r}")

    def decoding(self, overrides: Mapping[str, Any] | None = None) -> Decoding:
        """Settings of inference: the configuration's values overlaid by a call's, as an immutable mapping.

        `min_precision` or `min_recall` stand for the threshold that promises it, and are gone from the result.

        Args:
            overrides: Values by name, each a name in `decoding_parameters`, `min_precision` or `min_recall`; or what
                this method returned, which is not checked again.

        Raises:
            ValueError: If a name is unknown, a value outside its range, or no threshold can be promised.
        """
        if isinstance(overrides, Decoding) and overrides.owner is self:
            return overrides
        given = dict(overrides or {})
        asked = {name: given.pop(name) for name in PROMISES if name in given}
        unknown = sorted(set(given) - set(self.decoding_parameters))
        if unknown:
            allowed = ", ".join([*self.decoding_parameters, *PROMISES])
            raise ValueError(f"unknown decoding parameter {', '.join(unknown)}; allowed: {allowed}")
        for name, value in given.items():
            self.check_field(name, value)
        self._check_named_labels("threshold", given.get("threshold"))
        values = {name: getattr(self, name) for name in self.decoding_parameters} | given
        if asked:
            values["threshold"] = self._promised_threshold(asked, values, "threshold" in given)
        return Decoding(values, self)

    def _promised_threshold(
        self, asked: Mapping[str, Any], values: Mapping[str, Any], has_threshold: bool
    ) -> float | dict[str, float]:
        names = [*asked, *(["threshold"] if has_threshold else [])]
        if len(names) > 1:
            raise ValueError(f"only one of threshold, {', '.join(PROMISES)} may be given, got {' and '.join(names)}")
        name, target = next(iter(asked.items()))
        if not PROBABILITY_BY_LABEL.admits(target):
            raise ValueError(f"{name} must be {PROBABILITY_BY_LABEL}, got {target!r}")
        self._check_named_labels(name, target)
        settings = {name: value for name, value in values.items() if name != "threshold"}
        return promised_threshold(self.calibration, name, target, settings)

    def _check_named_labels(self, name: str, value: object) -> None:
        labels = set(cast(dict, self.label2id))
        if isinstance(value, Mapping) and set(value) != labels:
            raise ValueError(f"{name} must be a number or name each of {', '.join(sorted(labels))}, got {dict(value)}")

    def merge_settings(self) -> dict[str, Any]:
        """What `merge_windows` needs of the configuration, as plain values."""
        calibration = self.calibration
        if calibration is None and self.temperature != 1:
            calibration = {"all": {"temperature": self.temperature}, "per_label": {}}
        return {"id2label": self.id2label, "multi_label": self.multi_label, "calibration": calibration}

    def _check_labels(self, num_labels: object) -> None:
        labels: object = self.id2label
        names = list(labels.values()) if isinstance(labels, dict) else []
        numbers = {str(number) for number in range(max(1, len(names)))}
        if labels is not None and (not isinstance(labels, dict) or set(map(str, labels)) != numbers):
            raise ValueError(f"id2label must map 0, 1, 2 and so on to labels, got {labels!r:.200}")
        if not all(isinstance(name, str) and name for name in names):
            raise ValueError(f"id2label must map to names, got {labels!r:.200}")
        if len(set(names)) != len(names):
            raise ValueError(f"id2label must not name a label twice, got {labels!r:.200}")
        allowed = Interval(len(names), len(names), is_integer=True) if names else SIZE
        if num_labels is not None and not allowed.admits(num_labels):
            raise ValueError(f"num_labels must be {len(names) or SIZE}, the size of id2label, got {num_labels!r}")

    def _check_version(self) -> None:
        if not isinstance(self.spanner_version, str) or not self.spanner_version.split(".")[0].isdigit():
            raise ValueError(f"spanner_version must be a version such as {VERSION}, got {self.spanner_version!r}")
        if int(self.spanner_version.split(".")[0]) > int(VERSION.split(".")[0]):
            raise ValueError(
                f"the model was saved by hf_spanner {self.spanner_version}, which this version {VERSION} cannot read"
            )

    def _check_relations(self) -> None:
        assert self.window_size is not None
        assert self.window_overlap is not None
        if self.lstm_size % 2:
            raise ValueError(f"lstm_size must be even, half for each direction, got {self.lstm_size}")
        if self.window_overlap > max(1, self.window_size - 1):
            raise ValueError(
                f"window_overlap must be below window_size = {self.window_size}, got {self.window_overlap}"
            )
        self._check_named_labels("threshold", self.threshold)
        if self.calibration is not None:
            self._check_calibration(self.calibration)
        capacity = self._encoder_capacity()
        if not 1 <= self.window_size <= capacity:
            raise ValueError(f"window_size must lie in [1, {capacity}] for this encoder, got {self.window_size}")
        self._check_encoder()
        layers = self.encoder_config.num_hidden_layers
        if self.num_encoder_layers > layers:
            raise ValueError(
                f"num_encoder_layers must be at most {layers} for this encoder, got {self.num_encoder_layers}"
            )

    def _check_encoder(self) -> None:
        """Refuse sizes that would take minutes or all memory before weights of other shapes are found out."""
        encoder = self.encoder_config
        for name, value, highest in (
            ("num_hidden_layers", encoder.num_hidden_layers, 1_000),
            ("hidden_size", encoder.hidden_size, MAX_SIZE),
            ("vocab_size", encoder.vocab_size, 10_000_000),
        ):
            allowed = Interval(1, highest, is_integer=True)
            if not allowed.admits(value):
                raise ValueError(f"encoder_config.{name} must be {allowed}, got {value!r}")

    def _check_calibration(self, calibration: Mapping[str, Any]) -> None:
        if self.temperature != 1:
            raise ValueError(f"temperature must be 1 where calibration is given, got {self.temperature}")
        unknown = sorted(set(calibration["per_label"]) - set(cast(dict, self.label2id)))
        if unknown:
            raise ValueError(
                f"calibration must name labels of the model in per_label, got {', '.join(unknown)}; "
                f"allowed: {', '.join(cast(dict, self.label2id))}"
            )

    def _encoder_capacity(self) -> int:
        """Tokens of a window: positions less padding-offset positions, two special tokens and prompts."""
        positions = self.encoder_config.to_dict().get("max_position_embeddings") or 512
        has_offset = self.encoder_config.model_type in POSITION_OFFSET_MODELS
        offset = self.encoder_config.pad_token_id + 1 if has_offset else 0
        return positions - offset - NUM_SPECIAL_TOKENS - self.num_prompts

    def _set_encoder_dropout(self) -> None:
        names = [name for name in ENCODER_DROPOUTS if name in self.encoder_config.to_dict()]
        if not names:
            raise ValueError(f"encoder_dropout: {self.encoder_config.model_type} has none of {ENCODER_DROPOUTS}")
        for name in names:
            setattr(self.encoder_config, name, self.encoder_dropout)


NUM_SPECIAL_TOKENS = 2
ENCODER_DROPOUTS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "attention_dropout",
    "mlp_dropout",
    "embedding_dropout",
)
POSITION_OFFSET_MODELS = (
    "roberta",
    "xlm-roberta",
    "xlm-roberta-xl",
    "camembert",
    "mpnet",
    "longformer",
    "roberta-prelayernorm",
    "data2vec-text",
    "ibert",
    "xmod",
    "esm",
)
