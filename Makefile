# The only list of commands; what they do is in scripts/. Each sets up what it needs: nothing is installed outside .venv.

SHELL := /bin/bash
PYTHON := .venv/bin/python
SOURCES := $(shell find crates/*/src -name '*.rs') $(wildcard crates/*/Cargo.toml crates/*/build.rs) Cargo.toml Cargo.lock pyproject.toml

.PHONY: help build demo check test test-faults fuzz clean tools
.DELETE_ON_ERROR:

## make help         this list
help:
	@sed -n 's/^## //p' Makefile

## make build        the command .venv/bin/shoal, in release mode
build: .venv/.built

## make demo         copy 100,000 objects, kill the run half-way, resume it, verify every byte
demo: .venv/.built
	$(PYTHON) scripts/demo.py

## make check        format, lints, types, layers, sizes, licences, advisories
check: .venv/.built
	cargo fmt --all --check
	cargo clippy --workspace --lib -- -D warnings
	cargo clippy --workspace --all-targets -- -D warnings $(TESTS_MAY)
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	MYPYPATH=python .venv/bin/stubtest shoal._shoal --allowlist scripts/stubtest_allowlist.txt --ignore-unused-allowlist
	$(PYTHON) scripts/check_layers.py
	$(PYTHON) scripts/check_sizes.py
	$(PYTHON) scripts/check_licences.py
	$(PYTHON) scripts/check_advisories.py

## make test         every test but the slow ones; those that lack root or a tool are skipped with a notice
test: .venv/.built
	scripts/test_rust.sh
	.venv/bin/pytest

## make test-faults  the tests marked root, mount or slow, after installing the tools they use; 10,000 runs of the model
test-faults: .venv/.built
	scripts/install_test_tools.sh
	.venv/bin/pytest -m 'root or mount or slow'
	SHOAL_MODEL_COUNT=10000 SHOAL_MODEL_SEED=$$(date +%s) cargo test -p shoal-engine --test model -- --nocapture

## make fuzz         the fuzz targets, ten minutes each (FUZZ_SECONDS=60 for one); finding nothing is the hope
FUZZ_SECONDS ?= 600
FUZZ_TARGETS ?= $(basename $(notdir $(sort $(wildcard fuzz/fuzz_targets/*.rs))))
fuzz:
	for target in $(FUZZ_TARGETS); do scripts/fuzz.sh $$target $(FUZZ_SECONDS) || exit 1; done

## make clean        remove everything that the commands above made
clean:
	rm -rf target fuzz/target fuzz/found fuzz/artifacts .venv dist demo-out .pytest_cache .mypy_cache .ruff_cache .hypothesis python/shoal/*.so
	find python scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +

# clippy.toml's bans are for what is shipped; tests, examples and benches may use files and print.
TESTS_MAY := -A clippy::disallowed_methods -A clippy::disallowed_macros -A clippy::disallowed_types

tools:
	@scripts/check_tools.sh

.venv/.tools: pyproject.toml scripts/install_dev_tools.sh | tools
	scripts/install_dev_tools.sh
	@touch $@

.venv/.built: .venv/.tools scripts/build.sh $(SOURCES)
	scripts/build.sh
	@touch $@
