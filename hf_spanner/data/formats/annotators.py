"""Several annotations of one text: whose is taken is a choice, and what is not taken is counted."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem
from hf_spanner.data.texts import TextEntity

FIRST, LAST, MAJORITY, PREDICTIONS = "first", "last", "majority", "predictions"
CHOICES = 'annotations that agree; annotator="first", "last", "majority" or one of these accepts the file'


class Annotation(NamedTuple):
    """One annotation of a text.

    Attributes:
        names: What its annotator is called, such as a number and a mail address; the first is for messages.
        entities: The entities.
    """

    names: Sequence[str]
    entities: Sequence[TextEntity]


def chosen_entities(annotations: Sequence[Annotation], place: str, reading: Reading) -> Sequence[TextEntity] | None:
    """The entities of a text that several people may have annotated, None if the text is dropped.

    Args:
        annotations: At least one.
        place: File and line, for messages.
        reading: Options, of which `annotator` says whose annotation is taken, and report.

    Raises:
        ValueError: Without a choice, if two annotations differ and `on_error` is "error".
    """
    choice = reading.options.annotator
    if choice == MAJORITY:
        return _majority(annotations, place, reading)
    if choice in (FIRST, LAST):
        taken = annotations[0 if choice == FIRST else -1]
    elif choice not in (None, PREDICTIONS):
        own = [annotation for annotation in annotations if str(choice) in annotation.names]
        if not own:
            reading.report.count("dropped, text without an annotation of the annotator asked for", place)
            reading.report.num_dropped_rows += 1
            return None
        taken = own[-1]
    else:
        taken = annotations[0]
        if any(_spans(annotation) != _spans(taken) for annotation in annotations):
            names = [annotation.names[0] for annotation in annotations]
            allowed = CHOICES if choice is None else "predictions that agree"
            reading.refuse_row(place, Problem("annotators", "annotators", names, allowed))
            return None
    for annotation in annotations:
        if annotation is not taken:
            reading.report.count("skipped, annotation of another annotator", f"{place}: {annotation.names[0]}")
    return taken.entities


def _majority(annotations: Sequence[Annotation], place: str, reading: Reading) -> list[TextEntity]:
    """The entities that more than half of the annotators have; the others are counted."""
    votes = Counter(span for annotation in annotations for span in _spans(annotation))
    entities = {_span(entity): entity for annotation in annotations for entity in annotation.entities}
    kept = []
    for span, entity in entities.items():
        if 2 * votes[span] > len(annotations):
            kept.append(entity)
        else:
            reading.report.count("dropped, entity of a minority of annotators", f"{place}: {span}")
    return kept


def _span(entity: TextEntity) -> tuple[object, object]:
    """What makes two entities equal; values are unchecked and may be of any type."""
    return repr(list(entity.fragments)), repr(entity.label)


def _spans(annotation: Annotation) -> set[tuple[object, object]]:
    """The entities of an annotation, for comparison."""
    return {_span(entity) for entity in annotation.entities}
