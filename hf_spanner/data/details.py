"""What a row may keep beside its words: the raw text, where its words stand in it, and the scores of predictions."""

from collections.abc import Mapping
from typing import Any

from hf_spanner.core.words import trim_span
from hf_spanner.data.characters import SplitText
from hf_spanner.data.forms import stated_entities
from hf_spanner.data.offsets import Unit, offsets_of_words
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Row
from hf_spanner.data.texts import words_of


def add_record_details(row: Row, record: Mapping[str, Any], unit: Unit, place: str, reading: Reading) -> None:
    """Add to a row what its record says beside words and entities.

    Args:
        row: The row of the record.
        record: A record with `entities` or another form.
        unit: What its offsets count where it has both `text` and `tokens`.
        place: File and line, for the report.
        reading: Options and report.
    """
    text, split = record.get("text"), None
    if isinstance(text, str):
        has_words = record.get("tokens") is not None
        offsets = offsets_of_words(text, row["tokens"]) if has_words else words_of(text, reading.options)
        if offsets is None:
            reading.report.count("dropped, text whose words are not the tokens", place)
        else:
            split = SplitText(text, offsets)
            row["text"], row["offsets"] = text, list(offsets)
        unit = unit if has_words else "characters"
    scores = {}
    for entity in stated_entities(record, "entities") or ():
        score = entity.stated.get("score") if isinstance(entity.stated, Mapping) else None
        if entity.fields is None or not isinstance(score, int | float):
            continue
        start, end, label, _ = entity.fields
        if type(start) is not int or type(end) is not int or not isinstance(label, str):
            continue
        if unit == "characters" and split is not None:
            start, end = split.words_under(*trim_span(split.text, start, end))
        scores[start, end, label.strip()] = float(score)
    for item in row["entities"]:
        if (score := scores.get((item["start"], item["end"], item["label"]))) is not None:
            item["score"] = score
