"""Words and their character offsets: trouble cases, conventions of corpora, properties over any text, linear time."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.core.words import split_words, surface_offsets, trim_span

FRAGMENTS = (
    *(
        "Ana",
        "don't",
        "'s",
        "U.S.",
        "Mr.",
        "Inc.",
        "J.",
        "I.",
        "vs.",
        "no.",
        "II.",
        "2.",
        "-5",
        "+44",
        ".500",
        "6-3",
        "1,000",
    ),
    *(
        "1996-08-22",
        "twenty-five",
        "Ein-",
        "US$",
        "%",
        "AT&T",
        "C++",
        "&amp;",
        "&nbsp;",
        "http://a.b/c?d=e",
        "bit.ly/x1",
        "a.b@c.org",
    ),
    *(
        "@user",
        "#tag",
        ":)",
        "...",
        "``",
        "''",
        "--",
        "[SEP]",
        "</s>",
        "_",
        "\u5317\u4eac",
        "\u304b\u3089",
        "\ud55c\uad6d",
    ),
    *(
        "\u0e40\u0e0a\u0e35\u0e22",
        "\u1780\u17d2\u1798",
        "\u05d3\u05b8\u05bc\u05d5",
        "\u0301",
        "\u200d",
        "\u200c",
        "\ufe0f",
    ),
    *(
        "\u200b",
        "\u200f",
        "\u00ad",
        "\ufeff",
        "\U0001f468",
        "\U0001f44d",
        "\U0001f3fd",
        "\U0001f1e9",
        "\U000e0067",
        "\u2194",
    ),
    *(
        " ",
        "\t",
        "\n",
        "\r",
        "\u00a0",
        "\u3000",
        "\u2028",
        "e\u0301",
        "\u00c9",
        "\u2019",
        "\u00b7",
        "\u0663",
        "\x00",
        "\ud800",
    ),
    *(".", ",", "'", "-", "/", "!", "?", "(", ")", "$"),
)
TEXTS = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.characters())).map("".join)
MODES = st.booleans()


def surfaces(text: str, *, split_hyphens: bool = False) -> list[str]:
    return [text[start:end] for start, end in split_words(text, split_hyphens=split_hyphens)]


def is_bound(character: str) -> bool:
    """Whether a character must stay with the one before it: marks, variation selectors, joiners, skin tones."""
    return (
        unicodedata.category(character)[0] == "M"
        or character in "\u200c\u200d"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
    )


def is_invisible(character: str) -> bool:
    return unicodedata.category(character) == "Cf" or "VARIATION SELECTOR" in unicodedata.name(character, "")


@pytest.mark.parametrize("split_hyphens", [False, True])
@pytest.mark.parametrize(
    ("text", "spans"),
    [
        pytest.param("Party \U0001f389 with Ana in Oslo", [(13, 16), (20, 24)], id="T-01-emoji-before"),
        pytest.param(
            "\U0001f468\u200d\U0001f469\u200d\U0001f467 Mira left Caf\u00e9 \U0001f319 Luna early",
            [(0, 5), (6, 10), (16, 27)],
            id="T-01-joined-emoji",
        ),
        pytest.param("\U0001d40e\U0001d42c\U0001d425\U0001d428 hosts Bo", [(0, 4), (11, 13)], id="T-01-astral-letters"),
        pytest.param("   Ana  met\tBo\u00a0Li", [(3, 6), (12, 17)], id="T-02-runs-of-blanks"),
        pytest.param("Nord\u3000See opens\u2003Lab Tarn \n", [(0, 8), (15, 23)], id="T-02-wide-blanks"),
        pytest.param("\n\n\tMira\r", [(3, 7)], id="T-02-line-ends"),
        pytest.param(
            "Chloe\u0301 visited Orle\u0301ans on Noe\u0308l", [(0, 6), (15, 23), (27, 32)], id="T-03-decomposed"
        ),
        pytest.param("Chlo\u00e9 visited Orl\u00e9ans on No\u00ebl", [(0, 5), (14, 21), (25, 29)], id="T-03-composed"),
        pytest.param("\u0130zmir and STRASSE M\u00f6hre", [(0, 5), (18, 23)], id="T-03-lower-case-longer"),
        pytest.param(
            "\u5317\u4eac\u5927\u5b66\u5728Beijing\u5e02\u4e3e\u884c\u4f1a\u8bae", [(0, 4), (5, 13)], id="T-07-chinese"
        ),
        pytest.param(
            "\u4eac\u90fd\u99c5\u304b\u3089Lab7\u307e\u3067\u6b69\u304f", [(0, 3), (5, 9)], id="T-07-japanese"
        ),
        pytest.param(
            "\u0e41\u0e2d\u0e19\u0e44\u0e1b\u0e40\u0e0a\u0e35\u0e22\u0e07\u0e43\u0e2b\u0e21\u0e48",
            [(0, 3), (5, 14)],
            id="T-07-thai",
        ),
        pytest.param(
            "\u0642\u064e\u0627\u0644\u064e \u0645\u064f\u062d\u064e\u0645\u0651\u064e\u062f\u064c \u0641\u064a "
            "\u0627\u0644\u0642\u0627\u0647\u0631\u0629",
            [(6, 15), (19, 26)],
            id="T-08-arabic",
        ),
        pytest.param(
            "\u200f\u05d3\u05b8\u05bc\u05d5\u05b4\u05d3 (Haifa) \u05d2\u05b8\u05bc\u05e8",
            [(1, 7), (9, 14)],
            id="T-08-hebrew-after-direction-control",
        ),
        pytest.param("a" * 5000 + " in Oslo", [(0, 5000), (5004, 5008)], id="T-10-giant-word"),
        pytest.param(
            "Ana \u2603 \u1200\u1201 \U00010348 in Oslo", [(0, 3), (6, 8), (14, 18)], id="T-10-unknown-symbols"
        ),
        pytest.param("[SEP] Mira [MASK] met </s> Bo [PAD]", [(1, 4), (6, 10), (27, 29)], id="T-10-special-tokens"),
        pytest.param("Ana met Bo in Oslo", [(0, 3), (14, 18), (8, 10)], id="D-06"),
        *[
            pytest.param(
                " ".join(["tok"] * fill + ["Mira Holt"] + ["tok"] * 30), [(start, start + 9)], id=f"T-06-{fill}"
            )
            for fill, start in ((12, 48), (13, 52), (14, 56))
        ],
    ],
)
def test_entity_borders_of_the_trouble_cases_are_word_borders(text, spans, split_hyphens):
    words = split_words(text, split_hyphens=split_hyphens)
    starts, ends = {start for start, _ in words}, {end for _, end in words}
    assert {start for start, _ in spans} <= starts
    assert {end for _, end in spans} <= ends


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u200b\u200b", "\u200f\ufeff\u00ad\u200d\ufe0f"])
def test_text_without_visible_character_has_no_word(text):
    assert split_words(text) == []


def test_misaligned_span_of_d06_is_no_word_border():
    assert 9 not in {start for start, _ in split_words("Ana met Bo in Oslo")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He said: \"Don't go to O'Brien's, Inc.\"", "He said : \" Do n't go to O'Brien 's , Inc. \""),
        (
            "I can't; they'd've won\u2019t, it\u2019s James'.",
            "I ca n't ; they 'd 've wo n\u2019t , it \u2019s James ' .",
        ),
        ("rock'n'roll at 5 o'clock, d'Italia", "rock'n'roll at 5 o'clock , d'Italia"),
        ("Mr. J. R. Smith (U.S.-born) met Dr. Lee.", "Mr. J. R. Smith ( U.S.-born ) met Dr. Lee ."),
        ("at 5:30 p.m. in the U.S., e.g. No. 5", "at 5:30 p.m. in the U.S. , e.g. No. 5"),
        ("Plan B.\nJ. Doe, not I. But I. Newton", "Plan B .\nJ. Doe , not I. But I. Newton"),
        ("He said no. Al. Acme Corp. vs. Ford Motor Co.", "He said no . Al . Acme Corp. vs. Ford Motor Co ."),
        ("It was in 1996. He is 16. She\n2. Ford 8.61\n7.", "It was in 1996 . He is 16 . She\n2. Ford 8.61\n7 ."),
        ("der 2. und Paul II. von; World War II. He", "der 2. und Paul II. von ; World War II . He"),
        ("US$1.5m, $3,000.50 or \u20ac5; 10.5%", "US$ 1.5m , $ 3,000.50 or \u20ac 5 ; 10.5 %"),
        ("6-3, 7-6 (7-4) -5.3 +44 .500 1996/97 2:29.34", "6-3 , 7-6 ( 7-4 ) -5.3 +44 .500 1996/97 2:29.34"),
        ("on 1996-08-22 at 08/26/96... Really?!", "on 1996-08-22 at 08/26/96 ... Really ?!"),
        ("see https://x.y/z?a=b, bit.ly/Ab1. a.b@c.org!", "see https://x.y/z?a=b , bit.ly/Ab1 . a.b@c.org !"),
        ("(@bob_x: #Tag2) :) Tom &amp; AT&T, C++", "( @bob_x : #Tag2 ) :) Tom &amp; AT&T , C++"),
        ("Oslo&nbsp;it 5&nbsp;000 Tom&amp;Jerry", "Oslo &nbsp; it 5 &nbsp; 000 Tom &amp; Jerry"),
        ("it&#8217;s Mr.&nbsp;X &lt;b&gt;Bo&#x27;s", "it &#8217; s Mr. &nbsp; X &lt; b &gt; Bo &#x27; s"),
        ("AT&T; R&D, Barnes&Noble; a&nbsp b", "AT&T ; R&D , Barnes&Noble ; a&nbsp b"),
        ("``quoted'' word--word US/UK km/h", "`` quoted '' word -- word US / UK km / h"),
        ("Ein- und Ausgang, 18-month-old", "Ein- und Ausgang , 18-month-old"),
        ("end.Start foo.com E.ON a_b _c_", "end . Start foo.com E.ON a_b _ c _"),
        ("[SEP] </s>", "[ SEP ] < / s >"),
        ("\u6211\u572812\u65e5\u4e70\u4e86iPhone15\u3002", "\u6211 \u5728 12 \u65e5 \u4e70 \u4e86 iPhone15 \u3002"),
        ("\uc11c\uc6b8\uc5d0\uc11c \ub9cc\ub0ac\ub2e4.", "\uc11c\uc6b8\uc5d0\uc11c \ub9cc\ub0ac\ub2e4 ."),
        (
            "\u0939\u093f\u0928\u094d\u0926\u0940 \u0926\u093f\u0932\u0964",
            "\u0939\u093f\u0928\u094d\u0926\u0940 \u0926\u093f\u0932 \u0964",
        ),
        ("\u1781\u17d2\u1798\u17c2\u179a", "\u1781\u17d2\u1798\u17c2 \u179a"),
        (
            "\U0001f389\U0001f389\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7",
            "\U0001f389 \U0001f389 \U0001f1e9\U0001f1ea \U0001f1eb\U0001f1f7",
        ),
        ("Ana\U0001f44d\U0001f3fd Ana\u200d\U0001f389", "Ana \U0001f44d\U0001f3fd Ana\u200d \U0001f389"),
        (
            "co\u00adop \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 col\u00b7lecci\u00f3",
            "co\u00adop \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 col\u00b7lecci\u00f3",
        ),
    ],
)
def test_running_text_is_split_as_corpora_are(text, expected):
    assert surfaces(text) == expected.split()


def test_split_hyphens_makes_hyphens_words_but_keeps_dates_and_addresses():
    text = "non-stop knee-driven on 1996-08-22, a-b@c-d.org http://a-b.c/d-e J.-P. Ein- -5"
    expected = "non - stop knee - driven on 1996-08-22 , a-b@c-d.org http://a-b.c/d-e J. - P. Ein - - 5"
    assert surfaces(text, split_hyphens=True) == expected.split()


def test_invisible_characters_at_the_edge_of_a_word_are_left_out():
    assert split_words("\u200fAna\u200f, \u200bBo\u200bLi\u00ad") == [(1, 4), (5, 6), (8, 10), (11, 13)]


@given(TEXTS, MODES)
def test_words_are_ordered_without_blank_and_cover_what_is_visible(text, split_hyphens):
    words = split_words(text, split_hyphens=split_hyphens)
    borders = [0, *(border for word in words for border in word), len(text)]
    assert borders == sorted(borders)
    for start, end in words:
        assert start < end
        assert not any(character.isspace() for character in text[start:end])
    gaps = "".join(text[end:start] for end, start in zip(borders[::2], borders[1::2], strict=True))
    assert all(character.isspace() or is_invisible(character) or character in "\u200c\u200d" for character in gaps)


@given(TEXTS, MODES)
def test_no_word_ends_before_a_mark_joiner_or_variation_selector(text, split_hyphens):
    for _, end in split_words(text, split_hyphens=split_hyphens):
        assert end == len(text) or not is_bound(text[end])


@given(TEXTS, MODES)
def test_a_word_split_again_is_that_word(text, split_hyphens):
    # Periods are left out: whether one belongs to its word depends on what follows.
    for word in surfaces(text.replace(".", ","), split_hyphens=split_hyphens):
        assert split_words(word, split_hyphens=split_hyphens) == [(0, len(word))]


@given(TEXTS, TEXTS, MODES, st.sampled_from(["\n", " "]))
def test_texts_with_a_blank_between_split_as_each_alone(first, second, split_hyphens, blank):
    if blank == " ":  # a period looks at the rest of its line
        first, second = first.replace(".", ","), second.replace(".", ",")
    shift = len(first) + 1
    alone = split_words(first, split_hyphens=split_hyphens)
    alone += [(start + shift, end + shift) for start, end in split_words(second, split_hyphens=split_hyphens)]
    assert split_words(first + blank + second, split_hyphens=split_hyphens) == alone


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "a.",
        "Aa.",
        "a-",
        "a@",
        "a.com/-",
        "'s",
        "www.,",
        "1.",
        "a\u0301",
        "\u200f",
        "\U0001f389\u200d",
        "1. ",
        "_a",
    ],
)
@pytest.mark.parametrize("split_hyphens", [False, True])
def test_adversarial_text_takes_linear_time(unit, split_hyphens):
    """Each of these texts would run for minutes if any step were quadratic."""
    text = "a" + unit * (100_000 // len(unit))
    words = split_words(text, split_hyphens=split_hyphens)
    assert words[0][0] == 0
    assert words[-1][1] == len(text.rstrip(" \u200f"))


@pytest.mark.parametrize(
    "words",
    [
        ["Ana", "met", "Bo"],
        ["Ana", "\u200b", "met", "\u00ad", "Bo", "\ufe0f", "Li", "in", "Oslo"],
        ["Ana", " ", "", "met", "Bo"],
        [],
    ],
)
def test_surface_offsets_give_back_every_word(words):
    text = " ".join(words)
    offsets = surface_offsets(words)
    assert [text[start:end] for start, end in offsets] == words
    assert offsets == sorted(offsets)


@pytest.mark.parametrize(
    ("text", "span", "expected"),
    [
        pytest.param("Ana met Bo Li", (7, 13), (8, 13), id="T-09-blank-before"),
        pytest.param(" Ana met Bo", (0, 4), (1, 4), id="T-09-text-start"),
        pytest.param("Ana,Bo", (4, 6), (4, 6), id="T-09-no-blank"),
        pytest.param("Ana  Bo", (3, 7), (5, 7), id="T-09-blank-piece"),
        pytest.param("Ana met Bo in Oslo", (7, 11), (8, 10), id="D-06-line-9"),
        pytest.param("Bo\u00a0Li \n", (0, 7), (0, 5), id="inner-blank-kept"),
        pytest.param("Ana  Bo", (3, 5), (5, 5), id="only-blanks"),
    ],
)
def test_trim_span_removes_blanks_at_both_edges(text, span, expected):
    assert trim_span(text, *span) == expected
