# Everything that a fresh machine needs beyond this file: Python 3.11 or newer, and make.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 2

# Tests that load compiled modules, but for those that start processes or Spark.
UNCOMPILED_TESTS := tests/test_compiled.py tests/rows tests/wire tests/tcp tests/session tests/kafka tests/pulsar tests/iggy tests/fuzz \
  tests/test_invariants.py tests/test_release.py tests/test_workers.py

# What is compiled to C is made of these; the build finds out what has changed.
COMPILED := $(shell find dissectors -name '*.py' -o -name '*.pxd' -o -name '*.h')

# Where Python keeps no bytecode (PYTHONDONTWRITEBYTECODE), every start would compile the code anew. So would Java.
BYTECODE := $(BIN)/python -m compileall -q brokerscope dissectors pipelines pyspark_brokerscope pyspark_pcap
COMPILE := $(BYTECODE) && $(BIN)/python -m pipelines.spark.train_java samples

.DEFAULT_GOAL := help
.PHONY: help install demo compile check test test-uncompiled test-cluster lint format docs pictures bench cost fuzz

help:  ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(VENV)/.run  ## the command: .venv/bin/brokerscope, with Spark and Java
demo: $(VENV)/.run  ## analyze the samples, in one process and on Spark: tables here, page in out/demo
	$(BIN)/brokerscope analyze samples -o out/demo --engine local
	$(BIN)/brokerscope analyze samples -o out/demo-spark --engine spark --quiet
	$(BIN)/python -m pipelines.compare out/demo out/demo-spark

compile: $(VENV)/.compiled  ## compile what is compiled, after a change

check: $(VENV)/.compiled  ## the tests that take milliseconds: no JVM, no browser, no command; under a minute
	$(BIN)/pytest -n $(JOBS) -m "not process and not slow" --hypothesis-profile=quick

test: $(VENV)/.compiled  ## run the tests
	$(BIN)/pytest -n $(JOBS) --dist loadgroup

test-uncompiled: $(VENV)/.test  ## run the tests of the compiled modules again, on their sources
	BROKERSCOPE_UNCOMPILED=1 FUZZ_SECONDS=$(or $(FUZZ_SECONDS),8) $(BIN)/pytest -n $(JOBS) --dist loadgroup --hypothesis-profile quick $(UNCOMPILED_TESTS)

test-cluster: $(VENV)/.cluster  ## tests on an S3 server, a Spark cluster, Spark Connect and HDFS, started here
	$(BIN)/pytest tests/cluster

lint: $(VENV)/.test  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.test  ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.run  ## write the generated pages of docs/ again
	$(BIN)/python -m pipelines.document docs

pictures: $(VENV)/.test  ## draw the pictures of the README and write outputs of notebooks, from the samples; needs Chromium
	$(BIN)/python -m docs.pictures
	MPLBACKEND=agg $(BIN)/python -m tests.notebooks

bench: $(VENV)/.compiled  ## speed beside tshark's, on one core
	$(BIN)/python tests/benchmarks/speed.py
	$(BIN)/python tests/benchmarks/foreign.py

cost: $(VENV)/.compiled  ## instructions an exchange takes, also on a busy machine; needs valgrind
	$(BIN)/python tests/benchmarks/instructions.py

fuzz: $(VENV)/.compiled  ## mutated captures, for FUZZ_SECONDS (60) with FUZZ_SEED (the day's)
	$(BIN)/python -m tests.fuzz

# Stamps: made again when the dependencies change. An existing environment is kept.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "brokerscope needs Python 3.11 or newer; name it with: make PYTHON=python3.12 …" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml $(COMPILED) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[spark]'
	@$(BIN)/brokerscope --version
	@$(COMPILE)
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[spark]' --group dev
	@$(COMPILE)
	@touch $@ $(VENV)/.run $(VENV)/.compiled

# Where no C compiler is installed, pip gets one; where none can be had, the sources run.
$(VENV)/.compiled: $(VENV)/.test $(COMPILED)
	@BROKERSCOPE_UNCOMPILED=1 $(BIN)/python -m dissectors.compiling.build || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@$(BYTECODE)
	@$(BIN)/brokerscope --version
	@touch $@ $(VENV)/.run

$(VENV)/.cluster: pyproject.toml $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group cluster
	@touch $@
