"""Scores by group: which group a span falls in, and the ratios by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.analysis.groups import (
    DEPTHS,
    LENGTHS,
    depth_groups,
    group_scores,
    length_group,
    scores_by_group,
    surface_groups,
)

KEYS = st.sets(
    st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(1, 12), st.sampled_from("AB")).map(
        lambda key: (key[0], key[1], key[1] + key[2], key[3])
    )
)


@pytest.mark.parametrize(
    ("length", "group"), [(1, "1"), (4, "4"), (5, "5 to 9"), (9, "5 to 9"), (10, "10 or more"), (40, "10 or more")]
)
def test_length_counts_words(length: int, group: str) -> None:
    assert length_group((0, 3, 3 + length, "A")) == group


def test_scores_of_lengths_worked_by_hand() -> None:
    """Of two gold spans of one word one is found, and one prediction of one word is wrong: P 1/2, R 1/2, F1 2/4.

    The gold span of three words was found as one of two, so length 3 has recall 0 of 1, and length 2 precision 0 of 1.
    """
    gold = [(0, 0, 1, "A"), (0, 4, 5, "A"), (1, 0, 3, "B")]
    predicted = [(0, 0, 1, "A"), (0, 7, 8, "A"), (1, 0, 2, "B")]
    scores = group_scores(predicted, gold, length_group, LENGTHS)
    assert list(scores) == ["1", "2", "3"]
    assert scores["1"] == {
        "precision": 0.5,
        "recall": 0.5,
        "f1": 0.5,
        "num_gold": 2,
        "num_predicted": 2,
        "num_correct": 1,
    }
    assert (scores["2"]["precision"], scores["2"]["num_predicted"], scores["2"]["num_gold"]) == (0.0, 1, 0)
    assert (scores["3"]["recall"], scores["3"]["num_predicted"], scores["3"]["num_gold"]) == (0.0, 0, 1)


def test_precision_and_recall_have_their_own_denominators() -> None:
    """One of three predictions is right and one of two gold spans is found: P 1/3, R 1/2, F1 2/5."""
    gold = [(0, 0, 1, "A"), (0, 1, 2, "A")]
    predicted = [(0, 0, 1, "A"), (0, 2, 3, "A"), (0, 3, 4, "A")]
    scores = scores_by_group(predicted, gold, [["w"] * 4])["label"]["A"]
    assert scores["precision"] == pytest.approx(1 / 3)
    assert scores["recall"] == pytest.approx(1 / 2)
    assert scores["f1"] == pytest.approx(2 / 5)


def test_depth_counts_longer_gold_spans_around() -> None:
    """[0, 6) holds [1, 6), which holds [2, 3); a second label, other texts and crossing spans do not count."""
    gold = [(0, 0, 6, "A"), (0, 1, 6, "A"), (0, 1, 6, "B"), (0, 2, 3, "A"), (0, 5, 8, "A"), (1, 0, 9, "A")]
    group = depth_groups(gold)
    assert [group(key) for key in gold] == ["0", "1", "1", "2", "0", "0"]


def test_depth_of_a_prediction_is_counted_among_gold() -> None:
    """[2, 4) lies in two gold spans; [0, 7) lies in none, although it crosses one and holds the others."""
    group = depth_groups([(0, 0, 6, "A"), (0, 1, 6, "A"), (0, 5, 8, "A")])
    assert group((0, 2, 4, "B")) == "2"
    assert group((0, 0, 7, "A")) == "0"
    assert group((3, 2, 4, "A")) == "0"


def test_depths_beyond_two_are_one_group() -> None:
    group = depth_groups([(0, 0, end, "A") for end in range(2, 8)])
    assert group((0, 0, 1, "A")) == "3 or more"


@given(KEYS, KEYS)
def test_depth_is_that_of_counting_all(spans: set, gold: set) -> None:
    group = depth_groups(gold)
    for text, start, end, _ in spans:
        around = {
            (first, last)
            for other, first, last, _ in gold
            if other == text and first <= start and end <= last and last - first > end - start
        }
        assert group((text, start, end, "A")) == DEPTHS[min(len(around), 3)]


def test_a_surface_is_seen_with_its_letter_case_and_any_label() -> None:
    training = [{"tokens": ["New", "York", "is", "big"], "entities": [{"start": 0, "end": 2, "label": "LOC"}]}]
    texts = [["new", "York", "or", "New", "York", "big"]]
    group = surface_groups(texts, training)
    assert group((0, 3, 5, "ORG")) == "seen"
    assert group((0, 0, 2, "LOC")) == "unseen"
    assert group((0, 4, 5, "LOC")) == "unseen"
    assert group((0, 5, 6, "LOC")) == "unseen"  # it is in the training rows, but is no entity there


def test_surfaces_need_training_rows() -> None:
    gold = [(0, 0, 1, "A")]
    training = [{"tokens": ["Oslo"], "entities": [{"start": 0, "end": 1, "label": "A"}]}]
    assert set(scores_by_group([], gold, [["Oslo"]])) == {"length", "depth", "label"}
    assert scores_by_group([], gold, [["Oslo"]], training)["surface"]["seen"]["num_gold"] == 1
    assert list(scores_by_group([], gold, [["Oslo"]], [])["surface"]) == ["unseen"]


@given(KEYS, KEYS)
def test_counts_of_every_grouping_add_up(predicted: set, gold: set) -> None:
    texts = [[f"w{place % 3}" for place in range(30)]] * 3
    training = [{"tokens": ["w0", "w1"], "entities": [{"start": 0, "end": 1, "label": "A"}]}]
    for groups in scores_by_group(predicted, gold, texts, training).values():
        totals = [
            sum(group[name] for group in groups.values()) for name in ("num_gold", "num_predicted", "num_correct")
        ]
        assert totals == [len(gold), len(predicted), len(gold & predicted)]


def test_order_of_groups_is_that_of_their_names() -> None:
    gold = [(0, 0, length, "A") for length in (12, 1, 6, 2)]
    groups = scores_by_group([], gold, [["w"] * 12])
    assert list(groups["length"]) == [name for name in LENGTHS if name in groups["length"]]
    assert list(groups["depth"]) == list(DEPTHS)
