"""The pipe that every method fills: words, scores, loss, candidates, spans; and how a model is saved and loaded."""

import shutil
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.initialization import no_init_weights
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils.generic import ModelOutput, can_return_tuple

from hf_spanner.core.checkpoint_folder import UNFINISHED, UPLOAD_ARGUMENTS, move_finished, upload_files
from hf_spanner.core.checkpoint_source import check_source, write_source
from hf_spanner.core.checkpoint_weights import DOWNLOAD_ARGUMENTS, check_weights, refuse_missing, saved_weights
from hf_spanner.core.configuration_span_ner import SpanNERConfig
from hf_spanner.core.decoding import Decoding
from hf_spanner.core.exported_model import ExportedModel
from hf_spanner.core.features import Window
from hf_spanner.core.field_rules import numbered_labels
from hf_spanner.core.linear_weights import LinearWeights
from hf_spanner.core.pipeline_span_ner import SpanNERPipeline
from hf_spanner.core.prediction import CandidateFunction, merge_windows
from hf_spanner.core.spans import Limits, Span, legal_gold
from hf_spanner.core.text_encoder import load_encoder, load_encoder_config
from hf_spanner.core.word_encoder import ShapeEmbedding, WordEncoder

TOTAL = "total_"
GIVEN_BESIDE = ("id2label", "label2id", "num_labels", "trust_remote_code")  # what else may be given for a configuration


@dataclass
class SpanNEROutput(ModelOutput):
    """What every method returns.

    Args:
        loss: () float32, sum of sentence losses over the number of sentences.
        logits: Scores before softmax; the shape is the method's own.
        word_mask: (B, N) bool, as in the input.
        loss_parts: (B,) float32 each, by name, without gradients: what the loss is made of, to be logged; None without
            gold.
        hidden_states: (B, T, H) states of the encoder's tokens for each layer, if asked for.
        attentions: (B, heads, T, T) attention weights of the encoder for each layer, if asked for.
    """

    loss: Tensor | None = None
    # always set; ModelOutput wants a default of None after its first field
    logits: Tensor = None  # type: ignore[assignment]
    word_mask: Tensor = None  # type: ignore[assignment]
    loss_parts: dict[str, Tensor] | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


class SpanNERModel(PreTrainedModel):
    """Base of all methods. A method gives `score_spans`, `compute_loss` and `candidate_spans`.

    `forward` takes the batch that `SpanNERCollator` makes; memory is what the encoder and the method's scores take.
    """

    config: SpanNERConfig
    config_class: type[SpanNERConfig] = SpanNERConfig
    pipeline_class: ClassVar[type] = SpanNERPipeline
    earlier_names: ClassVar[dict[str, str]] = {}  # of weights in older files, as patterns, and their names today
    base_model_prefix = "word_encoder"
    main_input_name = "input_ids"
    accepts_loss_kwargs = False  # no Trainer but ours counts sentences; others average over batches themselves
    supports_gradient_checkpointing = True
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = True

    def __init__(self, config: SpanNERConfig) -> None:
        check_source(type(self), config.encoder_config)
        super().__init__(config)
        self.word_encoder = WordEncoder(config)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        word_index: Tensor | None = None,
        word_mask: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        decoding: Mapping[str, Any] | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        word_shapes: Tensor | None = None,
    ) -> SpanNEROutput:
        """Scores of spans, and the loss where gold is given.

        Args:
            input_ids: (B, T) long token ids.
            attention_mask: (B, T) long, 1 for real tokens; None if all are.
            word_index: (B, T) long, 1 + word of each token; 0 for special and context tokens.
            word_mask: (B, N) bool, True for a word with at least one token.
            labels: (B, G, 3) long gold (start, end, label), padding -100; what is illegal or doubled does not count.
            num_items_in_batch: Sentences of the whole optimisation step; None takes this batch's.
            decoding: Settings of inference by name, which override the configuration's.
            inputs_embeds: (B, T, H) vectors for the encoder in place of those of `input_ids`.
            output_attentions: Give out the encoder's attention weights; None is the configuration's choice.
            output_hidden_states: Give out the states of all layers of the encoder; None is the configuration's choice.
            word_shapes: (B, N) long shapes of the words, as in `word_shapes.py`; read if `word_features` says so.

        Returns:
            The method's output; where `return_dict`, here or in the configuration, is False, a tuple of what is set.

        Raises:
            ValueError: If an input is missing, or a decoding setting is unknown or out of range.
        """
        given = input_ids if inputs_embeds is None else inputs_embeds
        if given is None or word_index is None or word_mask is None:
            raise ValueError("word_index, word_mask and one of input_ids and inputs_embeds must be given, got None")
        if attention_mask is None:
            attention_mask = torch.ones_like(word_index)
        if labels is not None:
            labels = legal_gold(labels, word_mask, cast(int, self.config.num_labels))
        encoded = self.encode(
            input_ids,
            attention_mask,
            word_index,
            word_mask,
            word_shapes=word_shapes,
            inputs_embeds=inputs_embeds,
            **self._asked(output_attentions=output_attentions, output_hidden_states=output_hidden_states),
        )
        words = cast(Tensor, encoded.last_hidden_state)  # (B, N, D)
        output = self.score_spans(words, word_mask, labels, self.decoding(decoding))
        output.hidden_states, output.attentions = encoded.hidden_states, encoded.attentions
        if labels is not None:
            losses, parts = self.compute_loss(output, labels)  # (B,) and (B,) each
            output.loss_parts = {name: values.detach() for name, values in parts.items()}
            output.loss = losses.sum() / (len(losses) if num_items_in_batch is None else num_items_in_batch)
        return output

    def _asked(self, **given: bool | None) -> dict[str, bool]:
        """What to give out beside the scores, by name; None is the configuration's choice."""
        return {name: getattr(self.config, name) if choice is None else choice for name, choice in given.items()}

    def encode(
        self, input_ids: Tensor | None, attention_mask: Tensor, word_index: Tensor, word_mask: Tensor, **asked: Any
    ) -> BaseModelOutput:
        """(B, N, D) vectors of the words as `last_hidden_state`, and what else `WordEncoder.embed` is asked for.

        `word_shapes` comes among what is asked; a method that calls the steps of the encoder itself takes it out.
        """
        return self.word_encoder(input_ids, attention_mask, word_index, word_mask, **asked)

    def get_input_embeddings(self) -> nn.Module:
        """The encoder's table of tokens."""
        return self.word_encoder.encoder.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Give the encoder another table of tokens."""
        self.word_encoder.encoder.set_input_embeddings(value)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """First values as in the library, where weights shaped as a linear layer's count as one's; or 0."""
        super()._init_weights(module.as_layer() if isinstance(module, LinearWeights) else module)
        if isinstance(module, ShapeEmbedding):
            init.zeros_(module.weight)

    def score_spans(
        self, words: Tensor, word_mask: Tensor, labels: Tensor | None, decoding: Mapping[str, Any]
    ) -> SpanNEROutput:
        """Output with the scores of spans, from (B, N, D) words. A method must give this.

        In training a method may use the gold, as `legal_gold` gives it, to choose what to score; otherwise it may not.
        """
        raise NotImplementedError

    def compute_loss(self, output: SpanNEROutput, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss of each sentence, and its parts by name. A method must give this.

        Args:
            output: What `score_spans` gave; it is only read.
            labels: (B, G, 3) long gold (start, end, label) as from `legal_gold`: sorted, each once, padding -100.

        Returns:
            (B,) float32, finite and at least 0, and what training logs beside it, (B,) float32 each. As parts are
            computed in every step they never wait for the device, and costly ones are left out in evaluation. A ratio
            is given as two sums, the denominator under `TOTAL` and the ratio's name.
        """
        raise NotImplementedError

    def candidate_spans(self, output: SpanNEROutput, decoding: Mapping[str, Any]) -> Tensor:
        """(B, K, 4) packed spans that the method believes in, overlaps allowed. A method must give this."""
        raise NotImplementedError

    @property
    def limits(self) -> Limits:
        """What the method cannot produce whatever its weights are."""
        return Limits()

    def unreachable(self, labels: Sequence[tuple[int, int, int]]) -> int:
        """How many gold spans (start, end, label) of one sentence the method cannot produce, repeats left out."""
        return self.limits.num_beyond(labels)

    def decoding(self, overrides: Mapping[str, Any] | None = None) -> Decoding:
        """Settings of inference: the configuration's overlaid by those of a call; checked and immutable."""
        return self.config.decoding(overrides)

    def candidate_function(self, decoding: Mapping[str, Any] | None = None) -> CandidateFunction:
        """What `predicted_spans` needs of a model: from a padded batch of arrays to packed candidates, no gradients.

        Args:
            decoding: Settings of inference by name, which override the configuration's.

        Returns:
            A function from the inputs as numpy arrays to (B, K, 4) float32; it runs on the model's device.

        Raises:
            ValueError: If a decoding setting is unknown or out of range.
        """
        settings = self.decoding(decoding)

        @torch.no_grad()
        def candidates(batch: dict[str, np.ndarray]) -> np.ndarray:
            inputs = {name: torch.from_numpy(array).to(self.device) for name, array in batch.items()}
            return self.candidate_spans(self(**inputs, decoding=settings, return_dict=True), settings).cpu().numpy()

        return candidates

    @torch.no_grad()
    def decode(self, output: SpanNEROutput, decoding: Mapping[str, Any] | None = None) -> list[list[Span]]:
        """Spans of each sentence, for inputs of one window: overlaps resolved, calibrated, above the threshold."""
        settings = self.decoding(decoding)
        window = Window(0, output.word_mask.shape[1])
        tables = self.candidate_spans(output, settings).cpu().numpy()
        return [merge_windows([table], [window], self.config.merge_settings(), settings) for table in tables]

    @classmethod
    def from_encoder(
        cls,
        name: str | Path,
        labels: Sequence[str],
        *,
        dtype: str | torch.dtype | None = None,
        attn_implementation: str | None = None,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        trust_remote_code: bool = False,
        **config: Any,
    ) -> Self:
        """A new model on a pretrained encoder; the head is random.

        Args:
            name: Folder or Hub name of an encoder that `AutoModel` loads; of an encoder-decoder the encoder is taken.
            labels: Entity types, in the order of their indices.
            dtype: Float type of encoder and head, "auto" for that of the encoder's files; None is float32.
            attn_implementation: How the encoder computes its attention, e.g. "eager" or "sdpa"; None: the library's.
            revision: Branch, tag or commit of the encoder on the Hub.
            token: Token for the Hub; True is the one that is stored.
            cache_dir: Folder for what is downloaded.
            local_files_only: Ask no network.
            trust_remote_code: Run an encoder's own code. It becomes part of a saved model, whose `from_pretrained`
                wants the same trust.
            **config: Fields of the method's configuration.

        Raises:
            ValueError: If a field is unknown or out of range, or the encoder's weights do not fit; see `load_encoder`.
        """
        known = set(cls.config_class().to_dict())
        unknown = sorted(set(config) - known)
        if unknown:
            raise ValueError(f"unknown field {', '.join(unknown)} of {cls.config_class.__name__}")
        given = {"revision": revision, "token": token, "cache_dir": cache_dir}
        source = {argument: value for argument, value in given.items() if value is not None}
        source |= {"local_files_only": local_files_only, "trust_remote_code": trust_remote_code}
        config["attn_implementation"] = attn_implementation
        id2label = numbered_labels(labels)
        settings = cls.config_class(
            encoder_config=load_encoder_config(name, source),
            id2label=id2label,
            label2id={label: index for index, label in id2label.items()},
            **config,
        )
        model = cls(settings)
        encoder = load_encoder(name, settings.encoder_config, dtype, source)
        nn.Module.to(model, dtype=encoder.dtype)
        model.word_encoder.encoder, model.config.encoder_config = encoder, encoder.config
        return model

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path | None, *args: Any, **kwargs: Any) -> Any:
        """Load a saved model; missing or misshapen weights are an error.

        Only safetensors are read, and only files of the folder itself. `ignore_mismatched_sizes=True` allows a head of
        another size, for a new label set. `trust_remote_code=True` runs the code of an encoder that has its own; from
        then on `AutoModel` and `pipeline` load the model, too. A folder that holds a graph in place of weights gives an
        `ExportedModel`.

        Raises:
            ValueError: If weights are missing, as in a checkpoint that holds an encoder only, or misshapen, or if the
                configuration or an index of shards names what is no safetensors file of the folder.
        """
        wants_info = kwargs.pop("output_loading_info", False)
        kwargs["use_safetensors"] = True
        kwargs["output_loading_info"] = True
        kwargs["key_mapping"] = cls.earlier_names | (kwargs.get("key_mapping") or {})
        try:
            exported = cls._check_weights(pretrained_model_name_or_path, args, kwargs)
            if exported is not None:
                return (exported, {}) if wants_info else exported
            loaded = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        except Exception as error:
            error.add_note(f"while reading config.json and model.safetensors of {pretrained_model_name_or_path}")
            raise
        model, info = cast(tuple[Self, dict[str, Any]], loaded)
        refuse_missing(cls.__name__, pretrained_model_name_or_path, info["missing_keys"])
        return (model, info) if wants_info else model

    @classmethod
    def _check_weights(
        cls, source: str | Path | None, model_arguments: Sequence[Any], arguments: Mapping[str, Any]
    ) -> ExportedModel | None:
        """Refuse missing and misshapen weights before memory is taken for them; where a graph is saved, its model."""
        if source is None:  # weights are given as they are
            return None
        config = arguments.get("config")
        if not isinstance(config, PreTrainedConfig):
            given = {*DOWNLOAD_ARGUMENTS, *cls.config_class.field_rules, *GIVEN_BESIDE}
            asked = {name: value for name, value in arguments.items() if name in given}
            config = cls.config_class.from_pretrained(source if config is None else config, **asked)
        saved = saved_weights(source, arguments, vars(config).get("transformers_weights"))
        is_quantized = arguments.get("quantization_config") or vars(config).get("quantization_config")
        if not saved:
            return ExportedModel.found(source, cast(SpanNERConfig, config), arguments)
        if is_quantized:  # quantised weights have shapes of their own
            return None
        with torch.device("meta"), no_init_weights():
            model = cls(cast(SpanNERConfig, deepcopy(config)), *model_arguments)
        check_weights(model, source, saved, arguments.get("ignore_mismatched_sizes", False))
        return None

    def save_pretrained(
        self, save_directory: str | Path, is_main_process: bool = True, push_to_hub: bool = False, **kwargs: Any
    ) -> None:
        """Write weights, configuration and the source that loads them without this package; then upload if asked.

        The files are written aside and moved into the folder once all of them are there, so that after a full disk or a
        kill the folder still holds the earlier model.

        Args:
            save_directory: Folder, made if absent.
            is_main_process: Only the main process writes configuration and source.
            push_to_hub: Upload what was written, once all of it is.
            **kwargs: As in `PreTrainedModel.save_pretrained`; for the upload as in `push_to_hub`.

        Raises:
            OSError: If the folder cannot be made or written.
        """
        upload = {name: kwargs.pop(name) for name in UPLOAD_ARGUMENTS if name in kwargs}
        self.config.encoder_config.dtype = self.dtype
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        if not is_main_process:
            super().save_pretrained(folder, is_main_process=False, **kwargs)
            return
        unfinished = folder / UNFINISHED
        shutil.rmtree(unfinished, ignore_errors=True)  # left by a process that was killed
        try:
            # a Trainer reads the file by the names of today
            super().save_pretrained(unfinished, **{"save_original_format": False, **kwargs})
            write_source(type(self).__module__, unfinished, self.config.encoder_config)
            names = move_finished(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        if push_to_hub:
            upload_files(folder, names, **{"commit_message": "Upload model", **upload})


SpanNERModel.register_for_auto_class("AutoModel")
