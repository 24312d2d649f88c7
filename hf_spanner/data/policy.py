"""What a user asks of a reader when the data is doubtful, and the count of what became of it."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, get_args

from hf_spanner.data.schema import Entity, Problem, sorted_entities
from hf_spanner.data.tags import AUTO, ROLES, SchemeGuess

logger = logging.getLogger(__name__)

OnError = Literal["error", "drop"]
IllFormed = Literal["error", "repair", "drop"]
Misaligned = Literal["error", "drop", "widen"]
Discontinuous = Literal["error", "split", "cover", "first", "drop"]
Delimiter = Literal["blank", "tab"]
Comments = Literal["auto", "skip", "keep"]
Words = Literal["split", "blanks"]

NUM_EXAMPLES = 3


class ReadChoices(TypedDict, total=False):
    """Choices of a reading, by name.

    Attributes:
        scheme: "IOB1", "IOB2", "IOBES", "BILOU" or "BMES"; "auto" takes what fits the first 1,000 sentences best. "IO",
            for labels without prefix as in Few-NERD, must be asked for: entities of one label that touch are one then.
        delimiter: "tab", with which words may hold blanks, or "blank"; None means "tab" for `.tsv`.
        token_column: Column of the word, from 0, negative from the last.
        tag_column: Column of the tag.
        on_error: "error" refuses malformed data; "drop" leaves out the entity, or the row where it cannot be read.
        ill_formed: Tags that do not fit their neighbours: "error" as `on_error` says, "repair" lets an orphan begin an
            entity, "drop" leaves out the entity.
        misaligned: Character spans that cut a word: "error" as `on_error` says, "drop", or "widen" to whole words.
        discontinuous: Entities in pieces: "error" as `on_error` says, "drop", "split" into one entity a piece, "cover"
            from the first to the last, or only the "first" piece.
        split_hyphens: For formats with raw text, as in `split_words`.
        comments: Lines of a column file with "#" at the head of a sentence: "auto" skips those that look like comments
            and are no word with a tag, "skip" all of them, "keep" none. What is skipped is counted.
        class_names: Names of the classes whose numbers stand in `ner_tags`, `tags` or `labels`, or as labels of
            `entities`, in the order of the numbers.
        words: Words of a raw text that comes without them: "split" as `split_words` does, or "blanks" for a text whose
            words are already parted by blanks, tabs and line ends.
        annotator: Whose annotation of a text is taken where several people annotated it: a name or number, "first",
            "last" or "majority"; "predictions" reads the pre-annotations of Label Studio's tasks. None takes
            annotations that agree and refuses those that differ.
        layer: The layer that holds the entities, where a file has several: `ents` or a key of `doc.spans` of spaCy, a
            span layer of WebAnno or UIMA, a labelling tag of Label Studio, a column or key of CoNLL-U.
    """

    scheme: str
    delimiter: Delimiter | None
    token_column: int
    tag_column: int
    on_error: OnError
    ill_formed: IllFormed
    misaligned: Misaligned
    discontinuous: Discontinuous
    split_hyphens: bool
    comments: Comments
    class_names: Sequence[str] | None
    words: Words
    annotator: str | None
    layer: str | None


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Choices of one reading, as in `ReadChoices`; `details` adds to rows what `read_rows` says of it."""

    scheme: str = AUTO
    delimiter: Delimiter | None = None
    token_column: int = 0
    tag_column: int = -1
    on_error: OnError = "error"
    ill_formed: IllFormed = "error"
    misaligned: Misaligned = "error"
    discontinuous: Discontinuous = "error"
    split_hyphens: bool = False
    comments: Comments = "auto"
    class_names: Sequence[str] | None = None
    words: Words = "split"
    annotator: str | None = None
    layer: str | None = None
    details: bool = False

    def __post_init__(self) -> None:
        """Refuse a choice that does not exist."""
        choices = {
            "scheme": (AUTO, *ROLES),
            "delimiter": (None, *get_args(Delimiter)),
            "on_error": get_args(OnError),
            "ill_formed": get_args(IllFormed),
            "misaligned": get_args(Misaligned),
            "discontinuous": get_args(Discontinuous),
            "comments": get_args(Comments),
            "words": get_args(Words),
        }
        values = vars(self)
        for name, allowed in choices.items():
            if values[name] not in allowed:
                raise ValueError(f"{name} must be one of {list(allowed)}, got {values[name]!r}")
        for name in ("token_column", "tag_column"):
            if type(values[name]) is not int:
                raise ValueError(f"{name} must be an integer, negative from the last column, got {values[name]!r}")
        for name in ("annotator", "layer"):
            if values[name] is not None and type(values[name]) not in (str, int):
                raise ValueError(f"{name} must be a name, got {values[name]!r}")
        if self.class_names is not None:
            names = self.class_names
            if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
                raise ValueError(f"class_names must be a list of names, in the order of the numbers, got {names!r}")
            object.__setattr__(self, "class_names", tuple(names))


@dataclass
class ReadReport:
    """What a reading has given, dropped and changed.

    Attributes:
        num_rows: Rows given.
        num_entities: Entities given.
        num_dropped_rows: Rows left out because they could not be read; each is among the counts, too.
        counts: How often something was dropped or changed, per reason.
        examples: The first few of each reason, with their places.
        schemes: Detected tag scheme of each source that asked for "auto".
        formats: Detected form of each source that is not one of ours, and what showed it.
    """

    num_rows: int = 0
    num_entities: int = 0
    num_dropped_rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    schemes: dict[str, SchemeGuess] = field(default_factory=dict)
    formats: dict[str, str] = field(default_factory=dict)

    def count(self, reason: str, example: str) -> None:
        """Count one case and keep it as an example if it is among the first."""
        self.counts[reason] += 1
        examples = self.examples.setdefault(reason, [])
        if len(examples) < NUM_EXAMPLES:
            examples.append(example)

    def __str__(self) -> str:
        """A line per reason, each with its first example."""
        dropped = f", {self.num_dropped_rows} rows dropped" if self.num_dropped_rows else ""
        lines = [f"{self.num_rows} rows, {self.num_entities} entities{dropped}"]
        lines += [f"read as {format} ({source})" for source, format in self.formats.items()]
        lines += [f"scheme {guess} ({source})" for source, guess in self.schemes.items()]
        lines += [f"{reason}: {count}, e.g. {self.examples[reason][0]}" for reason, count in self.counts.items()]
        return "\n  ".join(lines)


@dataclass(frozen=True)
class Reading:
    """One reading of a source: what was asked for and what became of it."""

    options: ReadOptions
    report: ReadReport

    def refuse(self, place: str, problem: Problem) -> None:
        """Raise for a malformed value, or count it where the user asked to drop such values.

        Args:
            place: File and line, or source and row.
            problem: What is wrong.

        Raises:
            ValueError: If `on_error` is "error".
        """
        message = f"{place}: {problem}"
        if self.options.on_error == "error":
            raise ValueError(message)
        self.report.count(f"dropped, {problem.reason}", message)

    def refuse_row(self, place: str, problem: Problem) -> None:
        """As `refuse`, for a problem that leaves the whole row out."""
        self.refuse(place, problem)
        self.report.num_dropped_rows += 1

    def count_skipped(self, record: Mapping[str, Any], kinds: Mapping[str, str], place: str) -> None:
        """Count the items of those fields of a record that hold no entities; what is no list is refused."""
        for name, kind in kinds.items():
            items = record.get(name) or []
            if not isinstance(items, list | tuple):
                self.refuse(place, Problem("type", name, items, "a list"))
                items = []
            for item in items:
                self.report.count(f"skipped, {kind}", f"{place}: {item}")

    def count_empty_words(self, words: Iterable[str], place: str) -> None:
        """Count the empty words of a row; they are kept."""
        for index, word in enumerate(words):
            if not word:
                self.report.count("kept, empty word", f"{place}: word {index}")

    def clean_label(self, label: str, place: str) -> str:
        """The label without blanks at its edges, which are counted."""
        stripped = label.strip()
        if stripped != label:
            self.report.count("changed, blanks at the edge of a label removed", f"{place}: {label!r}")
        return stripped

    def unique_entities(self, spans: Iterable[tuple[int, int, str]], place: str) -> list[Entity]:
        """Spans in output order; equal ones are given once and counted."""
        seen = set()
        for span in spans:
            if span in seen:
                self.report.count("dropped, repeated entity", f"{place}: {span}")
            seen.add(span)
        return sorted_entities(seen)
