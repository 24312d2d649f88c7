"""Scores of each offset label against the worked example of the annotation rule."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from method_facts import SURE
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from hf_spanner import SpanNEROutput, SpanNERPipeline
from hf_spanner.analysis.offset_labels import offset_label_scores
from hf_spanner.methods.bopn.loss_bopn import offset_names, offset_targets

WORDS = ["we", "met", "the", "Bank", "of", "Oslo", "and", "Lake"]
# inclusive ends: PER (1, 2) and (1, 4), ORG (5, 6)
GOLD = [(1, 3, "PER"), (1, 5, "PER"), (5, 7, "ORG")]


@pytest.fixture
def scores_of(tiny_model: Callable, tokenizer: PreTrainedTokenizerBase) -> Callable[..., dict[str, Any]]:
    """Scores over one row whose cells are labelled as gold says, but for the (first, last, type, name) given."""

    def run(*changes: tuple[int, int, str, str]) -> dict[str, Any]:
        model = tiny_model("bopn")
        label2id, names = model.config.label2id, offset_names(2)
        labels = torch.tensor([[[start, end, label2id[kind]] for start, end, kind in GOLD]])
        targets = offset_targets(labels, len(WORDS), max_offset=2, num_labels=3)
        for first, last, kind, name in changes:
            targets[0, first, last, label2id[kind]] = names.index(name)

        def perfect_scores(words: Tensor, word_mask: Tensor, *_: Any) -> SpanNEROutput:
            return SpanNEROutput(logits=SURE * nn.functional.one_hot(targets, 10).float(), word_mask=word_mask)

        model.score_spans = perfect_scores
        entities = [{"start": start, "end": end, "label": kind} for start, end, kind in GOLD]
        rows = [{"tokens": WORDS, "entities": entities}]
        return offset_label_scores(SpanNERPipeline(model=model, tokenizer=tokenizer), rows, batch_size=2)

    return run


def test_each_label_alone_by_hand(scores_of: Callable[..., dict[str, Any]]) -> None:
    """(1, 3) is +1E of (1, 2), so -1E of (1, 4) has no cell; (1, 2) and (1, 4) are centres, so +2E and -2E lack one.

    Support: -2S needs two words before, which ORG alone has; +2S three words or more, which (1, 4) alone has; +2E two
    words after, which (5, 6) lacks.
    """
    counts = {
        name: (scores["num_correct"], scores["num_predicted"], scores["num_gold"])
        for name, scores in scores_of().items()
    }
    assert counts == {
        "-2S": (1, 1, 1),
        "-2E": (0, 0, 1),
        "-1S": (3, 3, 3),
        "-1E": (2, 2, 3),
        "0": (3, 3, 3),
        "1S": (3, 3, 3),
        "1E": (3, 3, 3),
        "2S": (1, 1, 1),
        "2E": (1, 1, 2),
    }


def test_rates_of_a_label_with_errors_by_hand(scores_of: Callable[..., dict[str, Any]]) -> None:
    """A centre at (7, 7) is wrong and that of (5, 6) is missed: 2 of 3 right, 2 of 3 found; -2E: 0 / 0 counts as 0."""
    scores = scores_of((7, 7, "LOC", "0"), (5, 6, "ORG", "out"))
    assert [scores["0"][rate] for rate in ("precision", "recall", "f1")] == pytest.approx([2 / 3] * 3)
    assert [scores["-2E"][rate] for rate in ("precision", "recall", "f1")] == [0.0, 0.0, 0.0]
    # 2 of 2 right, 2 of 3 found: F1 4 / 5
    assert [scores["-1E"][rate] for rate in ("precision", "recall", "f1")] == pytest.approx([1.0, 2 / 3, 0.8])


def test_a_wrong_offset_counts_for_the_label_that_was_predicted(scores_of: Callable[..., dict[str, Any]]) -> None:
    """Cell (2, 4) is +1S of (1, 4); labelled -1S it points at (3, 4), which is no entity."""
    scores = scores_of((2, 4, "PER", "-1S"))
    assert (scores["1S"]["num_correct"], scores["1S"]["num_predicted"]) == (2, 2)
    assert (scores["-1S"]["num_correct"], scores["-1S"]["num_predicted"]) == (3, 4)
