import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.data.tags import (
    IO,
    OUTSIDE,
    ROLES,
    SCHEMES,
    allowed_tags,
    detect_scheme,
    parse_tags,
    spans_to_tags,
    split_tag,
    tags_to_spans,
)

LABELS = ["X", "B-Y"]


@st.composite
def flat_sentences(draw):
    """A number of words and flat spans among them; spans of one label may touch."""
    gaps_and_lengths = draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from(LABELS)), max_size=5)
    )
    spans, position = [], 0
    for gap, length, label in gaps_and_lengths:
        position += gap
        spans.append((position, position + length, label))
        position += length
    return spans, position + draw(st.integers(0, 2))


@st.composite
def tag_sequences(draw):
    """A scheme and any sequence of its tags, which is mostly ill-formed."""
    scheme = draw(st.sampled_from(SCHEMES))
    alphabet = [OUTSIDE] + [f"{prefix}-{label}" for prefix in ROLES[scheme] for label in LABELS]
    return scheme, draw(st.lists(st.sampled_from(alphabet), max_size=8))


def repaired_twin(tags):
    """conlleval's rule, for all schemes: compare each tag with its left neighbour."""
    starts = []
    previous_prefix, previous_label = OUTSIDE, ""
    for index, tag in enumerate(tags):
        prefix, _, label = tag.partition("-")
        begins = label != previous_label or prefix in "BSU" or previous_prefix in "ESLU"
        if tag != OUTSIDE and begins:
            starts.append(index)
        previous_prefix, previous_label = prefix, label
    spans = []
    for start in starts:
        end = start + 1
        while end < len(tags) and end not in starts and tags[end] != OUTSIDE:
            end += 1
        spans.append((start, end, tags[start].partition("-")[2]))
    return spans


def well_formed_twin(tags, scheme):
    """Every span whose tags are exactly those that the scheme writes for it, and that ends where it ends."""
    padded = [OUTSIDE, *tags, OUTSIDE]
    spans = []
    for start, end in itertools.combinations(range(len(tags) + 1), 2):
        for label in LABELS:
            before, inside, after = padded[start], tags[start:end], padded[end + 1]
            touches = before.partition("-")[2] == label
            first = "I" if scheme == "IOB1" and not touches else "B"
            further = "M" if scheme == "BMES" else "I"
            written = [f"{first}-{label}"] + [f"{further}-{label}"] * (end - start - 1)
            if scheme not in ("IOB1", "IOB2"):
                last, only = {"IOBES": ("E", "S"), "BILOU": ("L", "U"), "BMES": ("E", "S")}[scheme]
                written[-1] = f"{last if end - start > 1 else only}-{label}"
            goes_on = scheme in ("IOB1", "IOB2") and after == f"I-{label}"
            if inside == written and not goes_on:
                spans.append((start, end, label))
    return spans


@given(flat_sentences(), st.sampled_from(SCHEMES))
def test_spans_to_tags_and_back(sentence, scheme):
    spans, num_words = sentence
    tags = spans_to_tags(reversed(spans), num_words, scheme=scheme)
    assert len(tags) == num_words
    assert tags_to_spans(tags, scheme=scheme, policy="error") == spans


@given(tag_sequences())
def test_any_tag_sequence_agrees_with_the_brute_force_reading(sequence):
    scheme, tags = sequence
    assert tags_to_spans(tags, scheme=scheme, policy="repair") == repaired_twin(tags)
    assert tags_to_spans(tags, scheme=scheme, policy="drop") == well_formed_twin(tags, scheme)


@given(tag_sequences())
def test_a_sequence_without_problems_is_what_its_spans_write(sequence):
    scheme, tags = sequence
    parsed = parse_tags(tags, scheme=scheme)
    rewritten = spans_to_tags(parsed.spans, len(tags), scheme=scheme)
    assert (rewritten == tags) == (not parsed.problems)
    assert (parsed.spans == parsed.well_formed) == (not parsed.problems)


@given(st.lists(st.sampled_from(["O", "X", "art-film", "I-X"]), max_size=8))
def test_without_prefixes_each_run_of_one_label_is_an_entity(tags):
    runs, position = [], 0
    for label, run in itertools.groupby(tags, key=lambda tag: tag.removeprefix("I-")):
        start, position = position, position + len(list(run))
        if label != OUTSIDE:
            runs.append((start, position, label))
    for policy in ("error", "repair", "drop"):
        assert tags_to_spans(tags, scheme=IO, policy=policy) == runs
    assert spans_to_tags(runs, len(tags), scheme=IO) == [tag.removeprefix("I-") for tag in tags]


def test_without_prefixes_tags_of_other_schemes_and_touching_entities_are_refused():
    for tag in ("B-X", "S-X", "I-", " "):
        with pytest.raises(ValueError, match=r"allowed in IO: O, <label>, I-<label>"):
            tags_to_spans([tag], scheme=IO)
    assert spans_to_tags([(0, 1, "X"), (1, 2, "Y")], 2, scheme=IO) == ["X", "Y"]
    with pytest.raises(ValueError, match="touch with one label, which IO cannot write"):
        spans_to_tags([(0, 1, "X"), (1, 2, "X")], 2, scheme=IO)
    with pytest.raises(ValueError, match="a label that is no tag"):
        spans_to_tags([(0, 1, "O")], 1, scheme=IO)


def test_a_scheme_without_prefixes_is_never_detected():
    """Words in the place of tags would fit it as well."""
    assert detect_scheme([["O", "person-actor", "person-actor"]]).scheme in SCHEMES
    assert IO not in SCHEMES


@given(st.lists(flat_sentences(), min_size=1, max_size=4), st.sampled_from(SCHEMES))
def test_the_scheme_that_wrote_the_tags_fits_without_misfit(sentences, scheme):
    guess = detect_scheme([spans_to_tags(spans, num_words, scheme=scheme) for spans, num_words in sentences])
    assert guess.misfits[scheme] == guess.misfits[guess.scheme] == 0
    assert guess.num_sequences == len(sentences)


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        (["O"], "IOB2"),
        (["B-X", "I-X"], "IOB2"),
        (["I-X", "B-X"], "IOB1"),
        (["B-X", "E-X"], "IOBES"),
        (["U-X"], "BILOU"),
        (["B-X", "M-X", "E-X"], "BMES"),
        (["S-X", "B-X", "E-X"], "IOBES"),
        (["B-X", "O", "I-X", "B-X", "O", "B-X"], "IOB2"),
    ],
)
def test_detection_takes_the_scheme_with_the_fewest_misfits(tags, scheme):
    assert detect_scheme([tags]).scheme == scheme


def test_detection_counts_unknown_tags_against_every_scheme():
    assert set(detect_scheme([["0", "B"]]).misfits.values()) == {2}


@pytest.mark.parametrize("tag", ["0", "B", "B-", "b-X", "E-X", "", "-X", "B- "])
def test_an_unknown_tag_is_refused_under_every_policy(tag):
    assert split_tag(tag, "IOB2") is None
    for policy in ("error", "repair", "drop"):
        with pytest.raises(ValueError, match=r"tags\[1\] is .* allowed in IOB2: O, B-<label>, I-<label>"):
            tags_to_spans(["O", tag], scheme="IOB2", policy=policy)


def test_a_tag_is_split_at_its_first_hyphen():
    assert split_tag("B-GEO-SITE", "IOB2") == ("first", "GEO-SITE")
    assert split_tag("U-O-RING", "BILOU") == ("only", "O-RING")
    assert split_tag("O", "IOB1") == ("outside", "")


def test_allowed_tags_of_a_scheme():
    assert allowed_tags("IOBES") == "O, B-<label>, I-<label>, E-<label>, S-<label>"


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(0, 2, "X"), (1, 3, "X")], "overlap"),
        ([(0, 2, "X"), (0, 2, "Y")], "overlap"),
        ([(0, 4, "X")], "<= 3 words"),
        ([(1, 1, "X")], "start < end"),
        ([(0, 1, "")], "a label"),
    ],
)
def test_spans_that_tags_cannot_write_are_refused(spans, message):
    with pytest.raises(ValueError, match=message):
        spans_to_tags(spans, 3, scheme="IOB2")


def test_unknown_scheme_and_policy_are_refused():
    with pytest.raises(ValueError, match="scheme must be one of"):
        tags_to_spans(["B-X"], scheme="BIO")
    with pytest.raises(ValueError, match="scheme must be one of"):
        spans_to_tags([], 0, scheme="auto")
    with pytest.raises(ValueError, match="policy must be"):
        tags_to_spans([], scheme="IOB2", policy="fix")
