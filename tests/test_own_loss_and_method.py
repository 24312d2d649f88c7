"""The page about an own loss and an own method: its blocks run one after the other, each as it says."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from bare_process import BareProcess
from transformers import AutoTokenizer

from hf_spanner import METHODS, SpanNERCollator, SpanNERModel

PAGE = Path(__file__).parent.parent / "docs" / "own_loss_and_method.md"
FILE = re.compile(r"# (\w+\.py)\n")
WITHOUT_PACKAGE = "# a process without hf_spanner\n"
ROW = {
    "tokens": ["Ana", "met", "Bo", "Li", "in", "Oslo", "."],
    "entities": [{"start": 0, "end": 1, "label": "PER"}, {"start": 2, "end": 4, "label": "PER"}],
}


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


def bare_blocks() -> list[str]:
    return [block for block in blocks() if block.startswith(WITHOUT_PACKAGE)]


@pytest.fixture(scope="module")
def done(
    tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory, bare_process: BareProcess
) -> Iterator[dict[str, Any]]:
    """The names that the page's blocks leave behind; its folders lie in `folder`."""
    folder = tmp_path_factory.mktemp("page")
    names = {"encoder": str(tiny_encoder), "train_rows": [ROW], "dev_rows": [ROW], "folder": folder}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        for block in blocks():
            if file := FILE.match(block):
                (folder / file[1]).write_text(block, encoding="utf-8")
            elif not block.startswith(WITHOUT_PACKAGE):
                exec(block, names)
        program = "".join(f"{block}print('MODULE', type(ner.model).__module__)\n" for block in bare_blocks())
        lines = [line for line in bare_process.run(program, cwd=folder).splitlines() if line.startswith("MODULE ")]
        names["modules"] = [module.rpartition(".")[2] for module in lines]
        yield names
        for module in ("focal", "width_spans"):
            del sys.modules[module]


def test_the_page_has_blocks_of_each_kind() -> None:
    assert [file[1] for file in map(FILE.match, blocks()) if file] == ["focal.py", "width_spans.py"]
    assert len(bare_blocks()) == 2


def test_source_of_the_own_classes_is_used_where_the_package_is_not_installed(done: dict[str, Any]) -> None:
    assert done["modules"] == ["focal", "width_spans"]


def test_both_ways_are_the_same_loss(done: dict[str, Any]) -> None:
    """The class's own loss and the function are compared on one output."""
    model = done["own"]
    batch = SpanNERCollator(AutoTokenizer.from_pretrained("by-class"), model.config.label2id)([ROW])
    output = model(**batch)
    torch.testing.assert_close(done["focal_loss"](output, batch["labels"]), output.loss)


def test_own_and_installed_class_load_the_same_weights(done: dict[str, Any]) -> None:
    own_model, installed_model = done["own"], done["installed"]
    assert type(own_model).__module__ == "focal"
    assert type(installed_model) is METHODS["boundary_smoothing"]
    assert all(map(torch.equal, own_model.state_dict().values(), installed_model.state_dict().values()))


def test_own_parts_are_logged_as_ratios(done: dict[str, Any]) -> None:
    state = (done["folder"] / "by-class").glob("checkpoint-*/trainer_state.json")
    assert '"gold_probability": 0.' in next(state).read_text(encoding="utf-8")


def test_what_trains_is_in_no_checkpoint(done: dict[str, Any]) -> None:
    for name in ("by-class", "own-method"):
        files = {path.name for path in (done["folder"] / name).glob("*.py")}
        assert "modeling_span_ner.py" in files
        assert not {"trainer.py", "collator.py", "trainer_boundary_smoothing.py"} & files
    assert isinstance(done["own"], SpanNERModel)
