# make demo   fit a first problem          make test      lint, types, tests
# make bench  odefit against its peers     make test-all  the slow tests as well
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test test-all lint types bench clean

demo: $(STAMP)
	@$(BIN)/odefit demo barnes

test: lint types
	$(BIN)/pytest -q -n 2 -m "not slow"

test-all: lint types
	$(BIN)/pytest -q -n 2

lint: $(STAMP)-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)-dev
	$(BIN)/basedpyright

bench: $(STAMP)-peers
	$(BIN)/python -m benchmarks.barnes
	$(BIN)/python -m benchmarks.peers
	$(BIN)/python -m benchmarks.stiff
	$(BIN)/python -m benchmarks.explicit
	$(BIN)/python -m benchmarks.dae

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

# Peers are optional and may change no package that odefit uses; one that cannot be installed is named by the bench.
$(STAMP)-peers: $(STAMP)-dev benchmarks/requirements.txt
	@command -v gfortran > /dev/null || if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo "installing gfortran (numbalsoda is built from source) ..."; \
	    (apt-get update && apt-get install -y gfortran cmake) > /dev/null 2>&1 || echo "gfortran could not be installed"; \
	else echo "no gfortran: numbalsoda will not be built"; fi
	@$(BIN)/python -m pip freeze --exclude-editable > .venv/.pins
	@sed -e 's/[[:space:]]*#.*//' -e '/^$$/d' benchmarks/requirements.txt | while read -r package; do \
	    echo "installing $$package into .venv ..."; \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check -c .venv/.pins "$$package" \
	        || echo "$$package could not be installed; the bench goes on without it"; \
	done
	@touch $@

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis
