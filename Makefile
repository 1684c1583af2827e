# Everything a newcomer needs is here. `make demo` and `make test` do all set-up themselves.
SHELL := /bin/bash
PY := .venv/bin/python
VENV_STAMP := .venv/.ready
DEMO := .demo
HOST := lab1
SELECT := lab and not faults

.PHONY: help setup demo demo-down monitoring-demo quick test test-thorough lint types layers house check bench bench-alerts bench-failure bench-placement bench-placement-full bench-power bench-placement-waiting bench-placement-mig bench-placement-vdi bench-placement-repack bench-placement-orders bench-placement-speed release-check golden lock lab-box lab-up lab-down lab-ssh lab-test faults faults-ci guards race soak faults-lab faults-hosts hostile api-test web-test hw-test clean

help: ## show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(VENV_STAMP) ## Debian packages and .venv

$(VENV_STAMP): requirements.lock pyproject.toml tools/setup.sh hatch_build.py vgpumgr/placement/scores/host_rating.c
	@tools/setup.sh demo

demo: setup ## discover a simulated fleet, place, create, run, show the map
	@VGPUMGR_DEMO_DIR=$(CURDIR)/$(DEMO) examples/demo/run.sh

monitoring-demo: setup ## the demo with Prometheus and Alertmanager over it, and a GPU that runs hot
	@tools/setup.sh monitoring
	@VGPUMGR_DEMO_DIR=$(CURDIR)/$(DEMO) $(PY) examples/monitoring/demo.py

demo-down: ## stop the demo's simulated fleet and forget it
	@VGPUMGR_DEMO_DIR=$(CURDIR)/$(DEMO) examples/demo/down.sh

quick: setup ## the inner loop, 20 s: ruff and the unit tests that matter for what has changed; ARGS="--base HEAD"
	@$(PY) -m tools.quick $(ARGS)

test: setup ## unit, contract and golden tests, the main line end to end; real libvirt and SSH where root
	@tools/setup.sh test
	@tools/test.sh "not thorough"

test-thorough: setup ## all other tests: every command and way, properties, crashes at every step, real hosts
	@tools/setup.sh test
	@tools/test.sh "thorough and not release"

lint: setup ## ruff; ansible-lint
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	cd host-setup && ANSIBLE_HOME="$(CURDIR)/.venv/ansible" PATH="$(CURDIR)/.venv/bin:$$PATH" ansible-lint -q

types: setup ## mypy --strict; tests and benchmarks: that what they use exists
	.venv/bin/mypy

layers: setup ## import-linter: the rooms of docs/architecture.md
	.venv/bin/lint-imports

house: setup ## how the code is cut into files, against its limits; ARGS="--profile" for what two requests enter
	@$(PY) -m tools.measure_house --check $(ARGS) $(TREE)

check: lint types layers ## lint, types, layers

bench: setup ## benchmarks, JSON on stdout
	@for b in benchmarks/*.py benchmarks/placement/mixed_fleet.py; do echo "== $$b" >&2; $(PY) $$b || exit 1; done

bench-placement: setup ## placement against its baselines and bounds on openb, 4 workloads x 5 seeds; build/placement
	$(PY) -m benchmarks.placement.suite --out build/placement $(ARGS)

bench-power: setup ## GPUs per kW of a rack: plan alone, no capping, the controller; ten minutes; ARGS="--hours 4"
	$(PY) -m benchmarks.power --json benchmarks/power/results/replay.json $(ARGS)

bench-alerts: setup ## 200 faults of a simulated fleet, each followed to the webhook of its alert; 40 minutes
	@tools/setup.sh monitoring
	$(PY) -m benchmarks.alert_run --json benchmarks/results/alert_run.json $(ARGS)

bench-failure: setup ## alarms of GPU failures on a time split; ARGS="--data DIR" for a trace, else a stand-in
	$(PY) -m benchmarks.failure $(ARGS)

bench-placement-full: setup ## the same over 12 workloads x 10 seeds; benchmarks/placement/results
	$(PY) -m benchmarks.placement.suite --full --out benchmarks/placement/results $(ARGS)

bench-placement-waiting: setup ## waiting time on replay, against FIFO and EASY; benchmarks/placement/results/waiting.json
	$(PY) -m benchmarks.placement.waiting --loads 0.8 0.95 1.1 --seeds 42-46 \
	  --json benchmarks/placement/results/waiting.json $(ARGS)

bench-placement-mig: setup ## a pool of 100 GPUs in MIG under arrivals and departures; build/placement
	$(PY) -m benchmarks.placement.mig --json build/placement/mig.json --report build/placement $(ARGS)
	$(PY) -m benchmarks.placement.mig_static --json build/placement/mig_static.json

bench-placement-vdi: setup ## desktops on 128 GPUs: one size per GPU, then mixed sizes; build/placement
	$(PY) -m benchmarks.placement.vdi --json build/placement/vdi.json --report build/placement $(ARGS)
	$(PY) -m benchmarks.placement.vdi_mixed --json build/placement/vdi_mixed.json --report build/placement $(ARGS)

bench-placement-repack: setup ## moves that empty GPUs beside the optimum, 210 fleets; benchmarks/placement/results
	$(PY) -m benchmarks.placement.repack --json benchmarks/placement/results/repack.json $(ARGS)

bench-placement-orders: setup ## orders placed as a whole, beside CP-SAT; benchmarks/placement/results
	$(PY) -m benchmarks.placement.orders --json benchmarks/placement/results/orders.json $(ARGS)

bench-placement-speed: setup ## decisions of every rule on 100 to 50,000 hosts, beside two rivals; build/placement
	$(PY) -m benchmarks.placement.speed --json build/placement/speed.json $(ARGS)

release-check: setup ## what is too long for every change, about three hours, as root: bare Debian 12 and 13, all kill points, guards, races, soak, hostile hosts
	@tools/setup.sh release
	@for release in 12 13; do tools/bare-check.sh $$release demo test || exit 1; done
	@tools/test.sh release
	@$(MAKE) faults guards race soak hostile

golden: setup ## rewrite golden files; review the diff
	VGPUMGR_REWRITE_GOLDEN=1 .venv/bin/pytest tests/golden tests/unit -q -k golden

lock: ## rewrite requirements.lock (needs uv)
	tools/lock.sh

lab-box: setup ## the disk of the lab hosts, built when its recipe changed
	@tools/setup.sh lab
	@tests/lab/box.sh

lab-up: lab-box ## two hosts with real devices, emulated; HOSTS=lab1 for one
	@tests/lab/lab.sh up $(HOSTS)

lab-down: ## end them, and all that belongs to them
	@tests/lab/lab.sh down

lab-ssh: ## log in as root: make lab-ssh HOST=lab1
	@tests/lab/lab.sh ssh $(HOST)

lab-test: lab-up ## the tests on the lab hosts; SELECT="lab and bounded" for some
	@tests/lab/lab.sh test -m "$(SELECT)"

faults: setup ## SIGKILL at every step of every operation, twice, both stores, 45 minutes; ARGS="--only create --seed 1"
	@tools/setup.sh test
	@$(PY) -m tests.faults $(ARGS)

faults-ci: setup ## the part of it that kills at each transition of each kind of step once; about a minute
	@tools/setup.sh test
	@$(PY) -m tests.faults --quick --seed 1 --minutes 10 $(ARGS)

faults-hosts: setup ## 50 real hosts in namespaces under faults, 20 minutes; ARGS="--hosts 5 --minutes 3"
	@tools/setup.sh test
	@$(PY) -m tests.faults_hosts $(ARGS)

faults-lab: ## kill the controller, cut the power, meddle by hand, on the lab hosts
	@$(MAKE) lab-test SELECT="lab and faults"

guards: setup ## each guard alone, and without it; build/guards.json
	@tools/setup.sh test
	@$(PY) -m tests.guards

race: setup ## 64 clients for the last slice, 10,000 rounds on both stores; build/race.json; ARGS="--rounds 100"
	@tools/setup.sh test
	@$(PY) -m tests.race $(ARGS)

soak: setup ## 200,000 operations in any order against a model; build/soak.json; ARGS="--operations 5000"
	@$(PY) -m tests.soak $(ARGS)

hostile: setup ## every field of every answer of a host made nonsense, fifty ways; build/hostile.json; ARGS="--minutes 3"
	@mkdir -p build
	@$(PY) -m tests.hostile --json build/hostile.json $(ARGS)

api-test: setup ## the HTTP API: its description, a client made of it, 10,000 repeated requests, kills, bad days, attacks on tickets
	@tools/setup.sh test
	@mkdir -p build
	@$(PY) -m tests.api.repeats > build/api-repeats.json
	@$(PY) -m tests.api.kills > build/api-kills.json
	@$(PY) -m tests.api.bad_days > build/api-bad-days.json
	@$(PY) -m tests.api.described --examples 8
	@$(PY) -m tests.api.generated_client
	@$(PY) -m tests.api.ticket_attacks --attacks 20000 > build/api-tickets.json

web-test: setup ## the pages in a real browser: light and dark, by keyboard, axe, stories; screenshots in build/web
	@tools/setup.sh test
	@.venv/bin/pytest -q -n0 tests/web $(ARGS)

hw-test: setup ## read-only checks of this machine's own GPUs
	.venv/bin/pytest -q -n0 -m hw

clean: demo-down
	rm -rf .venv .demo
