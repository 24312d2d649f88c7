"""Named entities by an exported graph, with onnxruntime, tokenizers and numpy alone.

    from ort_span_ner import SpanNER

    ner = SpanNER("FOLDER")
    ner(["Ana met Bo in Oslo."])

The file lies in each exported folder, put together from the package's own source: words, windows, merging, overlaps and
calibration are those of its pipeline.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from hf_spanner.core.calibration import applied_calibration
from hf_spanner.core.features import BackendWordTokenizer, TokenRules
from hf_spanner.core.prediction import WindowReader, graph_tables, named_entities, predicted_spans
from hf_spanner.core.words import split_words, surface_offsets


class SpanNER:
    """The exported model of a folder.

    Args:
        folder: The folder.
        num_threads: Threads of the graph; 0 is one for each core.
    """

    def __init__(self, folder: str | Path, num_threads: int = 0) -> None:
        folder = Path(folder)
        self.config, facts = (
            json.loads((folder / name).read_text(encoding="utf-8")) for name in ("config.json", "span_ner_graph.json")
        )
        tokenizer = BackendWordTokenizer(
            Tokenizer.from_file(str(folder / "tokenizer.json")),
            TokenRules(**facts["token_rules"]),
            self.config["window_overlap"],
            self.config["word_features"],
        )
        self.reader = WindowReader(
            tokenizer, self.config["window_size"], self.config["window_overlap"], self.config["context_sentences"]
        )
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read at import; it would tell its maker of its use
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.enable_mem_pattern = False  # it would keep a plan for each size of a batch, and few sizes come twice
        options.intra_op_num_threads = num_threads
        path = folder / Path(facts["files"][0]).name  # never of another folder
        slower = ["SkipLayerNormFusion"]  # one node for a sum and its norm takes longer than the two
        self.session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"], disabled_optimizers=slower
        )
        self.inputs = [entry.name for entry in self.session.get_inputs()]

    def __call__(
        self,
        texts: Sequence[Any],
        *,
        pretokenized: bool = False,
        documents: Sequence[str | None] | None = None,
        threshold: float | dict[str, float] | None = None,
        overlap: str | None = None,
        batch_size: int = 32,
    ) -> list[list[dict[str, Any]]]:
        """Entities of each text, as the pipeline gives them.

        Args:
            texts: Texts, or with `pretokenized` lists of words.
            pretokenized: Whether they are lists of words.
            documents: The document of each text, for a model that reads neighbouring sentences.
            threshold: Lowest score of an entity, also by label; None is the model's own.
            overlap: `flat`, `nested` or `any`; None is the model's own.
            batch_size: Windows run through the graph at once.

        Returns:
            For each text its entities by start, longer first.

        Raises:
            TypeError: If a text stands where a list of texts or of words is asked for.
            ValueError: If there are not as many documents as texts, or a threshold by label does not name each.
        """
        self._check(texts, pretokenized, documents, threshold)
        if pretokenized:
            words = [list(text) for text in texts]
            offsets, surfaces = [surface_offsets(text) for text in words], [" ".join(text) for text in words]
        else:
            surfaces = list(texts)
            offsets = [split_words(text, split_hyphens=self.config["split_hyphens"]) for text in surfaces]
            words = [[text[a:b] for a, b in spans] for text, spans in zip(surfaces, offsets, strict=True)]
        settings = self.settings()
        spans = predicted_spans(
            self.reader.texts(words, documents),
            self.candidates,
            reader=self.reader,
            settings=settings,
            decoding={
                "threshold": self.config["threshold"] if threshold is None else threshold,
                "overlap": self.config["overlap"] if overlap is None else overlap,
            },
            batch_size=batch_size,
        )
        return [
            named_entities(surface, places, text_spans, settings["id2label"])
            for surface, places, text_spans in zip(surfaces, offsets, spans, strict=True)
        ]

    def _check(self, texts: Sequence[Any], pretokenized: bool, documents: Any, threshold: Any) -> None:
        """Refuse arguments that would be misread."""
        if isinstance(texts, str) or (pretokenized and any(isinstance(text, str) for text in texts)):
            raise TypeError(
                f"texts must be a list of {'lists of words' if pretokenized else 'texts'}, got {texts!r:.80}"
            )
        if documents is not None and len(documents) != len(texts):
            raise ValueError(f"documents must be one for each of {len(texts)} texts, got {len(documents)}")
        labels = set(self.config["id2label"].values())
        if isinstance(threshold, dict) and set(threshold) != labels:
            raise ValueError(f"threshold must be a number or name each of {sorted(labels)}, got {threshold}")

    def settings(self) -> dict[str, Any]:
        """What merging needs of the configuration."""
        calibration = applied_calibration(self.config["calibration"], self.config["temperature"])
        id2label = {int(index): label for index, label in self.config["id2label"].items()}
        return {"id2label": id2label, "multi_label": self.config["multi_label"], "calibration": calibration}

    def candidates(self, batch: dict[str, np.ndarray]) -> list[np.ndarray]:
        """A table of candidates for each window of a batch."""
        return graph_tables(
            lambda part: np.asarray(self.session.run(None, {name: part[name] for name in self.inputs})[0]), batch
        )
