"""Offset targets, against the worked examples of the annotation rule and a literal twin; the loss by hand."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hf_spanner.core.spans import legal_gold
from hf_spanner.methods.bopn.loss_bopn import (
    bopn_loss,
    cell_mask,
    gold_votes,
    label_counts,
    offset_moves,
    offset_names,
    offset_targets,
)

Gold = tuple[int, int, int]  # start, end (half-open), label
CPU = torch.device("cpu")


def targets_of(num_words: int, gold: list[Gold], max_offset: int, *, num_labels: int = 2, hidden: tuple = ()) -> Tensor:
    """Targets (N, N, M) of one sentence; the words in `hidden` have no token."""
    word_mask = torch.ones(1, num_words, dtype=torch.bool)
    word_mask[0, list(hidden)] = False
    labels = legal_gold(torch.tensor([gold], dtype=torch.long).view(1, -1, 3), word_mask, num_labels)
    return offset_targets(labels, num_words, max_offset=max_offset, num_labels=num_labels)[0]


def upper_cells(targets: Tensor, max_offset: int, label: int = 0) -> dict[tuple[int, int], str]:
    """Names of the labelled cells (i <= j) of one type, after asserting that the lower triangle mirrors the upper."""
    table = targets[..., label]
    assert torch.equal(table, table.T)
    names = offset_names(max_offset)
    num_words = len(table)
    named = {(i, j): names[table[i, j]] for i in range(num_words) for j in range(i, num_words)}
    return {cell: name for cell, name in named.items() if name != "out"}


def literal_targets(
    num_words: int, gold: list[Gold], max_offset: int, *, num_labels: int, hidden: tuple = ()
) -> Tensor:
    """The rule as it is told: centres first, then each in row-major order writes on its cross, then the mirror."""
    out = 4 * max_offset + 1
    place = {name: index for index, name in enumerate(offset_names(max_offset))}
    table = [[[out] * num_labels for _ in range(num_words)] for _ in range(num_words)]
    size: dict[tuple[int, int, int], int] = {}
    legal = [(s, e - 1, label) for s, e, label in gold if s not in hidden and e - 1 not in hidden]
    for s, e, label in legal:
        table[s][e][label] = place["0"]
        size[s, e, label] = 0
    for s, e, label in sorted(set(legal)):
        for w in [*range(-1, -max_offset - 1, -1), *range(1, max_offset + 1)]:
            for boundary in "SE":
                i, j = (s + w, e) if boundary == "S" else (s, e + w)
                if not 0 <= i <= j < num_words:
                    continue
                if (i, j, label) not in size or abs(w) < size[i, j, label]:
                    table[i][j][label] = place[f"{w}{boundary}"]
                    size[i, j, label] = abs(w)
    for i in range(num_words):
        for j in range(i):
            table[i][j] = table[j][i]
    return torch.tensor(table)


def test_labels_are_named_and_moved_in_one_order() -> None:
    """S = 2: ten labels; "-1E" at (i, j) ends one word before the entity, so it lies at entity + (0, -1)."""
    assert offset_names(2) == ["-2S", "-2E", "-1S", "-1E", "0", "1S", "1E", "2S", "2E", "out"]
    moves = [(-2, 0), (0, -2), (-1, 0), (0, -1), (0, 0), (1, 0), (0, 1), (2, 0), (0, 2), (0, 0)]
    assert offset_moves(2, CPU).tolist() == [list(move) for move in moves]
    assert offset_names(0) == ["0", "out"]
    assert offset_moves(0, CPU).tolist() == [[0, 0], [0, 0]]
    for max_offset in range(5):
        assert len(offset_names(max_offset)) == len(offset_moves(max_offset, CPU)) == 4 * max_offset + 2
        assert offset_names(max_offset)[2 * max_offset] == "0"


def test_example_1_two_types() -> None:
    """N = 8, S = 2, with proteins (1, 2) and (1, 4) and the cell type (5, 6), both ends inclusive.

    (1, 3) is +1E of (1, 2) and -1E of (1, 4), and the first centre in row-major order wins. (2, 2) and (2, 4) start one
    word late, (0, 2) and (0, 4) one early; (2, 3) and (0, 1) share no boundary with an entity and stay out.
    """
    targets = targets_of(8, [(1, 3, 0), (1, 5, 0), (5, 7, 1)], 2)
    assert upper_cells(targets, 2, 0) == {
        (0, 2): "-1S",
        (1, 1): "-1E",
        (1, 2): "0",
        (1, 3): "1E",
        (1, 4): "0",
        (1, 5): "1E",
        (1, 6): "2E",
        (0, 4): "-1S",
        (2, 2): "1S",
        (2, 4): "1S",
        (3, 4): "2S",
    }
    assert upper_cells(targets, 2, 1) == {
        (3, 6): "-2S",
        (4, 6): "-1S",
        (5, 5): "-1E",
        (5, 6): "0",
        (5, 7): "1E",
        (6, 6): "1S",
    }


@pytest.mark.parametrize("gold", [[(2, 5, 0), (3, 6, 0)], [(3, 6, 0), (2, 5, 0)]])
def test_example_2_ties_go_to_the_first_centre_in_any_order_of_gold(gold: list[Gold]) -> None:
    """S = 1, N = 7, gold is (2, 4) and (3, 5): (2, 5) is +1E or -1S, and (3, 4) is +1S or -1E.

    The labels of (2, 4) win.
    """
    assert upper_cells(targets_of(7, gold, 1), 1) == {
        (1, 4): "-1S",
        (2, 3): "-1E",
        (2, 4): "0",
        (2, 5): "1E",
        (3, 4): "1S",
        (3, 5): "0",
        (3, 6): "1E",
        (4, 5): "1S",
    }


def test_example_3_the_closer_entity_wins() -> None:
    """S = 2, N = 8, gold is (2, 4) and (3, 6): (2, 6) is +2E of the first but -1S of the second.

    (3, 5) is -1E and (3, 4) is +1S.
    """
    cells = upper_cells(targets_of(8, [(2, 5, 0), (3, 7, 0)], 2), 2)
    assert (cells[2, 6], cells[3, 5], cells[3, 4]) == ("-1S", "-1E", "1S")
    assert (cells[2, 4], cells[3, 6], cells[2, 5]) == ("0", "0", "1E")


def test_example_4_entities_that_end_together() -> None:
    """S = 2, N = 7, gold is (2, 5) and (4, 5): (3, 5) is +1S of the first and -1S of the second; the first wins."""
    cells = upper_cells(targets_of(7, [(2, 6, 0), (4, 6, 0)], 2), 2)
    expected = {
        (3, 5): "1S",
        (2, 3): "-2E",
        (2, 4): "-1E",
        (4, 4): "-1E",
        (2, 6): "1E",
        (4, 6): "1E",
        (0, 5): "-2S",
        (1, 5): "-1S",
        (5, 5): "1S",
    }
    assert cells == {**expected, (2, 5): "0", (4, 5): "0"}


def test_no_cell_beyond_the_sentence_or_the_diagonal() -> None:
    """One word has no neighbour.

    Of two words with gold on the first and S = 3, only (0, 1) is labelled, which ends one word late.
    """
    assert upper_cells(targets_of(1, [(0, 1, 0)], 3), 3) == {(0, 0): "0"}
    assert upper_cells(targets_of(2, [(0, 1, 0)], 3), 3) == {(0, 0): "0", (0, 1): "1E"}


def test_a_span_of_two_types_is_a_centre_of_both() -> None:
    targets = targets_of(4, [(1, 3, 0), (1, 3, 1)], 1)
    assert upper_cells(targets, 1, 0) == upper_cells(targets, 1, 1)
    assert targets[1, 2].tolist() == [2, 2]


def test_offsets_can_be_left_out() -> None:
    """With S = 0, the paper's "w/o BO", there are only centres and out."""
    targets = targets_of(5, [(1, 3, 0), (2, 3, 1)], 0)
    assert upper_cells(targets, 0, 0) == {(1, 2): "0"}
    assert upper_cells(targets, 0, 1) == {(2, 2): "0"}


@st.composite
def sentences(draw: st.DrawFn) -> tuple[int, list[Gold], tuple[int, ...]]:
    """Words, gold spans (with repeats, nests and several labels), and words without tokens."""
    num_words = draw(st.integers(1, 8))
    place = st.integers(0, num_words - 1)
    gold = draw(st.lists(st.tuples(place, place, st.integers(0, 1)), max_size=6))
    spans = [(min(a, b), max(a, b) + 1, label) for a, b, label in gold]
    return num_words, spans, tuple(draw(st.sets(place, max_size=1)))


@pytest.mark.parametrize(("num_words", "dtype"), [(30, torch.int32), (2_000, torch.int64)])
def test_the_table_of_ranks_takes_32_bits_where_they_hold_every_rank(
    num_words: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With S = 16 and L = 66 ranks reach 17 x 66 x N^2: 1.0 million for 30 words, 4.5 thousand million for 2,000."""
    made = []
    full = torch.full

    def noted(*arguments: Any, **options: Any) -> Tensor:
        made.append(full(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(torch, "full", noted)
    with torch.device("meta"):
        targets = offset_targets(torch.tensor([[[0, 1, 0]]]), num_words, max_offset=16, num_labels=1)
    assert [table.dtype for table in made] == [dtype]
    assert targets.dtype == torch.long


@given(sentences(), st.integers(0, 4))
def test_targets_equal_a_literal_twin(sentence: tuple[int, list[Gold], tuple[int, ...]], max_offset: int) -> None:
    num_words, gold, hidden = sentence
    targets = targets_of(num_words, gold, max_offset, hidden=hidden)
    assert torch.equal(targets, literal_targets(num_words, gold, max_offset, num_labels=2, hidden=hidden))


def test_sentences_of_a_batch_do_not_touch_each_other() -> None:
    """Padded, with unlike lengths and numbers of gold spans, each is inside its sentence what it is alone."""
    gold = [[(0, 2, 0), (1, 2, 1)], [], [(3, 5, 1)]]
    lengths = [2, 4, 5]
    word_mask = torch.arange(6) < torch.tensor(lengths)[:, None]
    labels = torch.full((3, 3, 3), -100)
    for row, spans in enumerate(gold):
        for place, span in enumerate(spans):
            labels[row, place] = torch.tensor(span)
    batch = offset_targets(labels, word_mask.shape[1], max_offset=2, num_labels=2)
    for row, (spans, length) in enumerate(zip(gold, lengths, strict=True)):
        assert torch.equal(batch[row, :length, :length], targets_of(length, spans, 2))


def test_cells_that_count() -> None:
    """Both triangles of the words with tokens count, or the upper one alone."""
    word_mask = torch.tensor([[True, False, True]])
    assert cell_mask(word_mask, mask_lower=False)[0].tolist() == [[1, 0, 1], [0, 0, 0], [1, 0, 1]]
    assert cell_mask(word_mask, mask_lower=True)[0].tolist() == [[1, 0, 1], [0, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(("reduction", "divisor"), [("mean", 4), ("sum", 1)])
def test_loss_of_two_words_by_hand(reduction: str, divisor: int) -> None:
    """One type has logits (1, 0) in all four cells, S = 0, and the targets centre, out, out, out.

    The log-sum is log(1 + e) = 1.313262, so a centre costs 0.313262 and an out 1.313262: sum 4.253046, mean 1.063262.
    """
    logits = torch.tensor([1.0, 0.0]).expand(1, 2, 2, 1, 2)
    targets = torch.tensor([[[[0], [1]], [[1], [1]]]])
    is_cell = torch.ones(1, 2, 2, dtype=torch.bool)
    loss = bopn_loss(logits, targets, is_cell, label_smoothing=0.0, reduction=reduction)
    total = 4 * math.log(1 + math.e) - 1
    assert loss.item() == pytest.approx(total / divisor, abs=1e-6)
    assert total == pytest.approx(4.253046, abs=1e-6)


def test_label_smoothing_of_one_cell_by_hand() -> None:
    """Logits (2, 0), the first as the target, and smoothing 0.1 over two labels give 0.226928.

    It is 0.95 x 0.126928 + 0.05 x 2.126928.
    """
    logits = torch.tensor([2.0, 0.0]).view(1, 1, 1, 1, 2)
    loss = bopn_loss(
        logits,
        torch.zeros(1, 1, 1, 1, dtype=torch.long),
        torch.ones(1, 1, 1, dtype=torch.bool),
        label_smoothing=0.1,
        reduction="mean",
    )
    assert loss.item() == pytest.approx(0.226928, abs=1e-6)


def test_mean_is_taken_inside_each_sentence() -> None:
    """A sentence of two words stands beside an empty one.

    Both are padded to three words, and M = 2: 8 cells count in the first, and none in the second.
    """
    torch.manual_seed(0)
    word_mask = torch.tensor([[True, True, False], [False, False, False]])
    logits, targets = torch.randn(2, 3, 3, 2, 6, requires_grad=True), torch.randint(0, 6, (2, 3, 3, 2))
    is_cell = cell_mask(word_mask, mask_lower=False)
    losses = bopn_loss(logits, targets, is_cell, label_smoothing=0.0, reduction="mean")
    expected = torch.nn.functional.cross_entropy(logits[0, :2, :2].reshape(8, 6), targets[0, :2, :2].flatten())
    torch.testing.assert_close(losses[0], expected)
    assert losses[1].item() == 0.0
    losses.sum().backward()
    softmax = logits.detach().softmax(dim=-1)
    one_hot = torch.nn.functional.one_hot(targets, 6)
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad[0, :2, :2], (softmax - one_hot)[0, :2, :2] / 8)
    assert not logits.grad[0, 2].any()
    assert not logits.grad[0, :, 2].any()
    assert not logits.grad[1].any()


def test_loss_is_taken_in_float32() -> None:
    logits = torch.full((1, 2, 2, 1, 2), 300.0, dtype=torch.float16)
    logits[..., 1] = -300.0
    targets = torch.ones(1, 2, 2, 1, dtype=torch.long)
    loss = bopn_loss(logits, targets, torch.ones(1, 2, 2, dtype=torch.bool), label_smoothing=0.0, reduction="sum")
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(2400.0)


def test_counts_of_labels_by_hand() -> None:
    """Of two words, S = 0 and one type, the lower cell (1, 0) does not count: the centre is right, and 1 of 2 outs."""
    targets = torch.tensor([[[[0], [1]], [[0], [1]]]])
    best = torch.tensor([[[[0], [1]], [[1], [0]]]])
    is_upper = cell_mask(torch.ones(1, 2, dtype=torch.bool), mask_lower=True)
    totals, right = label_counts(best, targets, is_upper, 2)
    assert totals.tolist() == [[1.0, 2.0]]
    assert right.tolist() == [[1.0, 1.0]]


def test_votes_for_gold_by_hand() -> None:
    """For (1, 2) in six words with S = 2 and perfect labels, start votes are (0, 2) and (2, 2).

    End votes are (1, 1), (1, 3) and (1, 4). With (1, 3) wrongly out there are two end votes. (0, 0) in a sentence of
    one word gets no vote, and neither does padding.
    """
    word_mask = torch.arange(6) < torch.tensor([[6], [1]])
    labels = torch.tensor([[[1, 3, 0]], [[0, 1, 0]]])
    targets = offset_targets(labels, 6, max_offset=2, num_labels=1)
    is_upper = cell_mask(word_mask, mask_lower=True)
    assert gold_votes(targets, labels, is_upper, 2).tolist() == [[[2, 3]], [[0, 0]]]
    targets[0, 1, 3, 0] = 9
    assert gold_votes(targets, labels, is_upper, 2).tolist() == [[[2, 2]], [[0, 0]]]
