"""No case is forgotten: a test of this folder runs it, or skips it there with the reason."""

import ast
import gzip
import json
from pathlib import Path

FOLDER = Path(__file__).parent
CASES = FOLDER.parent / "fixtures" / "cases" / "cases.jsonl.gz"


def named_cases(path: Path) -> list[str]:
    """Ids that the tests of a file take by `parametrize("case", [...], indirect=True)`."""
    ids = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.parametrize":
            name, values, *_ = node.args
            ids += ast.literal_eval(values) if ast.literal_eval(name) == "case" else []
    return ids


def test_every_case_is_run() -> None:
    known = [json.loads(line)["id"] for line in gzip.decompress(CASES.read_bytes()).splitlines()]
    run = {case_id for path in FOLDER.glob("test_cases_*.py") for case_id in named_cases(path)}
    assert sorted(run) == sorted(known)
    assert len(known) == 42
