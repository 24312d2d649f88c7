"""Configuration that all methods share: labels, encoder, word vectors, windows and decoding."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast

import numpy as np
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, PreTrainedConfig
from transformers.configuration_utils import SubConfigSpec
from transformers.models.auto.modeling_auto import MODEL_MAPPING
from transformers.utils import logging

from hf_spanner.core.calibration import PROMISES, CalibrationRule, applied_calibration, promised_threshold
from hf_spanner.core.checkpoint_folder import UPLOAD_ARGUMENTS, upload_files
from hf_spanner.core.checkpoint_source import check_source, write_source
from hf_spanner.core.decoding import Decoding
from hf_spanner.core.encoder_positions import position_capacity
from hf_spanner.core.field_rules import (
    MAX_SIZE,
    CheckedFields,
    Interval,
    LSTMLayers,
    Overlap,
    Pooling,
    ProbabilityByLabel,
    Rate,
    Size,
    admits,
    in_words,
)
from hf_spanner.core.own_encoders import named_config, register_saved_encoder
from hf_spanner.core.text_encoder import encoder_class
from hf_spanner.core.word_shapes import WordFeatures

logger = logging.get_logger(__name__)

VERSION = "0.1.0"
PIPELINES = {"span-ner": {"impl": "pipeline_span_ner.SpanNERPipeline", "pt": ["AutoModel"], "type": "text"}}
WindowTokens = Annotated[int, Interval(1, 1_000_000)]


class SpanNERConfig(CheckedFields, PreTrainedConfig):
    """Fields common to all methods. `id2label` holds the entity types only; none is the class after the last.

    Each field has its rule in its annotation and is checked when it is set. What relates fields to each other, to the
    labels and to the encoder is checked in the constructor, and again before a configuration is saved.

    Raises:
        ValueError: If a value is not allowed; the message names the field, its value and what is allowed.
    """

    model_type = "span_ner"
    sub_configs_defaults = {"encoder_config": SubConfigSpec(config_class=AutoConfig, model_type="bert")}
    decoding_parameters: ClassVar[tuple[str, ...]] = ("threshold", "overlap")

    # Encoder
    encoder_config: Any = None  # the encoder's own configuration; may be a dict; if nothing is given it is BERT's
    num_encoder_layers: Size = 1  # the last layers whose mean is a token's vector; 1 is the last layer alone
    encoder_dropout: Rate | None = None  # hidden and attention dropout of the encoder; None keeps the encoder's own
    pad_token_id: int | None = None  # always the encoder's

    # Words and windows
    pooling: Pooling = "mean"  # how the tokens of a word become its vector
    # What is added to a word's vector for how it is written, which an encoder that lower-cases its input does not see
    word_features: WordFeatures = "none"
    lstm_layers: LSTMLayers = 0  # layers of a BiLSTM over the words; 0 is none
    lstm_size: Size = 200  # width of its output, both directions together; even
    lstm_dropout: Rate = 0.5  # dropout on its input
    lstm_layer_dropout: Rate | None = None  # dropout between its layers, where there are several; None: `lstm_dropout`
    window_size: WindowTokens | None = None  # most tokens read at once, special ones not counted; None: all that fit
    # Most tokens that neighbouring windows share, and most that are read of one word; None is a quarter of the window
    window_overlap: WindowTokens | None = None
    context_sentences: Annotated[int, Interval(0, 1_000)] = 0  # sentences of the document read on each side as context
    split_hyphens: bool = False  # split raw text at hyphens inside words, as some corpora do

    # Inference
    overlap: Overlap = "flat"  # which overlaps the output may have
    multi_label: bool = False  # whether one span may have several labels
    threshold: ProbabilityByLabel = 0.0  # lowest calibrated score of an entity that is given out; also by label name
    # Divides the log-odds of a raw score; set by hand. 1 changes nothing, and must be kept with a calibration
    temperature: Annotated[float, Interval(0, 1_000, excludes_lowest=True)] = 1.0
    # Monotone maps from raw score to probability, and the rows that they were fitted on, as `hf-spanner calibrate`
    # writes them; None keeps raw scores
    calibration: Annotated[dict[str, Any], CalibrationRule()] | None = None

    # File
    spanner_version: str = VERSION  # version of the package that wrote the configuration

    def __post_init__(self, **kwargs: Any) -> None:
        """Fill what follows from labels and encoder, and check what relates fields to each other."""
        self._check_labels(kwargs.get("num_labels"))
        if not type(self).__module__.startswith("transformers_modules"):
            # the installed package has registered the task; to name it here would make `pipeline` ask for trust
            kwargs.pop("custom_pipelines", None)
        has_label2id = self.id2label is not None and self.label2id is not None
        for name in ENCODER_SIZES & kwargs.keys():
            raise ValueError(
                f"{name} is a field of encoder_config, got {name}={kwargs[name]!r} beside it (see from_encoder)"
            )
        unknown = sorted(set(kwargs) - set(PreTrainedConfig().to_dict()) - KNOWN_TO_THE_LIBRARY)
        if unknown:
            logger.warning_once(f"{type(self).__name__} does not know {', '.join(unknown)}; kept without effect")
        encoder = self.encoder_config
        if encoder is not None and not isinstance(encoder, dict | PreTrainedConfig):
            raise ValueError(f"encoder_config must be a configuration or a dict of its values, got {encoder!r:.200}")
        if isinstance(encoder, dict):
            self.encoder_config = named_config(encoder)
        try:
            super().__post_init__(**kwargs)
        except StrictDataclassError as error:  # of the encoder: the fields here have rules of their own
            raise ValueError(f"encoder_config: {' '.join(str(error).split())}") from error
        self._check_version()
        if not has_label2id:
            self.label2id = self._inverse_labels()
        encoder = self.encoder_config
        if encoder.name_or_path.startswith((".", "/", "~")):
            encoder.name_or_path = ""
        self._check_encoder()
        self.pad_token_id = vars(encoder).get("pad_token_id")
        self._check_relations()
        if self.encoder_dropout is not None:
            self._set_encoder_dropout()

    def validate(self) -> None:
        """Check labels and the relations between fields again, as the library asks before it saves."""
        super().validate()  # type: ignore[misc]  # made by the library's decorator
        self._check_labels(None)
        self._check_relations()

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **kwargs: Any) -> Any:
        """As in the base class; with `trust_remote_code` the code of an encoder that lies in the folder is run."""
        if kwargs.pop("trust_remote_code", False):
            register_saved_encoder(pretrained_model_name_or_path, kwargs)
        return super().from_pretrained(pretrained_model_name_or_path, **kwargs)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """As in the base class; labels and fields given beside the file are checked as the file's own are."""
        given = {name: kwargs.pop(name) for name in ("id2label", "label2id", *cls.field_rules) if name in kwargs}
        if "id2label" in given:
            config_dict = {name: value for name, value in config_dict.items() if name != "label2id"}
        return super().from_dict(config_dict | given, **kwargs)

    def to_dict(self) -> dict[str, Any]:
        """Plain values to save, with the pipeline by its name: a live `custom_pipelines` may hold classes."""
        return super().to_dict() | {"custom_pipelines": PIPELINES}

    def save_pretrained(self, save_directory: str | Path, push_to_hub: bool = False, **kwargs: Any) -> None:
        """Write the configuration and the source that loads it and its model without this package; upload if asked.

        So the folder of a published model stays whole when its configuration alone is saved there again.

        Args:
            save_directory: Folder, made if absent.
            push_to_hub: Upload what was written.
            **kwargs: For the upload, as in `push_to_hub`.

        Raises:
            ValueError: If fields contradict each other, or no checkpoint can hold the source of the class.
        """
        check_source(type(self), self.encoder_config)
        model_class = cast(type | None, MODEL_MAPPING.get(type(self), None))
        if model_class is not None:
            entry = f"{model_class.__module__.rpartition('.')[2]}.{model_class.__name__}"
            self.auto_map = {"AutoModel": entry} | (vars(self).get("auto_map") or {})
        super().save_pretrained(str(save_directory))
        sources = write_source((model_class or type(self)).__module__, save_directory, self.encoder_config)
        if push_to_hub:
            upload = {name: kwargs[name] for name in UPLOAD_ARGUMENTS if name in kwargs}
            names = ["config.json", *sources]
            upload_files(Path(save_directory), names, **{"commit_message": "Upload config", **upload})

    @property
    def hidden_size(self) -> int:
        """The encoder's width, which libraries of training look for here."""
        return self.encoder_config.hidden_size

    @property
    def vocab_size(self) -> int:
        """The number of tokens that the encoder knows, which libraries look for here."""
        return self.encoder_config.vocab_size

    @vocab_size.setter
    def vocab_size(self, value: int) -> None:
        """Set the encoder's own."""
        self.encoder_config.vocab_size = value

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> PreTrainedConfig:
        """The encoder's configuration, which holds the vocabulary."""
        return self.encoder_config

    @property
    def num_prompts(self) -> int:
        """Vectors that the method puts before the tokens; they take part of the encoder's positions."""
        return 0

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
        values = {name: getattr(self, name) for name in self.decoding_parameters} | given
        self._check_named_labels("threshold", values["threshold"])
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
        if not admits(ProbabilityByLabel, target):
            raise ValueError(f"{name} must be {in_words(ProbabilityByLabel)}, got {target!r}")
        self._check_named_labels(name, target)
        settings = {name: value for name, value in values.items() if name != "threshold"}
        own_settings = {name: getattr(self, name) for name in settings}
        return promised_threshold(self.calibration, name, target, settings, own_settings)

    def _check_named_labels(self, name: str, value: object) -> None:
        labels = set(cast(dict, self.label2id))
        if isinstance(value, Mapping) and set(value) != labels:
            raise ValueError(f"{name} must be a number or name each of {', '.join(sorted(labels))}, got {dict(value)}")

    def sifted(self, candidates: np.ndarray, decoding: Mapping[str, Any]) -> np.ndarray:
        """What a method does with the (K, 4) candidates of a window that a graph has found; most do nothing."""
        return candidates

    def merge_settings(self) -> dict[str, Any]:
        """What `merge_windows` needs of the configuration, as plain values."""
        calibration = applied_calibration(self.calibration, self.temperature)
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
        allowed = Annotated[int, Interval(len(names), len(names))] if names else Size
        if num_labels is not None and not admits(allowed, num_labels):
            raise ValueError(
                f"num_labels must be {len(names) or in_words(Size)}, the size of id2label, got {num_labels!r}"
            )

    def _inverse_labels(self) -> dict[str, int]:
        return {label: index for index, label in cast(dict[int, str], self.id2label).items()}

    def _check_version(self) -> None:
        if not self.spanner_version.split(".")[0].isdigit():
            raise ValueError(f"spanner_version must be a version such as {VERSION}, got {self.spanner_version!r}")
        if int(self.spanner_version.split(".")[0]) > int(VERSION.split(".")[0]):
            raise ValueError(
                f"the model was saved by hf_spanner {self.spanner_version}, which this version {VERSION} cannot read"
            )

    def _check_relations(self) -> None:
        if self.label2id != (label2id := self._inverse_labels()):
            raise ValueError(
                f"label2id must be the inverse of id2label, {label2id!r:.200}, got {self.label2id!r:.200}; to rename "
                "labels set both, or give id2label to from_pretrained"
            )
        if self.window_size is None:
            self.window_size = self.encoder_capacity()
        if self.window_overlap is None:
            self.window_overlap = max(1, self.window_size // 4)
        if self.lstm_size % 2:
            raise ValueError(f"lstm_size must be even, half for each direction, got {self.lstm_size}")
        if self.window_overlap > max(1, self.window_size - 1):
            raise ValueError(
                f"window_overlap must be below window_size = {self.window_size}, got {self.window_overlap}"
            )
        self._check_named_labels("threshold", self.threshold)
        if self.calibration is not None:
            self._check_calibration(self.calibration)
        capacity = self.encoder_capacity()
        if not 1 <= self.window_size <= capacity:
            raise ValueError(f"window_size must lie in [1, {capacity}] for this encoder, got {self.window_size}")
        layers = self.encoder_config.num_hidden_layers
        if self.num_encoder_layers > layers:
            raise ValueError(
                f"num_encoder_layers must be at most {layers} for this encoder, got {self.num_encoder_layers}"
            )

    def _check_encoder(self) -> None:
        """Refuse sizes that would take minutes or all memory before weights of other shapes are found out."""
        encoder = self.encoder_config
        encoder_class(encoder)
        for name, value, highest in (
            ("num_hidden_layers", encoder.num_hidden_layers, 1_000),
            ("hidden_size", encoder.hidden_size, MAX_SIZE),
            ("vocab_size", encoder.vocab_size, 10_000_000),
        ):
            allowed = Annotated[int, Interval(1, highest)]
            if not admits(allowed, value):
                raise ValueError(f"encoder_config.{name} must be {in_words(allowed)}, got {value!r}")

    def _check_calibration(self, calibration: Mapping[str, Any]) -> None:
        if self.temperature != 1:
            raise ValueError(f"temperature must be 1 where calibration is given, got {self.temperature}")
        unknown = sorted(set(calibration["per_label"]) - set(cast(dict, self.label2id)))
        if unknown:
            raise ValueError(
                f"calibration must name labels of the model in per_label, got {', '.join(unknown)}; "
                f"allowed: {', '.join(cast(dict, self.label2id))}"
            )

    def encoder_capacity(self) -> int:
        """Tokens of a window: positions of the encoder less two special tokens and prompts."""
        return position_capacity(self.encoder_config) - NUM_SPECIAL_TOKENS - self.num_prompts

    def _set_encoder_dropout(self) -> None:
        names = [name for name in ENCODER_DROPOUTS if name in self.encoder_config.to_dict()]
        if not names:
            raise ValueError(f"encoder_dropout: {self.encoder_config.model_type} has none of {ENCODER_DROPOUTS}")
        for name in names:
            setattr(self.encoder_config, name, self.encoder_dropout)


NUM_SPECIAL_TOKENS = 2
ENCODER_SIZES = {"hidden_size", "vocab_size"}
KNOWN_TO_THE_LIBRARY = {
    "attn_implementation",
    "auto_map",
    "custom_pipelines",
    "name_or_path",
    "num_labels",
    "torch_dtype",
    "use_cache",
}
ENCODER_DROPOUTS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "attention_dropout",
    "mlp_dropout",
    "embedding_dropout",
)

SpanNERConfig.register_for_auto_class()
