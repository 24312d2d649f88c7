"""Targets and loss against the worked numbers of the method's note, a literal twin, and the softmax gradient."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hf_spanner.core.spans import legal_gold
from hf_spanner.methods.boundary_smoothing.loss_boundary_smoothing import (
    boundary_smoothing_loss,
    legal_spans,
    smoothed_targets,
    smoothing_ring,
)

Gold = tuple[int, int, int]  # start, end (half-open), label


def targets_of(
    num_words: int,
    gold: list[Gold],
    *,
    epsilon: float,
    distance: int,
    num_labels: int = 2,
    hidden: tuple = (),
    edge_mass: str = "center",
) -> Tensor:
    """Targets (N, N, C + 1) of one sentence; the words in `hidden` have no token."""
    word_mask = torch.ones(1, num_words, dtype=torch.bool)
    word_mask[0, list(hidden)] = False
    labels = legal_gold(torch.tensor([gold], dtype=torch.long).view(1, -1, 3), word_mask, num_labels)
    is_legal = legal_spans(word_mask)
    sizes = {"epsilon": epsilon, "distance": distance, "num_labels": num_labels}
    return smoothed_targets(labels, is_legal, **sizes, edge_mass=edge_mass)[0]


def literal_targets(
    num_words: int,
    gold: list[Gold],
    *,
    epsilon: float,
    distance: int,
    num_labels: int,
    hidden: tuple = (),
    edge_mass: str = "center",
) -> Tensor:
    """The rule of the paper and of the official code with a loop for each of its words; cells have inclusive ends."""

    def is_legal(i: int, j: int) -> bool:
        return 0 <= i <= j < num_words and i not in hidden and j not in hidden

    table = [[[0.0] * (num_labels + 1) for _ in range(num_words)] for _ in range(num_words)]
    for start, end, label in sorted(set(gold)):
        s, e = start, end - 1
        if not is_legal(s, e):
            continue
        table[s][e][label] += 1 - epsilon
        for d in range(1, distance + 1):
            share = epsilon / (distance * 4 * d)
            for i in range(s - d, s + d + 1):
                for j in range(e - d, e + d + 1):
                    if abs(i - s) + abs(j - e) != d:
                        continue
                    if is_legal(i, j):
                        table[i][j][label] += share
                    elif edge_mass == "center":
                        table[s][e][label] += share
    for row in table:
        for cell in row:
            cell[:] = [min(value, 1.0) for value in cell]
            total = sum(cell)
            if total > 1:
                cell[:] = [value / total for value in cell]
            cell[num_labels] = 1 - sum(cell[:num_labels])
    return torch.tensor(table)


def assert_cells(targets: Tensor, cells: dict[tuple[int, int], list[float]]) -> None:
    """The listed cells hold these type parts, all others are none, and every cell sums to 1."""
    expected = torch.zeros_like(targets)
    for (start, last), parts in cells.items():
        expected[start, last, :-1] = torch.tensor(parts)
    expected[..., -1] = 1 - expected[..., :-1].sum(dim=-1)
    torch.testing.assert_close(targets, expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(targets.sum(dim=-1), torch.ones(targets.shape[:2]), atol=1e-6, rtol=0)


def test_example_a_ring_of_distance_one() -> None:
    """Figure 1, left: words 1 to 2 keep 0.8, the four neighbours get 0.2 / 4 each."""
    targets = targets_of(10, [(1, 3, 0)], epsilon=0.2, distance=1)
    ring = [(0, 2), (2, 2), (1, 1), (1, 3)]
    assert_cells(targets, {(1, 2): [0.8, 0]} | {cell: [0.05, 0] for cell in ring})


def test_example_a_rings_of_distance_two() -> None:
    """Figure 1, right: ring 1 has 4 cells of 0.1 / 4, ring 2 has 8 cells of 0.1 / 8."""
    targets = targets_of(10, [(3, 8, 1)], epsilon=0.2, distance=2)
    near = [(2, 7), (4, 7), (3, 6), (3, 8)]
    far = [(1, 7), (5, 7), (3, 5), (3, 9), (2, 6), (2, 8), (4, 6), (4, 8)]
    cells = {(3, 7): [0, 0.8]} | {cell: [0, 0.025] for cell in near} | {cell: [0, 0.0125] for cell in far}
    assert_cells(targets, cells)


def test_example_b_mass_beyond_the_edge_returns() -> None:
    """3 of 4 shares of ring 1 (0.025) and 6 of 8 of ring 2 (0.0125) return: 0.8 + 0.075 + 0.075 = 0.95."""
    targets = targets_of(3, [(0, 1, 0)], epsilon=0.2, distance=2)
    assert_cells(targets, {(0, 0): [0.95, 0], (0, 1): [0.025, 0], (0, 2): [0.0125, 0], (1, 1): [0.0125, 0]})


def test_example_b_mass_beyond_the_edge_may_go_to_none() -> None:
    """The same entity keeps 1 - 0.2 = 0.8; the 0.15 of its illegal neighbours is none in its own cell."""
    targets = targets_of(3, [(0, 1, 0)], epsilon=0.2, distance=2, edge_mass="none")
    assert_cells(targets, {(0, 0): [0.8, 0], (0, 1): [0.025, 0], (0, 2): [0.0125, 0], (1, 1): [0.0125, 0]})


def test_example_c_neighbouring_entities_add_up() -> None:
    """Words 3 and 4, D = 2: below the diagonal lie 2 cells of ring 1 and 3 of ring 2, so 0.8 + 0.05 + 0.0375."""
    targets = targets_of(8, [(3, 4, 0), (4, 5, 1)], epsilon=0.2, distance=2)
    cells = {
        (1, 3): [0.0125, 0],
        (2, 2): [0.0125, 0],
        (2, 3): [0.025, 0],
        (2, 4): [0.0125, 0.0125],
        (3, 3): [0.8875, 0.0125],
        (3, 4): [0.025, 0.025],
        (3, 5): [0.0125, 0.0125],
        (4, 4): [0.0125, 0.8875],
        (4, 5): [0, 0.025],
        (4, 6): [0, 0.0125],
        (5, 5): [0, 0.0125],
    }
    assert_cells(targets, cells)


def test_example_c_neighbours_of_one_type_add_up() -> None:
    """Words 1 to 2 and 1 to 3 of one type, D = 1: each keeps 0.8 and gets 0.05 from the other."""
    targets = targets_of(6, [(1, 3, 0), (1, 4, 0)], epsilon=0.2, distance=1)
    assert targets[1, 2, 0].item() == pytest.approx(0.85)
    assert targets[1, 3, 0].item() == pytest.approx(0.85)


@pytest.mark.parametrize(("epsilon", "distance"), [(0.1, 1), (0.3, 2), (0.49, 5)])
def test_example_d_a_sentence_of_one_word_keeps_all(epsilon: float, distance: int) -> None:
    """No neighbour is legal, so all mass returns."""
    assert_cells(targets_of(1, [(0, 1, 1)], epsilon=epsilon, distance=distance), {(0, 0): [0, 1]})


def test_example_e_one_span_of_two_types_is_divided() -> None:
    """0.8 + 0.8 = 1.6 is divided by itself: 0.5 each, none 0; ring cells hold 0.05 each, none 0.9."""
    targets = targets_of(6, [(2, 4, 0), (2, 4, 1)], epsilon=0.2, distance=1)
    ring = [(1, 3), (3, 3), (2, 2), (2, 4)]
    assert_cells(targets, {(2, 3): [0.5, 0.5]} | {cell: [0.05, 0.05] for cell in ring})


def test_example_f_a_repeated_gold_span_counts_once() -> None:
    """Counting the same span twice would give ring cells 0.1."""
    once = targets_of(6, [(2, 4, 0)], epsilon=0.2, distance=1)
    assert torch.equal(targets_of(6, [(2, 4, 0), (2, 4, 0)], epsilon=0.2, distance=1), once)
    assert once[1, 3, 0].item() == pytest.approx(0.05)


@st.composite
def sentences(draw: st.DrawFn) -> tuple[int, list[Gold], tuple[int, ...]]:
    """Words, gold spans (with repeats, nests and several labels), and words without tokens."""
    num_words = draw(st.integers(1, 7))
    place = st.integers(0, num_words - 1)
    gold = draw(st.lists(st.tuples(place, place, st.integers(0, 1)), max_size=5))
    spans = [(min(a, b), max(a, b) + 1, label) for a, b, label in gold]
    return num_words, spans, tuple(draw(st.sets(place, max_size=2)))


@given(sentences(), st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.49]), st.integers(1, 4), st.sampled_from(["center", "none"]))
def test_targets_equal_a_literal_twin(
    sentence: tuple[int, list[Gold], tuple[int, ...]], epsilon: float, distance: int, edge_mass: str
) -> None:
    num_words, gold, hidden = sentence
    settings = {"epsilon": epsilon, "distance": distance, "num_labels": 2, "hidden": hidden, "edge_mass": edge_mass}
    targets = targets_of(num_words, gold, **settings)
    expected = literal_targets(num_words, gold, **settings)
    torch.testing.assert_close(targets, expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(targets.sum(dim=-1), torch.ones(num_words, num_words), atol=1e-6, rtol=0)


@given(sentences(), st.integers(1, 3))
def test_epsilon_zero_is_one_hot(sentence: tuple[int, list[Gold], tuple[int, ...]], distance: int) -> None:
    num_words, gold, hidden = sentence
    one_per_span = list({span[:2]: span for span in gold}.values())
    targets = targets_of(num_words, one_per_span, epsilon=0, distance=distance, hidden=hidden)
    expected = torch.zeros(num_words, num_words, 3)
    expected[..., 2] = 1
    for start, end, label in one_per_span:
        if start not in hidden and end - 1 not in hidden:
            expected[start, end - 1] = torch.nn.functional.one_hot(torch.tensor(label), 3).float()
    assert torch.equal(targets, expected)


def test_sentences_of_a_batch_do_not_touch_each_other() -> None:
    """Padded, with unlike lengths and numbers of gold spans, each gives what it gives alone."""
    gold = [[(0, 2, 0), (1, 2, 1)], [], [(3, 5, 1)]]
    lengths = [2, 4, 5]
    word_mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    labels = torch.full((3, 2, 3), -100)
    for row, spans in enumerate(gold):
        for place, span in enumerate(spans):
            labels[row, place] = torch.tensor(span)
    batch = smoothed_targets(labels, legal_spans(word_mask), epsilon=0.3, distance=2, num_labels=2)
    for row, (spans, length) in enumerate(zip(gold, lengths, strict=True)):
        alone = targets_of(length, spans, epsilon=0.3, distance=2)
        torch.testing.assert_close(batch[row, :length, :length], alone)
        assert (batch[row, length:, :, -1] == 1).all()
        assert (batch[row, :, length:, -1] == 1).all()


def test_a_word_without_tokens_is_no_boundary() -> None:
    """Spans that start or end on it are illegal, while spans around it are not."""
    is_legal = legal_spans(torch.tensor([[True, False, True]]))[0]
    assert is_legal.tolist() == [[True, False, True], [False, False, False], [False, False, True]]
    targets = targets_of(3, [(0, 3, 0)], epsilon=0.2, distance=1, hidden=(1,))
    assert_cells(targets, {(0, 2): [1.0, 0]})  # (1, 2) and (0, 1) are illegal, the other two outside
    assert_cells(targets_of(3, [(1, 3, 0)], epsilon=0.2, distance=1, hidden=(1,)), {})


def test_ring_holds_four_spans_for_each_step_and_all_of_epsilon() -> None:
    ring = smoothing_ring(0.3, 3)
    assert len(ring) == 4 * (1 + 2 + 3)
    for distance in (1, 2, 3):
        shares = [share for start, end, share in ring if abs(start) + abs(end) == distance]
        assert len(shares) == 4 * distance
        assert sum(shares) == pytest.approx(0.1)


def test_soft_cross_entropy_of_one_cell_by_hand() -> None:
    """Logits (1, 2, 0) have log-sum 2.407606; 0.2 x 1.407606 + 0.8 x 0.407606 = 0.607606, hard 0.407606."""
    logits = torch.tensor([[[[1.0, 2.0, 0.0]]]])
    is_legal = torch.ones(1, 1, 1, dtype=torch.bool)
    soft = boundary_smoothing_loss(logits, torch.tensor([[[[0.2, 0.8, 0.0]]]]), is_legal)
    hard = boundary_smoothing_loss(logits, torch.tensor([[[[0.0, 1.0, 0.0]]]]), is_legal)
    assert soft.item() == pytest.approx(0.607606, abs=1e-6)
    assert hard.item() == pytest.approx(0.407606, abs=1e-6)


def test_hard_targets_give_plain_cross_entropy() -> None:
    """Eq. 3 is the sum of torch's own cross entropy over legal spans."""
    torch.manual_seed(0)
    logits = torch.randn(1, 4, 4, 3)
    targets = targets_of(4, [(1, 3, 0)], epsilon=0.0, distance=1)[None]
    is_legal = legal_spans(torch.ones(1, 4, dtype=torch.bool))
    classes = torch.full((4, 4), 2)
    classes[1, 2] = 0
    expected = torch.nn.functional.cross_entropy(logits[is_legal], classes[is_legal[0]], reduction="sum")
    torch.testing.assert_close(boundary_smoothing_loss(logits, targets, is_legal)[0], expected)


def test_gradient_is_softmax_minus_target_on_legal_spans_and_zero_elsewhere() -> None:
    """d loss / d r_ij = softmax(r_ij) - Y_ij, since Y_ij sums to 1."""
    torch.manual_seed(0)
    word_mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    labels = torch.tensor([[[0, 2, 1], [1, 4, 0]], [[1, 2, 0], [-100, -100, -100]]])
    logits = torch.randn(2, 4, 4, 3, requires_grad=True)
    is_legal = legal_spans(word_mask)
    targets = smoothed_targets(labels, is_legal, epsilon=0.3, distance=2, num_labels=2)
    boundary_smoothing_loss(logits, targets, is_legal).sum().backward()
    expected = (logits.detach().softmax(dim=-1) - targets) * is_legal[..., None]
    torch.testing.assert_close(logits.grad, expected)


def test_loss_counts_legal_spans_only() -> None:
    """Logits below the diagonal and in padding change nothing."""
    torch.manual_seed(0)
    is_legal = legal_spans(torch.tensor([[True, True, False]]))
    targets = smoothed_targets(torch.tensor([[[0, 2, 0]]]), is_legal, epsilon=0.1, distance=1, num_labels=1)
    logits = torch.randn(1, 3, 3, 2)
    changed = torch.where(is_legal[..., None], logits, 50 * torch.randn(1, 3, 3, 2))
    assert torch.equal(
        boundary_smoothing_loss(logits, targets, is_legal), boundary_smoothing_loss(changed, targets, is_legal)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_loss_of_half_precision_logits_is_float32(dtype: torch.dtype) -> None:
    """The largest logits that float16 holds give a finite loss and finite gradients."""
    is_legal = legal_spans(torch.ones(1, 12, dtype=torch.bool))
    targets = targets_of(12, [(0, 12, 0)], epsilon=0.1, distance=1)[None]
    logits = torch.full((1, 12, 12, 3), 60000.0).to(dtype)
    logits[..., 0] = -60000.0
    logits.requires_grad_()
    loss = boundary_smoothing_loss(logits, targets, is_legal)
    loss.sum().backward()
    assert loss.dtype == torch.float32
    assert loss.isfinite().all()
    assert logits.grad.isfinite().all()
