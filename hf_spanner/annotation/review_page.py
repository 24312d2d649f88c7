"""The page of a review: each suspect in its words, what is annotated above what is suggested."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hf_spanner.analysis.entity_view import EntityView
from hf_spanner.analysis.html_report import Example, Mark, Section, rendered_page
from hf_spanner.annotation.corrections import REACH, Decision, with_suggestions
from hf_spanner.annotation.noise import LabelNoise
from hf_spanner.annotation.suspects import KINDS

BANDS = (0.9, 0.7, 0.5, 0.3, 0.1, 0.0)  # lower ends of the parts of the page
MAX_SHOWN = 500


def review_page(
    records: Sequence[Decision], rows: Sequence[Mapping[str, Any]], noise: LabelNoise, facts: Mapping[str, str]
) -> str:
    """The page as HTML that asks for nothing over a network.

    Args:
        records: The suspects, the most probable first; the first 500 are shown.
        rows: The rows that were reviewed.
        noise: The noise of the annotation.
        facts: What else stands at the top, by name.
    """
    labels = sorted({entity["label"] for row in rows for entity in row["entities"]})
    shown = records[:MAX_SHOWN]
    expected = sum(record["probability"] for record in records)
    counts = Counter(record["kind"] for record in records)
    top = {
        **facts,
        "Suspects": f"{len(records):,}, of which the {len(shown):,} most probable are shown",
        "Expected to be wrong": f"{expected:.0f}",
        "Error rate": f"{noise.rate:.1%} of all entities left out or changed, which the probabilities rest on",
        "Kinds": ", ".join(f"{KINDS[kind]} {counts[kind]:,}" for kind in KINDS if counts[kind]),
    }
    sections = []
    for band, above in zip(BANDS, (1.01, *BANDS), strict=False):
        members = [record for record in shown if band <= record["probability"] < above]
        if members:
            title = f"{band:.0%} and more" if above > 1 else f"{band:.0%} to {above:.0%}"
            ranks = f"Ranks {members[0]['rank']} to {members[-1]['rank']}"
            examples = {ranks: [suspect_example(record, rows[record["row"]], labels) for record in members]}
            text = f"{len(members):,} places that are wrong with a probability of {title}."
            sections.append(Section(title, text, examples=examples))
    return rendered_page("Annotations to look at again", top, sections)


def suspect_example(record: Decision, row: Mapping[str, Any], labels: Sequence[str]) -> Example:
    """A suspect with the words around it: all that is annotated there, and the same with the suggestion."""
    suggested = with_suggestions({"entities": row["entities"]}, [record])
    first, end = _shown_words(record, [*row["entities"], *suggested], len(row["tokens"]))
    before, after = ["…"] if first else [], ["…"] if end < len(row["tokens"]) else []
    words = [*before, *row["tokens"][first:end], *after]
    shift = first - len(before)
    marks = []
    for side, entities in (("annotated", row["entities"]), ("suggested", suggested)):
        inside = [
            {**entity, "start": entity["start"] - shift, "end": entity["end"] - shift}
            for entity in entities
            if first <= entity["start"] and entity["end"] <= end
        ]
        marks.append(Mark(side, EntityView(words, inside, labels=labels)))
    name = f"row {record['row']}" if record["id"] is None else f"row {record['row']}, {record['id']}"
    place = f"{record['rank']}. {record['probability']:.2f} {KINDS[record['kind']]}; {name}"
    place += "" if record["elsewhere"] is None else f"; elsewhere {record['elsewhere']}"
    return Example(place, marks)


def _shown_words(record: Decision, entities: Sequence[Mapping[str, Any]], num_words: int) -> tuple[int, int]:
    """The words around a suspect, widened so that no entity is cut."""
    spans = [record[name] for name in ("annotated", "suggested") if record[name] is not None]
    first = max(0, min(span["start"] for span in spans) - REACH)
    end = min(num_words, max(span["end"] for span in spans) + REACH)
    while True:
        cut = [entity for entity in entities if entity["start"] < end and first < entity["end"]]
        wider = min([first, *(entity["start"] for entity in cut)]), max([end, *(entity["end"] for entity in cut)])
        if wider == (first, end):
            return wider
        first, end = wider
