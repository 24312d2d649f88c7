"""From tags of words (IOB1, IOB2, IOBES, BILOU, BMES, IO) to spans and back, and the scheme of a file."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, get_args

Scheme = Literal["IOB2", "IOB1", "IOBES", "BILOU", "BMES"]
TagPolicy = Literal["error", "repair", "drop"]
TagSpan = tuple[int, int, str]

AUTO = "auto"
IO = "IO"  # no prefix, or always "I-": each run of one label is an entity; never detected, as any words would fit it
OUTSIDE = "O"
# What each prefix says of its word: it is the first of an entity, a further one, the last or the only one.
ROLES: dict[str, dict[str, str]] = {
    "IOB2": {"B": "first", "I": "further"},
    "IOB1": {"B": "first", "I": "further"},
    "IOBES": {"B": "first", "I": "further", "E": "last", "S": "only"},
    "BILOU": {"B": "first", "I": "further", "L": "last", "U": "only"},
    "BMES": {"B": "first", "M": "further", "E": "last", "S": "only"},
    IO: {"I": "further"},
}
PREFIXES = "".join(sorted({prefix for roles in ROLES.values() for prefix in roles}))
SUFFIX_TAG = re.compile(rf"(.+)([-_./|:])([{PREFIXES}])")
OTHER_SEPARATOR = re.compile(rf"([{PREFIXES}])([_./|:])(.+)")
MISC = re.compile(r"_$|\w+=")  # of CoNLL-U
CONLLU_HINT = 'format="conllu" reads entities in a key of MISC'
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)  # those that can be detected


class TagProblem(NamedTuple):
    """A tag that does not fit its neighbours."""

    index: int  # word
    tag: str
    allowed: str


class ParsedTags(NamedTuple):
    """All entities that a tag sequence may mean, those of them that are well formed, and what does not fit."""

    spans: list[TagSpan]
    well_formed: list[TagSpan]
    problems: list[TagProblem]


class SchemeGuess(NamedTuple):
    """The scheme that fits some tag sequences best, and how many tags do not fit each scheme."""

    scheme: Scheme
    misfits: dict[Scheme, int]
    num_sequences: int

    def __str__(self) -> str:
        """One line for a log."""
        misfits = ", ".join(f"{scheme} {count}" for scheme, count in self.misfits.items())
        return f"{self.scheme} detected from {self.num_sequences} sentences (tags that do not fit: {misfits})"


def tags_to_spans(tags: Sequence[str], *, scheme: str, policy: TagPolicy = "error") -> list[TagSpan]:
    """Entities of one tagged sentence; two that touch never merge.

    Args:
        tags: "O" or prefix, "-" and label; the label may itself hold "-".
        scheme: One of `SCHEMES`, or `IO`, in which two of one label that touch are one.
        policy: For tags that do not fit their neighbours. "repair" lets an orphan begin an entity, "drop" keeps only
            well-formed entities, "error" refuses.

    Returns:
        (start, end, label) in words, half-open, in order.

    Raises:
        ValueError: If a tag is not one of the scheme, whatever the policy; if a tag does not fit and `policy` is
            "error"; if scheme or policy does not exist.
    """
    if policy not in ("error", "repair", "drop"):
        raise ValueError(f"policy must be 'error', 'repair' or 'drop', got {policy!r}")
    parsed = parse_tags(tags, scheme=scheme)
    if parsed.problems and policy == "error":
        index, tag, allowed = parsed.problems[0]
        raise ValueError(f"tags[{index}] is {tag!r}, allowed here in {scheme}: {allowed}")
    return parsed.well_formed if policy == "drop" else parsed.spans


def spans_to_tags(spans: Iterable[TagSpan], num_words: int, *, scheme: str) -> list[str]:
    """Tags of one sentence with flat entities.

    Args:
        spans: (start, end, label) in words, half-open, any order.
        num_words: Length of the sentence.
        scheme: One of `SCHEMES`, or `IO`.

    Returns:
        One tag per word.

    Raises:
        ValueError: If two spans overlap, or in IO touch with one label, which tags cannot write; if a span is empty,
            without label or outside the sentence; if the scheme does not exist.
    """
    prefixes = {role: prefix for prefix, role in _roles(scheme).items()}
    tags = [OUTSIDE] * num_words
    previous: TagSpan = (0, 0, "")
    for span in sorted(spans):
        start, end, label = span
        if not (0 <= start < end <= num_words and label):
            raise ValueError(f"span is {span}, allowed: a label and 0 <= start < end <= {num_words} words")
        if start < previous[1]:
            raise ValueError(f"spans {previous} and {span} overlap; tags hold no overlap or nesting")
        touches = start == previous[1] and label == previous[2]
        if scheme == IO:
            if touches:
                raise ValueError(f"spans {previous} and {span} touch with one label, which {IO} cannot write")
            if split_tag(label, IO) != ("further", label):
                raise ValueError(f"span is {span}, allowed in {IO}: a label that is no tag")
            tags[start:end] = [label] * (end - start)
            previous = span
            continue
        first = "further" if scheme == "IOB1" and not touches else "first"
        roles = [first] + ["further"] * (end - start - 1)
        if "last" in prefixes:
            roles[-1] = "last" if end - start > 1 else "only"
        tags[start:end] = [f"{prefixes[role]}-{label}" for role in roles]
        previous = span
    return tags


def detect_scheme(sequences: Iterable[Sequence[str]]) -> SchemeGuess:
    """The scheme in which the fewest tags do not fit; on a tie the earlier of `SCHEMES`.

    Args:
        sequences: Tags of some sentences. The first entity mostly settles it: IOB1 opens with I-, IOB2 with B-, and the
            others close what they open.

    Returns:
        The guess with its evidence; IOB2 where there is no entity.
    """
    misfits: dict[Scheme, int] = dict.fromkeys(SCHEMES, 0)
    num_sequences = 0
    for tags in sequences:
        num_sequences += 1
        if all(tag == OUTSIDE for tag in tags):
            continue
        for scheme in SCHEMES:
            known = [tag if split_tag(tag, scheme) else OUTSIDE for tag in tags]
            misfits[scheme] += len(parse_tags(known, scheme=scheme).problems)
            misfits[scheme] += sum(tag != kept for tag, kept in zip(tags, known, strict=True))
    scheme = min(SCHEMES, key=lambda scheme: misfits[scheme])
    return SchemeGuess(scheme, misfits, num_sequences)


def split_tag(tag: str, scheme: str) -> tuple[str, str] | None:
    """Role and label of a tag, split at the first "-"; ("outside", "") for O, None for what is no tag of the scheme."""
    if tag == OUTSIDE:
        return "outside", ""
    prefix, _, label = tag.partition("-")
    if scheme == IO and prefix != "I":
        return ("further", tag) if tag.strip() and not is_tag(tag) else None
    role = _roles(scheme).get(prefix)
    return (role, label) if role and label.strip() else None


def is_tag(text: str) -> bool:
    """Whether a text is a tag of some scheme."""
    return any(split_tag(text, scheme) for scheme in SCHEMES)


def unknown_tag_hint(tag: str) -> str:
    """What to add to the message on an unknown tag that has all parts of one in another order or form."""
    if MISC.match(tag) is not None:
        return f"; {CONLLU_HINT}"
    if is_tag(tag):
        return "; it is a tag of another scheme, so the lines mix schemes or the one given is not theirs"
    if (match := SUFFIX_TAG.fullmatch(tag)) is not None:
        return f"; its prefix stands at the end: write {match[3]}-{match[1]}"
    if (match := OTHER_SEPARATOR.fullmatch(tag)) is not None:
        return f'; "-" must part prefix and label: write {match[1]}-{match[3]}'
    return f"; scheme {IO} takes tags without prefix and reads each run of one label as an entity"


def allowed_tags(scheme: str) -> str:
    """The tags of a scheme, for messages."""
    bare = ["<label>"] if scheme == IO else []
    return ", ".join([OUTSIDE, *bare, *(f"{prefix}-<label>" for prefix in _roles(scheme))])


def parse_tags(tags: Sequence[str], *, scheme: str) -> ParsedTags:
    """Read a tag sequence without deciding what becomes of tags that do not fit.

    Args:
        tags: Tags of one sentence.
        scheme: One of `SCHEMES`.

    Returns:
        Entities and problems, both in order. An entity with a problem is in `spans` only.

    Raises:
        ValueError: If a tag is not one of the scheme, or the scheme does not exist.
    """
    parsed = ParsedTags([], [], [])
    start, label, fits = 0, "", True  # the open entity; no label: none is open
    closes = "last" in _roles(scheme).values()
    for index, tag in enumerate(tags):
        split = ("outside", "") if tag == OUTSIDE else split_tag(tag, scheme)
        if split is None:
            raise ValueError(f"tags[{index}] is {tag!r}, allowed in {scheme}: {allowed_tags(scheme)}")
        role, name = split
        if not (role in ("further", "last") and name == label):
            touches = name == label
            if label:
                _close(parsed, (start, index, label), fits and not closes, tags, unfinished=closes)
            start, label = index, name
            fits = _may_begin(role, scheme, touches)
            if not fits:
                parsed.problems.append(TagProblem(index, tag, _allowed_first(scheme, name)))
        if role in ("last", "only"):
            _close(parsed, (start, index + 1, label), fits, tags, unfinished=False)
            label = ""
    if label:
        _close(parsed, (start, len(tags), label), fits and not closes, tags, unfinished=closes)
    return parsed


def _close(parsed: ParsedTags, span: TagSpan, fits: bool, tags: Sequence[str], *, unfinished: bool) -> None:
    """Add an entity that has ended; one without its closing tag is a problem at its last word."""
    parsed.spans.append(span)
    if fits:
        parsed.well_formed.append(span)
    if unfinished:
        last = span[1] - 1
        parsed.problems.append(TagProblem(last, tags[last], "a tag that ends the entity"))


def _may_begin(role: str, scheme: str, touches: bool) -> bool:
    """Whether an entity may begin with a tag of this role; in IOB1 a B- only separates two of one type that touch."""
    if role == "outside" or scheme == IO:
        return True
    if scheme == "IOB1":
        return (role == "first") == touches
    return role in ("first", "only")


def _allowed_first(scheme: str, label: str) -> str:
    """The tags that may stand where an entity begins, for messages."""
    if scheme == "IOB1":
        return f"O, I-{label}, or B-{label} right after another {label}"
    return ", ".join(
        [OUTSIDE] + [f"{prefix}-{label}" for prefix, role in ROLES[scheme].items() if role in ("first", "only")]
    )


def _roles(scheme: str) -> dict[str, str]:
    """Prefixes of a scheme."""
    if scheme not in ROLES:
        raise ValueError(f"scheme must be one of {list(ROLES)}, got {scheme!r}")
    return ROLES[scheme]
