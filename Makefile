# What a newcomer needs: `make setup`, then `make run`. Every target makes its own set-up; the second time costs nothing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-stamp
DATA ?= data
ARGS ?=
RUNS ?= 5
SECONDS ?= 3600

.PHONY: help setup run cluster java-clients spark-jars bookkeeper apache console console-tools release release-tools screenshots site site-tools test flaky explore lint format bench demo demo-crash lock clean

help:
	@echo "make setup   create $(VENV) with all extras, at the locked versions"
	@echo "make run     a standalone broker on 6650 and 8080, data in $(DATA)/"
	@echo "make cluster ZooKeeper, three bookies and three brokers, data in $(DATA)-cluster/ (Java 17)"
	@echo "make test    all tests, each once (ARGS='-k name' chooses)"
	@echo "make flaky   all tests, five times, and which of them failed in some (RUNS=5)"
	@echo "make explore new draws for the property, cost and damage tests, and new seeds of the simulated cluster, for an hour (SECONDS=3600)"
	@echo "make lint    formatter, linter, types, generated code, bandit, advisories"
	@echo "make format  apply the formatter and the linter's safe fixes"
	@echo "make bench   the quick measurements, and what else can be measured"
	@echo "make demo    v4, V5, migration, splits and merges, Spark and an audit in a minute"
	@echo "make demo-crash  produce, kill -9, restart, consume: nothing lost"
	@echo "make bookkeeper  fetch the ZooKeeper and BookKeeper servers that the tests start"
	@echo "make spark-jars  fetch the jars with which Spark writes Delta Lake tables and speaks S3"
	@echo "make console  build the web console into the package (Node.js; a broker runs without)"
	@echo "make screenshots  take the pictures of docs/console.md anew"
	@echo "make site    the pages of docs/ as a site with search, in build/site; links are checked"
	@echo "make release wheel, sdist, bill of materials, changes and checksums, in dist/; the same bytes each time"
	@echo "make lock    resolve the dependencies anew"
	@echo "make clean   remove caches and builds"

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@PYTHON='$(PYTHON)' VENV='$(VENV)' tools/setup
	@touch $@

run: setup
	$(BIN)/magnetar standalone --data $(DATA) $(ARGS)

cluster: setup
	$(BIN)/magnetar cluster up --data $(DATA)-cluster $(ARGS)

# Each test runs once, and a test that fails fails the run. Three workers keep two cores busy: many
# tests wait for servers that start, die or let a session end.
TESTS := -n 3 --dist loadgroup
test: setup java-clients spark-jars bookkeeper apache console-tools release-tools site-tools
	$(BIN)/python -m pytest -q $(TESTS) $(ARGS)

flaky: setup java-clients spark-jars bookkeeper apache console-tools
	$(BIN)/python tools/flaky.py --runs $(RUNS) $(TESTS) $(ARGS)

explore: setup
	$(BIN)/python tools/explore.py --seconds $(SECONDS) $(ARGS)

# Some tests run Apache Pulsar's Java clients; their jars are resolved once.
java-clients:
	@tools/java/fetch

# Spark writes Delta Lake tables and speaks S3 with jars that PySpark does not bring; fetched once.
spark-jars:
	@tools/spark/fetch

# The tests start ZooKeeper and BookKeeper servers of their own; their jars are fetched once.
bookkeeper: setup
	@PYTHON=$(BIN)/python tools/bookkeeper/fetch

# Tests and measurements beside Apache Pulsar start its brokers; 215 MB, resolved once.
apache:
	@bench/peer/pulsar fetch

# The console's sources are TypeScript; what they make is kept in the package.
console-tools:
	@tools/console/fetch

console: console-tools
	npm --prefix console run --silent build

release-tools:
	@PYTHON='$(PYTHON)' tools/release/fetch

release: setup release-tools
	$(BIN)/python tools/build_release.py

site-tools:
	@PYTHON='$(PYTHON)' tools/site/fetch

site: site-tools
	@tools/site/build

screenshots: setup console-tools
	MAGNETAR_SCREENSHOTS=$(CURDIR)/docs $(BIN)/python -m pytest -q -n 0 tests/console

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	$(BIN)/python tools/generate_pb.py --check
	$(BIN)/bandit -q -c pyproject.toml -r src
	$(BIN)/python tools/audit.py
	$(BIN)/python tools/generate_answer.py --check
	$(BIN)/python tools/generate_operation.py --check
	$(BIN)/python tools/generate_admin.py --check
	$(BIN)/python tools/generate_reference.py --check
	$(BIN)/python tools/generate_configuration.py --check
	$(BIN)/python tools/generate_unsupported.py --check
	$(BIN)/python tools/generate_limits.py --check
	$(BIN)/python tools/generate_architecture.py --check
	$(BIN)/python tools/generate_cluster.py --check
	$(BIN)/python tools/generate_concepts.py --check
	$(BIN)/python tools/generate_dashboard.py --check
	$(BIN)/python tools/generate_spark.py --check
	$(BIN)/python tools/generate_errors.py --check
	$(BIN)/python tools/generate_events.py --check

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m bench.start_time
	$(BIN)/python -m bench.cli_latency
	$(BIN)/python -m bench.cpu_per_entry
	@echo
	@echo "Longer ones, see bench/README.md:"
	@echo "  $(BIN)/python -m bench.cluster       brokers on bookies, side by side with Apache's (Java 17, Maven)"
	@echo "  $(BIN)/python -m bench.run           side by side with a real Apache Pulsar (Java 17, Maven)"
	@echo "  $(BIN)/python -m bench.many_topics   10,000 topics with one producer each"
	@echo "  $(BIN)/python -m bench.recovery      1 GiB, kill -9, time to ready"

demo: setup
	$(BIN)/magnetar demo

demo-crash: setup
	$(BIN)/python -m demo.crash

lock:
	uv lock --upgrade
	uv export --quiet --frozen --all-extras --no-emit-project --no-header --output-file requirements.lock > /dev/null

clean:
	rm -rf .pytest_cache .hypothesis .mypy_cache .ruff_cache build dist
	find src tests bench demo tools -name __pycache__ -type d -prune -exec rm -rf {} +
