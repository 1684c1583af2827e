# Everything a newcomer needs is here. `make demo` and `make test` do all set-up themselves.
SHELL := /bin/bash
PY := .venv/bin/python
VENV_STAMP := .venv/.ready
DEMO := .demo

.PHONY: help setup demo demo-down test test-real lint types layers check bench golden lock lab-one lab-one-down lab-one-test clean

help: ## show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(VENV_STAMP) ## Debian packages and .venv

$(VENV_STAMP): requirements.lock pyproject.toml tools/setup.sh
	@tools/setup.sh demo

demo: setup ## discover a simulated fleet, place, create, run, show the map
	@VGPUMGR_DEMO_DIR=$(CURDIR)/$(DEMO) examples/demo/run.sh

demo-down: ## stop the demo's simulated fleet and forget it
	@VGPUMGR_DEMO_DIR=$(CURDIR)/$(DEMO) examples/demo/down.sh

test: setup ## the tests: unit, property, golden, contract, end to end; real libvirt and SSH where root
	@tools/setup.sh test
	@tools/test.sh

lint: setup ## ruff
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

types: setup ## mypy --strict
	.venv/bin/mypy

layers: setup ## import-linter: the rooms of docs/architecture.md
	.venv/bin/lint-imports

check: lint types layers ## lint, types, layers

bench: setup ## benchmarks, JSON on stdout
	@for b in benchmarks/*.py; do echo "== $$b" >&2; $(PY) $$b || exit 1; done

golden: setup ## rewrite golden files; review the diff
	VGPUMGR_REWRITE_GOLDEN=1 .venv/bin/pytest tests/golden tests/unit -q -k golden

lock: ## rewrite requirements.lock (needs uv)
	tools/lock.sh

lab-one: setup ## one lab host with real devices under software emulation
	@tools/setup.sh lab
	$(PY) tests/lab/lab.py up

lab-one-down: ## stop it
	$(PY) tests/lab/lab.py down

lab-one-test: lab-one ## the product against the lab host's real devices
	.venv/bin/pytest -m lab -n0 -q

clean: demo-down
	rm -rf .venv .demo
