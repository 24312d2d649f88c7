"""How far the rules for words give the words of a corpus: borders of entities, words, and each kind of disagreement.

python benchmarks/words.py conll2003=DATA/conll2003 gum=DATA/gum --page docs/words.md

The words of each row are joined to a text and split again: once with a blank between all of them, and once as people
write, without blanks where punctuation, clitics and ideographs stand. A border of an entity is found if a word begins
(ends) there.
"""

import argparse
import platform
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from hf_spanner.core.words import SHAPES, SINGLE, split_words
from hf_spanner.data.readers import load_rows
from hf_spanner.training.model_card import markdown_table

BEGIN, END = "<!-- words by corpus -->\n", "<!-- end of words by corpus -->"
HEADER = ["corpus", "borders, joined", "words, joined", "borders, as written", "words, as written", "disagreements"]
SPLITS = ("train", "validation", "test")
NO_BLANK_BEFORE = re.compile(r"[.,;:!?%)\]}]+|''|'(?:s|re|ve|ll|d|m)|n't", re.IGNORECASE)
NO_BLANK_AFTER = re.compile(r"[(\[{$]|``")
KINDS = {"L": "letter", "N": "digit", "Z": "blank", "M": "mark", "C": "control"}


class Agreement(NamedTuple):
    """Counts over a corpus; `kinds` are the disagreements, each with how often it is there and one example."""

    borders: int
    found_borders: int
    words: int
    same_words: int
    kinds: Counter[str]
    examples: dict[str, str]


def main() -> None:
    """Measure corpora, print the table with examples, and write it into a page without them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+", metavar="NAME=FOLDER", help="folders with one file a split")
    parser.add_argument("--kinds", type=int, default=3, help="kinds of disagreement shown for each corpus")
    parser.add_argument("--page", type=Path, help="page to write the table into, between its marks")
    given = parser.parse_args()
    rows = []
    for corpus in given.corpora:
        name, _, folder = corpus.partition("=")
        row, written = table_row(name, corpus_rows(Path(folder)), given.kinds)
        rows.append(row)
        examples = [f"{kind}: {written.examples[kind]}" for kind, _ in written.kinds.most_common(given.kinds)]
        print(*row, *examples, sep="\n  ", flush=True)
    table = markdown_table(HEADER, rows)
    if given.page is not None:
        before, _, rest = given.page.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        made = f"{date.today()}, Python {platform.python_version()}, Unicode {unicodedata.unidata_version}."
        given.page.write_text(f"{before}{BEGIN}{table}\n\n{made}\n{END}{after}", encoding="utf-8")


def corpus_rows(folder: Path) -> list[dict[str, Any]]:
    """Rows of all splits that a folder has."""
    names = {path.name.split(".")[0] for path in folder.iterdir()}
    return [row for split in SPLITS if split in names for row in load_rows(folder, split=split).to_list()]


def table_row(name: str, rows: Sequence[dict[str, Any]], num_kinds: int) -> tuple[list[str], Agreement]:
    """The line of a corpus, with the treatment of hyphens that gives more of its words, and how its text agrees."""
    joined = {hyphens: agreement(rows, split_hyphens=hyphens, as_written=False) for hyphens in (False, True)}
    hyphens = max(joined, key=lambda hyphens: joined[hyphens].same_words)
    written = agreement(rows, split_hyphens=hyphens, as_written=True)
    kinds = [f"{kind} {count:,}" for kind, count in written.kinds.most_common(num_kinds)]
    shares = [
        f"{part / whole:.3%}"
        for one in (joined[hyphens], written)
        for part, whole in ((one.found_borders, one.borders), (one.same_words, one.words))
    ]
    return [name, *shares, "; ".join(kinds)], written


def agreement(rows: Iterable[dict[str, Any]], *, split_hyphens: bool, as_written: bool) -> Agreement:
    """Compare the words of rows with those of their text."""
    num_borders = found = num_words = same = 0
    kinds, examples = Counter[str](), dict[str, str]()
    for row in rows:
        text, offsets = joined_text(row["tokens"], as_written=as_written)
        ours = split_words(text, split_hyphens=split_hyphens)
        starts, ends = {start for start, _ in ours}, {end for _, end in ours}
        num_words += len(offsets)
        same += len(set(offsets) & set(ours))
        for entity in row["entities"]:
            start, end = offsets[entity["start"]][0], offsets[entity["end"] - 1][1]
            num_borders += 2
            found += (start in starts) + (end in ends)
        for kind, surface in disagreements(text, offsets, ours):
            kinds[kind] += 1
            examples.setdefault(kind, surface)
    return Agreement(num_borders, found, num_words, same, kinds, examples)


def joined_text(words: Sequence[str], *, as_written: bool) -> tuple[str, list[tuple[int, int]]]:
    """The text of some words, and their offsets in it."""
    text, offsets = "", []
    for place, word in enumerate(words):
        if place and not (as_written and stands_close(words[place - 1], word)):
            text += " "
        offsets.append((len(text), len(text) + len(word)))
        text += word
    return text, offsets


def stands_close(word: str, following: str) -> bool:
    """Whether people write no blank between two words."""
    if NO_BLANK_BEFORE.fullmatch(following) or NO_BLANK_AFTER.fullmatch(word):
        return True
    return SHAPES[ord(word[-1])] == SINGLE or SHAPES[ord(following[0])] == SINGLE


def disagreements(
    text: str, corpus: Iterable[tuple[int, int]], ours: Iterable[tuple[int, int]]
) -> Iterable[tuple[str, str]]:
    """Kind and surroundings of each border that only one side has: what it does, and the characters beside it."""
    sides = [{border for word in words for border in word} for words in (corpus, ours)]
    for verb, borders in (("joins", sides[0] - sides[1]), ("cuts", sides[1] - sides[0])):
        for border in sorted(borders):
            before, after = (text[place : place + 1] for place in (max(0, border - 1), border))
            yield f"{verb} `{kind_of(before)}{kind_of(after)}`", text[max(0, border - 8) : border + 8].strip()


def kind_of(character: str) -> str:
    """A sign as it is, any other character by its kind."""
    if not character:
        return "end"
    kind = KINDS.get(unicodedata.category(character)[0])
    return f"<{kind}>" if kind else character


if __name__ == "__main__":
    main()
