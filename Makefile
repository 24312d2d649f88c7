# All targets use the environment of CONTRIBUTING.md; another one: make check PYTHON=path/to/python
PYTHON ?= .venv/bin/python

export HF_HUB_OFFLINE = 1

.PHONY: check lint types test fuzz test-slow test-lowest format

check: lint types test

lint:
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .

types:
	$(PYTHON) -m pyright --pythonpath $(PYTHON)

test:
	$(PYTHON) -m pytest -q -m "not slow"

# The property tests with many random examples in place of the few fixed ones; less: make fuzz FUZZ_EXAMPLES=200
fuzz:
	HYPOTHESIS_PROFILE=fuzz $(PYTHON) -m pytest -q -m hypothesis --hypothesis-show-statistics

test-slow:
	$(PYTHON) -m pytest -q -m slow

# A fresh environment with the oldest versions that pyproject.toml allows; several gigabytes on Linux.
test-lowest:
	rm -rf .venv-lowest
	python -m venv .venv-lowest
	.venv-lowest/bin/pip install -q -c constraints-lowest.txt -e ".[quickstart,plots,test]"
	.venv-lowest/bin/python -m pytest -q -m "not slow"

format:
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .
