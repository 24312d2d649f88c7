"""What each offset label of a BOPN model is worth alone (Tang et al. 2023, Table 5)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from hf_spanner.core.pipeline_span_ner import SpanNERPipeline
from hf_spanner.core.prediction import predicted_spans
from hf_spanner.core.spans import pack_candidates
from hf_spanner.methods.bopn.loss_bopn import cell_mask, offset_moves, offset_names
from hf_spanner.methods.bopn.votes_bopn import labelled_cells

Entity = tuple[int, int, int, str]  # row, start, end, type


def offset_label_scores(
    ner: SpanNERPipeline, rows: Iterable[Mapping[str, Any]], batch_size: int
) -> dict[str, dict[str, float]]:
    """Scores of each offset label, as if the entities that its cells point at were the whole answer.

    Args:
        ner: A pipeline with a BOPN model.
        rows: Rows with `tokens`, `entities` and, for context, `document`.
        batch_size: Windows run through the model at once.

    Returns:
        By the paper's name of the label, from the farthest before to the farthest after: `precision` and `recall`,
        `f1`, and the counts `num_gold` (the support: gold entities that have a cell with this label, which ends at the
        borders of the sentence and of the entity), `num_predicted` and `num_correct`.
    """
    rows = list(rows)
    max_offset = ner.model.config.max_offset
    predicted = entities_by_label(ner, rows, batch_size)
    gold = {
        (place, entity["start"], entity["end"], entity["label"])
        for place, row in enumerate(rows)
        for entity in row["entities"]
    }
    scores = {}
    moves = offset_moves(max_offset, torch.device("cpu"))[:-1].tolist()
    for name, (start_move, end_move) in zip(offset_names(max_offset)[:-1], moves, strict=True):
        num_gold = sum(
            0 <= start + start_move < end + end_move <= len(rows[place]["tokens"]) for place, start, end, _ in gold
        )
        num_predicted, num_correct = len(predicted[name]), len(predicted[name] & gold)
        scores[name] = {
            "precision": num_correct / max(num_predicted, 1),
            "recall": num_correct / max(num_gold, 1),
            "f1": 2 * num_correct / max(num_predicted + num_gold, 1),
            "num_gold": num_gold,
            "num_predicted": num_predicted,
            "num_correct": num_correct,
        }
    return scores


@torch.no_grad()
def entities_by_label(ner: SpanNERPipeline, rows: list[Mapping[str, Any]], batch_size: int) -> dict[str, set[Entity]]:
    """The entities that the cells of each offset label point at; windows are merged as for an answer.

    Each pair of an offset label and a type travels as a type of its own.
    """
    model, config = ner.model, ner.model.config
    names, types = offset_names(config.max_offset)[:-1], list(config.label2id)
    moves = offset_moves(config.max_offset, model.device)

    def candidates(batch: dict[str, np.ndarray]) -> np.ndarray:
        output = model(**{name: torch.from_numpy(array).to(model.device) for name, array in batch.items()})
        is_upper = cell_mask(output.word_mask, mask_lower=True)
        cells, labels = labelled_cells(output.logits.argmax(dim=-1), is_upper, config.max_offset, centres_only=False)
        starts, lasts = (cells[:, 1:3] - moves[labels]).unbind(dim=1)  # (P,) each
        pairs = labels * len(types) + cells[:, 3]
        packed = pack_candidates(cells[:, 0], starts, lasts + 1, pairs, torch.ones_like(pairs), len(is_upper))
        return packed.cpu().numpy()

    pairs = [(name, kind) for name in names for kind in types]
    texts = ner.reader.texts([row["tokens"] for row in rows], [row.get("document") for row in rows])
    spans = predicted_spans(
        texts,
        candidates,
        reader=ner.reader,
        settings={
            "id2label": {place: " ".join(pair) for place, pair in enumerate(pairs)},
            "multi_label": True,
            "calibration": None,
        },
        decoding={"overlap": "any", "threshold": 0.0},
        batch_size=batch_size,
    )
    entities: dict[str, set[Entity]] = defaultdict(set)
    for place, row_spans in enumerate(spans):
        for span in row_spans:
            name, kind = pairs[span.label]
            entities[name].add((place, span.start, span.end, kind))
    return entities
