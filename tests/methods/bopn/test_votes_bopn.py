"""Votes against the worked examples, the modes and rules on small tables, a literal twin, and the confidence."""

from collections import defaultdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hf_spanner.methods.bopn.loss_bopn import offset_moves, offset_names, offset_targets
from hf_spanner.methods.bopn.votes_bopn import labelled_cells, passes_rules, voted_entities

Cells = dict[tuple[int, int], str]
MODES = ("center", "votes", "rules", "all")


def logits_of(labels: Tensor, max_offset: int, height: float = 4.0) -> Tensor:
    """Logits (B, N, N, M, L) with `height` at the label of each cell and 0 elsewhere."""
    return height * torch.nn.functional.one_hot(labels, 4 * max_offset + 2).float()


def table_of(num_words: int, cells: Cells, max_offset: int) -> Tensor:
    """Labels (1, N, N, 1) of the named cells, with all others out."""
    names = offset_names(max_offset)
    table = torch.full((1, num_words, num_words, 1), len(names) - 1)
    for (i, j), name in cells.items():
        table[0, i, j, 0] = names.index(name)
    return table


def entities(logits: Tensor, word_mask: Tensor | None = None, **settings_: object) -> dict[tuple[int, ...], float]:
    """The score of each entity (sentence, start, last, type)."""
    if word_mask is None:
        word_mask = torch.ones(logits.shape[:2], dtype=torch.bool)
    max_offset = (logits.shape[-1] - 2) // 4
    defaults = {"decode_mode": "votes", "min_votes": max_offset or 1, "pool_votes": False, "confidence": "label"}
    voted = voted_entities(logits, word_mask, max_offset=max_offset, **(defaults | settings_))  # type: ignore[arg-type]
    keys = torch.stack(voted[:4], dim=1).tolist()
    assert len({tuple(key) for key in keys}) == len(keys)
    return {tuple(key): score for key, score in zip(keys, voted.scores.tolist(), strict=True)}


def spans(num_words: int, cells: Cells, max_offset: int = 2, **settings_: object) -> set[tuple[int, int]]:
    """Spans (start, last) of one sentence and type."""
    scores = entities(logits_of(table_of(num_words, cells, max_offset), max_offset), **settings_)
    return {key[1:3] for key in scores}


@pytest.mark.parametrize(
    ("cell", "name", "entity"),
    [((3, 4), "2S", (1, 4)), ((3, 4), "-1E", (3, 5)), ((0, 2), "-1S", (1, 2)), ((1, 6), "2E", (1, 4))],
)
def test_a_vote_takes_the_offset_away(cell: tuple[int, int], name: str, entity: tuple[int, int]) -> None:
    """S(w) at (i, j) means (i - w, j), E(w) means (i, j - w): two words late at the start of (3, 4) is (1, 4)."""
    assert spans(7, {cell: name}, decode_mode="all") == {entity}


@pytest.mark.parametrize(
    ("cell", "name"), [((1, 3), "2S"), ((2, 3), "-2S"), ((2, 3), "2E"), ((2, 3), "-2E"), ((4, 2), "1S"), ((3, 1), "0")]
)
def test_votes_for_no_span_and_cells_below_the_diagonal_are_dropped(cell: tuple[int, int], name: str) -> None:
    """In five words some starts lie before word 0 or after the end.

    Some ends lie after word 4 or before the start. Lower cells do not vote.
    """
    for mode in MODES:
        assert spans(5, {cell: name}, decode_mode=mode) == set()


def test_example_1_a_missed_centre_comes_back() -> None:
    """The cell (1, 2) is wrongly out. (0, 2) "-1S" and (2, 2) "1S" give it two start votes, and S = 2 are enough.

    Its end votes are (1, 1) "-1E" and (1, 3) "1E". (1, 4) keeps its centre.
    """
    gold = torch.tensor([[[1, 3, 0], [1, 5, 0]]])
    targets = offset_targets(gold, 8, max_offset=2, num_labels=1)
    targets[0, 1, 2, 0] = 9
    logits = logits_of(targets, 2)
    assert set(entities(logits)) == {(0, 1, 2, 0), (0, 1, 4, 0)}
    assert set(entities(logits, decode_mode="center")) == {(0, 1, 4, 0)}
    assert set(entities(logits, min_votes=3)) == {(0, 1, 4, 0)}
    assert set(entities(logits, min_votes=4, pool_votes=True)) == {(0, 1, 2, 0), (0, 1, 4, 0)}
    assert set(entities(logits, min_votes=5, pool_votes=True)) == {(0, 1, 4, 0)}


def test_start_and_end_votes_are_not_pooled_by_default() -> None:
    """(2, 3) has one start vote and one end vote: neither count reaches 2, but both together do."""
    cells = {(1, 3): "-1S", (2, 4): "1E"}
    assert spans(6, cells) == set()
    assert spans(6, cells, pool_votes=True) == {(2, 3)}
    assert spans(6, cells, min_votes=1) == {(2, 3)}
    assert spans(6, cells, decode_mode="all") == {(2, 3)}


@pytest.mark.parametrize("mode", MODES)
def test_perfect_labels_give_exactly_the_gold_spans(mode: str) -> None:
    """A round trip with nested, crossing, one-word and two-type entities."""
    gold = torch.tensor([[[0, 6, 0], [1, 3, 0], [2, 5, 0], [5, 6, 1], [0, 6, 1]], [[0, 1, 1]] + [[-100] * 3] * 4])
    word_mask = torch.arange(7) < torch.tensor([[7], [3]])
    targets = offset_targets(gold, word_mask.shape[1], max_offset=2, num_labels=2)
    expected = {(0, 0, 5, 0), (0, 1, 2, 0), (0, 2, 4, 0), (0, 5, 5, 1), (0, 0, 5, 1), (1, 0, 0, 1)}
    assert set(entities(logits_of(targets, 2), word_mask, decode_mode=mode)) == expected


def test_rule_1_a_vote_follows_the_nearest_centre() -> None:
    """The centre is (2, 4). (1, 4) "-2S" would mean (3, 4), though the centre lies one word off, so it is dropped.

    (0, 4) "-2S" means the centre itself. (5, 6) "1S" means (4, 6), and no centre shares a boundary with (5, 6), so both
    are kept.
    """
    assert spans(8, {(2, 4): "0", (1, 4): "-2S", (2, 5): "1E"}, decode_mode="rules") == {(2, 4)}
    assert spans(8, {(2, 4): "0", (1, 4): "-2S"}, decode_mode="all") == {(2, 4), (3, 4)}
    assert spans(8, {(2, 4): "0", (5, 6): "1S"}, decode_mode="rules") == {(2, 4), (4, 6)}


def test_rule_2_votes_count_down_towards_their_entity() -> None:
    """(3, 4) "2S" means (1, 4), so the cell between them, (2, 4), must say "1S"."""
    assert spans(8, {(3, 4): "2S", (2, 4): "1S"}, decode_mode="rules") == {(1, 4)}
    assert spans(8, {(3, 4): "2S"}, decode_mode="rules") == set()
    assert spans(8, {(3, 4): "2S", (2, 4): "-1E"}, decode_mode="rules") == {(2, 5)}
    assert spans(8, {(3, 4): "2S"}, decode_mode="all") == {(1, 4)}


def test_confidence_of_centres_and_of_votes_by_hand() -> None:
    """S = 1, so L = 6. The cell (1, 2) is a centre with logit 2: e^2 / (e^2 + 5) = 0.596411.

    (3, 4) has no centre but two start votes with logits 2 and 3: (0.596411 + 0.800671) / 2 = 0.698541. Its own cell has
    equal logits except for out, which has 1: 1 / (5 + e) = 0.129562 as a centre, 0.828103 in sum.

    In the product all four cells around count, those of (1, 2) with 0.129562 each, so it is 0.077272. Around (3, 4) the
    start votes have 0.596411 and 0.800671, the other two 0.129562: a mean of 0.414052, times 0.698541 0.289232.
    """
    logits = torch.zeros(1, 6, 6, 1, 6)
    logits[..., 5] = 1.0
    for cell, label, height in [((1, 2), 2, 2.0), ((2, 4), 0, 2.0), ((4, 4), 3, 3.0)]:
        logits[0, cell[0], cell[1], 0] = 0.0
        logits[0, cell[0], cell[1], 0, label] = height
    scores = entities(logits, min_votes=2)
    assert scores == {(0, 1, 2, 0): pytest.approx(0.596411, abs=1e-5), (0, 3, 4, 0): pytest.approx(0.698541, abs=1e-5)}
    summed = entities(logits, min_votes=2, confidence="sum")
    assert summed[0, 1, 2, 0] == pytest.approx(0.596411, abs=1e-5)
    assert summed[0, 3, 4, 0] == pytest.approx(0.828103, abs=1e-5)
    product = entities(logits, min_votes=2, confidence="product")
    assert product == {(0, 1, 2, 0): pytest.approx(0.077272, abs=1e-5), (0, 3, 4, 0): pytest.approx(0.289232, abs=1e-5)}


def test_the_product_is_the_label_alone_where_no_other_span_could_vote() -> None:
    """One word has no span beside it, also where the table is padded."""
    logits = torch.zeros(1, 3, 3, 1, 6)
    logits[..., 2] = 2.0
    word_mask = torch.tensor([[True, False, False]])
    product = entities(logits, word_mask, confidence="product")
    assert product == entities(logits, word_mask) == {(0, 0, 0, 0): pytest.approx(0.596411, abs=1e-5)}


def test_sum_of_probabilities_is_capped() -> None:
    logits = logits_of(table_of(5, {(1, 2): "0", (0, 2): "-1S", (2, 2): "1S"}, 1), 1, height=9.0)
    assert entities(logits, confidence="sum") == {(0, 1, 2, 0): 1.0}


def literal_entities(labels: Tensor, word_mask: Tensor, max_offset: int, enough: int | None) -> set[tuple[int, ...]]:
    """Cell by cell it takes centres and, with `enough`, the spans that have that many start votes or end votes."""
    moves = offset_moves(max_offset, labels.device).tolist()
    centres, votes = set(), defaultdict(int)
    batch_size, num_words, _, num_types = labels.shape
    for b in range(batch_size):
        words = word_mask[b].tolist()
        for i in range(num_words):
            for j in range(i, num_words):
                for m in range(num_types):
                    label = labels[b, i, j, m].item()
                    if not (words[i] and words[j]) or label == 4 * max_offset + 1:
                        continue
                    start, last = i - moves[label][0], j - moves[label][1]
                    if not 0 <= start <= last < num_words or not (words[start] and words[last]):
                        continue
                    if label == 2 * max_offset:
                        centres.add((b, i, j, m))
                    elif moves[label][0]:
                        votes[b, start, last, m, "S"] += 1
                    else:
                        votes[b, start, last, m, "E"] += 1
    return centres | {key[:4] for key, count in votes.items() if enough is not None and count >= enough}


@given(st.data())
def test_entities_equal_a_literal_twin(data: st.DataObject) -> None:
    """Labels are random and most of them out, some words have no tokens, S is 0 to 3, and votes have every count."""
    max_offset, num_words = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 7))
    word_mask = torch.tensor([data.draw(st.lists(st.booleans(), min_size=num_words, max_size=num_words)) for _ in "ab"])
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    labels = torch.randint(0, 4 * max_offset + 2, (2, num_words, num_words, 2))
    labels[torch.rand(labels.shape) < 0.4] = 4 * max_offset + 1
    logits = logits_of(labels, max_offset)
    for mode, enough in (("center", None), ("votes", 1), ("votes", 2), ("votes", 3), ("all", 1)):
        scores = entities(logits, word_mask, decode_mode=mode, min_votes=enough or 1)
        assert set(scores) == literal_entities(labels, word_mask, max_offset, enough)
        assert all(0 < score <= 1 for score in scores.values())


@given(st.integers(0, 10_000), st.integers(1, 3))
def test_rules_equal_a_literal_twin(seed: int, max_offset: int) -> None:
    """Each rule is spelt out: the distances to all centres on the cell's cross, and the next cell's label."""
    torch.manual_seed(seed)
    num_words = 6
    labels = torch.randint(0, 4 * max_offset + 2, (1, num_words, num_words, 1))
    labels[torch.rand(labels.shape) < 0.3] = 2 * max_offset
    word_mask = torch.ones(1, num_words, dtype=torch.bool)
    is_upper = torch.ones(1, num_words, num_words, dtype=torch.bool).triu()
    cells, cell_labels = labelled_cells(labels, is_upper, max_offset, centres_only=False)
    passed = passes_rules(labels, is_upper, cells, cell_labels, max_offset)
    moves = offset_moves(max_offset, labels.device).tolist()
    assert word_mask.all()

    def at(i: int, j: int) -> int:
        return labels[0, i, j, 0].item()

    for (_, i, j, _), label, is_kept in zip(cells.tolist(), cell_labels.tolist(), passed.tolist(), strict=True):
        distances = {}
        for offset in range(-max_offset, max_offset + 1):
            for start, last in ((i - offset, j), (i, j - offset)):
                if 0 <= start <= last < num_words and at(start, last) == 2 * max_offset:
                    distances[start, last] = min(abs(offset), distances.get((start, last), 99))
        move = moves[label]
        target = (i - move[0], j - move[1])
        nearest = min(distances.values(), default=None)
        aligned = nearest is None or distances.get(target) == nearest
        size = abs(move[0] + move[1])
        step = [part // size if size else 0 for part in move]
        ordered = size < 2 or moves[at(i - step[0], j - step[1])] == [move[0] - step[0], move[1] - step[1]]
        assert is_kept == (aligned and ordered)
