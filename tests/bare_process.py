"""Programs run where hf_spanner cannot be imported, each in a process of its own.

Importing the libraries takes most of the time of such a program. So one process imports them once, without the package,
and forks for each program: what a program changes, imports or prints stays its own.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERVER = """
import json
import os
import sys
import traceback

sys.modules["hf_spanner"] = None  # any import of the package fails

import evaluate
import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoTokenizer, Trainer, pipeline

torch.set_num_threads(1)
for line in sys.stdin:
    program, arguments, folder, output = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        stream = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(stream, 1), os.dup2(stream, 2)
        sys.argv = ["program", *arguments]
        status = 1
        try:
            exec(compile(program, "program", "exec"), {"__name__": "__main__"})
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@dataclass
class BareProcess:
    """The process that forks for each program.

    Args:
        process: It reads programs from its standard input and answers with their exit codes.
        folder: Where their output is written.
    """

    process: subprocess.Popen
    folder: Path

    def run(self, program: str, *arguments: object, cwd: Path) -> str:
        """What a program printed; an AssertionError with its last lines unless it ended well."""
        output = self.folder / "output.txt"
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        job: list[Any] = [program, [str(argument) for argument in arguments], str(cwd), str(output)]
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        code = self.process.stdout.readline()
        assert code == "0\n", output.read_text(encoding="utf-8")[-3000:] if code else "the process has ended"
        return output.read_text(encoding="utf-8")


@contextmanager
def started(folder: Path) -> Iterator[BareProcess]:
    """The process, with all caches of the libraries in a folder and without a network."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HF_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1"}
    environment |= {"HF_MODULES_CACHE": str(folder / "modules"), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-I", "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment,
    ) as process:
        yield BareProcess(process, folder)
        assert process.stdin is not None
        process.stdin.close()
