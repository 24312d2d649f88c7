import pytest

from hf_spanner.data.schema import (
    FEATURES,
    Problem,
    entity_problem,
    label_set,
    one_line,
    similar_labels,
    sorted_entities,
    words_problem,
)

ROW = {"tokens": ["Lake", "Tarn"], "entities": [{"start": 0, "end": 2, "label": "LOC"}]}


@pytest.mark.parametrize(
    ("start", "end", "label", "reason"),
    [
        (0, 4, "X", None),
        (True, 4, "X", "type"),
        (0, 4.0, "X", "type"),
        (0, 4, " ", "label"),
        (-1, 4, "X", "range"),
        (0, 5, "X", "range"),
        (2, 2, "X", "empty"),
        (3, 2, "X", "empty"),
    ],
)
def test_entity_problem_names_the_first_reason(start, end, label, reason):
    problem = entity_problem(start, end, label, length=4, unit="words", field="entity")
    assert (problem and problem.reason) == reason


def test_words_may_be_none_at_all_but_not_empty_strings():
    assert words_problem([]) is None
    assert words_problem(["\u3000"]) is None
    assert words_problem(["", "a"]) is None
    assert words_problem(["Lake", 7]) == Problem("type", "tokens[1]", 7, "a string")
    assert words_problem("Lake Tarn") == Problem("type", "tokens", "Lake Tarn", "a list of strings")


def test_a_problem_shows_a_long_value_cut():
    assert len(str(Problem("type", "field", "x" * 5000, "short"))) < 150


def test_similar_labels_compares_case_and_separators():
    assert similar_labels(["PER", "Per ", "LOC", "GEO-SITE", "geo_site"]) == [["GEO-SITE", "geo_site"], ["PER", "Per"]]
    assert similar_labels(["Caf\u00e9", "Cafe\u0301", "a b", "a\u00a0b"]) == [
        ["Cafe\u0301", "Caf\u00e9"],
        ["a b", "a\u00a0b"],
    ]


def test_what_shows_nothing_is_escaped():
    assert one_line("a b|\u00e9") == "a b|\u00e9"
    assert one_line("A\nB\r\u2028\u200bC") == "A\\nB\\r\\u2028\\u200bC"


def test_labels_are_numbered_as_rows_hold_them():
    assert label_set([ROW, {"tokens": [], "entities": []}]) == ["LOC"]
    rows = [ROW, {"tokens": ["Tarn"], "entities": [{"start": 0, "end": 1, "label": "LOC "}]}]
    with pytest.raises(ValueError, match="no row has one: there is nothing to learn"):
        label_set([{"tokens": ["a"], "entities": []}])
    with pytest.raises(ValueError, match=r"no blanks at their edges, got \['LOC '\]; load_rows removes them"):
        label_set(rows)


def test_entities_are_sorted_by_start_then_longer_then_label_and_unique():
    spans = [(3, 4, "B"), (0, 1, "B"), (0, 1, "A"), (0, 3, "C"), (0, 1, "A")]
    ordered = [(entity["start"], entity["end"], entity["label"]) for entity in sorted_entities(spans)]
    assert ordered == [(0, 3, "C"), (0, 1, "A"), (0, 1, "B"), (3, 4, "B")]


def test_features_hold_nested_entities_with_label_names():
    row = {"id": None, "document": "d", **ROW}
    assert FEATURES.encode_example(row)["entities"] == [{"start": 0, "end": 2, "label": "LOC"}]
