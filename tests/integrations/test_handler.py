"""The handler of inference endpoints."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from bare_process import BareProcess

from hf_spanner import SpanNERPipeline
from hf_spanner.integrations import handler

TEXTS = ["Ana met Bo in Oslo .", "The University of New York opened"]


@pytest.fixture(scope="module")
def repository(random_tagger: Callable[..., SpanNERPipeline], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model with the handler beside it."""
    folder = tmp_path_factory.mktemp("repository")
    random_tagger("boundary_smoothing").save_pretrained(folder)
    shutil.copyfile(str(handler.__file__), folder / "handler.py")
    return folder


def test_requests_are_answered_as_by_the_pipeline(
    repository: Path, random_tagger: Callable[..., SpanNERPipeline]
) -> None:
    answers = handler.EndpointHandler(str(repository))
    ner = random_tagger("boundary_smoothing")
    assert answers({"inputs": TEXTS[0]}) == ner(TEXTS[0])
    assert answers({"inputs": TEXTS, "parameters": {"overlap": "nested"}}) == ner(TEXTS, overlap="nested")
    assert answers({"inputs": [["Ana"]], "parameters": {"pretokenized": True}}) == ner([["Ana"]], pretokenized=True)
    with pytest.raises(ValueError, match="threshold must be"):
        answers({"inputs": "Ana", "parameters": {"threshold": 2}})


def test_an_endpoint_needs_no_other_file_of_the_package(repository: Path, bare_process: BareProcess) -> None:
    program = (
        "import sys\nsys.path.insert(0, sys.argv[1])\nfrom handler import EndpointHandler\n"
        f"print(len(EndpointHandler(sys.argv[1])({{'inputs': {TEXTS!r}}})))"
    )
    assert bare_process.run(program, str(repository), cwd=repository).strip().endswith("2")
