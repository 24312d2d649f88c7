import re

import pytest

from hf_spanner.data.policy import ReadOptions, ReadReport
from hf_spanner.data.schema import Problem
from hf_spanner.data.tags import detect_scheme


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scheme", "IOB"),
        ("delimiter", ","),
        ("on_error", "skip"),
        ("ill_formed", "fix"),
        ("misaligned", "trim"),
        ("discontinuous", "join"),
        ("token_column", "0"),
        ("tag_column", True),
    ],
)
def test_an_unknown_choice_names_option_and_value(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be .*{re.escape(repr(value))}"):
        ReadOptions(**{name: value})


def test_refuse_raises_with_place_field_value_and_allowed(reading):
    with pytest.raises(ValueError, match=r"^f\.conll, line 3: tag is 'Q' \(unknown tag\); allowed: O$"):
        reading().refuse("f.conll, line 3", Problem("unknown tag", "tag", "Q", "O"))


def test_refuse_counts_on_request_and_keeps_the_first_examples(reading):
    lenient = reading(on_error="drop")
    for line in range(1, 6):
        lenient.refuse(f"f, line {line}", Problem("empty", "span", line, "more"))
    assert lenient.report.counts == {"dropped, empty": 5}
    examples = lenient.report.examples["dropped, empty"]
    assert [example.split(":")[0] for example in examples] == ["f, line 1", "f, line 2", "f, line 3"]


def test_a_row_that_is_left_out_is_counted_beside_the_reason(reading):
    lenient = reading(on_error="drop")
    lenient.refuse_row("f, line 1", Problem("JSON", "line", "[", "an object"))
    lenient.refuse("f, line 2", Problem("empty", "span", 1, "more"))
    assert lenient.report.num_dropped_rows == 1
    assert lenient.report.counts == {"dropped, JSON": 1, "dropped, empty": 1}
    assert str(lenient.report).startswith("0 rows, 0 entities, 1 rows dropped\n")
    with pytest.raises(ValueError, match="^f, line 1"):
        reading().refuse_row("f, line 1", Problem("JSON", "line", "[", "an object"))


def test_labels_are_stripped_with_a_count(reading):
    strict = reading()
    assert [strict.clean_label(label, "f, line 1") for label in ("PER", "PER ")] == ["PER", "PER"]
    assert list(strict.report.counts.values()) == [1]


def test_repeated_entities_are_given_once_and_counted(reading):
    strict = reading()
    entities = strict.unique_entities([(2, 3, "B"), (0, 1, "A"), (2, 3, "B"), (2, 3, "A"), (2, 3, "B")], "f, line 1")
    assert [tuple(entity.values()) for entity in entities] == [(0, 1, "A"), (2, 3, "A"), (2, 3, "B")]
    assert strict.report.counts == {"dropped, repeated entity": 2}


def test_report_reads_as_text():
    report = ReadReport(num_rows=2, num_entities=3)
    report.count("dropped, empty", "f, line 9: span is 0")
    report.schemes["f"] = detect_scheme([["I-X"]])
    assert "dropped, empty: 1, e.g. f, line 9" in str(report)
    assert "IOB1 detected from 1 sentences" in str(report)
