"""The source beside the weights: what is written, and that it works where hf_spanner cannot be imported."""

import ast
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from bare_process import BareProcess
from tiny_training import with_loud_shapes
from transformers import AutoConfig, AutoModel, AutoTokenizer, pipeline

from hf_spanner import METHODS, SpanNERCollator, SpanNERModel, SpanNERPipeline
from hf_spanner.core.checkpoint_source import flat_sources, write_source

MODULE = "hf_spanner.methods.boundary_smoothing.modeling_boundary_smoothing"
TEXTS = ["Ana met Bo Li in Oslo .", "", "The University of New York opened .", " ".join(["Mira met Bo"] * 30)]
ROWS = [
    {"tokens": ["Ana", "met", "Bo", "Li", "in", "Oslo", "."], "entities": [{"start": 2, "end": 4, "label": "PER"}]},
    {"tokens": ["it", "rained", "all", "the", "way"], "entities": []},
    {"tokens": ["Oslo"], "entities": [{"start": 0, "end": 1, "label": "LOC"}]},
]
BARE_PROGRAM = """
import json
import sys

import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer, pipeline

folder, out, texts, *methods = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), *sys.argv[4:]
model = AutoModel.from_pretrained(folder, trust_remote_code=True)
tagger = pipeline("span-ner", model=folder, trust_remote_code=True)
answers = tagger(texts)
tagger.save_pretrained(out + "/of pipeline")
model.save_pretrained(out + "/of model")
AutoTokenizer.from_pretrained(folder).save_pretrained(out + "/of model")
AutoConfig.from_pretrained(out + "/of pipeline", trust_remote_code=True).save_pretrained(out + "/of pipeline")
again = pipeline(model=out + "/of pipeline", trust_remote_code=True)(texts)
batch = torch.load("batch.pt")
for method in methods:
    model = AutoModel.from_pretrained(f"methods/{method}", trust_remote_code=True).eval()
    with torch.no_grad():
        output = model(**batch)
    torch.save(model.candidate_spans(output, model.decoding()), f"{out}/{method}.pt")
    model.save_pretrained(f"{out}/{method}")
    model.config.save_pretrained(f"{out}/{method}")
    config = AutoConfig.from_pretrained(f"configurations/{method}", trust_remote_code=True)
    assert type(AutoModel.from_config(config, trust_remote_code=True)).__name__ == type(model).__name__
print("ANSWERS" + json.dumps([answers, again]))
"""


@pytest.fixture(scope="module")
def moved(
    encoder_folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, cases: Callable[[str], dict[str, Any]]
) -> SimpleNamespace:
    """A saved model without its encoder, in a folder with a blank and an umlaut in its path, and its answers before."""
    root = tmp_path_factory.mktemp("moved")
    encoder = shutil.copytree(encoder_folders["wordpiece"], root / "encoder")
    labels = cases("P-01")["input"]["labels"]
    settings = {"temperature": 1.7, "window_size": 30, "overlap": "nested", "affine_size": 8, "lstm_size": 8}
    model = METHODS["boundary_smoothing"].from_encoder(encoder, labels, **settings, word_features="shapes")
    model = with_loud_shapes(model.eval())
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    answers = SpanNERPipeline(model=model, tokenizer=tokenizer)(TEXTS)
    model.save_pretrained(root / "first")
    tokenizer.save_pretrained(root / "first")
    folder = root / "ein Ordner f\u00fcr Modelle" / "m\u00f6del 1.0"
    shutil.move(root / "first", folder)
    shutil.rmtree(encoder)
    return SimpleNamespace(folder=folder, answers=answers, root=root)


@pytest.fixture(scope="module")
def bare(
    moved: SimpleNamespace, tiny_model: Callable[..., SpanNERModel], tiny_encoder: Path, bare_process: BareProcess
) -> SimpleNamespace:
    """What a process without the package makes of the moved folder, and of a model of each method with a batch."""
    out = moved.root / "again"
    labels = {"LOC": 0, "ORG": 1, "PER": 2}
    batch = SpanNERCollator(AutoTokenizer.from_pretrained(tiny_encoder), labels, word_features="shapes")(ROWS)
    torch.save(batch, moved.root / "batch.pt")
    for method in METHODS:
        model = with_loud_shapes(tiny_model(method, word_features="shapes"))
        model.config.save_pretrained(moved.root / "configurations" / method)
        model.save_pretrained(moved.root / "methods" / method)
    printed = bare_process.run(BARE_PROGRAM, moved.folder, out, json.dumps(TEXTS), *METHODS, cwd=moved.root)
    answers, again = json.loads(printed.rpartition("ANSWERS")[2])
    return SimpleNamespace(out=out, answers=answers, again=again, batch=batch)


def assert_same_answers(answers: list[list[dict]], expected: list[list[dict]]) -> None:
    """Entities are equal, and scores to 1e-6, since memory alignment moves the last bit."""
    assert sum(map(len, expected)) > 3
    without_scores = [
        [[{**entity, "score": None} for entity in text] for text in texts] for texts in (answers, expected)
    ]
    assert without_scores[0] == without_scores[1]
    for entities, expected_entities in zip(answers, expected, strict=True):
        assert [entity["score"] for entity in entities] == pytest.approx(
            [entity["score"] for entity in expected_entities], abs=1e-6
        )


def test_bare_process_predicts_the_same(moved: SimpleNamespace, bare: SimpleNamespace) -> None:
    assert_same_answers(bare.answers, moved.answers)
    assert_same_answers(bare.again, moved.answers)


@pytest.mark.parametrize("name", ["of model", "of pipeline"])
def test_saved_again_from_a_bare_process_it_is_the_same_folder(
    name: str, moved: SimpleNamespace, bare: SimpleNamespace
) -> None:
    first, second = moved.folder, bare.out / name
    sources = sorted(path.name for path in first.glob("*.py"))
    assert sources == sorted(path.name for path in second.glob("*.py"))
    assert len(sources) > 8
    for source in [*sources, "model.safetensors", "tokenizer.json"]:
        assert (first / source).read_bytes() == (second / source).read_bytes(), source
    configs = [json.loads((folder / "config.json").read_text(encoding="utf-8")) for folder in (first, second)]
    assert configs[0] == configs[1]


@pytest.mark.parametrize("method", METHODS)
def test_a_bare_process_finds_the_same_spans_and_saves_the_same_folder(
    method: str, moved: SimpleNamespace, bare: SimpleNamespace
) -> None:
    """Scores are equal to the bit, and files to the byte."""
    folder = moved.root / "methods" / method
    loaded = AutoModel.from_pretrained(folder)
    packed = loaded.candidate_spans(loaded(**bare.batch), loaded.decoding())
    assert torch.equal(torch.load(bare.out / f"{method}.pt"), packed)
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {path.name: path.read_bytes() for path in (bare.out / method).iterdir()} == written
    assert f"modeling_{method}.py" in written
    assert not any(b"hf_spanner." in text for name, text in written.items() if name.endswith(".py"))


@pytest.mark.parametrize("method", METHODS)
def test_a_configuration_saved_alone_leaves_the_folder_whole(
    method: str, tiny_model: Callable[..., SpanNERModel], tmp_path: Path
) -> None:
    """A published folder stays equal to the byte but for the field that changed; an empty one gets all but weights."""
    tiny_model(method).save_pretrained(tmp_path / "published")
    before = {path.name: path.read_bytes() for path in (tmp_path / "published").iterdir()}
    config = AutoConfig.from_pretrained(tmp_path / "published")
    config.threshold = 0.4
    for folder in (tmp_path / "published", tmp_path / "empty"):
        config.save_pretrained(folder)
        after = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert before.keys() - after.keys() == ({"model.safetensors"} if folder.name == "empty" else set())
        assert {name for name in after if after[name] != before[name]} == {"config.json"}
        fields, earlier = (json.loads(files["config.json"]) for files in (after, before))
        assert fields.pop("threshold") == 0.4
        assert fields == {name: value for name, value in earlier.items() if name != "threshold"}


def test_no_path_of_the_machine_is_saved(moved: SimpleNamespace, bare: SimpleNamespace) -> None:
    for folder in (moved.folder, bare.out / "of model", bare.out / "of pipeline"):
        for path in folder.glob("*.json"):
            assert str(moved.root) not in path.read_text(encoding="utf-8"), path


def test_saved_again_by_the_pipeline_of_the_package_it_is_the_same_folder(
    moved: SimpleNamespace, tmp_path: Path
) -> None:
    """The library's `Pipeline.save_pretrained` would write an entry of its own for the pipeline."""
    tagger = pipeline("span-ner", model=str(moved.folder))
    tagger.save_pretrained(tmp_path)
    tagger.save_pretrained(tmp_path)
    configs = [json.loads((folder / "config.json").read_text(encoding="utf-8")) for folder in (moved.folder, tmp_path)]
    assert configs[0] == configs[1]
    for path in moved.folder.glob("*.py"):
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()
    assert type(AutoModel.from_pretrained(tmp_path)).__module__ == MODULE


@pytest.mark.parametrize("method", METHODS)
def test_written_source_imports_only_its_own_folder(
    method: str, tiny_model: Callable[..., SpanNERModel], tmp_path: Path
) -> None:
    """The loader follows nothing but `from .name import X`, so of our imports no other form may be left."""
    written = write_source(tiny_model(method).__module__, tmp_path)
    assert written == sorted(path.name for path in tmp_path.iterdir())
    for name in written:
        for node in ast.walk(ast.parse((tmp_path / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert all(alias.name.split(".")[0] != "hf_spanner" for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] != "hf_spanner"
                assert node.level == 0 or (node.level == 1 and f"{node.module}.py" in written)


def test_only_import_lines_are_changed(tmp_path: Path) -> None:
    write_source(MODULE, tmp_path)
    path = tmp_path / "modeling_boundary_smoothing.py"
    before = Path(sys.modules[MODULE].__file__).read_text(encoding="utf-8").splitlines()
    after = path.read_text(encoding="utf-8").splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) == 4
    assert all(old.startswith("from hf_spanner.") and new.startswith("from .") for old, new in changed)


def package(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, files: dict[str, str]) -> None:
    """An importable package with the given files."""
    for file, text in {"__init__.py": "", **files}.items():
        path = folder / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))


def test_a_name_imported_from_a_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"model.py": "from .inner import thing\n", "inner/__init__.py": "thing = 1\n"}
    package(tmp_path / "code", monkeypatch, "shipping_one", files)
    __import__("shipping_one.model")
    with pytest.raises(ValueError, match="shipping_one.inner is a package; import from the module that defines"):
        write_source("shipping_one.model", tmp_path)
    assert not list(tmp_path.glob("*.py"))


def test_two_files_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "model.py": "from .spans import a\nfrom shipping_two.inner.spans import b\n",
        "spans.py": "a = 1\n",
        "inner/__init__.py": "",
        "inner/spans.py": "b = 1\n",
    }
    package(tmp_path / "code", monkeypatch, "shipping_two", files)
    __import__("shipping_two.model")
    with pytest.raises(ValueError, match="would both be shipped as spans.py"):
        write_source("shipping_two.model", tmp_path)
    assert not list(tmp_path.glob("*.py"))


def test_imports_of_the_own_package_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "model.py": "from shipping_three.parts.first import (\n    a,\n    b,\n)\n",
        "parts/__init__.py": "",
        "parts/first.py": "from .second import b\n\na = 1\n",
        "parts/second.py": "b = 2\n",
    }
    package(tmp_path / "code", monkeypatch, "shipping_three", files)
    __import__("shipping_three.model")
    assert write_source("shipping_three.model", tmp_path) == ["first.py", "model.py", "second.py"]
    assert (tmp_path / "model.py").read_text(encoding="utf-8").startswith("from .first import (\n")
    assert (tmp_path / "first.py").read_text(encoding="utf-8").startswith("from .second import b\n")


def test_names_that_a_package_hands_on_come_from_the_module_that_defines_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "model.py": "from hf_spanner import SpanNEROutput, Span as S\nfrom shipping_four.handing import b as e\n",
        "handing/__init__.py": "from .first import a\nfrom shipping_four.handing.second import x as b\n",
        "handing/first.py": "a = 1\n",
        "handing/second.py": "x = 2\n",
    }
    package(tmp_path / "code", monkeypatch, "shipping_four", files)
    sources = flat_sources("shipping_four.model")
    assert sources["model.py"] == (
        "from .modeling_span_ner import SpanNEROutput\nfrom .spans import Span as S\nfrom .second import x as e\n"
    )
    assert {"second.py", "spans.py", "modeling_span_ner.py"} <= sources.keys()
    assert "first.py" not in sources


def test_brackets_comments_and_indents_around_handed_on_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head, tail = "if True:\n    ", "  # both\n"
    names = "from hf_spanner import (\n        Span,\n        SpanNERConfig as C,\n    )"
    package(tmp_path / "code", monkeypatch, "shipping_five", {"model.py": head + names + tail})
    flat = "from .spans import Span\n    from .configuration_span_ner import SpanNERConfig as C"
    assert flat_sources("shipping_five.model")["model.py"] == head + flat + tail


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("from hf_spanner import SpanNERTrainer", "hf_spanner.training.trainer is no part of a checkpoint"),
        ("from hf_spanner.methods.bopn import BOPNTrainer", "BOPNTrainer of .*trainer_bopn is no part of a checkpoint"),
        ("import hf_spanner", "in place of `import hf_spanner` write from ... import"),
        (
            "from hf_spanner.core import spans",
            "core is a package; import from the module that defines spans",
        ),
        ("from .inner.first import a", "in place of `from .inner.first import a` write the full name"),
    ],
)
def test_what_no_checkpoint_can_hold_is_refused(
    line: str, message: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"refused_{request.node.callspec.indices['line']}"
    files = {"model.py": f"if 1 == 2:\n    {line}\n", "inner/__init__.py": "", "inner/first.py": "a = 1\n"}
    package(tmp_path / "code", monkeypatch, name, files)
    with pytest.raises(ValueError, match=f"{name}.model cannot be shipped in a checkpoint: .*{message}"):
        flat_sources(f"{name}.model")


def test_a_class_of_a_notebook_a_script_or_a_function_is_refused_when_constructed(
    tiny_model: Callable[..., SpanNERModel],
) -> None:
    model = tiny_model()
    notebook_class = type("Own", (type(model),), {"__module__": "__main__"})
    with pytest.raises(ValueError, match="Own is defined in a notebook .* put it into a module"):
        notebook_class(model.config)

    class Inner(type(model)):
        pass

    with pytest.raises(ValueError, match="Inner must stand at the top level of its module"):
        Inner(model.config)
