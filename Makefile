# All targets use the environment of CONTRIBUTING.md; another one: make check PYTHON=path/to/python
PYTHON ?= .venv/bin/python

export HF_HUB_OFFLINE = 1

.PHONY: check lint types test fuzz test-slow test-library test-devices test-lowest test-newest checkpoints audit format

check: lint types test

lint:
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m bandit -q -c pyproject.toml -ll -r hf_spanner recipes benchmarks

types:
	$(PYTHON) -m pyright --pythonpath $(PYTHON)

test:
	$(PYTHON) -m pytest -q -m "not slow"

# The property tests with many random examples in place of the few fixed ones; less: make fuzz FUZZ_EXAMPLES=200
fuzz:
	HYPOTHESIS_PROFILE=fuzz $(PYTHON) -m pytest -q -m hypothesis --hypothesis-show-statistics

test-slow:
	$(PYTHON) -m pytest -q -m slow

# The tests that transformers runs over its own models, out of the source archive of the version that is installed.
test-library:
	rm -rf .library-tests
	$(PYTHON) -m pip download -q --no-deps --no-binary transformers -d .library-tests \
		transformers==$$($(PYTHON) -c "import importlib.metadata as m; print(m.version('transformers'))")
	tar -xzf .library-tests/transformers-*.tar.gz -C .library-tests --strip-components 1
	TRANSFORMERS_TESTS=.library-tests/tests $(PYTHON) -m pytest -q -rs -o addopts= -W ignore tests/library/common_tests.py

# Every method on an accelerator that is not there, with a torch built for one; several gigabytes.
test-devices:
	rm -rf .venv-devices
	python -m venv .venv-devices
	.venv-devices/bin/pip install -q -c constraints.txt -e . pytest hypothesis
	.venv-devices/bin/python -c "import torch; assert torch.backends.cuda.is_built(), torch.__version__"
	.venv-devices/bin/python -m pytest -q -rs tests/devices

# A fresh environment with the oldest versions that pyproject.toml allows; several gigabytes on Linux.
test-lowest:
	rm -rf .venv-lowest
	python -m venv .venv-lowest
	.venv-lowest/bin/pip install -q -c constraints-lowest.txt -e ".[quickstart,plots,test]"
	.venv-lowest/bin/python -m pytest -q -m "not slow"

# The same with the newest releases, whatever constraints.txt says.
test-newest:
	rm -rf .venv-newest
	python -m venv .venv-newest
	.venv-newest/bin/pip install -q -e ".[quickstart,plots,test]"
	.venv-newest/bin/pip list | grep -i -E "^(torch|transformers|datasets|huggingface_hub|tokenizers|safetensors) "
	.venv-newest/bin/python -m pytest -q -m "not slow"

# Adds those of this version that are not there yet: later versions are tested against these files.
checkpoints:
	PYTHONPATH=.:tests $(PYTHON) tests/reliability/make_checkpoints.py

# Known vulnerabilities of the versions in constraints.txt; asks a service on the network.
audit:
	rm -rf .venv-audit
	python -m venv .venv-audit
	.venv-audit/bin/pip install -q pip-audit
	.venv-audit/bin/pip-audit -r constraints.txt --no-deps --disable-pip

format:
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .
