# Two commands on a fresh machine: `make demo` (small install, no torch) and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test check docs clean

$(VENV)/demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	touch $@

$(VENV)/test: $(VENV)/demo
	$(PIP) -e ".[test]"
	touch $@

demo: $(VENV)/demo
	$(BIN)/smetric-gym compare experiment=demo

test: $(VENV)/test
	$(BIN)/python -m pytest

check: $(VENV)/test
	$(PIP) -e ".[dev]"
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/demo
	$(PIP) -e ".[docs]"
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean:
	rm -rf $(VENV) build dist *.egg-info outputs multirun docs/_build docs/generated
