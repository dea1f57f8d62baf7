# A fresh machine needs two commands: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test lint types generated bench soak clean

help:
	@echo "make demo    audit handwritten digits: defences, attacks, report.html in demo/ (no network after set-up)"
	@echo "make test    lint, types and tests"
	@echo "make lint    ruff: rules and format"
	@echo "make types   mypy, strict"
	@echo "make generated   write again what follows from the code: type stubs, the layer table, reference pages"
	@echo "make bench   speed, as a ratio to a plain PyTorch loop"
	@echo "make soak    real parties killed and stopped at random moments, a few minutes; results/soak.csv"
	@echo "make clean   remove $(VENV), caches and demo/"
	@echo
	@echo "PYTHON=python3.12 make demo   chooses an interpreter (3.11 to 3.13) when $(VENV) is first made"

# torch and all else come at the versions of constraints.txt, from whatever index pip is set up to use.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Expected Python 3.11 or newer; choose one with PYTHON=python3.12 make ..." >&2; exit 1; }
	@test -x $(BIN)/python || { echo "creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing (once; PyTorch takes a few minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)
	@OMP_NUM_THREADS=1 $(BIN)/cutlayer audit --depth quick --out demo

test: lint types
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist worksteal

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(STAMP)
	$(BIN)/mypy

generated: $(STAMP)
	$(BIN)/python -m tests.contract.generate
	$(BIN)/python docs/generate.py

bench: $(STAMP)
	$(BIN)/cutlayer bench train

soak: $(STAMP)
	OMP_NUM_THREADS=1 nice $(BIN)/python tests/long/soak.py

clean:
	rm -rf $(VENV) demo build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
