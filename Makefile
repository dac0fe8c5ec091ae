# `make help` lists the targets. Everything installs into .venv/ from hash-locked files; nothing else on the machine is touched.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
ARCHITECTURES ?= amd64 arm64
RUNTIME ?= debian
# Without compiled files each program that a test starts would compile all of its modules anew.
unexport PYTHONDONTWRITEBYTECODE
# What is imported is compiled then: compiling all of it takes a quarter of the time of an install.
INSTALL := $(BIN)/python -u -m pip --disable-pip-version-check install --no-compile
# One line for each package, so that a first install is seen to go on: the whole takes one to two minutes.
PROGRESS = awk -v all=$$(grep -c '^[A-Za-z].*==' $(1)) '/^Collecting/ {printf "  %d of %d  %s\n", ++n, all, $$2; fflush()} \
	/^Installing/ {print "  writing the packages"; fflush()}'

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev setup-deep demo test test-core golden scorecard deep deep-worlds deep-fuzz deep-mutants deep-coverage lint types docs bench generate lock sbom package release compiled wheels uncompiled test-compiled lab lab-status lab-down e2e e2e-full clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: .venv/.run ## make .venv/ with the program and what it needs
setup-dev: .venv/.dev ## setup, plus what tests and linters need

.venv/.run: requirements.lock pyproject.toml
	@echo "installing into .venv (hashes required)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "modelplane needs Python 3.11 or newer; set PYTHON=")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(INSTALL) --require-hashes -r requirements.lock | $(call PROGRESS,requirements.lock)
	@$(INSTALL) --quiet --no-deps --no-build-isolation --no-index -e .
	@touch $@

.venv/.dev: .venv/.run requirements-dev.lock
	@echo "installing what tests and linters need"
	@$(INSTALL) --require-hashes -r requirements-dev.lock | $(call PROGRESS,requirements-dev.lock)
	@touch $@

setup-deep: .venv/.deep ## setup-dev, plus the fuzzers of `make deep`

.venv/.deep: .venv/.dev requirements-deep.lock
	@echo "installing the fuzzers"
	@$(INSTALL) --require-hashes -r requirements-deep.lock | $(call PROGRESS,requirements-deep.lock)
	@touch $@

demo: setup ## two clusters, one model, one answered request; ends by itself
	@$(BIN)/modelplane demo

# In a new clone each of the four processes would compile every test. One does so while types are checked on the other
# processor.
test: setup-dev ## lint, types, rooms, generated files, tests; CI adds the longest and more cases
	@$(BIN)/python -m pytest --collect-only -q > /dev/null 2>&1 & $(MAKE) --no-print-directory lint && wait
	@$(BIN)/python -m pytest -n 4 -q -m 'not submission' --hypothesis-profile core

test-core: setup-dev ## the core's tests without those marked slow, in under 30 s
	@$(BIN)/python -m pytest -n 2 -q -m 'not slow' --hypothesis-profile core tests/api tests/framework tests/placement tests/compose tests/crossplane

scorecard: setup-dev ## forty checks of reliability and security in ten minutes; writes docs/scorecard.md
	@$(BIN)/python tools/scorecard.py

deep: setup-deep ## what takes too long for every change (hours); fills in docs/scorecard.md
	@$(BIN)/python tools/scorecard.py --deep --seconds $${SECONDS_LEFT:-36000}

deep-worlds: setup-dev ## 20,000 simulated fleets with faults, and a fault at every write of 22 scenarios (half an hour)
	@$(BIN)/python -m modelplane.testing.world --worlds 20000 --each 1000
	@$(BIN)/python -m modelplane.testing.world --sieve

golden: setup-dev ## write the golden files anew; read the difference before you commit it
	@$(BIN)/python -m pytest -q --update-golden $$(grep -rlw golden --include='test_*.py' tests)
	@git status --short -- tests

deep-fuzz: setup-deep ## every fuzz target under atheris, both HTTP APIs under schemathesis (an hour)
	@$(BIN)/python -m tests.fuzz --all --minutes $${MINUTES:-30}
	@$(BIN)/python -m tests.fuzz --http --minutes $${MINUTES:-30}

deep-mutants: setup-dev ## break the deciding rooms in 21,500 places and ask their tests (hours; it goes on where it was cut)
	@$(BIN)/python tools/mutate.py --known
	@$(BIN)/python tools/mutate.py --seconds $${SECONDS_LEFT:-36000} --resume .mutants.jsonl --out .mutants.jsonl

deep-coverage: setup-dev ## lines and branches that tests reach, against floors that only rise (half an hour; needs coverage)
	@$(BIN)/python tools/coverage_floor.py

deep-hydrate: setup-dev ## the loader, killed 40 times until it is done (minutes)
	@MODELPLANE_HYDRATE_KILLS=$${MODELPLANE_HYDRATE_KILLS:-40} $(BIN)/python -m pytest -n 0 -q tests/hydrate/test_hydrate_kills.py

lint: setup-dev ## ruff, mypy, import rooms, generated files up to date
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python tools/generate_api.py --check
	@$(BIN)/python tools/generate_catalog.py --check
	@$(BIN)/python tools/generate_requirements.py --check
	@$(BIN)/python tools/generate_reference.py --check
	@$(BIN)/python tools/build_docs.py --check

generate: setup-dev ## write what follows from apis/ and the data: models, CRDs, catalog/, docs/reference
	@$(BIN)/python tools/generate_api.py
	@$(BIN)/python tools/generate_catalog.py
	@$(BIN)/python tools/generate_requirements.py
	@$(BIN)/python tools/generate_reference.py

docs: setup-dev ## the documentation as a site in build/site
	@$(BIN)/python tools/build_docs.py

bench: setup-dev ## measure; writes bench/results.json
	@$(BIN)/python bench/run.py

lock: ## resolve the lock files anew (needs uv; nothing younger than 7 days)
	@BEFORE=$$(date -u -d '7 days ago' +%Y-%m-%d); \
	COMPILE="uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --exclude-newer $$BEFORE"; \
	$$COMPILE pyproject.toml --extra demo <(echo flit_core) -o requirements.lock && \
	$$COMPILE pyproject.toml --all-extras --group dev -o requirements-dev.lock && \
	$$COMPILE --group pyproject.toml:deep -c requirements-dev.lock -o requirements-deep.lock && \
	$$COMPILE pyproject.toml --extra crossplane --extra kube --extra kv-events --extra otel -o requirements-image.lock && \
	$$COMPILE --group wheels -c requirements-dev.lock -o requirements-wheels.lock

sbom: setup-dev ## SBOM and licences of the locked dependencies into dist/sbom; ADVISORIES=folder compares with OSV's
	@$(BIN)/python tools/sbom.py $(if $(ADVISORIES),--advisories $(ADVISORIES))

package: setup-dev ## build the Crossplane packages into dist/packages, without a container daemon
	@$(BIN)/python tools/build_packages.py

release: setup-dev ## build packages, images and the chart and push them: REGISTRY=host/path, ARCHITECTURES="amd64 arm64"
	@test -n "$(REGISTRY)" || { echo "make release: say where to: REGISTRY=registry.example.org/team" >&2; exit 2; }
	@$(BIN)/python tools/build_packages.py --function $(REGISTRY)/function-modelplane --runtime $(RUNTIME) $(ARCHITECTURES:%=--arch %) $(BUILD_FLAGS)
	@$(BIN)/python tools/build_chart.py
	@$(BIN)/python tools/push_packages.py $(REGISTRY) $(PUSH_FLAGS)

compiled: setup-dev ## the picker's request path in C: build/compiled and a wheel in dist/ (needs a C compiler; minutes)
	@$(BIN)/python tools/compile_picker.py --wheel

wheels: setup-dev ## what PyPI takes, into dist/wheels: compiled wheels for Linux, the pure one, the sdist (needs a network)
	@$(BIN)/python -u tools/build_wheels.py $(WHEEL_FLAGS)

uncompiled: ## remove what `make compiled` and `make wheels` have made
	@rm -rf build/compiled build/wheels dist/wheels dist/modelplane-*-cp*.whl

test-compiled: compiled ## the picker's tests on the compiled modules
	@PYTHONPATH=build/compiled $(BIN)/python -c 'from modelplane.epp.server.compiled import is_compiled; assert is_compiled()'
	@PYTHONPATH=build/compiled $(BIN)/python -m pytest -n 2 -q tests/framework tests/epp tests/tools

lab: setup-dev ## genuine Kubernetes, Crossplane, KWOK and LWS as processes on this machine (docs/lab.md)
	@$(BIN)/python -m lab up

lab-status: setup-dev ## what of the lab runs
	@$(BIN)/python -m lab status

lab-down: setup-dev ## end the lab and everything it started
	@$(BIN)/python -m lab down

e2e: setup-dev ## the product on genuine components, and comparisons with them; writes docs/lab-report.md
	@$(BIN)/python -m lab e2e

e2e-full: setup-dev ## e2e behind Envoy Gateway, then gangs under KAI, Kueue and Volcano
	@$(BIN)/python -m lab build core picker kai kueue volcano gateway
	@$(BIN)/python -m lab e2e --full --with gateway

clean: ## remove .venv and caches
	@rm -rf .venv .mypy_cache .ruff_cache .import_linter_cache .hypothesis
