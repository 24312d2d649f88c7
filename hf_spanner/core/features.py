"""Turns words into windows of token ids, and windows into a padded batch."""

import logging
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from transformers import PreTrainedTokenizerBase

from hf_spanner.core.word_shapes import WordFeatures, word_features

logger = logging.getLogger(__name__)

SURROGATE = re.compile(r"[\ud800-\udfff]")


class TokenizedWords(NamedTuple):
    """Token ids of one text; word w has `ids[bounds[w]:bounds[w + 1]]`, which may be empty.

    `features` are those of the words themselves, by the name of the model's input, each with a row for each word.
    """

    ids: list[int]
    bounds: list[int]
    features: Mapping[str, np.ndarray] = {}


class Window(NamedTuple):
    """A run of words of one text that fits the encoder."""

    first_word: int
    num_words: int


class TokenRules(NamedTuple):
    """What a tokenizer of the library knows beside its backend, as plain values.

    Args:
        prefix: Token ids before a text.
        suffix: Token ids after it.
        unknown: Id of the unknown token.
        pad_token_id: Id that batches are padded with.
        reserved: Ids that no word may have, read as the unknown token.
        needs_blank: Whether a blank before a word tells its tokenizer that it is one.
        num_ids: One more than the largest id.
    """

    prefix: list[int]
    suffix: list[int]
    unknown: int | None
    pad_token_id: int
    reserved: list[int]
    needs_blank: bool
    num_ids: int


class BackendWordTokenizer:
    """Turns words into token ids, by the backend of a fast tokenizer alone; see `WordTokenizer`.

    Args:
        backend: The tokenizer of the library `tokenizers`, which is changed and used from here on.
        rules: What must be known beside it.
        max_word_tokens: Tokens kept of one word; more are counted and reported.
        word_features: Features of the words themselves that the model reads.
    """

    def __init__(
        self, backend: Any, rules: TokenRules, max_word_tokens: int, word_features: WordFeatures = "none"
    ) -> None:
        self.backend, self.rules = backend, rules
        self.backend.no_truncation()
        self.backend.no_padding()
        self.backend.encode_special_tokens = True
        self.max_word_tokens = max_word_tokens
        self.word_features: WordFeatures = word_features
        self.reserved = set(rules.reserved)

    def __call__(self, texts: Sequence[Sequence[str]]) -> list[TokenizedWords]:
        """Token ids of each text, given as words."""
        inputs = [[self._input(word) for word in words] for words in texts]
        encodings = self.backend.encode_batch(inputs, is_pretokenized=True, add_special_tokens=False)
        return [
            self._within_limit(encoding.ids, encoding.word_ids, words)
            for encoding, words in zip(encodings, texts, strict=True)
        ]

    def _input(self, word: str) -> str:
        """The word as the tokenizer takes it: half a character is no text, so it is read as an unknown one."""
        word = word if word.isascii() else SURROGATE.sub("\ufffd", word)
        return " " + word if word and self.rules.needs_blank else word

    def _within_limit(self, ids: list[int], word_ids: list[int], words: Sequence[str]) -> TokenizedWords:
        counts = [0] * len(words)
        for word in word_ids:
            counts[word] += 1
        if max(counts, default=0) > self.max_word_tokens:
            is_kept, rank, last = [], 0, -1
            for word in word_ids:
                rank = rank + 1 if word == last else 0
                last = word
                is_kept.append(rank < self.max_word_tokens)
            too_long = [word for word, count in zip(words, counts, strict=True) if count > self.max_word_tokens]
            logger.warning(
                "%d word(s) have more than %d tokens and are read up to that point, e.g. %.40s...",
                len(too_long),
                self.max_word_tokens,
                too_long[0],
            )
            ids = [token for token, keep in zip(ids, is_kept, strict=True) if keep]
            counts = [min(count, self.max_word_tokens) for count in counts]
        if self.rules.unknown is not None and not self.reserved.isdisjoint(ids):
            ids = [self.rules.unknown if token in self.reserved else token for token in ids]
        return TokenizedWords(ids, list(accumulate(counts, initial=0)), word_features(words, self.word_features))

    def feature(
        self, text: TokenizedWords, window: Window, left: Sequence[int] = (), right: Sequence[int] = ()
    ) -> dict[str, Any]:
        """One window as unpadded inputs, with context tokens on both sides.

        Args:
            text: The whole text.
            window: The words to take.
            left: Token ids read before the window's own, index 0.
            right: Token ids read after them, index 0.

        Returns:
            `input_ids` and `word_index` (1 + word within the window, 0 for special and context tokens), lists of
            integers, and the features of the window's words, arrays with a row for each.
        """
        bounds = text.bounds[window.first_word : window.first_word + window.num_words + 1]
        tokens = text.ids[bounds[0] : bounds[-1]]
        index = list(chain.from_iterable([word] * (b - a) for word, (a, b) in enumerate(pairwise(bounds), start=1)))
        before, after = [*self.rules.prefix, *left], [*right, *self.rules.suffix]
        return {
            "input_ids": [*before, *tokens, *after],
            "word_index": [0] * len(before) + index + [0] * len(after),
            **{name: rows[window.first_word :][: window.num_words] for name, rows in text.features.items()},
        }


class WordTokenizer(BackendWordTokenizer):
    """Turns words into token ids, never cut to the encoder's length; special strings in the words are plain text.

    The tokenizer's backend is copied: the caller's calls switch padding and truncation on and off in the original, and
    threads can share the copy. A vocabulary that holds its special strings as pieces (Unigram) gives the unknown token
    for them. Byte-level tokenizers recognise a word by the blank before it; where a tokenizer adds none to words
    (ModernBERT's, RoBERTa's without `add_prefix_space`), the blank is added here. Where there is no padding token
    (GPT-2, Llama) texts are padded with token 0: the mask hides it from the encoder, so any would do.

    Args:
        tokenizer: A fast tokenizer.
        max_word_tokens: Tokens kept of one word; more are counted and reported.
        word_features: Features of the words themselves that the model reads.

    Raises:
        ValueError: If the tokenizer is not a fast one.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, max_word_tokens: int, word_features: WordFeatures = "none"
    ) -> None:
        if not (isinstance(tokenizer, PreTrainedTokenizerBase) and tokenizer.is_fast):
            raise ValueError(f"a fast tokenizer is needed to align words with tokens, got {type(tokenizer).__name__}")
        backend = deepcopy(cast(Any, tokenizer).backend_tokenizer)  # the base class does not declare it
        super().__init__(backend, token_rules(tokenizer), max_word_tokens, word_features)


def token_rules(tokenizer: PreTrainedTokenizerBase) -> TokenRules:
    """The rules of a fast tokenizer."""
    attributes = cast(Any, tokenizer)  # the base class does not declare those of fast tokenizers
    in_words, in_text = tokenizer(["a", "a"], is_split_into_words=True), tokenizer("a a")
    plain, full = tokenizer(["a"], is_split_into_words=True, add_special_tokens=False), tokenizer("a")
    num_before = full["input_ids"].index(plain["input_ids"][0])
    unknown: int | None = attributes.unk_token_id
    return TokenRules(
        prefix=full["input_ids"][:num_before],
        suffix=full["input_ids"][num_before + len(plain["input_ids"]) :],
        unknown=unknown,
        pad_token_id=0 if attributes.pad_token_id is None else attributes.pad_token_id,
        reserved=[] if unknown is None else sorted(set(attributes.all_special_ids) - {unknown}),
        needs_blank=in_words["input_ids"] != in_text["input_ids"],
        num_ids=max(len(tokenizer), 1 + max(attributes.added_tokens_decoder, default=-1)),
    )


def plan_windows(bounds: Sequence[int], window_size: int, window_overlap: int) -> list[Window]:
    """Windows that cover all words of a text, each at most `window_size` tokens, neighbours sharing some words.

    A window takes as many words as fit. The next one starts at the earliest word from which no more than
    `window_overlap` tokens remain in the window before, and at least one word later than it. A word without tokens
    counts as one, since memory grows with the square of the words in a window.

    Args:
        bounds: Token bounds of the words, as in `TokenizedWords`.
        window_size: Most tokens in a window, special tokens not counted.
        window_overlap: Most tokens that two neighbours share, below `window_size`.

    Returns:
        At least one window, in order; a text without words gives one of zero words.
    """
    positions = np.append(0, np.maximum(np.diff(bounds), 1).cumsum())
    num_words = len(bounds) - 1
    windows, first = [], 0
    while True:
        end = int(np.searchsorted(positions, positions[first] + window_size, side="right")) - 1
        windows.append(Window(first, end - first))
        if end >= num_words:
            return windows
        shared = int(np.searchsorted(positions, positions[end] - window_overlap, side="left"))
        first = min(max(shared, first + 1), end)


def pad_features(features: Sequence[Mapping[str, Any]], num_words: Sequence[int], pad_id: int) -> dict[str, np.ndarray]:
    """Padded batch of windows with the inputs of the model.

    Args:
        features: Windows as `WordTokenizer.feature` makes them.
        num_words: Words of each window.
        pad_id: The tokenizer's padding id.

    Returns:
        `input_ids`, `attention_mask`, `word_index` (B, T) long and `word_mask` (B, N) bool, N at least 1; where windows
        have them, `word_shapes` (B, N) long, padded with 0.
    """
    shape = (len(features), max(len(feature["input_ids"]) for feature in features))
    input_ids = np.full(shape, pad_id, dtype=np.int64)
    attention_mask = np.zeros(shape, dtype=np.int64)
    word_index = np.zeros(shape, dtype=np.int64)
    word_mask = np.zeros((len(features), max(1, *num_words) + 1), dtype=bool)
    for row, feature in enumerate(features):
        length = len(feature["input_ids"])
        input_ids[row, :length] = feature["input_ids"]
        attention_mask[row, :length] = 1
        word_index[row, :length] = feature["word_index"]
        word_mask[row, feature["word_index"]] = True
    batch = {
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "word_index": word_index,
        "word_mask": word_mask[:, 1:].copy(),
    }
    for name in [name for name in features[0] if name not in batch]:
        batch[name] = np.zeros(batch["word_mask"].shape, dtype=np.int64)
        for table, feature in zip(batch[name], features, strict=True):
            table[: len(feature[name])] = feature[name]
    return batch
