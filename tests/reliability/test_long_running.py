"""The memory that many texts take, and that of one very long text."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoTokenizer
from transformers.modeling_outputs import BaseModelOutput

from hf_spanner import SpanNERModel, SpanNERPipeline

PROGRAM = Path(__file__).with_name("many_texts.py")
NUM_TEXTS, NUM_WARM = 100_000, 20_000
MAX_GROWTH = 20 * 2**20
MAX_GROWTH_OF_PEAK = 150 * 2**20  # the text itself: its words, tokens and offsets
NUM_WORDS, SPACING = 200_000, 97
WORDS = ["Ana", "met", "Bo", "in", "Oslo", "and", "then", "they", "walked", "to", "Lake", "Tarn", ".", "it", "rained"]


@pytest.mark.slow
def test_many_texts_take_no_more_memory(
    saved_by_method: Callable[[str], Path],
    run_python: Callable[..., str],
    method: str,
    record_property: Callable[[str, Any], None],
) -> None:
    """Resident memory is compared after 20,000 texts and after 100,000, which a generator gives.

    oneDNN keeps up to 1,024 compiled operations, one for each shape; it is told to keep none, so that what else grows
    is seen.
    """
    folder = saved_by_method(method) / method
    printed = run_python(PROGRAM, folder, NUM_WARM, NUM_TEXTS, timeout=600, ONEDNN_PRIMITIVE_CACHE_CAPACITY="0")
    measured = json.loads(printed)
    record_property("growth in MiB", measured["growth"] / 2**20)
    assert measured["texts"] == NUM_TEXTS
    assert measured["entities"] > NUM_TEXTS / 10
    assert measured["growth"] < MAX_GROWTH


class Marked:
    """Stands in for a model's candidates: the words "Lake Tarn Oslo" in a row are an entity, and nothing else is.

    The real scores are computed and thrown away, so time and memory are those of the method.
    """

    def __init__(self, model: SpanNERModel, marks: list[int], patch: pytest.MonkeyPatch) -> None:
        self.encode, self.marks = model.encode, torch.tensor(marks)
        patch.setattr(model, "encode", self.noted)
        patch.setattr(model, "candidate_spans", self.candidates)

    def noted(
        self, input_ids: Tensor, attention_mask: Tensor, word_index: Tensor, word_mask: Tensor, **asked: Any
    ) -> BaseModelOutput:
        """Give the real vectors, and keep the place of each first mark."""
        is_first = (input_ids == self.marks[0]) & (word_index > 0)
        self.mark_starts = [
            [word - 1 for word in words[first].tolist() if word + 1 < mask.sum()]
            for words, first, mask in zip(word_index, is_first, word_mask, strict=True)
        ]
        return self.encode(input_ids, attention_mask, word_index, word_mask, **asked)

    def candidates(self, output: Any, decoding: Any) -> Tensor:
        """(B, K, 4): a span of three words at each mark, as far as the window holds it."""
        packed = torch.full((len(self.mark_starts), max(1, *map(len, self.mark_starts)), 4), -100.0)
        for table, starts in zip(packed, self.mark_starts, strict=True):
            for place, start in enumerate(starts):
                table[place] = torch.tensor([start, start + 3, 1, 0.75])
        return packed


@pytest.mark.slow
def test_a_very_long_text_takes_the_memory_of_its_windows(
    tiny_model: Callable[..., SpanNERModel],
    tiny_encoder: Path,
    method: str,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, Any], None],
) -> None:
    """200,000 words are compared with 10,000.

    Every 97 words there is an entity of three words, so that some lie across the edges of windows.
    """
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    model = tiny_model(method, window_size=64, window_overlap=16)
    tagger = SpanNERPipeline(model=model, tokenizer=tokenizer)
    Marked(model, tokenizer("Lake", add_special_tokens=False)["input_ids"], monkeypatch)
    words = [WORDS[place % 5] for place in range(NUM_WORDS)]
    starts = list(range(50, NUM_WORDS - 3, SPACING))
    for start in starts:
        words[start : start + 3] = ["Lake", "Tarn", "Oslo"]
    text = " ".join(words)
    reset_peak()
    tagger(" ".join(words[:10_000]))
    short_peak = peak_bytes()
    reset_peak()
    entities = tagger(text)
    growth = peak_bytes() - short_peak
    record_property("growth of the peak in MiB", growth / 2**20)
    assert [entity["word_start"] for entity in entities] == starts
    assert all(entity["word"] == "Lake Tarn Oslo" for entity in entities)
    assert all(text[entity["start"] : entity["end"]] == "Lake Tarn Oslo" for entity in entities)
    assert growth < MAX_GROWTH_OF_PEAK


def reset_peak() -> None:
    """Set the high-water mark of memory to the present."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_bytes() -> int:
    """The most memory that this process has held since the mark was set."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
