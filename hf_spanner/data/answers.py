"""Records of texts or words, and the same records with the entities that a pipeline finds in them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hf_spanner.data.offsets import offsets_of_words
from hf_spanner.data.schema import Problem, words_problem

Record = dict[str, Any]


def record_problem(record: Mapping[str, Any]) -> Problem | None:
    """What is wrong with a record, or None: it must have `text` or `tokens`, or both where the words are the text's."""
    if not {"text", "tokens"} & record.keys():
        return Problem("type", "fields", sorted(record), "text or tokens")
    text, words = record.get("text", ""), record.get("tokens", [])
    if not isinstance(text, str):
        return Problem("type", "text", text, "a string")
    problem = words_problem(words)
    if problem is None and {"text", "tokens"} <= record.keys() and offsets_of_words(text, words) is None:
        problem = Problem("two truths", "text", text, f"a text of the words of tokens, {words[:8]}, or one of both")
    return problem


def answered_records(ner: Callable[..., Iterable[Any]], records: Sequence[Record]) -> list[Record]:
    """The records in their order, each with the entities found in it; neighbours of one document are context.

    Args:
        ner: A `SpanNERPipeline`.
        records: Records with `tokens` or else `text` and, for context, `document`.

    Returns:
        Records with `entities` (start, end, label, score, text; half-open in characters of the text or in words).
    """
    answers = {}
    for field, unit in (("text", ""), ("tokens", "word_")):
        places = [place for place, record in enumerate(records) if ("tokens" in record) == (field == "tokens")]
        given = ner(
            [records[place][field] for place in places],
            documents=[records[place].get("document") for place in places],
            pretokenized=field == "tokens",
        )
        answers |= {place: row_entities(entities, unit) for place, entities in zip(places, given, strict=True)}
    return [record | {"entities": answers[place]} for place, record in enumerate(records)]


def row_entities(entities: Iterable[Mapping[str, Any]], unit: str) -> list[Record]:
    """Entities as in a row of data, with their scores; `unit` is "word_" for offsets in words, or "" for characters.

    Those in characters say which words they are, too, by `word_start` and `word_end`.
    """
    return [
        {
            "start": entity[f"{unit}start"],
            "end": entity[f"{unit}end"],
            "label": entity["entity_group"],
            "score": entity["score"],
            "text": entity["word"],
        }
        | ({} if unit else {name: entity[name] for name in ("word_start", "word_end")})
        for entity in entities
    ]
