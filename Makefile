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

# Where Python keeps no bytecode (PYTHONDONTWRITEBYTECODE), every start would compile the code anew.
BYTECODE := $(BIN)/python -m compileall -q brokerscope dissectors pipelines pyspark_brokerscope pyspark_pcap
BUILD := BROKERSCOPE_UNCOMPILED=1 $(BIN)/python -m dissectors.compiling.build
# Where the build finds no C compiler (3), one is installed; where none can be had, the sources run.
COMPILE = echo "compiling; later only what has changed" && \
  { $(BUILD) || { [ $$? = 3 ] && echo "installing a C compiler into $(VENV)" && $(PIP) ziglang && $(BUILD); } || :; } && \
  $(BYTECODE) && $(BIN)/brokerscope --version
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help install spark demo compile check test test-uncompiled test-cluster lint format docs pictures bench cost fuzz

help:  ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(VENV)/.installed  ## the command: .venv/bin/brokerscope, without Spark
spark: $(VENV)/.run  ## Spark beside it, and Java where there is none
demo: $(VENV)/.run  ## analyze the samples, in one process and on Spark: tables here, page in out/demo
	$(BIN)/brokerscope analyze samples -o out/demo --engine local
	$(BIN)/brokerscope analyze samples -o out/demo-spark --engine spark --quiet
	$(BIN)/python -m pipelines.compare out/demo out/demo-spark

compile: $(VENV)/.compiled  ## compile what is compiled, after a change

check: $(VENV)/.compiled  ## the tests that take milliseconds: no JVM, no browser, no command; a minute on two cores
	$(BIN)/pytest -n $(JOBS) -m "not process and not slow" --hypothesis-profile=quick

test: $(VENV)/.compiled $(VENV)/.trained  ## run the tests
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
	$(BIN)/python -m tests.benchmarks.speed
	$(BIN)/python -m tests.benchmarks.foreign

cost: $(VENV)/.compiled  ## instructions an exchange takes, also on a busy machine; needs valgrind
	$(BIN)/python -m tests.benchmarks.instructions

fuzz: $(VENV)/.compiled  ## mutated captures and streams, each for FUZZ_SECONDS (60) with FUZZ_SEED (the day's)
	$(BIN)/python -m tests.fuzz
	$(BIN)/python -m tests.fuzz.harness all

# Stamps: made again when the dependencies change. An existing environment is kept.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "brokerscope needs Python 3.11 or newer; name it with: make PYTHON=python3.12 …" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The libraries without compiling, so that what takes long is seen: pip would compile in silence.
$(VENV)/.libraries: pyproject.toml | $(BIN)/python
	@echo "installing libraries into $(VENV)"
	@BROKERSCOPE_UNCOMPILED=1 $(PIP) -e . 'cython>=3.1'
	@touch $@

$(VENV)/.installed: $(VENV)/.libraries $(COMPILED)
	@$(COMPILE)
	@echo "try: $(BIN)/brokerscope summary samples/pulsar-corrupted.pcap"
	@touch $@

$(VENV)/.spark: $(VENV)/.libraries
	@echo "installing Spark, and Java where there is none"
	@$(PIP) $$($(BIN)/python -m pipelines.spark.requirements)
	@touch $@

# Not again after each change of the sources: what Java loads for them are Spark's classes.
$(VENV)/.trained: $(VENV)/.spark | $(VENV)/.installed
	@echo "preparing Java's classes, by one small job"
	@$(BIN)/python -m pipelines.spark.train_java samples
	@touch $@

$(VENV)/.run: $(VENV)/.installed $(VENV)/.trained
	@touch $@

$(VENV)/.test: $(VENV)/.libraries $(VENV)/.spark
	@echo "installing what tests need"
	@$(PIP) --upgrade 'pip>=25.1'
	@$(PIP) --group dev
	@touch $@

$(VENV)/.compiled: $(VENV)/.test $(COMPILED)
	@$(COMPILE)
	@touch $(VENV)/.installed $@

$(VENV)/.cluster: pyproject.toml $(VENV)/.test
	@echo "installing what tests of clusters need"
	@$(PIP) --group cluster
	@touch $@
