"""Turns token ids into one vector for each word."""

from collections.abc import Collection
from copy import deepcopy
from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from hf_spanner.core.configuration_span_ner import SpanNERConfig
from hf_spanner.core.text_encoder import new_encoder
from hf_spanner.core.word_shapes import NUM_SHAPES


class WordEncoder(nn.Module):
    """Transformer, pooling of sub-word tokens, then optional vectors of the words' shapes, and a BiLSTM.

    A method may also call these steps one by one.

    Padding changes no word, as far as the encoder keeps to its mask. FNet mixes padding in, ConvBERT's convolutions and
    BigBird's blocks reach into it; with these a text's scores depend on the lengths of its batch. A decoder such as
    GPT-2 or Llama is causal: the vector of a word knows what stands before it and nothing of what follows, which costs
    accuracy; a BiLSTM over the words makes up for part of it.

    Memory: pooling holds one (B, N, T) table, the size of one attention head's scores.

    Args:
        config: `encoder_config`, `pooling`, `num_encoder_layers`, `lstm_layers`, `lstm_size`, `lstm_dropout`,
            `lstm_layer_dropout`, `word_features`.
    """

    _no_split_modules: Collection[str] | None

    def __init__(self, config: SpanNERConfig) -> None:
        super().__init__()
        self.pooling, self.num_layers, self.has_lstm = config.pooling, config.num_encoder_layers, config.lstm_layers > 0
        self.encoder = new_encoder(config.encoder_config)
        config.encoder_config = self.encoder.config
        for name in HANDED_ON:
            setattr(self, name, getattr(self.encoder, name))
        self.all_tied_weights_keys = {
            f"encoder.{name}": f"encoder.{source}" for name, source in self.encoder.all_tied_weights_keys.items()
        }
        self.output_size = config.encoder_config.hidden_size
        self.shapes = None if config.word_features == "none" else ShapeEmbedding(NUM_SHAPES, self.output_size)
        if self.has_lstm:
            self.lstm_dropout = nn.Dropout(config.lstm_dropout)
            between = config.lstm_dropout if config.lstm_layer_dropout is None else config.lstm_layer_dropout
            self.lstm = nn.LSTM(
                self.output_size,
                config.lstm_size // 2,
                num_layers=config.lstm_layers,
                batch_first=True,
                bidirectional=True,
                dropout=between if config.lstm_layers > 1 else 0.0,
            )
            self.output_size = config.lstm_size

    def forward(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor,
        word_index: Tensor,
        word_mask: Tensor,
        word_shapes: Tensor | None = None,
        **asked: Any,
    ) -> BaseModelOutput:
        """(B, N, D) vectors of the words, and what is asked of the encoder beside them, as in `embed`.

        A word without tokens has zeros before the BiLSTM.
        """
        tokens = self.embed(input_ids, attention_mask, **asked)  # (B, T, H)
        words = self.pool(cast(Tensor, tokens.last_hidden_state), word_index, word_mask.shape[1])  # (B, N, H)
        words = self.with_shapes(words, word_mask, word_shapes)
        tokens.last_hidden_state = self.recur(words, word_lengths(word_mask)) if self.has_lstm else words
        return tokens

    def embed(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor,
        prompts: Tensor | None = None,
        *,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> BaseModelOutput:
        """Encoder states of the tokens, the mean of the last `num_encoder_layers` layers.

        Args:
            input_ids: (B, T) long, or None where vectors are given.
            attention_mask: (B, T) long.
            prompts: (P, H) vectors read before the tokens, or None.
            inputs_embeds: (B, T, H) vectors that the encoder reads in place of those of `input_ids`.
            output_attentions: Ask the encoder for the weights of its attention.
            output_hidden_states: Ask the encoder for the states of all layers.

        Returns:
            `last_hidden_state` (B, P + T, H), prompts first; what else was asked for is the encoder's own.
        """
        asked = {"output_hidden_states": output_hidden_states or self.num_layers > 1}
        if output_attentions:
            asked["output_attentions"] = True
        if prompts is not None:
            vectors = self.encoder.get_input_embeddings()(input_ids) if inputs_embeds is None else inputs_embeds
            inputs_embeds = torch.cat([prompts.expand(vectors.shape[0], -1, -1), vectors], dim=1)  # (B, P + T, H)
            ones = attention_mask.new_ones(vectors.shape[0], prompts.shape[0])
            attention_mask = torch.cat([ones, attention_mask], dim=1)  # (B, P + T)
        if inputs_embeds is None:
            output = self.encoder(input_ids, attention_mask=attention_mask, **asked)
        else:
            output = self.encoder(inputs_embeds=inputs_embeds, attention_mask=attention_mask, **asked)
        tokens = output.last_hidden_state
        if self.num_layers > 1:
            tokens = torch.stack(output.hidden_states[-self.num_layers :]).mean(dim=0)
        return BaseModelOutput(
            last_hidden_state=tokens,
            hidden_states=output.hidden_states if output_hidden_states else None,
            attentions=output.attentions if output_attentions else None,
        )

    def __getstate__(self) -> dict[str, Any]:
        """State to pickle, without the hooks that the library leaves in an encoder whose layers were asked for.

        They are local functions, which cannot be pickled; the library puts them back at the next call.
        """
        shared = {id(tensor): tensor for tensor in chain(self.encoder.parameters(), self.encoder.buffers())}
        encoder = deepcopy(self.encoder, cast(dict[int, Any], shared))  # new modules around the same tensors
        for module in encoder.modules():
            for key in [key for key, hook in module._forward_hooks.items() if hook.__module__ == CAPTURING]:
                del module._forward_hooks[key]
            vars(module).pop("_output_capturing_hooks_installed", None)
        return vars(self) | {"_modules": self._modules | {"encoder": encoder}}

    def pool(self, hidden: Tensor, word_index: Tensor, num_words: int) -> Tensor:
        """One vector for each word, from the vectors of its tokens.

        Args:
            hidden: (B, T, H).
            word_index: (B, T) long, 1 + word of each token, 0 for none.
            num_words: N.

        Returns:
            (B, N, H); zeros for a word without tokens.
        """
        if self.pooling == "max":
            index = word_index[:, :, None].expand_as(hidden)
            pooled = hidden.new_zeros(hidden.shape[0], num_words + 1, hidden.shape[-1])
            return pooled.scatter_reduce(1, index, hidden, "amax", include_self=False)[:, 1:]
        words = torch.arange(1, num_words + 1, device=word_index.device)  # (N,)
        belongs = word_index[:, None, :] == words[:, None]  # (B, N, T)
        if self.pooling == "first":
            is_first = word_index != nn.functional.pad(word_index, (1, 0))[:, :-1]  # (B, T)
            belongs = belongs & is_first[:, None, :]
        counts = belongs.sum(dim=-1, keepdim=True).clamp(min=1)  # (B, N, 1)
        return torch.bmm(belongs.to(hidden.dtype), hidden) / counts

    def with_shapes(self, words: Tensor, word_mask: Tensor, word_shapes: Tensor | None) -> Tensor:
        """The (B, N, H) words plus the vectors of their shapes, if the model reads shapes; else the words.

        Args:
            words: (B, N, H), as from `pool`.
            word_mask: (B, N) bool; a word outside it stays as it is.
            word_shapes: (B, N) long, or None.

        Raises:
            ValueError: If the model reads shapes and they are None.
        """
        if self.shapes is None:
            return words
        if word_shapes is None:
            raise ValueError(
                "word_shapes must be given, since the model's word_features is 'shapes', got None; SpanNERCollator "
                "makes them if its word_features is the same"
            )
        return words + self.shapes(word_shapes).masked_fill(~word_mask[..., None], 0)

    def recur(self, words: Tensor, lengths: Tensor) -> Tensor:
        """(B, N, lstm_size) states of the BiLSTM over (B, N, D) words; zeros after each length."""
        packed = pack_padded_sequence(self.lstm_dropout(words), lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = self.lstm(packed)
        return pad_packed_sequence(states, batch_first=True, total_length=words.shape[1])[0]


class ShapeEmbedding(nn.Embedding):
    """What is added to the vector of a word for the way it is written; zero in a new model, which so is as without it.

    Ours: Shen et al. 2021 (Locate and Label), section 3.2, put the states of a BiLSTM over characters beside a word's
    vector for the same purpose. A convolution over characters (Ma and Hovy 2016) beside the shapes gave less on
    validation rows than the shapes alone, which also cost nothing.
    """


# What the library collects from the children of a model, though not from their children: layers that are not to be
# cut, and weights with a precision of their own.
CAPTURING = "transformers.utils.output_capturing"
HANDED_ON = (
    "_no_split_modules",
    "_skip_keys_device_placement",
    "_keep_in_fp32_modules",
    "_keep_in_fp32_modules_strict",
)


def without_holders(encoder: PreTrainedModel) -> list[str]:
    """Classes of layers that are not to be cut, without those around the table of tokens, which prompts read by itself.

    Where weights are sharded layer by layer, the table would otherwise be whole only while the layer around it runs.
    """
    table = encoder.get_input_embeddings()
    holders = {
        type(module).__name__ for module in encoder.modules() if module is not table and table in module.modules()
    }
    return [name for name in encoder._no_split_modules or [] if name not in holders]


def word_lengths(word_mask: Tensor) -> Tensor:
    """(B,) long: the place of the last True of a (B, N) mask plus one, at least 1."""
    places = torch.arange(1, word_mask.shape[1] + 1, device=word_mask.device)
    return (places * word_mask).amax(dim=1).clamp(min=1)
