"""Parts of a loss as they are logged, and the scores of an evaluation by name."""

from hf_spanner.core.modeling_span_ner import TOTAL
from hf_spanner.training.logged_numbers import logged_parts, span_metrics


def test_a_part_with_a_total_is_their_ratio_and_left_out_where_the_total_is_zero() -> None:
    means = {"plain": 2.0, "share": 0.5, f"{TOTAL}share": 4.0, "empty": 0.0, f"{TOTAL}empty": 0.0}
    assert logged_parts(means) == {"plain": 2.0, "share": 0.125}


def test_scores_are_flat_and_undefined_ones_are_left_out() -> None:
    """One of two gold spans is found, with score 1; without predictions there is no calibration error."""
    gold = [[{"start": 0, "end": 1, "label": "PER"}, {"start": 2, "end": 3, "label": "LOC"}]]
    found = [[{"start": 0, "end": 1, "label": "PER", "score": 1.0}]]
    scores = span_metrics(found, gold)
    assert (scores["precision"], scores["recall"], scores["ece"]) == (1.0, 0.5, 0.0)
    assert (scores["f1_PER"], scores["f1_LOC"]) == (1.0, 0.0)
    assert (scores["num_gold"], scores["num_predicted"], scores["num_correct"]) == (2, 1, 1)
    nothing = span_metrics([[]], gold)
    assert nothing["f1"] == 0.0
    assert "ece" not in nothing
