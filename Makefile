# make demo   fit a first problem          make test      lint, types, tests
# make bench  odefit against SciPy         make test-all  the slow tests as well
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test test-all lint types bench clean

demo: $(STAMP)
	@$(BIN)/odefit demo barnes

test: lint types
	$(BIN)/pytest -q -m "not slow"

test-all: lint types
	$(BIN)/pytest -q

lint: $(STAMP)-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)-dev
	$(BIN)/basedpyright

bench: $(STAMP)-dev
	$(BIN)/python -m benchmarks.barnes

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("odefit needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing odefit into .venv ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(STAMP)-dev: $(STAMP)
	@echo "installing the developers' tools into .venv ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis
