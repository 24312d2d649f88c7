import pytest

from hf_spanner.data.offsets import is_surface_of, offsets_of_words
from hf_spanner.data.records import record_rows


def rows_of(records, reading):
    placed = [(f"f, line {line}", record) for line, record in enumerate(records, start=1)]
    return list(record_rows(placed, "f", reading))


def spans_of(row):
    return [list(entity.values()) for entity in row["entities"]]


TEXT = {"text": "Ana met Bo in Oslo", "tokens": ["Ana", "met", "Bo", "in", "Oslo"]}


@pytest.mark.parametrize(
    ("entities", "spans"),
    [
        ([[8, 10, "PER"]], [[2, 3, "PER"]]),
        ([[0, 3, "PER"], [8, 10, "PER"]], [[0, 1, "PER"], [2, 3, "PER"]]),
        ([{"start": 0, "end": 3, "label": "PER", "text": "Ana"}], [[0, 1, "PER"]]),
        ([{"start": 0, "end": 3, "label": "PER", "text": "Ana met Bo"}], [[0, 3, "PER"]]),
        ([[0, 1, "PER"]], [[0, 1, "PER"]]),
        ([[0, 1, "PER"], [2, 3, "PER"], [0, 3, "X"]], [[0, 3, "X"], [0, 1, "PER"], [2, 3, "PER"]]),
        ([], []),
    ],
)
def test_beside_text_and_words_offsets_count_what_they_fit(entities, spans, reading):
    assert spans_of(rows_of([TEXT | {"entities": entities}], reading())[0]) == spans


def test_beside_text_and_words_the_unit_is_that_of_all_records(reading):
    """What fits both in one record alone is settled by the others; what then does not fit is an error of its line."""
    unclear, characters, words = ([[start, end, "X"]] for start, end in ((0, 3), (14, 18), (0, 1)))
    report = reading()
    rows = rows_of([TEXT | {"entities": unclear}, TEXT | {"entities": characters}], report)
    assert [spans_of(row) for row in rows] == [[[0, 1, "X"]], [[4, 5, "X"]]]
    assert report.report.counts == {"offsets that count characters, beside tokens": 2}
    rows = rows_of([TEXT | {"entities": unclear}, TEXT | {"entities": words}], reading())
    assert [spans_of(row) for row in rows] == [[[0, 3, "X"]], [[0, 1, "X"]]]
    with pytest.raises(ValueError, match=r"^f, line 3: entities\[0\] is 'A' \(misaligned\)"):
        rows_of([TEXT | {"entities": given} for given in (characters, characters, words)], reading())
    with pytest.raises(ValueError, match=r"^f, line 1: entities is .*\(two truths\); allowed: offsets that fit"):
        rows_of([TEXT | {"entities": unclear}], reading())


def test_words_that_are_not_those_of_the_text_are_an_error_of_their_line(reading):
    records = [TEXT | {"entities": [[14, 18, "LOC"]]}, TEXT | {"tokens": ["Ana", "Bo"], "entities": [[0, 3, "PER"]]}]
    with pytest.raises(ValueError, match=r"^f, line 2: tokens is \['Ana', 'Bo'\] \(two truths\); allowed: the"):
        rows_of(records, reading())


def test_words_of_one_character_need_no_choice(reading):
    record = {"text": "\u5317\u4eac\u5e02", "tokens": list("\u5317\u4eac\u5e02"), "entities": [[0, 2, "LOC"]]}
    assert spans_of(rows_of([record], reading())[0]) == [[0, 2, "LOC"]]


def test_words_are_found_in_a_text_that_only_blanks_part():
    assert offsets_of_words("Ana's  caf\u00e9 .", ["Ana", "'s", "caf\u00e9", "."]) == [
        (0, 3),
        (3, 5),
        (7, 11),
        (12, 13),
    ]
    assert offsets_of_words("a b", ["a"]) is offsets_of_words("a b", ["a", "b", "c"]) is None
    assert offsets_of_words("a, b", ["a", "b"]) is None


def test_blanks_do_not_count_in_a_surface():
    assert is_surface_of(" New\u00a0York", ["New", "York"])
    assert not is_surface_of("New York City", ["New", "York"])
    assert not is_surface_of(3, ["3"])
