"""Compares the head of a graph, run as it is, with the candidates of its model."""

from typing import Any

import numpy as np
import torch

from hf_spanner import SpanNERModel

# Words with a token of each sentence of a batch.
MASKS = [
    [[True]],
    [[True] * 9, [True] * 3 + [False] * 6, [False] * 9],
    [[True, False, True, True, True], [True] * 5],
    [[True] * 40],
]


@torch.no_grad()
def assert_equal_candidates(model: SpanNERModel, head: Any) -> None:
    """Both give the same candidates, those of the graph with repeats, whose highest score counts; within 1e-5."""
    num_found, settings = 0, model.decoding()
    graph_head = head(model, settings)
    for rows in MASKS:
        word_mask = torch.tensor(rows)
        generator = torch.Generator().manual_seed(len(rows[0]))
        num_types = model.config.num_labels if model.config.model_type == "bopn" else 0
        words = torch.randn(len(rows), num_types + len(rows[0]), model.word_encoder.output_size, generator=generator)
        columns = graph_head(words.clone(), word_mask)
        rows_found = torch.stack([column.double() for column in columns], dim=1).tolist()
        best = {tuple(row[:4]): row[4] for row in sorted(rows_found, key=lambda row: row[4])}
        found = np.array([(*place, score) for place, score in sorted(best.items())]).reshape(-1, 5)
        tables = model.candidate_spans(model.score_spans(words, word_mask, None, settings), settings).numpy()
        expected = np.array(
            [(place, *row) for place, table in enumerate(tables) for row in table.tolist() if row[0] >= 0]
        ).reshape(-1, 5)
        expected = expected[np.lexsort(expected[:, 3::-1].T)]
        np.testing.assert_array_equal(found[:, :4], expected[:, :4])
        np.testing.assert_allclose(found[:, 4], expected[:, 4], atol=1e-5)
        num_found += len(found)
    assert num_found > 20
