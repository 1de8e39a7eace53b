# `make run` and `make test` start from nothing but Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CONSTRAINTS := constraints.txt

.PHONY: run keys results fast check test test-busy proofs lint types docs bench proto wheelhouse clean
.DEFAULT_GOAL := run

$(VENV)/.base: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Consilium needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Set PYTHON=python3.11 and try again."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Consilium into $(VENV) (a minute the first time)"
	$(PIP) install -q -c $(CONSTRAINTS) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@# torch first and alone: a build that satisfies the pin is then kept, and nothing bigger is fetched for others
	$(PIP) install -q -c $(CONSTRAINTS) torch
	$(PIP) install -q -c $(CONSTRAINTS) -e '.[dev]'
	@touch $@

run: $(VENV)/.base
	$(BIN)/consilium run $(ARGS)

# a module stays in one process, so what its tests share is made once, and the most expensive modules come first (see
# tests/conftest.py); WORKERS= runs all in one
SPREAD := --dist loadfile --no-loadscope-reorder
fast: WORKERS ?= -n 2 $(SPREAD)
# tests of whole deployments mostly wait, so two processors have work for three; each more imports all of it once more
test: WORKERS ?= -n 3 $(SPREAD)
# as the command line does: two threads of a library in each of three workers wait for each other most of the time
fast test proofs: export OMP_NUM_THREADS = 1
fast test proofs: export OPENBLAS_NUM_THREADS = 1
fast test proofs: export MKL_NUM_THREADS = 1
# compiled modules are kept: without them each worker and each started process spends seconds on it again
fast test proofs: export PYTHONDONTWRITEBYTECODE =
FAST := not (proofs or deploy or ray or slow or statistics or fuzz)

fast: $(VENV)/.dev
	@# minutes: every room, every golden value, one whole small run
	$(BIN)/python -m pytest $(WORKERS) -m '$(FAST)' $(ARGS)

check: lint fast

test: $(VENV)/.dev
	$(BIN)/python -m pytest $(WORKERS) -p tests.costs $(ARGS)

proofs: $(VENV)/.dev
	@# minutes each, one after the other
	TESTS=whole $(BIN)/python -m pytest -m proofs $(ARGS)

BUSY ?= 12
WAITING := tests/simulations/engines/test_local_engine.py tests/node/test_supervisor.py \
	tests/coordinator/deploy/test_gateway_limits.py \
	$(addprefix tests/coordinator/labels/,test_mutual_tls.py test_grpc.py test_reception.py)
test-busy: $(VENV)/.dev
	@# tests that wait for other processes, three times beside $(BUSY) that never rest: none may depend on the machine's speed
	@for i in $$(seq $(BUSY)); do nice $(BIN)/python -c 'while True: pass' & busy="$$busy $$!"; done; \
	trap "kill $$busy" EXIT; for i in 1 2 3; do $(BIN)/python -m pytest -q $(or $(ARGS),$(WAITING)) || exit 1; done

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

wheelhouse:
	@# all that a node without internet installs from
	$(PYTHON) tools/wheelhouse.py --out $(or $(OUT),wheelhouse) $(ARGS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache site
