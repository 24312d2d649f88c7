"""One graph from padded inputs to candidates, out of a model in torch."""

import logging
import warnings
from copy import deepcopy
from pathlib import Path

import torch
from torch import Tensor, nn

from hf_spanner.core.modeling_span_ner import SpanNERModel
from hf_spanner.core.prediction import TextReader
from hf_spanner.export.head_bopn import BOPNHead
from hf_spanner.export.head_boundary_smoothing import BoundarySmoothingHead
from hf_spanner.export.head_diffusion_ner import DiffusionNERHead
from hf_spanner.export.head_locate_and_label import LocateAndLabelHead
from hf_spanner.export.recurrence import GraphLSTM

HEADS = {
    "bopn": BOPNHead,
    "boundary_smoothing": BoundarySmoothingHead,
    "diffusion_ner": DiffusionNERHead,
    "locate_and_label": LocateAndLabelHead,
}
# What the first two dimensions of each input are; all of them are free in the graph.
DIMENSIONS = {
    "input_ids": ("batch", "tokens"),
    "attention_mask": ("batch", "tokens"),
    "word_index": ("batch", "tokens"),
    "word_mask": ("batch", "words"),
    "word_shapes": ("batch", "words"),
}
ATTENTION_OPSET = 23  # the first in which attention is one node
EXAMPLE = (["Ana", "met", "Bo", "in", "Oslo"], ["It", "rained"], ["Yes"])  # any words: their number must not matter


class CandidateGraph(nn.Module):
    """A model whose forward gives its candidates as one flat table, of operations that a graph can hold.

    Attributes:
        decoding: The settings of inference that act inside the graph, by name: the configuration's.

    Args:
        model: The model, which is copied.

    Raises:
        ValueError: If there is no graph for the method.
    """

    def __init__(self, model: SpanNERModel) -> None:
        super().__init__()
        method = model.config.model_type
        if method not in HEADS:
            raise ValueError(f"model must be of a method with a graph ({', '.join(HEADS)}), got {method}")
        self.model = deepcopy(model).float().eval()
        encoder = self.model.word_encoder
        if encoder.has_lstm:
            self.recurrence = GraphLSTM(encoder.lstm)
            encoder.recur = self.recurrence.forward  # type: ignore[method-assign]
        settings = model.decoding()
        self.head = HEADS[method](self.model, settings)
        self.decoding = {name: settings[name] for name in self.head.fixed}

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        word_index: Tensor,
        word_mask: Tensor,
        word_shapes: Tensor | None = None,
    ) -> Tensor:
        """(P, 5) float32 rows (sentence, start, end, label, score) of padded inputs, ordered by sentence."""
        encoded = self.model.encode(input_ids, attention_mask, word_index, word_mask, word_shapes=word_shapes)
        words = encoded.last_hidden_state
        sentence, *columns = self.head(words, word_mask)
        return torch.stack([sentence.float(), *(column.float() for column in columns)], dim=1)


def write_onnx(graph: CandidateGraph, reader: TextReader, path: Path) -> None:
    """Write a graph in the format of ONNX, free in the numbers of sentences, tokens and words.

    Args:
        graph: The graph.
        reader: What makes the model's batches.
        path: File to write; what does not fit into 2 GB is put beside it.
    """
    texts = reader.texts(EXAMPLE)
    batch = reader.batch([(text, text.windows[0]) for text in texts])
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it tells of optional packages that are not used
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the library about itself
        program = torch.onnx.export(
            graph.eval(),
            kwargs={name: torch.from_numpy(array) for name, array in batch.items()},
            dynamic_shapes={name: dict(enumerate(DIMENSIONS[name])) for name in batch},
            output_names=["candidates"],
            dynamo=True,
            verbose=False,
            opset_version=ATTENTION_OPSET,
        )
    assert program is not None
    program.save(path)
