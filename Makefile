# Two commands do everything on a new machine with Python 3.11 or newer:
#   make demo    the main job on an example, with an embedded broker; needs no key
#   make test    all checks and all tests
# Everything is installed below .venv, from requirements/*.txt, where every file has its hash.

VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
SCAN := .venv-scan

# The newest of these that runs and is new enough; say `make PYTHON=...` for another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)

PIP = $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL_LOCKED = $(PIP) install --no-deps --require-hashes -r
# hatchling is in the lock, so that nothing unhashed is fetched to build the package.
INSTALL_MST = $(PIP) install --no-deps --no-build-isolation --editable .

# A virtual environment holds its own path: after the checkout was moved or copied it is made anew.
ifneq ($(shell cat $(VENV)/.place 2>/dev/null),$(CURDIR))
.PHONY: $(VENV)/.place
endif

# A file stays on one test process, so that its servers start once; tests/conftest.py says in which order files are taken.
# Tests of servers wait more than they compute: four processes keep two processors busy.
PYTEST = $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder
PARALLEL ?= 4
COMPILE = uv pip compile --universal --python-version 3.11 --generate-hashes --strip-extras --no-header \
	--no-emit-index-url --no-emit-find-links --quiet --upgrade
OURS = pyproject.toml --all-extras --group build

.DEFAULT_GOAL := help
.PHONY: help install demo check static test test-long lock bench bench-line docs scanners clean

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' Makefile

install: $(VENV)/.dev  ## make .venv with everything that development needs

demo: $(VENV)/.runtime  ## run the main job on an example (no key, under two minutes)
	$(BIN)/mst demo

check: static  ## quick: format, lint, types, imports, sizes, unit and property tests
	$(PYTEST) -q -n $(PARALLEL) -m "not slow and not server" tests/unit tests/property

static: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: static  ## the checks and all tests but the very long ones, real servers included
	$(PYTEST) -q -n $(PARALLEL) --durations 15 -m "not long"

test-long: $(VENV)/.dev  ## tests that take minutes each, or a machine of their own
	$(PYTEST) -q -m long

docs: $(VENV)/.dev  ## write the generated pages of docs/reference again
	$(BIN)/python scripts/cli_reference.py

lock:  ## choose versions again (needs uv on PATH)
	$(COMPILE) $(OURS) -o requirements/runtime.txt
	$(COMPILE) $(OURS) --group dev --group integration -c requirements/runtime.txt -o requirements/dev.txt
	$(COMPILE) --group bench -o requirements/bench.txt
	cd worker_images/agents && uv pip compile --python-version 3.11 --python-platform linux --generate-hashes --no-header \
		--no-annotate --no-emit-index-url --quiet --override without.txt requirements.in -o requirements.txt
	$(COMPILE) --group scan -o requirements/scan.txt

bench: $(VENV)/.dev $(BENCH)/.peers  ## measure speed and memory, beside other harnesses
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/overhead.py --peers $(BENCH)/bin/python
	$(BIN)/python benchmarks/workspace.py
	$(BIN)/python benchmarks/workspace.py --inspect $(BENCH)/bin/python
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/shard_latency.py
	$(BIN)/python benchmarks/fleet_overhead.py
	$(BIN)/python benchmarks/store.py

bench-line: $(VENV)/.dev  ## measure the store over a line of 1 Gbit/s; needs root
	$(BIN)/python benchmarks/store.py --line 1gbit --runs 100000x5000,5000x100000

scanners: $(SCAN)/.scanners  ## install what looks over infra/terraform; a test uses it when it is there

clean:  ## delete what these commands made; results of evals stay
	rm -rf $(VENV) $(BENCH) $(SCAN) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.place:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer with the venv module was found." \
		"Install one (on Debian: apt-get install python3 python3-venv) or say make PYTHON=..." >&2; exit 1; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	@printf '%s\n' "$(CURDIR)" > $@

$(VENV)/.runtime: $(VENV)/.place pyproject.toml requirements/runtime.txt
	$(INSTALL_LOCKED) requirements/runtime.txt
	$(INSTALL_MST)
	@touch $@

$(VENV)/.dev: $(VENV)/.place pyproject.toml requirements/dev.txt
	$(INSTALL_LOCKED) requirements/dev.txt
	$(INSTALL_MST)
	@touch $(VENV)/.runtime $@

$(BENCH)/.peers: requirements/bench.txt $(VENV)/.place
	rm -rf $(BENCH)
	$(BIN)/python -m venv $(BENCH)
	$(BENCH)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes -r requirements/bench.txt
	@touch $@

$(SCAN)/.scanners: requirements/scan.txt $(VENV)/.place
	rm -rf $(SCAN)
	$(BIN)/python -m venv $(SCAN)
	$(SCAN)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes -r requirements/scan.txt
	@touch $@
