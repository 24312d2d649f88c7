import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.core.words import split_words
from hf_spanner.data.characters import CharEntity, SplitText

TEXT = "Ana met Bo in Oslo"


def word_span(reading, start, end, text=TEXT):
    return SplitText(text, split_words(text)).word_span(CharEntity(start, end, "X"), "entity", "f, line 1", reading)


def test_whole_words_need_no_report(reading):
    strict = reading()
    assert word_span(strict, 4, 10) == (1, 3, "X")
    assert strict.report.counts == {}


def test_blanks_at_the_edges_are_trimmed_with_a_count(reading):
    strict = reading()
    assert word_span(strict, 7, 11) == (2, 3, "X")
    assert strict.report.counts == {"changed, blanks at the edges of an entity trimmed": 1}


def test_blanks_that_belong_to_a_word_are_not_trimmed(reading):
    strict = reading()
    split = SplitText("\u00a0Ana left", [(0, 4), (5, 9)])
    assert split.word_span(CharEntity(0, 4, "X"), "entity", "f, line 1", strict) == (0, 1, "X")
    assert strict.report.counts == {}


def test_a_blank_span_is_refused(reading):
    with pytest.raises(ValueError, match=r"f, line 1: entity is ' ' \(empty\)"):
        word_span(reading(), 3, 4)
    assert word_span(reading(on_error="drop"), 3, 4) is None


def test_a_cut_word_is_refused_dropped_or_widened(reading):
    with pytest.raises(ValueError, match=r"is 'o' \(misaligned\); allowed: whole words such as 'Bo'"):
        word_span(reading(), 9, 10)
    for options, span, reason in (
        ({"on_error": "drop"}, None, "dropped, misaligned"),
        ({"misaligned": "drop"}, None, "dropped, misaligned"),
        ({"misaligned": "widen"}, (2, 3, "X"), "changed, misaligned entity widened to whole words"),
    ):
        lenient = reading(**options)
        assert word_span(lenient, 9, 10) == span
        assert lenient.report.counts == {reason: 1}
        assert "'o'" in lenient.report.examples[reason][0]


def test_a_cut_at_a_hyphen_names_the_option_that_splits_there(reading):
    with pytest.raises(ValueError, match="split_hyphens=True makes hyphens words"):
        word_span(reading(), 0, 8, "New York-based")


def test_characters_of_no_word_at_the_edge_do_not_misalign(reading):
    text = "a \u200eAna\u200e b"
    assert word_span(reading(), 2, 7, text) == (1, 2, "X")
    with pytest.raises(ValueError, match="no word"):
        word_span(reading(), 2, 3, text)


def test_hyphens_follow_the_option():
    assert SplitText("a-b", split_words("a-b", split_hyphens=False)).words == ["a-b"]
    assert SplitText("a-b", split_words("a-b", split_hyphens=True)).words == ["a", "-", "b"]


@given(st.text("ab .\u3042\u0301", max_size=12), st.data())
def test_words_under_a_span_are_those_that_share_a_character(text, data):
    split = SplitText(text, split_words(text))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    first, last = split.words_under(start, end)
    pairs = list(zip(split.starts, split.ends, strict=True))
    expected = [i for i, (word_start, word_end) in enumerate(pairs) if max(start, word_start) < min(end, word_end)]
    if start < end:
        assert list(range(first, last)) == expected
