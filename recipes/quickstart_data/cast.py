"""Names and the people, bodies, places, works and events of one document, with every way to mention them."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

import lexicon

Item = TypeVar("Item")

# Probability that the words of a construction are annotated as part of the entity.
COINS = {"article": 0.75, "title": 0.35, "appositive": 0.85, "modifier": 0.55, "qualifier": 0.25}


@dataclass(frozen=True)
class Mention:
    """An entity in the text: words that surely belong to it, and words beside it that a coin gives or takes.

    Attributes:
        label: Entity label.
        core: Words and nested mentions that are always inside.
        before: Words to the left that may be inside, and the construction they are.
        after: The same to the right.
        bare_label: Label if `after` is outside; empty if it is `label` too.
    """

    label: str
    core: tuple["str | Mention", ...]
    before: tuple[str, ...] = ()
    before_kind: str = ""
    after: tuple[str, ...] = ()
    after_kind: str = ""
    bare_label: str = ""


Phrase = tuple[str | Mention, ...]


@dataclass(eq=False)
class Character:
    """Somebody or something a document talks about.

    Attributes:
        slot: Slot of the grammar it fills.
        name: The invented name it is built on.
        first: Ways to mention it the first time.
        later: Ways to mention it afterwards.
        pronoun: "he", "she" or, for what is not a person, empty.
        is_known: Whether the document has mentioned it.
    """

    slot: str
    name: str
    first: list[Phrase]
    later: list[Phrase]
    pronoun: str = ""
    is_known: bool = False


def pick(rng: Random, items: Sequence[Item]) -> Item:
    """One item; only `Random.random` is used, whose stream no Python version changes."""
    return items[int(rng.random() * len(items))]


def invented_names(rng: Random, count: int) -> list[str]:
    """Different names composed of syllables, each usable for a person, a town, a firm, a work or a storm."""
    names: dict[str, None] = {}
    while len(names) < count:
        middle = pick(rng, lexicon.TOWN_MIDDLES)
        name = pick(rng, lexicon.TOWN_ONSETS) + middle + pick(rng, lexicon.TOWN_ENDINGS)
        if 4 <= len(name) <= 9:
            names[name] = None
    return list(names)


def with_article(label: str, core: Phrase) -> Mention:
    """The core after an article that may belong to it."""
    return Mention(label, core, ("the",), "article")


class CastBuilder:
    """Draws the cast of one document."""

    def __init__(self, rng: Random, names: Sequence[str], given_names: dict[str, Sequence[str]]) -> None:
        """Start without a name in use.

        Args:
            rng: Source of the text, never of the coins.
            names: Invented names to draw from.
            given_names: Given names by pronoun.
        """
        self.rng = rng
        self.names = names
        self.given_names = given_names
        self.recent: list[str] = []

    def cast(self) -> list[Character]:
        """The characters of one document, the important ones of a slot first."""
        characters = [self.person() for _ in range(5)]
        characters += [self.firm() for _ in range(3)] + [self.town() for _ in range(4)]
        characters += [self.body() for _ in range(2)] + [self.spot() for _ in range(2)]
        characters += [self.work() for _ in range(3)] + [self.event() for _ in range(2)] + [self.storm()]
        battle = (self.past_event(self.name()),)
        characters.append(Character("PAST", "", [battle], [battle]))
        people, firms, towns = characters[:5], characters[5:8], characters[8:12]
        works = [character for character in characters if character.slot == "WORK"]
        for slot, owners, label, bare_label in (
            ("GOV", people, "ORG", "PER"),
            ("TEAM", towns, "ORG", "LOC"),
            ("GROUP", firms, "ORG", ""),
            ("AREA", towns, "LOC", ""),
            ("SERIES", works, "WORK", ""),
        ):
            characters += [self.modified(slot, owner, label, bare_label) for owner in owners[:2]]
        return characters

    def name(self) -> str:
        """An invented name; every fourth is one that the document uses already, for something else."""
        if self.recent and self.rng.random() < 0.25:
            return pick(self.rng, self.recent)
        self.recent.append(pick(self.rng, self.names))
        return self.recent[-1]

    def person(self) -> Character:
        """A person: full name, surname, given name, with or without title, suffix or qualifier."""
        rng = self.rng
        pronoun = pick(rng, ("he", "she"))
        given = pick(rng, self.given_names[pronoun])
        name = self.name()
        title = (pick(rng, lexicon.TITLES[pronoun]),)
        suffix = (",", pick(rng, lexicon.PERSON_SUFFIXES))
        qualifier = (pick(rng, lexicon.PERSON_QUALIFIERS),)
        full, plain, short = Mention("PER", (given, name)), Mention("PER", (name,)), Mention("PER", (given,))
        titled = Mention("PER", (name,), title, "title")
        with_suffix = Mention("PER", (given, name), after=suffix, after_kind="appositive")
        titled_full = Mention("PER", (given, name), title, "title", suffix if rng.random() < 0.2 else ())
        if titled_full.after:
            titled_full = Mention("PER", titled_full.core, title, "title", suffix, "appositive")
        later = [plain, plain, plain, plain, titled, pick(rng, (titled, with_suffix)), full, short]
        later.append(Mention("PER", pick(rng, ((name,), (given,))), qualifier, "qualifier"))
        first = [full, full, full, titled_full, with_suffix]
        return Character("PER", name, [(form,) for form in first], [(form,) for form in later], pronoun)

    def firm(self) -> Character:
        """A company, often called by a bare name."""
        rng = self.rng
        name = self.name()
        plain = Mention("ORG", (name,))
        kind = rng.random()
        core: Phrase = (name, pick(rng, lexicon.COMPANY_WORDS))
        if kind < 0.25:
            core = (name, "&", self.name())
        elif kind < 0.5:
            core = (name,)
        suffix = (",", pick(rng, lexicon.COMPANY_SUFFIXES))
        listed = Mention("ORG", core, after=suffix, after_kind="appositive")
        first = [Mention("ORG", core), Mention("ORG", core), listed]
        later = [plain, plain, plain, Mention("ORG", core), listed]
        return Character("FIRM", name, [(form,) for form in first], [(form,) for form in later])

    def body(self) -> Character:
        """An institution; its name often holds a place, a person, an event or a work."""
        rng = self.rng
        name = self.name()
        town = Mention("LOC", (name,))
        kind = rng.random()
        core: Phrase = (name, pick(rng, lexicon.INSTITUTE_WORDS))
        if kind < 0.3:
            core = (town, *lexicon.words(pick(rng, lexicon.TOWN_BODIES)))
        elif kind < 0.5:
            core = (*lexicon.words(pick(rng, lexicon.BODIES_OF)), "of", town)
        elif kind < 0.65:
            core = (self.full_name(name), *lexicon.words(pick(rng, lexicon.PERSON_BODIES)))
        elif kind < 0.8:
            inner = with_article("EVENT", (town, *lexicon.words(pick(rng, lexicon.TOWN_EVENTS))))
            if rng.random() < 0.5:
                inner = Mention("WORK", (*lexicon.words(pick(rng, lexicon.TITLE_OF_PLACE)), town))
            core = (*lexicon.words(pick(rng, lexicon.FRIENDS_OF)), "of", inner)
        forms: list[Phrase] = [(with_article("ORG", core),), (with_article("ORG", core),), (Mention("ORG", core),)]
        return Character("BODY", name, forms, forms)

    def full_name(self, name: str) -> Mention:
        """A person inside another name."""
        return Mention("PER", (pick(self.rng, self.given_names[pick(self.rng, ("he", "she"))]), name))

    def town(self) -> Character:
        """A town or a country."""
        name = self.name()
        plain = Mention("LOC", (name,))
        qualified = Mention("LOC", (name,), (pick(self.rng, lexicon.PLACE_QUALIFIERS),), "qualifier")
        return Character("TOWN", name, [(plain,)], [(plain,), (plain,), (plain,), (plain,), (qualified,)])

    def spot(self) -> Character:
        """A street, a mountain, a valley ..."""
        name = self.name()
        kind = self.rng.random()
        if kind < 0.3:
            form = Mention("LOC", (pick(self.rng, lexicon.PLACE_HEADS), name))
        elif kind < 0.6:
            form = Mention("LOC", (name, pick(self.rng, lexicon.PLACE_TAILS)))
        else:
            form = with_article("LOC", (name, pick(self.rng, lexicon.PLACE_TAILS_WITH_ARTICLE)))
        return Character("SPOT", name, [(form,)], [(form,)])

    def work(self) -> Character:
        """A book, film or record; a title can look like a name of any other label, or hold one."""
        rng = self.rng
        name = self.name()
        titles: list[Mention] = [
            Mention("WORK", (name,)),
            Mention("WORK", (name,)),
            Mention("WORK", (name,)),
            Mention("WORK", (pick(rng, lexicon.PLACE_HEADS), name)),
            Mention("WORK", (self.full_name(name).core)),
            Mention("WORK", (name, pick(rng, lexicon.TITLE_FORMS))),
            Mention("WORK", (*lexicon.words(pick(rng, lexicon.TITLE_GERUNDS)), pick(rng, lexicon.TITLE_PLURALS))),
            Mention("WORK", (*lexicon.words(pick(rng, lexicon.TITLE_OF_PERSON)), self.full_name(name))),
            Mention("WORK", (*lexicon.words(pick(rng, lexicon.TITLE_OF_PLACE)), Mention("LOC", (name,)))),
            Mention("WORK", (*lexicon.words(pick(rng, lexicon.TITLE_OF_EVENT)), self.past_event(name))),
            with_article("WORK", (pick(rng, lexicon.TITLE_ADJECTIVES), pick(rng, lexicon.TITLE_NOUNS))),
            with_article("WORK", (pick(rng, lexicon.TITLE_NOUNS), "of", pick(rng, lexicon.TITLE_PLURALS))),
        ]
        form = pick(rng, titles)
        return Character("WORK", name, [(form,)], [(form,)])

    def past_event(self, name: str) -> Mention:
        """A battle or a congress at a place."""
        return with_article(
            "EVENT", (*lexicon.words(pick(self.rng, lexicon.PAST_EVENTS)), "of", Mention("LOC", (name,)))
        )

    def event(self) -> Character:
        """A race, festival, battle ..., named after a place, a club, a person or nothing."""
        rng = self.rng
        name = self.name()
        town = Mention("LOC", (name,))
        club = Mention("ORG", (town, *lexicon.words(pick(rng, lexicon.TOWN_BODIES))))
        fund = Mention("ORG", (self.full_name(name), *lexicon.words(pick(rng, lexicon.PERSON_BODIES))))
        firm = Mention("ORG", (name, pick(rng, lexicon.COMPANY_WORDS)))
        cores: list[Phrase] = [
            (town, *lexicon.words(pick(rng, lexicon.TOWN_EVENTS))),
            (pick(rng, (club, club, fund, firm)), pick(rng, lexicon.CLUB_EVENTS)),
            (self.full_name(name), *lexicon.words(pick(rng, lexicon.PERSON_EVENTS))),
            (name, *lexicon.words(pick(rng, lexicon.THEME_EVENTS))),
        ]
        form = with_article("EVENT", pick(rng, cores))
        return Character("EVENT", name, [(form,)], [(form,), (form,), (Mention("EVENT", form.core),)])

    def storm(self) -> Character:
        """A storm, called by its name alone after the first time."""
        name = self.name()
        full, plain = Mention("EVENT", (pick(self.rng, lexicon.STORM_HEADS), name)), Mention("EVENT", (name,))
        return Character("STORM", name, [(full,), (full,), (plain,)], [(plain,)])

    def modified(self, slot: str, owner: Character, label: str, bare_label: str) -> Character:
        """The modifier construction over the name of another character."""
        core: Phrase = (owner.name,)
        form = owner.later[0][0]
        if slot == "SERIES" and isinstance(form, Mention) and all(isinstance(part, str) for part in form.core):
            core = form.core
        noun = (pick(self.rng, lexicon.MODIFIER_NOUNS[slot]),)
        mention = Mention(label, core, after=noun, after_kind="modifier", bare_label=bare_label)
        prelude = lexicon.words(pick(self.rng, lexicon.MODIFIER_PRELUDES[slot]))
        return Character(slot, owner.name, [(*prelude, mention)], [(*prelude, mention)])
