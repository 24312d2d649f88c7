"""The one way from words to spans: tokenise, cut into windows, read batches sorted by length, merge.

A model takes part as one function, from a padded batch to packed candidates; anything that computes the same function
can stand in its place.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging

from hf_spanner.core.calibration import calibrated_spans, lowest_score
from hf_spanner.core.configuration_span_ner import NUM_SPECIAL_TOKENS, SpanNERConfig
from hf_spanner.core.features import (
    BackendWordTokenizer,
    TokenizedWords,
    Window,
    WordTokenizer,
    pad_features,
    plan_windows,
)
from hf_spanner.core.overlap import resolve_overlaps
from hf_spanner.core.spans import Span

logger = logging.get_logger(__name__)

# From `input_ids`, `attention_mask`, `word_index` (B, T), `word_mask` (B, N) and the features of words that the model
# reads, to a (K, 4) packed table for each window, or one (B, K, 4) for all.
CandidateFunction = Callable[[dict[str, np.ndarray]], Sequence[np.ndarray] | np.ndarray]

Entity = dict[str, Any]
PAIRS_AT_ONCE = 2**17  # pairs of words in one run of a graph, 200 MB where each has a vector of 400
TOKENIZED_AT_ONCE = 1024  # texts, whose encodings take far more memory than their ids


@dataclass(frozen=True)
class ReadableText:
    """One text as a model reads it.

    Args:
        tokens: Its token ids.
        windows: The windows that cover its words, at least one.
        left: Token ids of earlier sentences of its document that are read with it.
        right: Token ids of later ones.
    """

    tokens: TokenizedWords
    windows: list[Window]
    left: list[int]
    right: list[int]


class WindowReader:
    """Makes words readable for a model: token ids, windows, and neighbouring sentences as context.

    Args:
        word_tokenizer: Turns words into token ids.
        window_size: Most tokens read at once, special ones not counted.
        window_overlap: Most tokens that neighbouring windows share.
        context_sentences: Sentences of the document read on each side as context.
    """

    def __init__(
        self, word_tokenizer: BackendWordTokenizer, window_size: int, window_overlap: int, context_sentences: int
    ) -> None:
        self.word_tokenizer = word_tokenizer
        self.window_size, self.window_overlap = window_size, window_overlap
        self.context_sentences = context_sentences

    def texts(
        self, words: Sequence[Sequence[str]], documents: Sequence[str | None] | None = None
    ) -> list[ReadableText]:
        """Texts from their words, in the same order.

        Args:
            words: The words of each text.
            documents: The document of each text; neighbours of the same document are its context, as far as
                `context_sentences` goes and the window has room. None for a text without context, or for all.

        Returns:
            One readable text for each.
        """
        tokenized: list[TokenizedWords] = []
        for first in range(0, len(words), TOKENIZED_AT_ONCE):
            tokenized.extend(self.word_tokenizer(words[first : first + TOKENIZED_AT_ONCE]))
        texts = []
        for place, tokens in enumerate(tokenized):
            windows = plan_windows(tokens.bounds, self.window_size, self.window_overlap)
            left, right = [], []
            if documents is not None and len(windows) == 1:
                left, right = self._context(tokenized, documents, place)
            texts.append(ReadableText(tokens, windows, left, right))
        return texts

    def _context(
        self, tokenized: Sequence[TokenizedWords], documents: Sequence[str | None], place: int
    ) -> tuple[list[int], list[int]]:
        """Token ids of the neighbours in the same document, as far as the window has room, half on each side."""
        document = documents[place]
        if self.context_sentences == 0 or document is None:
            return [], []
        earlier = range(max(0, place - self.context_sentences), place)
        later = range(place + 1, min(len(documents), place + 1 + self.context_sentences))
        left = [token for near in earlier if documents[near] == document for token in tokenized[near].ids]
        right = [token for near in later if documents[near] == document for token in tokenized[near].ids]
        room = self.window_size - len(tokenized[place].ids)
        num_left = min(len(left), max(room // 2, room - len(right)))
        return left[len(left) - num_left :], right[: room - num_left]

    def batch(self, windows: Sequence[tuple[ReadableText, Window]]) -> dict[str, np.ndarray]:
        """The padded inputs of some windows, as from `pad_features`."""
        features = [self.word_tokenizer.feature(text.tokens, window, text.left, text.right) for text, window in windows]
        return pad_features(
            features, [window.num_words for _, window in windows], self.word_tokenizer.rules.pad_token_id
        )


class TextReader(WindowReader):
    """The reader of a model, from its tokenizer and its configuration.

    Args:
        tokenizer: The model's fast tokenizer.
        config: `window_size`, `window_overlap`, `context_sentences` and `word_features` of the model, and the sizes of
            its encoder.

    Raises:
        ValueError: If tokenizer and encoder do not fit, see `check_tokenizer`.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, config: SpanNERConfig) -> None:
        window_size, window_overlap = cast(int, config.window_size), cast(int, config.window_overlap)
        word_tokenizer = WordTokenizer(tokenizer, window_overlap, config.word_features)
        super().__init__(word_tokenizer, window_size, window_overlap, config.context_sentences)
        check_tokenizer(word_tokenizer, config)

    def texts(
        self, words: Sequence[Sequence[str]], documents: Sequence[str | None] | None = None
    ) -> list[ReadableText]:
        """As in the base class; that a model which reads context is told of no document is logged once."""
        names_document = documents is not None and any(document is not None for document in documents)
        if self.context_sentences and len(words) > 1 and not names_document:
            logger.warning_once(
                f"the model reads {self.context_sentences} neighbouring sentences of the same document as context, but "
                "no document is named, so each text is read alone; name it in the field `document` of rows, or in "
                "`documents` of a pipeline's call"
            )
        return super().texts(words, documents)


def check_tokenizer(tokenizer: WordTokenizer, config: SpanNERConfig) -> None:
    """Raise a ValueError if the encoder has no vector for some token, or no position for the last of a full window."""
    rules = tokenizer.rules
    if rules.num_ids > config.vocab_size:
        raise ValueError(
            f"the tokenizer has {rules.num_ids:,} tokens and the encoder vectors for {config.vocab_size:,}: give "
            f"the encoder's own tokenizer, or call model.resize_token_embeddings({rules.num_ids}) before training"
        )
    num_special = len(rules.prefix) + len(rules.suffix)
    room = config.encoder_capacity() + NUM_SPECIAL_TOKENS - num_special
    if cast(int, config.window_size) > room:
        raise ValueError(
            f"window_size must be at most {room} with a tokenizer that puts {num_special} special tokens around a "
            f"text, got {config.window_size}"
        )


def predicted_spans(
    texts: Sequence[ReadableText],
    candidates: CandidateFunction,
    *,
    reader: WindowReader,
    settings: Mapping[str, Any],
    decoding: Mapping[str, Any],
    batch_size: int,
) -> list[list[Span]]:
    """Spans of each text.

    Texts are read from the shortest to the longest, since padding is the largest cost; the windows of one text stay
    together. Memory: one batch, and the candidates of all texts.

    Args:
        texts: Texts, in any order.
        candidates: The function of a model, from a batch to candidates.
        reader: The reader that made the texts; it also makes their batches.
        settings: The model's `merge_settings`.
        decoding: Checked settings of inference.
        batch_size: Windows in a batch.

    Returns:
        The spans of each text, in the order of the texts.
    """
    order = sorted(range(len(texts)), key=lambda place: len(texts[place].tokens.ids))
    queue = [(place, window) for place in order if texts[place].tokens.ids for window in texts[place].windows]
    # one growing block for each text: small tables that outlive their batch would keep its memory from being reused
    packed, borders = [bytearray() for _ in texts], [[0] for _ in texts]
    for first in range(0, len(queue), batch_size):
        batch = queue[first : first + batch_size]
        tables = candidates(reader.batch([(texts[place], window) for place, window in batch]))
        for (place, _), table in zip(batch, tables, strict=True):
            real_rows = table[table[:, 0] >= 0]
            packed[place] += real_rows.astype(np.float32, copy=False).tobytes()
            borders[place].append(borders[place][-1] + len(real_rows))
    spans = []
    for text, block, ends in zip(texts, packed, borders, strict=True):
        rows = np.frombuffer(block, dtype=np.float32).reshape(-1, 4)
        tables = [rows[start:end] for start, end in pairwise(ends)]
        spans.append(merge_windows(tables, text.windows, settings, decoding) if tables else [])
    return spans


def tables_by_sentence(candidates: np.ndarray, num_sentences: int) -> list[np.ndarray]:
    """A (K, 4) packed table for each sentence, from (P, 5) rows that begin with their sentence, in its order."""
    borders = np.searchsorted(candidates[:, 0], np.arange(num_sentences + 1))
    return [candidates[first:last, 1:] for first, last in pairwise(borders.tolist())]


def graph_tables(
    graph: Callable[[Mapping[str, np.ndarray]], np.ndarray], batch: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """A (K, 4) packed table for each window of a batch, by a graph that holds all pairs of words at once.

    Long windows are run in parts of the batch, so that the pairs do not fill the memory.
    """
    num_windows, num_words = batch["word_mask"].shape
    at_once = max(1, PAIRS_AT_ONCE // num_words**2)
    tables: list[np.ndarray] = []
    for first in range(0, num_windows, at_once):
        part = {name: array[first : first + at_once] for name, array in batch.items()}
        tables += tables_by_sentence(graph(part), len(part["word_mask"]))
    return tables


def window_owners(windows: Sequence[Window], starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Index of the window that owns each span: the one whose share of the text holds the span's midpoint.

    The border of two neighbours lies in the middle of the words they share; a midpoint on it belongs to the earlier.

    Args:
        windows: Windows of one text, in order.
        starts: (K,) first words of spans, counted in the text.
        ends: (K,) one after the last words.

    Returns:
        (K,) long.
    """
    doubled_borders = [after.first_word + before.first_word + before.num_words for before, after in pairwise(windows)]
    return np.searchsorted(np.asarray(doubled_borders), starts + ends, side="left")


def owned_candidates(tables: Sequence[np.ndarray], windows: Sequence[Window]) -> np.ndarray:
    """The candidates that their window owns, counted in the text's words: (K, 4) out of a (K_w, 4) table a window."""
    candidates = np.concatenate(tables)
    seen_by = np.repeat(np.arange(len(windows)), [len(table) for table in tables])
    first_words = np.array([window.first_word for window in windows])
    candidates[:, :2] += first_words[seen_by, None].astype(candidates.dtype)
    return candidates[window_owners(windows, candidates[:, 0], candidates[:, 1]) == seen_by]


def merge_windows(
    candidates: Sequence[np.ndarray], windows: Sequence[Window], config: Mapping, decoding: Mapping
) -> list[Span]:
    """Final spans of one text from the candidates of its windows.

    Order: each window keeps the candidates it owns, moved to the text's words; overlaps are resolved on raw scores;
    scores are calibrated; the threshold acts on calibrated scores, and a score equal to it stays.

    Args:
        candidates: For each window a (K, 4) packed table, counted in the window's words; padding rows hold -100.
        windows: The windows, in order.
        config: `id2label`, `multi_label` and `calibration` of the model.
        decoding: `overlap` and `threshold`, a number or one for each label name.

    Returns:
        Spans by start, then longer first, then label name.
    """
    tables = [table[table[:, 0] >= 0] for table in candidates]
    owned = tables[0] if len(windows) == 1 else owned_candidates(tables, windows)
    spans = [Span(int(start), int(end), int(label), score) for start, end, label, score in owned.tolist()]
    spans = resolve_overlaps(
        spans, policy=decoding["overlap"], id2label=config["id2label"], multi_label=config["multi_label"]
    )
    scored = calibrated_spans(spans, config["calibration"], config["id2label"])
    threshold, id2label = decoding["threshold"], config["id2label"]
    return [span for span in scored if span.score >= lowest_score(threshold, id2label[span.label])]


def named_entities(
    surface: str, offsets: Sequence[tuple[int, int]], spans: Sequence[Span], id2label: Mapping[int, str]
) -> list[Entity]:
    """The spans of one text as entities, see `SpanNERPipeline.__call__`.

    Args:
        surface: The text.
        offsets: Where its words lie in it, in characters, half-open.
        spans: Its spans.
        id2label: Label names by index.

    Returns:
        One entity for each span, in their order.
    """
    entities = []
    for word_start, word_end, label, score in spans:
        start, end = offsets[word_start][0], offsets[word_end - 1][1]
        entities.append(
            {
                "entity_group": id2label[label],
                "score": score,
                "word": surface[start:end],
                "start": start,
                "end": end,
                "word_start": word_start,
                "word_end": word_end,
            }
        )
    return entities
