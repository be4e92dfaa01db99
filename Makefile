# What people and CI run. Set-up is done by need, in tools/setup; a second run starts at once.
#   make demo ARGS=--forever        options for the demo
#   make test ARGS='-k fork'        options for pytest
#   make soak MINUTES=120           how long to go on killing
#   make setup PYTHON=python3.12    another Python than python3

ARGS =
MINUTES = 60
# What starts other programs runs alone: brokers, Spark, Prometheus, a browser. (Exit code 5: ARGS chose no test of a part.)
HEAVY = spark or kafka or programs
BIN = .venv/bin
export PYTHON

.PHONY: help setup demo test test-k8s check soak bench clean

help: ## show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1  /p' Makefile | awk '{ printf "  %s %-8s", $$1, $$2; $$1 = $$2 = ""; print }'

setup: ## install Python packages, Java if there is none, and jars into .venv and the user's cache
	@tools/setup

demo: setup ## run the demo: a real broker, real Spark, a simulated swarm and its liar
	@$(BIN)/quorumscope demo $(ARGS)

test: ## lint, type check and the whole test suite
	@tools/setup jre
	@tools/programs
	@tools/charttools
	@tools/imagetools
	@tools/imagebase
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 -m "not ($(HEAVY) or long)" $(ARGS) || [ $$? = 5 ]
	$(BIN)/python -m pytest -m "$(HEAVY)" $(ARGS) || [ $$? = 5 ]

test-k8s: ## install the chart on a real API server, and run Spark's executors as its pods; the first time it builds one
	@tools/setup jre
	@tools/charttools
	@tools/k8stools
	$(BIN)/python -m pytest tests/k8s $(ARGS)

check: ## the fast part of test: no Java, no Spark, no broker, no browser
	@tools/setup python
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 -m "not ($(HEAVY) or slow or long)" $(ARGS)

soak: ## search where make test stops; break what can break for MINUTES or more, and keep it in docs/reliability.md
	@tools/setup jre
	@tools/programs
	$(BIN)/python -m pytest -n 2 -m long $(ARGS) || [ $$? = 5 ]
	SOAK_MINUTES=$(MINUTES) RELIABILITY=keep $(BIN)/python -m pytest tests/faults $(ARGS)

bench: setup ## measure: a plain Python process against the streaming job
	@$(BIN)/python -m tests.bench $(ARGS)

clean: ## remove .venv and what tools and runs left in this folder; the user's cache stays
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build demo-output spark-warehouse metastore_db artifacts
	rm -rf derby.log *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
