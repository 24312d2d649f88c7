"""Words of a text, with character offsets that come from the text itself and never from tokenizer pieces.

The rules follow the corpora that models are trained on (Penn Treebank, CoNLL 2003): punctuation and clitics are words
of their own; numbers, dates, abbreviations, addresses and hyphenated words stay whole. Scripts without blanks give one
word per character (CJK) or grapheme (Thai, Lao, Khmer, Burmese, Tibetan). A text is first reduced to its shape, one
plain symbol per character, so that one linear pattern serves every script.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from html.entities import name2codepoint

# Symbols of the shape. Printable ASCII stands for itself, the rest of Unicode for one of these.
CAPITAL, LETTER, DIGIT, BLANK = "\u00c0", "\u00e0", "0", " "
MIDDLE = "\u00b7"  # joins letters: Catalan middle dot, Hebrew geresh
FLAG = "\u00a7"  # half of a flag emoji
SINGLE = "\u00a4"  # a word by itself: ideograph, kana, Thai letter, emoji, foreign punctuation
EMOJI = "\u00a9"  # the same, and a joiner binds it to another
MARK = "\u0300"  # combining mark, emoji modifier
LINKER = "\u1039"  # mark that binds the next letter of a script without blanks
INVISIBLE_MARK = "\ufe0f"  # variation selector, ZWNJ, tag: belongs to the character before it, if any
JOINER = "\u200d"  # the same, and binds the next emoji
FORMAT = "\u200e"  # direction control, soft hyphen and the like: in no word, yet may stand inside one

SINGLE_RANGES = (
    (0x0E00, 0x0FFF),  # Thai, Lao, Tibetan
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19FF),  # Tai Le, New Tai Lue, Khmer symbols
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x2460, 0x27BF),  # numbers in circles, ornaments
    (0x2E80, 0x312F),  # CJK radicals and punctuation, kana, bopomofo
    (0x3190, 0x9FFF),  # CJK annotations and ideographs
    (0xA9E0, 0xA9FF),  # Burmese extended
    (0xAA60, 0xAA7F),  # Burmese extended
    (0xF900, 0xFAFF),  # compatibility ideographs
    (0xFF65, 0xFF9D),  # half-width katakana
    (0x16FE0, 0x18D8F),  # Tangut, Khitan
    (0x1AFF0, 0x1B2FF),  # kana and Nushu supplements
    (0x20000, 0x3FFFF),  # ideographs of the upper planes
)
SPECIAL = {
    **dict.fromkeys("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", "\n"),
    **dict.fromkeys("\u2010\u2011\u058a\u05be", "-"),
    **dict.fromkeys("\u00b7\u2027\u05f3\u05f4", MIDDLE),
    **dict.fromkeys("\u0e33\u0eb3\uff9e\uff9f" + "".join(map(chr, range(0x1F3FB, 0x1F400))), MARK),
    **dict.fromkeys("\u1039\u17d2\u1a60", LINKER),
    **dict.fromkeys("\u200c\u180b\u180c\u180d\u180f", INVISIBLE_MARK),
    **dict.fromkeys("\u2194\u2195", EMOJI),
    "\u200b": BLANK,
    "\u200d": JOINER,
    "\u2019": "'",
}
SPECIAL_RANGES = (
    (0xFE00, 0xFE0F, INVISIBLE_MARK),
    (0xE0020, 0xE007F, INVISIBLE_MARK),
    (0xE0100, 0xE01EF, INVISIBLE_MARK),
    (0x1F1E6, 0x1F1FF, FLAG),
)
CATEGORY_SYMBOLS = {
    **dict.fromkeys(("Lu", "Lt"), CAPITAL),
    **dict.fromkeys(("Ll", "Lm", "Lo", "Nl", "No"), LETTER),
    **dict.fromkeys(("Mn", "Mc", "Me"), MARK),
    "Cf": FORMAT,
    "Nd": DIGIT,
    "Sc": "$",
    "So": EMOJI,
}


# Abbreviations whose period belongs to them, unless it ends the line. Dotted ones (U.S.) and letters (J.) need no list.
ABBREVIATIONS = frozenset("al approx bzw ca cf etc usw vgl vs Vs VS".split())  # noqa: SIM905
# These in any case but all small: titles, companies, places, months.
NAME_ABBREVIATIONS = frozenset(
    """adm apr ariz asst atty aug ave blvd bros calif capt cmdr co col comdr conn corp cpl dec dept dr esq feb fla gen
    gov hon hrsg inc insp jan jr kans ky lt ltd maj messrs mich minn mlle mme mr mrs ms msgr mt nev nov oct okla pfc
    pres prof rd rep rev sen sep sept sgt sr st ste supt tenn tex univ wis""".split()  # noqa: SIM905
)
# These only before a number.
NUMBER_ABBREVIATIONS = frozenset("art ch fig figs no nos nr op p pp sec vol vols".split())  # noqa: SIM905

_L, _W, _LOW, _UP = r"[A-Za-z\u00c0\u00e0]", r"[A-Za-z0-9\u00c0\u00e0]", r"[a-z\u00e0]", r"[A-Z\u00c0]"
_HIDDEN = f"{MARK}{LINKER}{INVISIBLE_MARK}{JOINER}{FORMAT}"
_BOUND = f"{FORMAT}*[{MARK}{LINKER}{INVISIBLE_MARK}{JOINER}]"
# What follows the & of an HTML entity that stands inside a word; at the start of a word any name will do.
_ENTITY = rf"(?:\x23\d{{1,7}}|\x23[xX][0-9A-Fa-f]{{1,6}}|{'|'.join(sorted(name2codepoint))});"
HIDDEN = re.compile(f"[{_HIDDEN}]")
# A character with all that is bound to it; format characters and stray invisible marks are left out.
ATOM = re.compile(
    rf"{EMOJI}(?:{_BOUND}|(?<={JOINER}){EMOJI})*"
    rf"|(?:[^\s{_HIDDEN}]|[{MARK}{LINKER}])(?:{_BOUND}|(?<={LINKER}){SINGLE})*|\s"
)
CLITIC = re.compile(r"(?:n't|'(?:s|re|ve|ll|d|m))\Z", re.IGNORECASE)
DOTTED = re.compile(rf"{_L}{{1,2}}(?:\.-?{_L}{{1,2}})+")
ROMAN = re.compile(r"[IVXL]{2,}")
FOLLOWING = re.compile(r"[^\S\n]*(\S)")  # the next character on the same line


def _pattern(sign: str, hyphen: str, tail: str) -> re.Pattern[str]:
    """Pattern of one word of a shape; group `run` is what still may hold a clitic or a period to be split off.

    Linear: every alternative that scans ahead either is bounded, or consumes what it scanned, or starts once a run.
    """
    return re.compile(
        rf"""
        (?i:https?://|ftp://|www\.)(?:[!\x23-;=?-~\u00c0\u00e0]*[\w/])?      # web address
        | (?<![\w.@-])(?:[A-Za-z0-9-]{{1,63}}\.){{1,4}}[a-z]{{2,6}}/(?=\w)[!\x23-;=?-~]*[\w/]   # its short form
        | (?<![\w.+-])[\w.+-]{{1,64}}@[\w-]{{1,63}}(?:\.[\w-]{{1,63}})+      # mail address
        | (?<!\w)[@\x23]\w+                                                  # user, tag
        | &\x23?\w{{1,8}};                                                   # HTML entity
        | (?<!\S)[:;=]-?[()\[\]DPpO/\\|*]{{1,3}}(?!\S)                       # emoticon
        | [A-Z]{{1,3}}\$(?!{_L})                                             # US$
        | \d{{4}}-\d\d-\d\d(?![\w-])                                         # date
        | (?P<run>
            (?:(?<![\w)\]%.]){sign}?\.?(?=\d))?{_W}+
            (?:(?:(?<=\d)[.,:/](?=\d)
                | (?<={_L})\.(?={_W})(?!(?<={_LOW}\.){_UP}{_LOW})
                | '(?={_L}) | (?<={_L})&(?={_L})(?!{_ENTITY}) | _+(?={_W}) | {MIDDLE}(?={_L}) {hyphen}
              ){_W}+)*
            (?:\.(?![\w.]) {tail})?
          )
        | (?i:'(?:s|re|ve|ll|d|m|em|n|t))(?![\w'])                           # clitic of the word before
        | ``|''|-+|\.+|[!?]+|(?P<same>[=*_~+<>|^\x23])(?P=same)*|{FLAG}{FLAG}?|\S
        """,
        re.VERBOSE,
    )


WORD = _pattern(r"[+-]", rf"| (?:(?<={_L})\.)?-(?={_W}|\.\d)\.?", r"| -(?![^\s,]) | \+\+?(?![^\s,.;)])")
WORD_SPLIT_HYPHENS = _pattern(r"\+", "", "")


class _Shapes(dict[int, str]):
    """Shape symbol of every code point, filled as characters are met."""

    def __missing__(self, code: int) -> str:
        self[code] = symbol = _symbol(code)
        return symbol


SHAPES = _Shapes()


def split_words(text: str, *, split_hyphens: bool = False) -> list[tuple[int, int]]:
    """Words of a text in any language, in linear time.

    Args:
        text: Any text, also empty.
        split_hyphens: Make a hyphen inside a word a word of its own, as GUM and BC5CDR do.

    Returns:
        Half-open character offsets into `text`, in order, never overlapping, without white space. All other characters
        are covered but zero-width spaces, and invisible characters (direction controls, soft hyphens, stray joiners) at
        the edge of a word.

    Example:
        >>> text = "Don't go to Acme Inc., Mr. X!"
        >>> [text[start:end] for start, end in split_words(text)]
        ['Do', "n't", 'go', 'to', 'Acme', 'Inc.', ',', 'Mr.', 'X', '!']
    """
    pattern = WORD_SPLIT_HYPHENS if split_hyphens else WORD
    shape = text.translate(SHAPES)
    if not HIDDEN.search(shape):
        return list(_shape_words(shape, pattern))
    borders = [atom.span() for atom in ATOM.finditer(shape)]
    shape = "".join([shape[start] for start, _ in borders]).replace(MARK, LETTER).replace(LINKER, LETTER)
    return [(borders[start][0], borders[end - 1][1]) for start, end in _shape_words(shape, pattern)]


def surface_offsets(words: Sequence[str]) -> list[tuple[int, int]]:
    """Half-open character offsets of given words in `" ".join(words)`; an empty word has an empty span."""
    offsets = []
    start = 0
    for word in words:
        offsets.append((start, start + len(word)))
        start += len(word) + 1
    return offsets


def trim_span(text: str, start: int, end: int) -> tuple[int, int]:
    """The half-open character span without the white space at its edges; (end, end) if nothing else is in it."""
    surface = text[start:end]
    start = end - len(surface.lstrip())
    return start, start + len(surface.strip())


def _symbol(code: int) -> str:
    """Shape symbol of one code point."""
    character = chr(code)
    if character in SPECIAL:
        return SPECIAL[character]
    if character.isspace():
        return BLANK
    if code < 0x80:
        return character
    for first, last, symbol in SPECIAL_RANGES:
        if first <= code <= last:
            return symbol
    symbol = CATEGORY_SYMBOLS.get(unicodedata.category(character), SINGLE)
    if symbol in (CAPITAL, LETTER) and any(first <= code <= last for first, last in SINGLE_RANGES):
        return SINGLE
    return symbol


def _shape_words(shape: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Words of a shape without marks."""
    previous = 0
    for match in pattern.finditer(shape):
        start, end = match.span()
        if match.lastgroup == "run" and not shape[start:end].isalnum():
            yield from _split_run(shape, start, end, previous)
        else:
            yield start, end
        previous = end


def _split_run(shape: str, start: int, end: int, previous: int) -> Iterator[tuple[int, int]]:
    """A word without its clitics, the clitics, and the period if it ends a sentence."""
    cuts = [end]
    if shape[end - 1] == "." and not _keeps_period(shape, start, end - 1, previous):
        cuts.append(end - 1)
    while clitic := CLITIC.search(shape, max(start + 1, cuts[-1] - 3), cuts[-1]):
        cuts.append(clitic.start())
    for cut in reversed(cuts):
        yield start, cut
        start = cut


def _keeps_period(shape: str, start: int, end: int, previous: int) -> bool:
    """Whether the period after a word belongs to it: abbreviations, initials, ordinals and list numbers."""
    stem = shape[start:end]
    if DOTTED.fullmatch(stem):
        return True
    following = FOLLOWING.match(shape, end + 1)
    if following is None:
        return False
    after = following[1]
    lower = stem.lower()
    if lower in NAME_ABBREVIATIONS:
        return stem[0] != lower[0]
    if stem in ABBREVIATIONS or (lower in NUMBER_ABBREVIATIONS and after.isdigit()):
        return True
    if stem == "I":
        return after.isupper()
    if len(stem) == 1 and not stem.isdigit():
        return True
    if stem.isdigit() and len(stem) < 3:
        return after.islower() or previous == 0 or "\n" in shape[previous:start]
    return bool(ROMAN.fullmatch(stem)) and after.islower()
