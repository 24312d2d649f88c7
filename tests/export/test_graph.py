import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hf_spanner import METHODS, SpanNERModel, SpanNERPipeline
from hf_spanner.core.exported_model import ExportedModel
from hf_spanner.export.graph import HEADS, CandidateGraph

# Batches of other sizes than the example of the export: alone, with an empty text, long, and of equal lengths.
BATCHES = [
    [["Ana"]],
    [["Ana", "met", "Bo"], ["a"] * 40, []],
    [["word", "walking"] * 60, ["x"]],
    [["Bo", "Li"], ["New", "York"], ["a", "b"]],
]


def batch_of(ner: SpanNERPipeline, texts: list[list[str]]) -> dict[str, np.ndarray]:
    return ner.reader.batch([(text, text.windows[0]) for text in ner.reader.texts(texts)])


def assert_equal_candidates(ner: SpanNERPipeline, exported: ExportedModel) -> None:
    """Both give the same candidates, scores within 1e-5; some are found."""
    num_found = 0
    for texts in BATCHES:
        batch = batch_of(ner, texts)
        expected, found = ner.model.candidate_function()(batch), exported.candidate_function()(batch)
        assert len(expected) == len(found) == len(texts)
        for one, other in zip(expected, found, strict=True):
            one = one[one[:, 0] >= 0]
            one, other = (table[np.lexsort(table[:, 2::-1].T)] for table in (one, other))
            np.testing.assert_array_equal(one[:, :3], other[:, :3])
            np.testing.assert_allclose(one[:, 3], other[:, 3], atol=1e-5)
            num_found += len(one)
    assert num_found > (9 if ner.model.config.model_type == "diffusion_ner" else 50)


ALL_PARTS = {"position_range": 3, "type_reading": "pointed", "right_reads_left": True}  # of DiffusionNER
VARIANTS = [
    *[(method, "wordpiece", {}) for method in HEADS],
    ("boundary_smoothing", "bpe", {"lstm_layers": 2, "pooling": "first", "num_encoder_layers": 2}),
    ("boundary_smoothing", "unigram", {"lstm_layers": 0, "pooling": "max", "width_embedding_size": 0}),
    ("boundary_smoothing", "wordpiece", {"lstm_layers": 1, "word_features": "shapes"}),
    ("diffusion_ner", "wordpiece", {"num_steps": 1, **ALL_PARTS}),
    ("diffusion_ner", "wordpiece", {"num_steps": 3, "eta": 0.5, "num_draws": 2, "spans_per_word": 1.5, **ALL_PARTS}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "kind", "fields"), VARIANTS, ids=lambda value: str(value)[:24])
def test_a_graph_gives_the_candidates_of_the_model(
    method: str, kind: str, fields: dict[str, Any], exported: Callable[..., Any]
) -> None:
    """Whatever the numbers of texts, tokens and words are, with any tokenizer, pooling and number of BiLSTM layers."""
    made = exported(method, kind, tuple(fields.items()))
    assert_equal_candidates(made.weights, ExportedModel(made.weights.model.config, made.folder))


def test_a_method_without_a_graph_is_refused_by_name(tiny_model: Callable[..., SpanNERModel]) -> None:
    model = tiny_model()
    model.config.model_type = "own_method"
    with pytest.raises(ValueError, match=re.escape(f"a graph ({', '.join(HEADS)}), got own_method")):
        CandidateGraph(model)


@pytest.mark.parametrize("method", METHODS)
def test_the_model_itself_is_left_as_it_was(method: str, tiny_model: Callable[..., SpanNERModel]) -> None:
    model = tiny_model(method)
    before = {name: id(weight) for name, weight in model.state_dict(keep_vars=True).items()}
    modules = [vars(module).keys() for module in model.modules()]
    if method in HEADS:
        CandidateGraph(model)
    assert before == {name: id(weight) for name, weight in model.state_dict(keep_vars=True).items()}
    assert modules == [vars(module).keys() for module in model.modules()]
