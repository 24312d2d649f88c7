"""Text or words in, entities with scores and offsets out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice, repeat
from typing import Any, cast

from torch.utils.data import Dataset as TorchDataset
from transformers import PreTrainedTokenizerBase
from transformers.pipelines.base import Pipeline
from transformers.utils import logging

from hf_spanner.core.calibration import PROMISES
from hf_spanner.core.prediction import Entity, ReadableText, TextReader, named_entities, predicted_spans
from hf_spanner.core.spans import Span
from hf_spanner.core.words import split_words, surface_offsets

logger = logging.get_logger(__name__)

BATCH_SIZE = 32
BUFFERED_BATCHES = 32
THRESHOLDS = {"threshold", *PROMISES}


class SpanNERPipeline(Pipeline):
    """Named entities of texts, as `pipeline("span-ner", model=folder)`.

    A text longer than the encoder's window is read in overlapping windows and never cut. Texts are sorted by length
    within buffers of 32 batches, since padding is the largest cost; answers come in the order of the input, and the
    answer of a text does not depend on the batch that it is read in, unless its encoder reads padding (FNet, ConvBERT,
    BigBird), or it is an ONNX graph of 8 bits, whose ranges are those of a batch: there `batch_size=1` gives the same
    answer each time.

    Every name in the model's `decoding_parameters` (threshold, overlap and a method's own) may be given at construction
    or in a call; neither changes the configuration. `pretokenized=True` takes words in place of text.

    Raises:
        ValueError: If `batch_size` is below 1, or `device` is the number of an accelerator and there is none.
    """

    model: Any  # a SpanNERModel, whose module imports this one
    tokenizer: PreTrainedTokenizerBase
    _load_tokenizer = True
    _load_processor = _load_image_processor = _load_video_processor = _load_feature_extractor = False

    def __init__(
        self,
        *args: Any,
        device: Any = None,
        batch_size: int | None = None,
        pretokenized: bool = False,
        **kwargs: Any,
    ) -> None:
        self.batch_size, self.pretokenized = checked_size(batch_size, BATCH_SIZE), pretokenized
        super().__init__(*args, device=device, batch_size=batch_size, pretokenized=pretokenized, **kwargs)
        if isinstance(device, int) and device >= 0 and self.device.type == "cpu":
            raise ValueError(f"device {device} is an accelerator, of which there is none here; allowed: 'cpu' or -1")
        names = {*self.model.config.decoding_parameters, *PROMISES}
        self.settings = {name: value for name, value in kwargs.items() if name in names}
        self.model.eval()
        self.reader = TextReader(self.tokenizer, self.model.config)

    def __call__(
        self,
        inputs: Any,
        *args: Any,
        documents: Iterable[str | None] | None = None,
        batch_size: int | None = None,
        num_workers: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Entities of one text as a list, of several texts as a list of lists, of an iterator of texts as an iterator.

        Args:
            inputs: A text; a list, tuple, `datasets` column or torch `Dataset` of texts; or any iterable, read lazily.
                With `pretokenized=True` a text is a list of words.
            *args: Ignored with a warning, as in other pipelines.
            documents: The document of each text, in reading order, for a model that reads neighbouring sentences of the
                same document as context (`context_sentences`); None for a text that is read alone.
            batch_size: Windows run through the model at once, 32 by default.
            num_workers: Taken as in other pipelines and without effect: texts are made ready in this process.
            **kwargs: Decoding parameters and `pretokenized`.

        Returns:
            For each text its entities by start, longer first, as dicts with `entity_group`, `score`, `word`, `start`,
            `end` (characters, half-open), `word_start` and `word_end` (words, half-open).

        Raises:
            TypeError: If an input is no text; the message names its position.
            ValueError: If a parameter is unknown or out of range, or there are not as many documents as texts.
        """
        if args:
            logger.warning("Ignoring args : %s", args)
        preprocess_parameters, settings, _ = self._sanitize_parameters(**kwargs)
        pretokenized = preprocess_parameters.get("pretokenized", self.pretokenized)
        earlier = self.settings
        if not THRESHOLDS.isdisjoint(settings):  # a threshold or promise of the call replaces that of the construction
            earlier = {name: value for name, value in earlier.items() if name not in THRESHOLDS}
        decoding = self.model.decoding(earlier | settings)
        batch_size = checked_size(batch_size, self.batch_size)
        is_single = isinstance(inputs, str) or (
            pretokenized and isinstance(inputs, (list, tuple)) and bool(inputs) and isinstance(inputs[0], str)
        )
        if is_single:
            if documents is not None:
                raise ValueError("documents goes with a list of texts, got one text")
            return next(self._answers([inputs], None, pretokenized, decoding, batch_size))
        if isinstance(inputs, TorchDataset) and not isinstance(inputs, Iterable):
            inputs = [inputs[place] for place in range(len(cast(Sized, inputs)))]
        if not isinstance(inputs, Iterable) or isinstance(inputs, (bytes, Mapping)):
            raise TypeError(f"input at position 0 must be a text, got {type(inputs).__name__}")
        if isinstance(inputs, Sized) and isinstance(documents, Sized) and len(inputs) != len(documents):
            raise ValueError(f"documents must be as many as the {len(inputs)} texts, got {len(documents)}")
        answers = self._answers(inputs, documents, pretokenized, decoding, batch_size)
        return list(answers) if isinstance(inputs, Sized) else answers

    def _sanitize_parameters(
        self, pretokenized: bool | None = None, **decoding: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        self.model.decoding(decoding)
        return {} if pretokenized is None else {"pretokenized": pretokenized}, decoding, {}

    def _answers(
        self,
        inputs: Iterable,
        documents: Iterable[str | None] | None,
        pretokenized: bool,
        decoding: Mapping[str, Any],
        batch_size: int,
    ) -> Iterator[list[Entity]]:
        """Answers in the order of the inputs, one buffer after the other."""
        texts = checked_texts(inputs, pretokenized)
        pairs = zip(texts, repeat(None)) if documents is None else zip(texts, documents, strict=True)
        reach = 0 if documents is None else self.model.config.context_sentences
        for before, current, after in buffers(pairs, batch_size * BUFFERED_BATCHES, reach):
            items = self._read([*before, *current, *after], pretokenized)[len(before) : len(before) + len(current)]
            spans = self._spans([item["text"] for item in items], decoding, batch_size)
            for item, item_spans in zip(items, spans, strict=True):
                yield self.postprocess(item | {"spans": item_spans})

    def _read(self, texts: Sequence[tuple[Any, str | None]], pretokenized: bool) -> list[dict[str, Any]]:
        """Surface, offsets of words, and readable text of each text, given together with its document."""
        if pretokenized:
            words = [list(text) for text, _ in texts]
            offsets = [surface_offsets(text_words) for text_words in words]
            surfaces = [" ".join(text_words) for text_words in words]
        else:
            surfaces = [text for text, _ in texts]
            offsets = [split_words(text, split_hyphens=self.model.config.split_hyphens) for text in surfaces]
            words = [[text[a:b] for a, b in spans] for text, spans in zip(surfaces, offsets, strict=True)]
        readable = self.reader.texts(words, [document for _, document in texts])
        return [
            {"surface": surface, "offsets": spans, "text": text}
            for surface, spans, text in zip(surfaces, offsets, readable, strict=True)
        ]

    def _spans(self, texts: Sequence[ReadableText], decoding: Mapping[str, Any], batch_size: int) -> list[list[Span]]:
        """Spans of each text."""
        with self.device_placement():
            return predicted_spans(
                texts,
                self.model.candidate_function(decoding),
                reader=self.reader,
                settings=self.model.config.merge_settings(),
                decoding=decoding,
                batch_size=batch_size,
            )

    def preprocess(self, input_: Any, pretokenized: bool = False) -> dict[str, Any]:
        """Surface, offsets of words, and readable text of one text."""
        check_text(input_, pretokenized, 0)
        return self._read([(input_, None)], pretokenized)[0]

    def _forward(self, model_inputs: dict[str, Any], **decoding: Any) -> dict[str, Any]:
        settings = self.model.decoding(decoding)
        return model_inputs | {"spans": self._spans([model_inputs["text"]], settings, self.batch_size)[0]}

    def postprocess(self, model_outputs: dict[str, Any]) -> list[Entity]:
        """Named entities of one text from its spans."""
        surface, offsets = model_outputs["surface"], model_outputs["offsets"]
        return named_entities(surface, offsets, model_outputs["spans"], self.model.config.id2label)


def buffers(items: Iterator, size: int, reach: int, before: Sequence = ()) -> Iterator[tuple[list, list, list]]:
    """Items in lists of a given size, each with up to `reach` neighbours before and after it.

    Args:
        items: Any items, read lazily.
        size: Items in a list, at least 1.
        reach: Neighbours on each side.
        before: What comes before the first item, at most `reach`.

    Yields:
        Neighbours before, the items, and neighbours after; each item is in the middle once.
    """
    earlier = list(before)
    ahead = list(islice(items, size + reach))
    while ahead:
        current, after = ahead[:size], ahead[size:]
        yield earlier, current, after
        earlier = [*earlier, *current][-reach:] if reach else []
        ahead = [*after, *islice(items, size)]


def checked_size(batch_size: int | None, default: int) -> int:
    """The batch size, or the default for None; a ValueError unless it is an integer of at least 1."""
    size = default if batch_size is None else batch_size
    if not isinstance(size, int) or size < 1:
        raise ValueError(f"batch_size must be an integer of at least 1, got {size!r}")
    return size


def checked_texts(inputs: Iterable, pretokenized: bool) -> Iterator:
    """The inputs, each checked when it is read."""
    for position, text in enumerate(inputs):
        check_text(text, pretokenized, position)
        yield text


def check_text(text: object, pretokenized: bool, position: int) -> None:
    """Raise a TypeError that names the position unless the input is a text, or words where words are expected."""
    if not pretokenized and isinstance(text, (list, tuple)):
        raise TypeError(f"input at position {position} is a list; for lists of words give pretokenized=True")
    is_words = isinstance(text, (list, tuple)) and all(isinstance(word, str) for word in text)
    if not (is_words if pretokenized else isinstance(text, str)):
        wanted = "a list of words" if pretokenized else "a text"
        raise TypeError(f"input at position {position} must be {wanted}, got {type(text).__name__}")
