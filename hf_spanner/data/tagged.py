"""From tagged sentences to spans: the scheme is detected from the first ones, a policy settles ill-formed tags."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TypeVar

from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem
from hf_spanner.data.tags import AUTO, OUTSIDE, allowed_tags, detect_scheme, parse_tags, split_tag, unknown_tag_hint

NUM_DETECTION_SENTENCES = 1000

T = TypeVar("T")


def scheme_of_stream(
    items: Iterable[T], tags_of: Callable[[T], Sequence[str]], source: str, reading: Reading
) -> tuple[str, Iterator[T]]:
    """The tag scheme of a stream, as asked for or detected, and the stream from its beginning.

    Args:
        items: Tagged sentences.
        tags_of: Gives the tags of one item.
        source: Name for the report.
        reading: Options and report; a detected scheme is noted in the report.

    Returns:
        The scheme, and an iterator over all items. Detection reads ahead by at most 1,000 sentences.
    """
    items = iter(items)
    if reading.options.scheme != AUTO:
        return reading.options.scheme, items
    head = list(islice(items, NUM_DETECTION_SENTENCES))
    guess = detect_scheme(tags_of(item) for item in head)
    reading.report.schemes[source] = guess
    return guess.scheme, chain(head, items)


def spans_of_tags(
    tags: Sequence[str], place_of: Callable[[int], str], scheme: str, reading: Reading
) -> list[tuple[int, int, str]] | None:
    """Entities of one tagged sentence under the user's policy, or None if the sentence cannot be read.

    Args:
        tags: One tag per word.
        place_of: File and line, or row and word, of a word.
        scheme: Tag scheme.
        reading: Options and report.

    Returns:
        (start, end, label) in words, half-open.

    Raises:
        ValueError: For an unknown tag if `on_error` is "error"; for one that does not fit if `ill_formed` is too.
    """
    if all(tag == OUTSIDE for tag in tags):
        return []
    for index, tag in enumerate(tags):
        if split_tag(tag, scheme) is None:
            allowed = f"{allowed_tags(scheme)} ({scheme}){unknown_tag_hint(tag)}"
            reading.refuse_row(place_of(index), Problem("unknown tag", "tag", tag, allowed))
            return None
    parsed = parse_tags(tags, scheme=scheme)
    policy = reading.options.ill_formed
    for problem in parsed.problems:
        allowed = f"{problem.allowed} (scheme {scheme})"
        described = Problem("ill-formed tags", "tag", problem.tag, allowed)
        if policy == "error":
            reading.refuse(place_of(problem.index), described)
        else:
            verb = "changed, repaired" if policy == "repair" else "dropped,"
            reading.report.count(f"{verb} ill-formed tags", f"{place_of(problem.index)}: {described}")
    spans = parsed.spans if policy == "repair" else parsed.well_formed
    return [(start, end, reading.clean_label(label, place_of(start))) for start, end, label in spans]
