"""What a field of a configuration may hold: its annotation says it once, and every value that is set is checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from inspect import get_annotations
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

MAX_SIZE = 65_536


@dataclass(frozen=True)
class Interval:
    """Range of a number; `excludes_...` opens an end. NaN lies in none."""

    lowest: float
    highest: float
    excludes_lowest: bool = False
    excludes_highest: bool = False

    def admits(self, value: float) -> bool:
        """Whether the number lies in the range."""
        above = value > self.lowest if self.excludes_lowest else value >= self.lowest
        return above and (value < self.highest if self.excludes_highest else value <= self.highest)

    def __str__(self) -> str:
        """The range in words, after those of the type."""
        left, right = "(" if self.excludes_lowest else "[", ")" if self.excludes_highest else "]"
        return f"in {left}{self.lowest}, {self.highest}{right}"


Size = Annotated[int, Interval(1, MAX_SIZE)]
SizeOrOff = Annotated[int, Interval(0, MAX_SIZE)]
LSTMLayers = Annotated[int, Interval(0, 16)]
Rate = Annotated[float, Interval(0, 1, excludes_highest=True)]
Probability = Annotated[float, Interval(0, 1)]
ProbabilityByLabel = Probability | dict[str, Probability]
LossWeight = Annotated[float, Interval(0, 1_000)]
Pooling = Literal["mean", "max", "first"]
Overlap = Literal["flat", "nested", "any"]


class CheckedFields:
    """A base that checks every annotated field of its subclasses when it is set: in the constructor and afterwards.

    A field is annotated with a type, a `Literal`, or `Annotated` with a type and a rule: an object that says by
    `admits(value)` whether it takes a value of the type, and by `str` what it takes. A field of type `Any` is free.
    A subclass that changes a default repeats the annotation.
    """

    field_rules: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Collect the annotations of the fields, once the class is a dataclass."""
        super().__init_subclass__(**kwargs)
        names = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        annotations = {name: kind for name, kind in get_annotations(cls, eval_str=True).items() if name in names}
        cls.field_rules = {name: kind for name, kind in (cls.field_rules | annotations).items() if kind is not Any}

    def __setattr__(self, name: str, value: object) -> None:
        """Set a value, if it is a field's and allowed."""
        if name in self.field_rules:
            self.check_field(name, value)
        super().__setattr__(name, value)

    @classmethod
    def check_field(cls, name: str, value: object) -> None:
        """Raise a ValueError that names field, value and what is allowed, unless the value is allowed."""
        kind = cls.field_rules[name]
        if not admits(kind, value):
            raise ValueError(f"{name} must be {in_words(kind)}, got {value!r}")


def admits(kind: Any, value: object) -> bool:
    """Whether a value is of an annotated type and keeps its rule; a truth value is never a number."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return admits(parts[0], value) and parts[1].admits(value)
    if origin in (Union, UnionType):
        return any(admits(part, value) for part in parts)
    if origin is Literal:
        return any(value == allowed and type(value) is type(allowed) for allowed in parts)
    if origin is dict:
        return isinstance(value, Mapping) and all(
            admits(parts[0], key) and admits(parts[1], item) for key, item in value.items()
        )
    if origin is Sequence:
        return isinstance(value, list | tuple) and all(admits(parts[0], item) for item in value)
    if isinstance(value, bool) and kind in (int, float):
        return False
    return kind is Any or isinstance(value, (int, float) if kind is float else kind)


def in_words(kind: Any) -> str:
    """What an annotation allows, for messages."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return f"{in_words(parts[0])} {parts[1]}"
    if origin in (Union, UnionType):
        return ", or ".join(map(in_words, parts))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, parts))
    if origin is dict:
        return "a mapping" if parts[1] is Any else "one for each label"
    if origin is Sequence:
        return f"a list, each {in_words(parts[0])}"
    return WORDS[kind]


def numbered_labels(labels: Sequence[str]) -> dict[int, str]:
    """Label names by their index.

    Raises:
        ValueError: If they are a text, whose letters would become labels.
    """
    if isinstance(labels, str | bytes):
        raise ValueError(f"labels must be a list of names, such as [{labels!r}], got the text {labels!r}")
    return dict(enumerate(labels))


WORDS = {int: "an integer", float: "a number", str: "a text", bool: "one of False, True", NoneType: "None"}
