"""The comparison of two models, worked by hand and by counting."""

from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.analysis.comparison import (
    agreement,
    check_same_gold,
    comparison,
    comparison_report,
    differing_examples,
    example_report,
    read_predictions,
)
from hf_spanner.metrics.span_ner.resampling import paired_bootstrap
from hf_spanner.metrics.span_ner.scoring import score_spans

WORDS = [["New", "York", "police", "met", "Ann", "Lee"], ["in", "Lisk"]]
GOLD = [[(0, 3, "ORG"), (0, 2, "LOC"), (4, 6, "PER")], [(1, 2, "LOC")]]
# A finds ORG and PER and makes York alone a LOC. B finds PER and Lisk, calls New York an ORG and York alone a LOC.
FIRST = [[(0, 3, "ORG", 0.9), (1, 2, "LOC", 0.4), (4, 6, "PER", 0.8)], [(1, 2, "ORG", 0.7)]]
SECOND = [[(0, 2, "ORG", 0.6), (1, 2, "LOC", 0.3), (4, 6, "PER", 0.5)], [(1, 2, "LOC", 0.95)]]


def spans(texts: list) -> list[list[dict[str, Any]]]:
    names = ("start", "end", "label", "score")
    return [[dict(zip(names, span, strict=False)) for span in text] for text in texts]


def keyed(texts: list) -> dict[tuple[int, int, int, str], float]:
    return {(number, *span[:3]): span[-1] for number, text in enumerate(texts) for span in text}


def test_agreement_by_hand() -> None:
    """Both find PER, A alone ORG, B alone Lisk, and neither New York; both get York wrong; Lisk has two labels."""
    assert agreement(keyed(FIRST), keyed(SECOND), keyed(GOLD)) == {
        "gold": {"both": 1, "only_first": 1, "only_second": 1, "neither": 1},
        "wrong": {"both": 1, "only_first": 1, "only_second": 1},
        "other_label": {"both": 0, "only_first": 0, "only_second": 1, "neither": 0},
    }


def test_boundaries_with_two_gold_labels_can_be_right_in_both() -> None:
    gold = [(0, 0, 1, "A"), (0, 0, 1, "B"), (0, 2, 3, "A")]
    first, second = [(0, 0, 1, "A"), (0, 2, 3, "A"), (0, 5, 6, "A")], [(0, 0, 1, "B"), (0, 2, 3, "B"), (0, 5, 6, "B")]
    label_counts = agreement(first, second, gold)["other_label"]
    assert label_counts == {"both": 1, "only_first": 1, "only_second": 0, "neither": 1}


sides = st.sets(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(3, 4), st.sampled_from("AB")))


@given(sides, sides, sides)
def test_counts_add_up_and_turn_round_with_the_models(first: set, second: set, gold: set) -> None:
    counts, turned = agreement(first, second, gold), agreement(second, first, gold)
    assert sum(counts["gold"].values()) == len(gold)
    assert counts["gold"]["both"] + counts["gold"]["only_first"] == len(gold & first)
    assert counts["wrong"]["both"] + counts["wrong"]["only_second"] == len(second - gold)
    swapped = {"only_first": "only_second", "only_second": "only_first"}
    for name, counts_by_side in counts.items():
        assert {swapped.get(side, side): count for side, count in turned[name].items()} == counts_by_side
    places = {key[:3] for key in first} & {key[:3] for key in second}
    differing = [
        place
        for place in places
        if {key[3] for key in first if key[:3] == place} != {key[3] for key in second if key[:3] == place}
    ]
    assert sum(counts["other_label"].values()) == len(differing)


def test_comparison_holds_scores_bootstrap_and_agreement() -> None:
    first, second, gold = spans(FIRST), spans(SECOND), spans(GOLD)
    options = {"documents": ["x", None], "num_bins": 4, "num_resamples": 30}
    result = comparison(first, second, gold, **options)
    assert result["first"] == score_spans(first, gold, num_bins=4)
    assert result["second"] == score_spans(second, gold, num_bins=4)
    assert result["paired"] == paired_bootstrap(first, second, gold, **options)
    assert result["agreement"] == agreement(keyed(FIRST), keyed(SECOND), keyed(GOLD))


@pytest.mark.parametrize(("documents", "num_resamples"), [(["x", "x"], 30), (["x", "y"], 0)])
def test_no_bootstrap_without_two_documents_or_resamples(documents: list[str], num_resamples: int) -> None:
    result = comparison(spans(FIRST), spans(SECOND), spans(GOLD), documents=documents, num_resamples=num_resamples)
    assert result["paired"] is None
    report = comparison_report(result, {"A": "one", "B": "two"}, documents)
    assert f"No bootstrap: {'1 documents' if num_resamples else 'as asked for'}\n" in report
    assert "interval" not in report


def test_report_by_hand() -> None:
    """A and B each have 2 of 4 right.

    The ECE of A has .9 and .8 right and .4 and .7 wrong; that of B has .5 and .95 right and .6 and .3 wrong.
    """
    documents = [None, "x"]
    result = comparison(spans(FIRST), spans(SECOND), spans(GOLD), documents=documents, num_resamples=30)
    lines = comparison_report(result, {"A": "one", "B": "two"}, documents).splitlines()
    assert lines[:2] == ["A: one", "B: two"]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    assert cells[2][:4] == ["strict F1", "50.00", "50.00", "0.00"]
    assert cells[2][5] == "1.0000"
    assert cells[5][:4] == [
        "ECE",
        f"{(0.1 + 0.2 + 0.4 + 0.7) / 4:.4f}",
        f"{(0.5 + 0.05 + 0.6 + 0.3) / 4:.4f}",
        "-0.0125",
    ]
    assert ["only A", "1", "25.0%"] in cells
    assert ["only B", "1", "33.3%"] in cells
    note = "30 resamples of 2 documents; 1 rows name no document and count as one each"
    assert any(note in line for line in lines)


def test_examples_by_hand() -> None:
    examples = differing_examples(keyed(FIRST), keyed(SECOND), keyed(GOLD), WORDS, num_examples=3)
    assert {kind: [example["span"] for example in examples_of_kind] for kind, examples_of_kind in examples.items()} == {
        "right_only_first": ["New York police"],
        "right_only_second": ["Lisk"],
        "wrong_only_first": ["Lisk"],
        "wrong_only_second": ["New York"],
    }
    assert examples["wrong_only_second"] == [
        {
            "text": 0,
            "before": "",
            "span": "New York",
            "after": "police met Ann Lee",
            "label": "ORG",
            "gold": [("New York", "LOC"), ("New York police", "ORG")],
            "first": [("New York police", "ORG", 0.9), ("York", "LOC", 0.4)],
            "second": [("New York", "ORG", 0.6), ("York", "LOC", 0.3)],
        }
    ]
    report = example_report(examples, ["a\n\x1b[31m", None])
    assert "\n- a\ufffd\ufffd[31m: [New York]ORG" in report
    report = example_report(examples, ["a", None])
    assert "Wrong, by B only, the surest first:\n- a: [New York]ORG police met Ann Lee\n" in report
    assert "    A: [New York police]ORG 0.90; [York]LOC 0.40\n" in report
    assert "- row 2: in [Lisk]LOC\n    gold: [Lisk]LOC\n    A: [Lisk]ORG 0.70\n    B: [Lisk]LOC 0.95\n" in report


def test_the_surest_examples_come_first_and_no_more_than_asked_for() -> None:
    first = {(0, i, i + 1, "A"): score for i, score in enumerate([0.2, 0.9, 0.5, 0.9])}
    examples = differing_examples(first, {}, [], [["a", "b", "c", "d"]], num_examples=3)
    assert [example["span"] for example in examples["wrong_only_first"]] == ["b", "d", "c"]
    assert examples["wrong_only_first"][0]["second"] == []
    assert "    B: nothing" in example_report(examples, [None])


def test_context_is_cut_to_eight_words() -> None:
    words = [str(number) for number in range(30)]
    examples = differing_examples({(0, 15, 16, "A"): 0.5}, {}, [], [words], num_examples=1)
    (example,) = examples["wrong_only_first"]
    assert (example["before"], example["after"]) == ("7 8 9 10 11 12 13 14", "16 17 18 19 20 21 22 23")


def write(path: Path, rows: list[int]) -> str:
    """Write one run of the two texts under these numbers, and nothing of another."""
    sides = [{"predicted": predicted, "gold": gold} for predicted, gold in zip(spans(FIRST), spans(GOLD), strict=True)]
    records = [{"run": "b", "row": row, **side} for row, side in zip(rows, sides, strict=True)]
    Dataset.from_list([*records, {"run": "other", "row": 0, "predicted": [], "gold": []}]).to_parquet(path)
    return f"{path}#b"


def test_a_kept_run_is_read_in_the_order_of_its_rows(tmp_path: Path) -> None:
    assert read_predictions(write(tmp_path / "a.parquet", [0, 1])) == (spans(FIRST), spans(GOLD))
    assert read_predictions(write(tmp_path / "a.parquet", [1, 0])) == (spans(FIRST)[::-1], spans(GOLD)[::-1])


@pytest.mark.parametrize("rows", [[0, 2], [0, 0]], ids=["missing", "twice"])
def test_a_run_whose_rows_are_not_all_there_once_is_refused(tmp_path: Path, rows: list[int]) -> None:
    with pytest.raises(ValueError, match=r"a\.parquet#b must hold each row from 0 to 1 once"):
        read_predictions(write(tmp_path / "a.parquet", rows))


@pytest.mark.parametrize("run", ["#c", ""])
def test_an_unknown_run_is_refused_with_the_names_there_are(tmp_path: Path, run: str) -> None:
    source = write(tmp_path / "a.parquet", [0, 1]).removesuffix("#b")
    with pytest.raises(ValueError, match=f"must be one of b, other, got '{run[1:]}'"):
        read_predictions(source + run)


def test_a_missing_file_of_runs_is_said_to_be_missing() -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.parquet: there is no such file"):
        read_predictions("none.parquet#b")


def test_gold_is_compared_as_sets() -> None:
    check_same_gold(spans(GOLD), [spans(GOLD)[0][::-1], spans(GOLD)[1]], "b")
    with pytest.raises(
        ValueError, match=r"b: row 2 must have the same gold entities .*, got \[\] for \[\(1, 2, 'LOC'\)\]"
    ):
        check_same_gold([spans(GOLD)[0], []], spans(GOLD), "b")
    with pytest.raises(ValueError, match="b: must hold the same rows as the other side, got 1 for 2"):
        check_same_gold(spans(GOLD[:1]), spans(GOLD), "b")
