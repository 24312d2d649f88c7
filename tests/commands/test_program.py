"""The program that calls the commands."""

from collections.abc import Callable

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
    assert "usage:" in capsys.readouterr().out


def test_an_unknown_command_is_refused_by_name(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        dispatcher.main(["trian"])
    assert "trian" in capsys.readouterr().err
