"""The program that calls the commands."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hf_spanner.commands import program as dispatcher


@pytest.mark.parametrize("command", dispatcher.COMMANDS)
def test_every_command_has_a_main_that_explains_itself(
    command: str, program: Callable, capsys: pytest.CaptureFixture
) -> None:
    assert callable(program(command).main)
    with pytest.raises(SystemExit) as stopped:
        dispatcher.main([command, "--help"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert f"usage: hf-spanner {command} " in printed
    assert str(program(command).__doc__).splitlines()[0] in printed


def test_an_unknown_command_is_refused_by_name(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        dispatcher.main(["trian"])
    assert "trian" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "no_such_recipe.yaml"], "hf-spanner train: error: [Errno 2] No such file or directory: "),
        (["train", "training.sed=7"], "hf-spanner train: error: "),
        (["evaluate", "no_such_folder", "rows.jsonl"], "hf-spanner evaluate: error: "),
    ],
)
def test_what_was_given_wrongly_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit) as stopped:
        dispatcher.main(arguments)
    printed = capsys.readouterr().err
    assert stopped.value.code == 2
    assert printed.startswith(message)
    assert printed.count("\n") == 1


def test_half_a_file_of_weights_is_refused_by_its_folder(
    saved_model: Path, tiny_encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    train = f"train encoder={tmp_path} model.num_encoder_layers=1 training.output_dir={tmp_path}"
    for source, command in ((saved_model, f"predict {tmp_path} a.txt"), (tiny_encoder, train)):
        shutil.copytree(source, tmp_path, dirs_exist_ok=True)
        os.truncate(tmp_path / "model.safetensors", 9000)
        with pytest.raises(SystemExit):
            dispatcher.main(command.split())
        assert re.search(
            rf"error: .* (model\.safetensors of|loading the encoder) {tmp_path}\n$", capsys.readouterr().err
        )


def test_a_traceback_is_shown_on_request() -> None:
    with pytest.raises(ValueError, match=r"unknown key training\.sed"):
        dispatcher.main(["--traceback", "train", "training.sed=7"])


def test_python_code_sees_the_exception(program: Callable) -> None:
    with pytest.raises(ValueError, match=r"unknown key training\.sed"):
        program("train").main(["training.sed=7"])


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (TypeError("a number is needed,\n  got a list"), "a number is needed, got a list"),
        (ModuleNotFoundError("", name="matplotlib"), "matplotlib is not installed; pip install 'hf_spanner[plots]'"),
        (ModuleNotFoundError("", name="ray"), "ray is not installed; pip install 'hf_spanner[ray]'"),
        (ImportError("exported for ONNX Runtime, which is not installed"), "exported for ONNX Runtime, which is not"),
    ],
)
def test_errors_of_other_kinds_that_a_user_can_mend(
    error: Exception, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def failing(name: str) -> None:
        raise error

    monkeypatch.setattr(dispatcher, "import_module", failing)
    with pytest.raises(SystemExit):
        dispatcher.main(["analyze"])
    assert capsys.readouterr().err.startswith(f"hf-spanner analyze: error: {message}")


def test_an_error_of_our_own_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(name: str) -> None:
        raise ModuleNotFoundError(name="hf_spanner.no_such_module")

    monkeypatch.setattr(dispatcher, "import_module", failing)
    with pytest.raises(ModuleNotFoundError):
        dispatcher.main(["analyze"])
