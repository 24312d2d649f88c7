from itertools import islice

import pytest

from hf_spanner.data.tagged import NUM_DETECTION_SENTENCES, scheme_of_stream, spans_of_tags

ORPHAN = ["O", "I-X", "O", "B-Y"]


def place_of(index):
    return f"f, line {index + 1}"


def test_detection_reads_ahead_by_a_bounded_number_and_loses_nothing(reading):
    taken = []

    def sentences():
        for number in range(3 * NUM_DETECTION_SENTENCES):
            taken.append(number)
            yield ["B-X", str(number)]

    auto = reading()
    scheme, stream = scheme_of_stream(sentences(), lambda sentence: sentence[:1], "f", auto)
    assert scheme == "IOB2"
    assert len(taken) == NUM_DETECTION_SENTENCES
    assert auto.report.schemes["f"].num_sequences == NUM_DETECTION_SENTENCES
    assert [int(sentence[1]) for sentence in stream] == taken == list(range(3 * NUM_DETECTION_SENTENCES))


def test_a_given_scheme_is_not_guessed(reading):
    iob1_reading = reading(scheme="IOB1")
    scheme, stream = scheme_of_stream(iter([["B-X"]]), lambda sentence: sentence, "f", iob1_reading)
    assert scheme == "IOB1"
    assert list(islice(stream, 2)) == [["B-X"]]
    assert iob1_reading.report.schemes == {}


@pytest.mark.parametrize(
    ("options", "spans", "reason"),
    [
        ({"on_error": "drop"}, [(3, 4, "Y")], "dropped, ill-formed tags"),
        ({"ill_formed": "drop"}, [(3, 4, "Y")], "dropped, ill-formed tags"),
        ({"ill_formed": "repair"}, [(1, 2, "X"), (3, 4, "Y")], "changed, repaired ill-formed tags"),
    ],
)
def test_ill_formed_tags_follow_the_option_and_are_counted(reading, options, spans, reason):
    lenient = reading(**options)
    assert spans_of_tags(ORPHAN, place_of, "IOB2", lenient) == spans
    assert lenient.report.counts == {reason: 1}
    assert lenient.report.examples[reason][0].startswith("f, line 2: tag is 'I-X'")


def test_ill_formed_tags_are_refused_by_default(reading):
    with pytest.raises(ValueError, match=r"f, line 2: tag is 'I-X' .* O, B-X \(scheme IOB2\)"):
        spans_of_tags(ORPHAN, place_of, "IOB2", reading())


def test_an_unknown_tag_drops_the_sentence_on_request(reading):
    lenient = reading(on_error="drop", ill_formed="repair")
    assert spans_of_tags(["B-X", "0"], place_of, "IOB2", lenient) is None
    assert lenient.report.counts == {"dropped, unknown tag": 1}


def test_labels_lose_their_edge_blanks(reading):
    assert spans_of_tags(["B-X Y "], place_of, "IOB2", reading()) == [(0, 1, "X Y")]


@pytest.mark.parametrize(
    ("tag", "hint"),
    [
        ("LOC-B", "its prefix stands at the end: write B-LOC"),
        ("LOC_B", "its prefix stands at the end: write B-LOC"),
        ("B_LOC", '"-" must part prefix and label: write B-LOC'),
        ("M-LOC", "a tag of another scheme"),
        ("NER=B-PER", 'format="conllu" reads'),
        ("person-actor", "scheme IO takes tags without prefix"),
        ("LOC", r"\(IOB2\); scheme IO takes tags without prefix and reads each run of one label as an entity$"),
    ],
)
def test_an_unknown_tag_in_another_order_or_form_is_named(tag, hint, reading):
    with pytest.raises(ValueError, match=rf"f, line 1: tag is '{tag}' \(unknown tag\); allowed: .*{hint}"):
        spans_of_tags([tag], place_of, "IOB2", reading())
