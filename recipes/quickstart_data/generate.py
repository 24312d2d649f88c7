"""Write the quickstart corpus: a seeded grammar whose boundary ambiguity has a known probability.

Run `python recipes/quickstart_data/generate.py` to write the files, with `--check` to compare them with what is there.
The text comes from one random stream and the coins from another, so no coin can be seen in the text.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import lexicon
from cast import COINS, CastBuilder, Character, Mention, Phrase, invented_names, pick
from ceiling import readme_numbers

FOLDER = Path(__file__).parent
PACKAGED = FOLDER.parents[1] / "hf_spanner" / "quickstart"  # the rows travel with the package
SENTENCES = {"train": 2000, "dev": 400, "test": 600}
TEXT_SEED = 20220518
COIN_SEED = 33  # the first from 1 on whose coins in test all lie within one standard deviation (README)
NUM_NAMES = 240  # invented names of train; dev and test add their own
FRESH_SHARE = {"train": 0.0, "dev": 0.4, "test": 0.4}  # share of fresh names among those of a document
PLAIN_SHARE, GENERAL_SHARE = 0.14, 0.2  # shares of the sentences after a document's first, by rule
SHORTEST, LONGEST = 3, 45
MARKS = ("<!-- numbers -->\n", "<!-- end of numbers -->\n")


@dataclass(frozen=True)
class Site:
    """A mention at its place: `start` and `end` of its core in words, half-open."""

    mention: Mention
    start: int
    end: int


@dataclass(frozen=True)
class Alternative:
    """One way to annotate a mention, half-open in words, and its probability."""

    start: int
    end: int
    label: str
    probability: float


@dataclass(frozen=True)
class Sentence:
    """One row: its place in the corpus, its words, its mentions and the alternative the coin took for each."""

    id: str
    document: str
    tokens: list[str]
    sites: list[Site]
    gold: list[Alternative]


def read_grammar(text: str) -> dict[str, list[list[str]]]:
    """Alternatives of every rule, each a list of grammar tokens."""
    rules: dict[str, list[list[str]]] = {}
    current: list[list[str]] = []
    for line in text.splitlines():
        if line.endswith(" ="):
            current = rules.setdefault(line[:-2], [])
        elif line and not line.startswith("%%"):
            current.append(line.split())
    return rules


def kinds_of(rules: dict[str, list[list[str]]]) -> list[str]:
    """Kinds of documents, in the order of the grammar."""
    return [name.removesuffix("_open") for name in rules if name.endswith("_open")]


class Writer:
    """Writes one document: expands rules and fills their slots with its cast."""

    MEMBERS = {"LOC": ("TOWN", "SPOT")}

    def __init__(self, rng: Random, rules: dict[str, list[list[str]]], cast: list[Character]) -> None:
        """Start a document that has mentioned nobody.

        Args:
            rng: Source of the text.
            rules: The grammar.
            cast: The document's characters.
        """
        self.rng = rng
        self.rules = rules
        self.cast = cast
        self.used: list[Character] = []
        self.spent: dict[str, list[int]] = {}  # alternatives of a rule that the document has used
        self.pronoun = cast[0].pronoun

    def sentence(self, rule: str) -> Phrase:
        """A sentence of fitting length from an alternative that the document has not used while others are left."""
        every = range(len(self.rules[rule]))
        while True:
            spent = self.spent.setdefault(rule, [])
            choice = pick(self.rng, [number for number in every if number not in spent] or every)
            spent.append(choice)
            self.used, self.pronoun = [], self.cast[0].pronoun
            phrase = joined_commas(tuple(self.expand(self.rules[rule][choice], 0)))
            tokens, _ = flatten(phrase)
            # an abbreviation at the very end would lose its period to the word splitter
            if SHORTEST <= len(tokens) <= LONGEST and tokens[-1].rstrip(".") in ("", tokens[-1]):
                for character in self.used:
                    character.is_known = True
                return phrase

    def expand(self, symbols: list[str], depth: int) -> Iterator[str | Mention]:
        """Words and mentions of one alternative, left to right."""
        for symbol in symbols:
            if symbol.startswith("<"):
                alternatives = self.rules[symbol[1:-1]]
                chosen = pick(self.rng, alternatives) if depth < 4 else alternatives[0]
                yield from self.expand(chosen, depth + 1)
            elif symbol.startswith("{"):
                yield from self.fill(symbol[1:-1])
            elif symbol.startswith("#"):
                lowest, highest, pattern = lexicon.NUMBERS[symbol[1:]]
                yield pattern.format(n=lowest + int(self.rng.random() * (highest + 1 - lowest)))
            elif symbol.startswith("@"):
                yield symbol[1:] if self.pronoun == "he" else {"he": "she", "his": "her", "him": "her"}[symbol[1:]]
            else:
                yield symbol

    def fill(self, slot: str) -> Phrase:
        """A mention for a slot: important characters more often, nobody twice in a sentence while others are left."""
        fitting = [character for character in self.cast if character.slot in self.MEMBERS.get(slot, (slot,))]
        free = [character for character in fitting if character not in self.used] or fitting
        character = free[int(self.rng.random() ** 1.6 * len(free))]
        forms = character.later if character.is_known or character in self.used else character.first
        self.used.append(character)
        self.pronoun = character.pronoun or self.pronoun
        return pick(self.rng, forms)


def joined_commas(phrase: Phrase) -> Phrase:
    """The phrase without a comma of a clause that another sign follows."""
    followers = (*phrase[1:], "")
    return tuple(
        part for part, follower in zip(phrase, followers, strict=True) if part != "," or follower not in (",", ".", ";")
    )


def flatten(phrase: Phrase, offset: int = 0) -> tuple[list[str], list[Site]]:
    """Words of a phrase, and its mentions from the outside to the inside."""
    tokens: list[str] = []
    sites: list[Site] = []
    for part in phrase:
        if isinstance(part, str):
            tokens.append(part)
            continue
        start = offset + len(tokens) + len(part.before)
        words, inner = flatten(part.core, start)
        sites += [Site(part, start, start + len(words)), *inner]
        tokens += [*part.before, *words, *part.after]
    return tokens, sites


def alternatives(site: Site) -> list[Alternative]:
    """All annotations that the coins of a mention can give, probabilities summing to 1."""
    mention = site.mention
    lefts, rights = [(0, 1.0)], [(0, 1.0)]
    if mention.before:
        lefts = [(len(mention.before), COINS[mention.before_kind]), (0, 1 - COINS[mention.before_kind])]
    if mention.after:
        rights = [(len(mention.after), COINS[mention.after_kind]), (0, 1 - COINS[mention.after_kind])]
    return [
        Alternative(
            site.start - left,
            site.end + right,
            mention.bare_label if mention.bare_label and not right else mention.label,
            round(left_probability * right_probability, 6),
        )
        for left, left_probability in lefts
        for right, right_probability in rights
    ]


def toss(coins: Random, site: Site) -> Alternative:
    """The annotation that the coin takes."""
    options = alternatives(site)
    if len(options) == 1:
        return options[0]
    draw = coins.random()
    for option in options:
        draw -= option.probability
        if draw < 0:
            return option
    return options[-1]


def spelled(tokens: list[str], is_lower: bool) -> list[str]:
    """Words with a capital at the start, or all in lower case as in chat, where abbreviations lose their period."""
    if not is_lower:
        return [tokens[0][0].upper() + tokens[0][1:], *tokens[1:]]
    return [token.lower().rstrip(".") or token for token in tokens]


def corpus(text_seed: int = TEXT_SEED, coin_seed: int = COIN_SEED) -> dict[str, list[Sentence]]:
    """All sentences by split; no sentence occurs twice."""
    rng, coins = Random(text_seed), Random(coin_seed)
    rules = read_grammar((FOLDER / "grammar.txt").read_text(encoding="utf-8"))
    names = invented_names(rng, NUM_NAMES * 2)
    old, fresh = names[:NUM_NAMES], names[NUM_NAMES:]
    pools = {"train": old, "dev": fresh[: NUM_NAMES // 3], "test": fresh[NUM_NAMES // 3 :]}
    written: set[tuple[str, ...]] = set()
    splits: dict[str, list[Sentence]] = {}
    for split, size in SENTENCES.items():
        rows: list[Sentence] = []
        number = 0
        while len(rows) < size:
            source = [pick(rng, pools[split] if rng.random() < FRESH_SHARE[split] else old) for _ in range(24)]
            cast = CastBuilder(rng, source, given_names(split)).cast()
            kind = kinds_of(rules)[number % len(kinds_of(rules))]
            document = f"{split}-{number:03d}-{kind}"
            rows += document_rows(Writer(rng, rules, cast), coins, document, kind, written)
            number += 1
        splits[split] = rows[:size]
    return splits


def given_names(split: str) -> dict[str, Sequence[str]]:
    """Given names by pronoun; every third is kept for dev and test."""
    everyone: dict[str, Sequence[str]] = {"he": lexicon.MALE_NAMES, "she": lexicon.FEMALE_NAMES}
    if split != "train":
        return everyone
    return {pronoun: [name for i, name in enumerate(names) if i % 3] for pronoun, names in everyone.items()}


def document_rows(
    writer: Writer, coins: Random, document: str, kind: str, written: set[tuple[str, ...]]
) -> list[Sentence]:
    """The 6 to 14 sentences of one document."""
    rng = writer.rng
    is_lower = rng.random() < {"chat": 0.85, "mail": 0.15}.get(kind, 0.03)
    size = 6 + int(rng.random() * 9)
    rows: list[Sentence] = []
    rule = f"{kind}_open"
    while len(rows) < size:
        tokens, sites = flatten(writer.sentence(rule))
        key = tuple(token.lower() for token in tokens)
        if key in written:
            continue
        written.add(key)
        gold = [toss(coins, site) for site in sites]
        rows.append(Sentence(f"{document}-{len(rows):02d}", document, spelled(tokens, is_lower), sites, gold))
        general_share = 0.0 if kind in ("chat", "minutes") else GENERAL_SHARE
        draw = rng.random() - PLAIN_SHARE
        rule = f"{kind}_plain" if draw < 0 else "general" if draw < general_share else kind
    return rows


def row_of(sentence: Sentence) -> dict[str, object]:
    """The row as it is written, entities by start, then longer first, then label."""
    gold = sorted(sentence.gold, key=lambda entity: (entity.start, -entity.end, entity.label))
    entities = [{"start": entity.start, "end": entity.end, "label": entity.label} for entity in gold]
    return {"id": sentence.id, "document": sentence.document, "tokens": sentence.tokens, "entities": entities}


def coin_rows(sentence: Sentence) -> Iterator[dict[str, object]]:
    """Every span that could have been annotated, with its probability and construction."""
    for number, site in enumerate(sentence.sites):
        mention = site.mention
        kinds = [kind for kind in (mention.before_kind, mention.after_kind) if kind]
        for option in alternatives(site):
            yield {
                "id": sentence.id,
                "mention": number,
                "start": option.start,
                "end": option.end,
                "label": option.label,
                "probability": option.probability,
                "construction": "+".join(kinds) or "none",
            }


def files() -> dict[Path, str]:
    """Text of every generated file by path, the README with its block of numbers filled in."""
    splits = corpus()
    contents = {PACKAGED / f"{split}.jsonl.gz": json_lines(map(row_of, rows)) for split, rows in splits.items()}
    coin_records = [record for sentence in splits["test"] for record in coin_rows(sentence)]
    contents[FOLDER / "test_coins.jsonl.gz"] = json_lines(iter(coin_records))
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    before, _, rest = readme.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    rows = {split: [row_of(sentence) for sentence in sentences] for split, sentences in splits.items()}
    contents[FOLDER / "README.md"] = before + MARKS[0] + readme_numbers(rows, coin_records) + MARKS[1] + after
    return contents


def json_lines(records: Iterator[dict[str, object]]) -> str:
    """One JSON object on each line."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def unpacked(path: Path) -> str:
    """Text of a file, plain or `.gz`; packed, equal text may have other bytes with another library."""
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")


def main() -> None:
    """Write the files, or compare them with what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only; exit code 1 if a file differs")
    is_check = parser.parse_args().check
    for path, text in files().items():
        if not is_check:
            content = text.encode("utf-8")
            path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
        elif not path.exists() or unpacked(path) != text:
            sys.exit(f"{path} differs from what the grammar gives; run {Path(__file__).name} without --check")


if __name__ == "__main__":
    main()
