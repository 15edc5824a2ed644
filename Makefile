# Everything a developer or a newcomer runs. `make demo` and `make test` set up their own .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# `python3 -m venv` and pip work everywhere; torch first and pinned, so that nothing else pulls another build.
TORCH := $(shell sed -n 's/^torch==//p' constraints.txt)
# Of what the runs of `make study-launchpad` learn from, three million decisions and a million played at 1.
SCALE ?= 0.25

.PHONY: demo test test-fast test-long lint docs bench study study-green study-horizon study-launchpad study-cocorl study-estimates study-formulations study-travel study-limits study-deeprm clean setup tools

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -qq --disable-pip-version-check torch==$(TORCH)
	$(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@echo "compiling the simulator, once: about a minute"
	$(BIN)/rlsched simulate --trace datasets/sample.swf.gz --policy fcfs --backfill easy > /dev/null
	$(BIN)/rlsched simulate --scenario green-10 --policy fcfs --episodes 1 > /dev/null
	$(BIN)/python -c "import gymnasium, rlsched; env = gymnasium.make('rlsched/lublin-256'); \
		env.step(int(env.reset(seed=0)[1]['action_mask'].argmax()))"
	touch $@

# What some tests use, and are skipped without; it asks nobody, so only where that is allowed.
tools:
	@[ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null || exit 0; \
	missing=; for tool in shellcheck chromium; do command -v $$tool > /dev/null || missing="$$missing $$tool"; done; \
	[ -n "$$missing" ] || exit 0; \
	apt-get update -qq > /dev/null 2>&1; \
	for tool in $$missing; do \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$tool > /dev/null 2>&1 \
			|| echo "$$tool cannot be installed: tests that need it are skipped"; \
	done

demo: setup  ## train on the shipped sample trace and compare with the heuristics
	rm -rf runs/demo
	$(BIN)/rlsched train --trace datasets/sample.swf.gz --minutes 1.25 --out runs/demo
	$(BIN)/rlsched evaluate runs/demo --episodes 64 --report runs/demo/report

PYTEST := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

$(VENV)/.compiled: $(VENV)/.ready tests/compiling.py $(wildcard rlsched/sim/*.py)
	@echo "compiling what tests need of the simulator, once: about a minute"
	$(BIN)/python -m tests.compiling
	touch $@

test: setup tools $(VENV)/.compiled  ## everything but the long tests, under 12 minutes on two cores
	$(PYTEST) -m "not long"

test-fast: setup $(VENV)/.compiled  ## for every save: no Ray, no service, nothing of several seconds; under 3 minutes
	$(PYTEST) -m "not long and not slow"

test-long: setup tools $(VENV)/.compiled  ## lost nodes, killed runs and sweeps, browsers, leaks, the guides' commands; some 30 minutes
	$(PYTEST) -m long --ignore=tests/test_docs.py
	$(BIN)/pytest -m long tests/test_docs.py  # by itself: it serves, and so do others

lint: setup  ## style, types, layers and the house rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.house_rules

docs: setup  ## write the generated tables of docs/reference, and the documentation as a site in site/
	$(BIN)/python -m tests.reference_pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -f docs/site/mkdocs.yml

bench: setup  ## speed of the core, and of its slow twin in plain Python
	$(BIN)/python -m benchmarks.core_speed

study: setup  ## PPO on three published traces, three seeds each, about 20 minutes (estimated)
	$(BIN)/python -m benchmarks.study_hpc

study-green: setup  ## learned policies on green-10, -50 and -100: twelve cases, three seeds each, about an hour
	$(BIN)/python -m benchmarks.study_green

study-horizon: setup  ## value by planning horizon and by ready pool on green-10: eight cells, three seeds each, about 25 minutes
	$(BIN)/python -m benchmarks.study_horizon

study-launchpad: setup  ## learning from datasets and going on by playing, on 10, 20 and 50 units: 13 cases, three seeds each, some 3 hours (SCALE=1: some 10)
	$(BIN)/python -m benchmarks.study_launchpad --scale $(SCALE)

study-cocorl: setup  ## costs within limits: green-10 at six loads, two traces, and two limits at once, three seeds each, some 2 hours
	$(BIN)/python -m benchmarks.study_cocorl

study-estimates: setup  ## orders where users do not know how long their jobs run: ten kinds of estimates, about 3 minutes
	$(BIN)/python -m benchmarks.study_estimates

study-deeprm: setup  ## REINFORCE, A2C and PPO on the jobs of DeepRM, three seeds, some 20 minutes
	$(BIN)/python -m benchmarks.study_deeprm

study-formulations: setup  ## what is seen, when it is asked, what is rewarded: six formulations on ten clusters, three seeds each, about 2 hours
	$(BIN)/python -m benchmarks.study_formulations

study-travel: setup  ## one policy trained on a family of models, shown on clusters and traces that it never saw, three seeds, about half an hour
	$(BIN)/python -m benchmarks.study_travel

study-limits: setup  ## slowdown over limits of waits: four limits on two cases, three seeds each, about an hour and a half
	$(BIN)/python -m benchmarks.study_limits

clean:
	rm -rf $(VENV) runs build site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
