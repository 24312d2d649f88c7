"""The common tests of the installed transformers, from its source archive, whose folder of tests is no package.

`make test-library` fetches the archive and sets TRANSFORMERS_TESTS. Three modules that the common tests import are not
in it. Those of exporters and of generation have tests of their own, which are not run here; the third has the fields of
all configurations, which the suite does not compare where a configuration holds another one.
"""

import os
import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import transformers

FOLDER = Path(os.environ["TRANSFORMERS_TESTS"])
PACKAGE = "transformers_tests"
ABSENT = {
    "exporters.test_export": {"ExportTesterMixin": type("ExportTesterMixin", (), {})},
    "generation.test_utils": {"GenerationTesterMixin": type("GenerationTesterMixin", (), {})},
    "utils.test_configuration_utils": {"config_common_kwargs": {}},
}


def module(name: str, **contents: object) -> None:
    """Put a module with these contents where an import finds it."""
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(contents)


module(PACKAGE, __path__=[str(FOLDER)])
for absent, contents in ABSENT.items():
    module(f"{PACKAGE}.{absent.partition('.')[0]}", __path__=[])
    module(f"{PACKAGE}.{absent}", **contents)
with patch("transformers.utils.direct_transformers_import", lambda path: transformers):
    from transformers_tests.test_configuration_common import ConfigTester
    from transformers_tests.test_modeling_common import ModelTesterMixin

__all__ = ["ConfigTester", "ModelTesterMixin"]
