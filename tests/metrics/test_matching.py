"""Spans read as sets; `test_scoring.py` has what is refused, where a user meets it."""

import pytest

from hf_spanner.metrics.span_ner.matching import best_scores, matched_spans, span_keys


def span(start, end, label, score=0.5):
    return {"start": start, "end": end, "label": label, "score": score}


def test_a_key_holds_text_boundaries_and_label():
    texts = [[], [span(0, 2, "A"), span(0, 2, "B"), span(0, 2, "A")]]
    assert list(span_keys(texts, "references")) == [(1, 0, 2, "A"), (1, 0, 2, "B"), (1, 0, 2, "A")]


def test_repeats_keep_their_best_score_and_first_place():
    texts = [[span(0, 1, "A", 0.25), span(1, 2, "A", 0.125), span(0, 1, "A", 0.75), span(0, 1, "A", 0.5)]]
    assert list(best_scores(texts).items()) == [((0, 0, 1, "A"), 0.75), ((0, 1, 2, "A"), 0.125)]


def test_sides_are_matched_text_by_text():
    predicted, gold = matched_spans([[span(0, 1, "A")], []], [[], [span(0, 1, "A"), span(0, 1, "A")]])
    assert predicted == {(0, 0, 1, "A"): 0.5}
    assert gold == {(1, 0, 1, "A")}


def test_message_names_the_side():
    with pytest.raises(ValueError, match=r"predictions\[0\]: start and end"):
        matched_spans([[span(2, 1, "A")]], [[]])
    with pytest.raises(ValueError, match=r"references\[0\]: start and end"):
        matched_spans([[]], [[span(2, 1, "A")]])
