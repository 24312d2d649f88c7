"""Text or words in, entities with scores and offsets out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice, pairwise
from typing import Any, cast

import numpy as np
from torch.utils.data import Dataset as TorchDataset
from transformers import PreTrainedTokenizerBase
from transformers.pipelines.base import ChunkPipeline

from hf_spanner.core.calibration import PROMISES
from hf_spanner.core.features import Window, WordTokenizer, merge_windows, pad_features, plan_windows
from hf_spanner.core.words import split_words, surface_offsets

Entity = dict[str, Any]
BATCH_SIZE = 32
BUFFERED_BATCHES = 32
THRESHOLDS = {"threshold", *PROMISES}


class SpanNERPipeline(ChunkPipeline):
    """Named entities of texts, as `pipeline("span-ner", model=folder)`.

    A text longer than the encoder's window is read in overlapping windows and never cut. Texts are sorted by length
    within buffers of 32 batches, since padding is the largest cost; answers come in the order of the input, and the
    answer of a text does not depend on its neighbours.

    Every name in the model's `decoding_parameters` (threshold, overlap and a method's own) may be given at construction
    or in a call; neither changes the configuration. `pretokenized=True` takes words in place of text.

    Raises:
        ValueError: If `device` is the number of an accelerator and there is none.
    """

    model: Any  # a SpanNERModel, whose module imports this one
    tokenizer: PreTrainedTokenizerBase
    _load_tokenizer = True
    _load_processor = _load_image_processor = _load_video_processor = _load_feature_extractor = False

    def __init__(self, *args: Any, device: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, device=device, **kwargs)
        if isinstance(device, int) and device >= 0 and self.device.type == "cpu":
            raise ValueError(f"device {device} is an accelerator, of which there is none here; allowed: 'cpu' or -1")
        if self._batch_size is None:
            self._batch_size = BATCH_SIZE
        self.model.eval()
        self.word_tokenizer = WordTokenizer(self.tokenizer, self.model.config.window_overlap)

    def __call__(self, inputs: Any, *args: Any, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Entities of one text as a list, of a list of texts as a list of lists, of an iterator as an iterator.

        Args:
            inputs: A text; a list, tuple, `datasets` column or torch `Dataset` of texts; or any iterable, read lazily.
                With `pretokenized=True` a text is a list of words.
            *args: Not used.
            batch_size: Windows run through the model at once, 32 by default.
            **kwargs: Decoding parameters and `pretokenized`.

        Returns:
            For each text its entities by start, longer first, as dicts with `entity_group`, `score`, `word`, `start`,
            `end` (characters, half-open), `word_start` and `word_end` (words, half-open).

        Raises:
            TypeError: If an input is no text; the message names its position.
            ValueError: If a parameter is unknown or out of range.
        """
        _, settings, _ = self._sanitize_parameters(**kwargs)
        earlier = self._forward_params
        if not THRESHOLDS.isdisjoint(settings):  # the call's way to a threshold stands in for the construction's
            earlier = {name: value for name, value in earlier.items() if name not in THRESHOLDS}
        settings = {**earlier, **settings}
        pretokenized = settings.pop("pretokenized", False)
        decoding = self.model.decoding(settings)
        batch_size = batch_size or self._batch_size
        is_one = isinstance(inputs, str) or (
            pretokenized and isinstance(inputs, (list, tuple)) and bool(inputs) and isinstance(inputs[0], str)
        )
        if is_one:
            return next(self._answers([inputs], pretokenized, decoding, batch_size))
        if isinstance(inputs, TorchDataset) and not isinstance(inputs, Iterable):
            inputs = [inputs[place] for place in range(len(cast(Sized, inputs)))]
        if not isinstance(inputs, Iterable) or isinstance(inputs, (bytes, Mapping)):
            raise TypeError(f"input at position 0 must be a text, got {type(inputs).__name__}")
        answers = self._answers(inputs, pretokenized, decoding, batch_size)
        return list(answers) if isinstance(inputs, Sized) else answers

    def _sanitize_parameters(
        self, pretokenized: bool | None = None, **decoding: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        self.model.decoding(decoding)
        settings = decoding if pretokenized is None else {**decoding, "pretokenized": pretokenized}
        return {}, settings, {}

    def _answers(
        self, inputs: Iterable, pretokenized: bool, decoding: Mapping[str, Any], batch_size: int
    ) -> Iterator[list[Entity]]:
        """Answers in the order of the inputs, one buffer after the other."""
        remaining, position = iter(inputs), 0
        while texts := list(islice(remaining, batch_size * BUFFERED_BATCHES)):
            for offset, text in enumerate(texts):
                check_text(text, pretokenized, position + offset)
            position += len(texts)
            yield from self._buffer_answers(texts, pretokenized, decoding, batch_size)

    def _buffer_answers(
        self, texts: list, pretokenized: bool, decoding: Mapping[str, Any], batch_size: int
    ) -> list[list[Entity]]:
        items = list(self.preprocess(texts, pretokenized=pretokenized))
        order = sorted(range(len(items)), key=lambda place: len(items[place]["text"].ids))
        queue = [(place, window) for place in order for window in items[place]["windows"] if window.num_words]
        # one growing block a text: small tensors that outlive their batch would keep the memory of batches from reuse
        candidates, counts = [bytearray() for _ in items], [[0] for _ in items]
        pad_id = cast(int, self.tokenizer.pad_token_id)
        for first in range(0, len(queue), batch_size):
            batch = queue[first : first + batch_size]
            features = [self.word_tokenizer.feature(items[place]["text"], window) for place, window in batch]
            inputs = pad_features(features, [window.num_words for _, window in batch], pad_id)
            outputs = cast(dict[str, Any], self.forward(inputs, decoding=decoding))
            for (place, _), table in zip(batch, outputs["candidates"].numpy(), strict=True):
                found = table[table[:, 0] >= 0]
                candidates[place] += found.tobytes()
                counts[place].append(counts[place][-1] + len(found))
        answers = []
        for item, packed, borders in zip(items, candidates, counts, strict=True):
            rows = np.frombuffer(packed, dtype=np.float32).reshape(-1, 4)
            tables = [rows[first:last] for first, last in pairwise(borders)]
            answers.append(self.postprocess(item, tables=tables, decoding=decoding))
        return answers

    def preprocess(self, inputs: Sequence, pretokenized: bool = False) -> Iterator[dict[str, Any]]:
        """Words, tokens and windows of each text."""
        config = self.model.config
        if pretokenized:
            words = [list(text) for text in inputs]
            offsets = [surface_offsets(of_text) for of_text in words]
            texts = [" ".join(of_text) for of_text in words]
        else:
            texts = list(inputs)
            offsets = [split_words(text, split_hyphens=config.split_hyphens) for text in texts]
            words = [[text[a:b] for a, b in spans] for text, spans in zip(texts, offsets, strict=True)]
        for surface, spans, tokens in zip(texts, offsets, self.word_tokenizer(words), strict=True):
            windows = plan_windows(tokens.bounds, config.window_size, config.window_overlap) if tokens.ids else []
            yield {"surface": surface, "offsets": spans, "text": tokens, "windows": windows}

    def _forward(self, model_inputs: dict[str, Any], decoding: Mapping[str, Any] | None = None) -> dict[str, Any]:
        settings = self.model.decoding(decoding)
        output = self.model(**model_inputs, decoding=settings)
        return {"candidates": self.model.candidate_spans(output, settings)}

    def postprocess(
        self, model_outputs: dict[str, Any], tables: Sequence = (), decoding: Mapping[str, Any] | None = None
    ) -> list[Entity]:
        """Named entities of one text from the candidates of its windows."""
        windows: list[Window] = model_outputs["windows"]
        if not tables:
            return []
        surface, offsets = model_outputs["surface"], model_outputs["offsets"]
        settings = self.model.config.merge_settings()
        entities = []
        for span in merge_windows(tables, windows, settings, self.model.decoding() if decoding is None else decoding):
            start, end = offsets[span.start][0], offsets[span.end - 1][1]
            entities.append(
                {
                    "entity_group": settings["id2label"][span.label],
                    "score": span.score,
                    "word": surface[start:end],
                    "start": start,
                    "end": end,
                    "word_start": span.start,
                    "word_end": span.end,
                }
            )
        return entities


def check_text(text: object, pretokenized: bool, position: int) -> None:
    """Raise a TypeError that names the position unless the input is a text, or words if they were announced."""
    if not pretokenized and isinstance(text, (list, tuple)):
        raise TypeError(f"input at position {position} is a list; for lists of words give pretokenized=True")
    is_words = isinstance(text, (list, tuple)) and all(isinstance(word, str) for word in text)
    if not (is_words if pretokenized else isinstance(text, str)):
        wanted = "a list of words" if pretokenized else "a text"
        raise TypeError(f"input at position {position} must be {wanted}, got {type(text).__name__}")
