# The only list of commands; what they do is in scripts/. Each sets up what it needs: nothing is installed outside .venv.

SHELL := /bin/bash
PYTHON := .venv/bin/python
SOURCES := $(shell find crates/*/src -name '*.rs') $(wildcard crates/*/Cargo.toml crates/*/build.rs) Cargo.toml Cargo.lock pyproject.toml
BENCH := $(shell find bench/limits/src -name '*.rs') bench/limits/Cargo.toml bench/pyproject.toml

.PHONY: help build demo billion check test test-bench test-torch test-tenth test-faults test-wheel wheel docs fuzz clean tools
.DELETE_ON_ERROR:

## make help         this list
help:
	@sed -n 's/^## //p' Makefile

## make build        the command .venv/bin/shoal, and the lab, shoal bench
build: .venv/.built .venv/.bench

## make demo         copy 100,000 objects, kill the run half-way, resume it, verify every byte
demo: .venv/.built
	$(PYTHON) scripts/demo.py

## make billion      copy a billion objects into Parquet files, or continue; then check every row with DuckDB (docs/billion.md)
OBJECTS ?= 1000000000
CONTENTS ?= names
DEST ?= billion-out
billion: .venv/.built
	$(PYTHON) scripts/billion.py --objects $(OBJECTS) --contents $(CONTENTS) '$(DEST)'

## make check        format, lints, types, layers, sizes, words, licences, advisories
check: .venv/.built .venv/.bench .venv/.tools
	scripts/check.sh

## make test         every test but the slow ones and the lab's; those that lack root or a tool are skipped with a notice
test: .venv/.built .venv/.bench
	scripts/test.sh

## make test-bench   the tests of the lab
test-bench: .venv/.built .venv/.bench .venv/.tools
	cd bench && ../.venv/bin/pytest -n 2

## make test-torch   the tests of shoal.torch and of its example, with a real PyTorch, which is a download of some gigabytes
test-torch: .venv/.built .venv/.tools
	$(PYTHON) -m pip install --quiet --group torch
	.venv/bin/pytest tests/test_torch.py tests/test_examples.py::test_each_image_reaches_the_model_once

## make test-tenth   a tenth of the slow tests in ten minutes, another one each day (SHOAL_TENTH=3 for one)
test-tenth: .venv/.built .venv/.bench .venv/.tools
	scripts/test_tenth.sh

## make test-faults  the tests marked root, mount or slow, after installing the tools they use; 10,000 runs of the model
test-faults: .venv/.built .venv/.bench .venv/.tools
	scripts/install_test_tools.sh
	.venv/bin/pytest -m 'root or mount or slow'
	SHOAL_MODEL_COUNT=10000 SHOAL_MODEL_SEED=$$(date +%s) cargo test -p shoal-engine --test model -- --nocapture

## make wheel        what users install, in dist/: wheels and sdists, optimised as a whole, which takes minutes
wheel: .venv/.made
	rm -rf dist
	scripts/wheel.sh dist

## make test-wheel   the tests of the wheels: of those in dist/ with SHOAL_DIST=dist, else of quickly compiled ones
test-wheel: .venv/.built .venv/.tools
	.venv/bin/pytest -m slow tests/test_wheel.py

## make docs         the documentation site, in target/site; to look at it: .venv/bin/mkdocs serve
docs: .venv/.built
	scripts/docs.sh

## make fuzz         the fuzz targets, ten minutes each (FUZZ_SECONDS=60 for one); finding nothing is the hope
FUZZ_SECONDS ?= 600
FUZZ_TARGETS ?= $(basename $(notdir $(sort $(wildcard fuzz/fuzz_targets/*.rs))))
fuzz:
	for target in $(FUZZ_TARGETS); do scripts/fuzz.sh $$target $(FUZZ_SECONDS) || exit 1; done

## make clean        remove everything that the commands above made
clean:
	rm -rf LICENSE-THIRD-PARTY target fuzz/target fuzz/found fuzz/artifacts .venv dist demo-out billion-out .pytest_cache .mypy_cache .ruff_cache .hypothesis python/shoal/*.so
	find bench python scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +

tools:
	@scripts/check_tools.sh

.venv/.made: scripts/make_venv.sh | tools
	scripts/make_venv.sh
	@touch $@

.venv/.tools: pyproject.toml bench/pyproject.toml scripts/install_dev_tools.sh .venv/.bench
	scripts/install_dev_tools.sh
	@touch $@

.venv/.built: .venv/.made scripts/build.sh $(SOURCES)
	scripts/build.sh .
	@touch $@

.venv/.bench: .venv/.built $(BENCH)
	scripts/build.sh bench
	@touch $@
