"""What the shared tests must know of a method, from `tests/methods/<name>/facts.py`; no other test names a method."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from torch import Tensor

from hf_spanner import SpanNERModel, SpanNEROutput

METHODS_FOLDER = Path(__file__).parent / "methods"
SURE = 30.0  # a logit beside zeros; its probability is 1 in float32
PerfectScores = Callable[[SpanNERModel, Tensor, Tensor, Tensor], SpanNEROutput]


@dataclass(frozen=True, kw_only=True)
class MethodFacts:
    """What differs between methods in tests that run over all of them; `FACTS` of a method's `facts.py` is one.

    Attributes:
        tiny: Configuration fields of a model that is small, fast and learns soon.
        every_part: Further fields with which the head has all of its optional parts.
        talkative: Further fields with which an untrained model finds entities.
        whole_steps: Fields with which a training step does not depend on how its batch is cut, e.g. without sampling.
        short_training: Training arguments with which a run of a few steps trains every part of the model.
        none_bias: Parameter whose last entry, when lowered, makes an untrained model find entities.
        perfect_scores: From a model, words (B, N, H), their mask (B, N) and gold (B, G, 3) to the output whose
            candidates are the gold spans.
        checkpoint: Fields of the saved checkpoint that later versions must read.
        size_field: A field that gives the width of a layer of the head; None where no field does.
        max_mib: Memory of scores and loss of 512 words at the sizes of the paper, without gradients; with a margin.
        scores_every_span: Whether `logits` of the output has a row of label scores for each start and end.
        most_entities: Most entities that the tiny model can find in a sentence; None for all of them.
        two_labels: Fields with which one span may have two labels; None where none do.
        names_in_cases: Names of fields in the trouble cases, with the name that the method gives them.
    """

    tiny: Mapping[str, Any]
    every_part: Mapping[str, Any] = field(default_factory=dict)
    talkative: Mapping[str, Any] = field(default_factory=dict)
    whole_steps: Mapping[str, Any] = field(default_factory=dict)
    short_training: Mapping[str, Any] = field(default_factory=dict)
    none_bias: str
    perfect_scores: PerfectScores
    checkpoint: Mapping[str, Any]
    size_field: str | None = None
    max_mib: int
    scores_every_span: bool = False
    most_entities: int | None = None
    two_labels: Mapping[str, Any] | None = None
    names_in_cases: Mapping[str, str] = field(default_factory=dict)


@cache
def facts_of(method: str) -> MethodFacts:
    """The facts of a method, which the name of its folder leads to."""
    spec = spec_from_file_location(f"facts_of_{method}", METHODS_FOLDER / method / "facts.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FACTS
