"""Settings of inference after they were checked."""

from collections.abc import Iterator, Mapping
from typing import Any


class Decoding(Mapping[str, Any]):
    """Settings of inference by name, checked once by the configuration that they belong to, and immutable.

    `SpanNERConfig.decoding` makes them. Given back to the same configuration they are taken as they are, so that a
    corpus is read with one check.

    Args:
        values: Each decoding parameter of the method with its value.
        owner: The configuration that checked them.
    """

    def __init__(self, values: Mapping[str, Any], owner: object) -> None:
        self._values, self.owner = dict(values), owner

    def __getitem__(self, name: str) -> Any:
        """The value of a setting."""
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        """The names of the settings."""
        return iter(self._values)

    def __len__(self) -> int:
        """The number of settings."""
        return len(self._values)
