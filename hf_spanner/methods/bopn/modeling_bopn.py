"""BOPN (Tang et al. 2023): every pair of words predicts its boundary offset to a near entity of each type."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoTokenizer
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput

from hf_spanner.core.modeling_span_ner import SpanNERModel, SpanNEROutput
from hf_spanner.core.spans import Limits, pack_candidates
from hf_spanner.core.text_encoder import SOURCE_ARGUMENTS, check_reading_vectors, prompt_size
from hf_spanner.core.word_encoder import without_holders, word_lengths
from hf_spanner.methods.bopn.configuration_bopn import BOPNConfig
from hf_spanner.methods.bopn.loss_bopn import bopn_loss, cell_mask, learning_parts, offset_targets
from hf_spanner.methods.bopn.offset_scores_bopn import (
    Convolution,
    OffsetConvolutions,
    OutputLayer,
    TypeConditionedTerm,
    TypeMaps,
)
from hf_spanner.methods.bopn.span_vectors_bopn import (
    PairEmbedding,
    ReluLayer,
    ScaleLayer,
    ShiftLayer,
    SpanLayer,
    SpanVectors,
    all_rows,
)
from hf_spanner.methods.bopn.votes_bopn import voted_entities

BLOCK_ELEMENTS = 2**24  # most numbers in a table of span vectors that is held at once, 64 MiB in float32
TRIANGLE_BLOCKS = 8  # blocks of rows where cells below the diagonal do not count: 9 of 16 of the cells are computed
START_OF_OUT = 5.0  # logit of out above the others in a new model; 94 % of the probability with S = 2
LINEAR_GELU = 2.0  # around it GELU is nearly linear


class BOPNModel(SpanNERModel):
    """Types are read with the sentence; each cell of (first word, last word, type) gets a distribution over L offsets.

    Time after the encoder: O(N^2 (d d_b + M L d_b)). Memory: O(N^2 M L) a sentence for the scores and the convolutions;
    span vectors are made in blocks of rows of at most `BLOCK_ELEMENTS` numbers (but at least one row), and where there
    is more than one block, training makes them anew in its backward pass. `logits` of its output is (B, N, N, M, L),
    labels as in `offset_names`, out last.
    """

    config: BOPNConfig
    config_class = BOPNConfig
    # a part named like the whole is one that PEFT cannot tell from it
    earlier_names = {r"^convolutions\.convolutions\.": "convolutions.layers."}

    def __init__(self, config: BOPNConfig) -> None:
        super().__init__(config)
        assert config.num_labels is not None
        width, encoder = self.word_encoder.output_size, self.word_encoder.encoder
        self.types = TypeEmbedding(config.num_labels, prompt_size(encoder) if config.has_type_inputs else width)
        self.span_vectors = SpanVectors(config, width)
        self.type_maps = TypeMaps(config, width)
        self.convolutions = OffsetConvolutions(config) if config.num_convolutions > 0 else None
        if config.has_type_inputs:
            self.word_encoder._no_split_modules = without_holders(encoder)
        self.post_init()

    @classmethod
    def from_encoder(cls, name: str | Path, labels: Sequence[str], **arguments: Any) -> Self:
        """As in the base class; `prompt_init="label_names"` also reads the encoder's tokenizer."""
        model = super().from_encoder(name, labels, **arguments)
        if model.config.has_type_inputs:
            check_reading_vectors(model.word_encoder.encoder)
        if model.config.prompt_init == "label_names" and model.config.has_type_inputs:
            source = {argument: value for argument, value in arguments.items() if argument in SOURCE_ARGUMENTS}
            model.start_prompts_from_names(AutoTokenizer.from_pretrained(name, **source))
        return model

    @torch.no_grad()
    def start_prompts_from_names(self, tokenizer: Any) -> None:
        """Set each type prompt to the mean input embedding of the pieces of its label's name.

        Raises:
            ValueError: If a name has no pieces.
        """
        embeddings = self.word_encoder.encoder.get_input_embeddings()
        for prompt, label in zip(self.types.weight, cast(dict[str, int], self.config.label2id), strict=True):
            pieces = tokenizer(label, add_special_tokens=False)["input_ids"]
            if not pieces:
                raise ValueError(f"prompt_init='label_names' needs label names with pieces, got {label!r}")
            prompt.copy_(embeddings(torch.tensor(pieces, device=prompt.device)).mean(dim=0))

    def encode(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor,
        word_index: Tensor,
        word_mask: Tensor,
        word_shapes: Tensor | None = None,
        **asked: Any,
    ) -> BaseModelOutput:
        """(B, M + N, d) vectors of the types, then of the words (section 3.1).

        The type prompts are read before the sentence's first token; one BiLSTM runs over types and words.
        """
        encoder, num_types = self.word_encoder, self.types.num_embeddings
        types = all_rows(self.types, attention_mask.device)  # (M, d)
        if not self.config.has_type_inputs:
            encoded = encoder(input_ids, attention_mask, word_index, word_mask, word_shapes, **asked)
            words = encoded.last_hidden_state  # (B, N, d)
            encoded.last_hidden_state = torch.cat([types.expand(words.shape[0], -1, -1), words], dim=1)
            return encoded
        encoded = encoder.embed(input_ids, attention_mask, types, **asked)
        hidden = cast(Tensor, encoded.last_hidden_state)  # (B, M + T, H)
        words = encoder.pool(hidden[:, num_types:], word_index, word_mask.shape[1])  # (B, N, H)
        words = encoder.with_shapes(words, word_mask, word_shapes)
        both = torch.cat([hidden[:, :num_types], words], dim=1)  # (B, M + N, H)
        encoded.last_hidden_state = (
            encoder.recur(both, num_types + word_lengths(word_mask)) if encoder.has_lstm else both
        )
        return encoded

    def score_spans(
        self, words: Tensor, word_mask: Tensor, labels: Tensor | None, decoding: Mapping[str, Any]
    ) -> SpanNEROutput:
        """Logits of all cells (Eq. 1 to 5), from what `encode` gives; they do not depend on `labels` and `decoding`."""
        num_words = word_mask.shape[1]
        types, words = words.split([words.shape[1] - num_words, num_words], dim=1)
        scores = self._biaffine_scores(types, words)  # (B, N, N, M, L)
        if self.convolutions is not None:
            scores = self.convolutions(scores, cell_mask(word_mask, mask_lower=self.config.mask_lower))
        return SpanNEROutput(logits=scores, word_mask=word_mask)

    def _biaffine_scores(self, types: Tensor, words: Tensor) -> Tensor:
        """(B, N, N, M, L) scores c_mij, in blocks of rows i; with `mask_lower`, 0 in columns left of a block."""
        maps, biases = self.type_maps(types)  # (B, M, L, d_b), (B, M, L)
        normed, gamma, shift = self.span_vectors.parts(words)  # (B, N, d) each
        num_words = words.shape[1]
        num_rows = max(1, BLOCK_ELEMENTS // max(1, gamma.numel()))  # gamma as large as a row of (B, 1, N, d)
        is_large = num_rows < num_words
        if self.config.mask_lower:
            num_rows = min(num_rows, -(-num_words // TRIANGLE_BLOCKS))
        scores = []
        for row in range(0, num_words, num_rows):
            column = row if self.config.mask_lower else 0
            inputs = (normed[:, row : row + num_rows], gamma[:, column:], shift[:, column:], maps, biases, column - row)
            if is_large:
                block = checkpoint(self._block_scores, *inputs, use_reentrant=False)
            else:
                block = self._block_scores(*inputs)
            scores.append(nn.functional.pad(block, (0, 0, 0, 0, column, 0)) if column > 0 else block)
        return scores[0] if len(scores) == 1 else torch.cat(scores, dim=1)

    def _block_scores(
        self, normed: Tensor, gamma: Tensor, shift: Tensor, maps: Tensor, biases: Tensor, first_gap: int
    ) -> Tensor:
        """(B, R, C, M, L) scores of a block of rows and columns, all types in one product."""
        vectors = self.span_vectors(normed, gamma, shift, first_gap)  # (B, R, C, d_b)
        cells = vectors.flatten(1, 2)  # (B, R C, d_b)
        scores = torch.baddbmm(biases.flatten(1)[:, None], cells, maps.flatten(1, 2).transpose(1, 2))  # (B, R C, M L)
        return scores.view(*vectors.shape[:3], *biases.shape[1:])

    def compute_loss(self, output: SpanNEROutput, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Cross entropy over the cells of a sentence (Eq. 7); in training also how well the labels are learnt."""
        config = self.config
        targets = offset_targets(
            labels, output.word_mask.shape[1], max_offset=config.max_offset, num_labels=output.logits.shape[3]
        )
        losses = bopn_loss(
            output.logits,
            targets,
            cell_mask(output.word_mask, mask_lower=config.mask_lower),
            label_smoothing=config.label_smoothing,
            reduction=config.loss_reduction,
        )
        if not self.training:
            return losses, {}
        parts = learning_parts(
            output.logits.argmax(dim=-1),
            targets,
            labels,
            cell_mask(output.word_mask, mask_lower=True),
            max_offset=config.max_offset,
            min_votes=config.min_votes or max(1, config.max_offset),
            pool_votes=config.pool_votes,
        )
        return losses, parts

    def candidate_spans(self, output: SpanNEROutput, decoding: Mapping[str, Any]) -> Tensor:
        """(B, K, 4) packed: predicted centres, and what the votes add under `decode_mode` (section 3.3)."""
        entities = voted_entities(
            output.logits,
            output.word_mask,
            max_offset=self.config.max_offset,
            decode_mode=decoding["decode_mode"],
            min_votes=decoding["min_votes"] or max(1, self.config.max_offset),
            pool_votes=decoding["pool_votes"],
            confidence=decoding["confidence"],
        )
        return pack_candidates(
            entities.sentence,
            entities.starts,
            entities.lasts + 1,
            entities.types,
            entities.scores,
            len(output.word_mask),
        )

    @property
    def limits(self) -> Limits:
        """Each span has one type, unless `multi_label` allows more."""
        return Limits(one_label=not self.config.multi_label)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Initialisation of the official code, except where it leaves all cells out for hundreds of steps.

        The paper is silent. Three starts are ours: U is wider than the code's 1 / d_b, with which the types play no
        part; the bias of out starts at the share of out, or else the first gradients are so large that later steps stay
        small; convolutions of the paper's form start as the identity.
        """
        super()._init_weights(module)
        is_parallel = self.config.conv_style == "parallel"
        if isinstance(module, TypeEmbedding):
            init.normal_(module.weight, std=self.config.prompt_std)
        elif isinstance(module, PairEmbedding):
            init.normal_(module.weight)
        elif isinstance(module, ScaleLayer | ShiftLayer):
            init.zeros_(module.weight)
            init.constant_(module.bias, float(isinstance(module, ScaleLayer)))
        elif isinstance(module, ReluLayer | SpanLayer):
            init.kaiming_uniform_(module.weight, nonlinearity="relu")
        elif isinstance(module, Convolution) and is_parallel:
            assert module.bias is not None
            init.dirac_(module.weight, groups=module.groups)
            init.constant_(module.bias, LINEAR_GELU)
        elif isinstance(module, OutputLayer) and is_parallel:
            init.eye_(module.weight)  # the identity on the first convolution, 0 on the others
        elif isinstance(module, Convolution | OutputLayer):
            init.kaiming_uniform_(module.weight, a=5**0.5)
        elif isinstance(module, TypeMaps):
            size = module.pair_weight.shape[-1]
            init.normal_(module.pair_weight, std=(2 * size) ** -0.5)
            init.normal_(module.linear_weight, std=1 / size)
            init.copy_(module.bias, torch.eye(len(module.bias))[-1] * START_OF_OUT)
        elif isinstance(module, TypeConditionedTerm):
            init.zeros_(module.scale_weight)
            init.zeros_(module.shift_weight)
            init.ones_(module.scale)
            init.zeros_(module.shift)


class TypeEmbedding(nn.Embedding):
    """One learnable vector for each entity type, read before the sentence or, without type inputs, by the biaffine."""
