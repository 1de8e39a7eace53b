# `make run` and `make test` start from nothing but Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# modules are compiled when they are first imported, not all at once: installing takes a third less time
INSTALL := $(PIP) install -q --no-compile
export PYTHONDONTWRITEBYTECODE =
CONSTRAINTS := constraints.txt

.PHONY: run keys results check test nightly lint types docs bench proto dist wheelhouse clean
.DEFAULT_GOAL := run

$(VENV)/.base: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Consilium needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Set PYTHON=python3.11 and try again."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Consilium into $(VENV) (a minute the first time)"
	$(INSTALL) -c $(CONSTRAINTS) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@# torch first and alone: a build that satisfies the pin is then kept, and nothing bigger is fetched for others
	$(INSTALL) -c $(CONSTRAINTS) torch
	$(INSTALL) -c $(CONSTRAINTS) -e '.[dev]'
	@touch $@

run: $(VENV)/.base
	$(BIN)/consilium run $(ARGS)

# a module stays in one process, so what its tests share is made once, and the most expensive modules come first (see
# tests/conftest.py). Tests of whole deployments mostly wait, so two processors have work for three; WORKERS= is one.
WORKERS ?= -n 3 --dist loadfile --no-loadscope-reorder
# two threads of a library in each of three workers wait for each other most of the time
test nightly: export OMP_NUM_THREADS = 1
test nightly: export OPENBLAS_NUM_THREADS = 1
test nightly: export MKL_NUM_THREADS = 1

check: lint test

test: $(VENV)/.dev
	$(BIN)/python -m pytest $(WORKERS) -p tests.costs $(ARGS)

nightly: $(VENV)/.dev
	TESTS=whole $(BIN)/python -m pytest $(WORKERS) -m '' $(ARGS) && $(BIN)/python tools/faults.py

keys: $(VENV)/.dev
	@# the tables of keys in docs/, from the models
	$(BIN)/python -m docs.keys

results: $(VENV)/.dev
	@# what pages show of docs/results.json; a benchmark writes it with RECORD=1
	$(BIN)/python -m benchmarks.results $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python tools/house.py
	@$(MAKE) --no-print-directory -j2 types docs

types: $(VENV)/.dev
	$(BIN)/pyright
	$(BIN)/pyright -p tools/strict.json

docs: $(VENV)/.dev
	@# into site/; not --quiet, with which mkdocs counts no warnings and strict means nothing
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(ARGS)

proto: $(VENV)/.dev
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. consilium/protocol/labels/labels.proto

dist: $(VENV)/.dev
	@# wheel and source archive, and the wheel in an environment that has nothing else
	rm -rf dist && $(BIN)/python -m hatchling build -d dist
	bare=$$(mktemp -d) && $(PYTHON) -m venv $$bare/venv && cp constraints.txt dist/*.whl $$bare && cd $$bare && \
	for what in torch *.whl; do venv/bin/python -m pip --disable-pip-version-check install -q --no-compile -c constraints.txt $$what; done && \
	venv/bin/consilium run digits --out out && venv/bin/consilium audit out

wheelhouse:
	@# all that a node without internet installs from
	$(PYTHON) tools/wheelhouse.py --out $(or $(OUT),wheelhouse) $(ARGS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache site
