# make demo   environment, install, then tune a convolution and a transposition and print what they won
# make test   environment, development extras, the whole test suite
# Both need Python 3.11+, a C++ compiler and network access to a package index the first time.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
JOBS   ?= 4
RUNS   ?= 5
SEED   ?= 0
MINUTES ?= 10
CASES  ?=

.PHONY: demo test test-needs test-torch test-all soak fuzz mistakes lint typecheck docs wheel release-check pins bench update-golden check-tools clean help

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -3
	@echo "other targets: test-needs test-torch lint docs wheel release-check pins test-all soak fuzz mistakes update-golden clean"

check-tools:
	@sh scripts/check_tools.sh "$(PYTHON)"

$(BIN)/python:
	@$(MAKE) --no-print-directory check-tools
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.tune: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what tuning needs: about 65 MB to download (numpy, scipy, xgboost-cpu, sqlalchemy, ...)."
	@$(PIP) install -c constraints.txt -e '.[tune]'
	@touch $@

# Each file that is installed has a hash in requirements.txt; this project itself is built by what that installs.
$(VENV)/.dev: pyproject.toml requirements.txt | $(BIN)/python
	@echo "Installing the development tools: about 360 MB to download, with all that tuning, farms, PostgreSQL, pages, plots and documentation need and NVIDIA's run-time compiler."
	@$(PIP) install --require-hashes -r requirements.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.tune

demo: check-tools $(VENV)/.tune
	@$(BIN)/tilewright tune conv2d n=1 ci=64 h=28 w=28 co=64 kh=3 kw=3 padding=1 layout=NHWC --trials 48 --db demo.db
	@$(BIN)/tilewright tune transpose shape=1024,1024 --trials 48 --db demo.db

test: check-tools $(VENV)/.dev
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "not nightly" $(CASES)

# The tests that need what no package index has (tests/harness/needed.py), which `make test` skips where it is missing.
test-needs: check-tools $(VENV)/.dev
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "needs and not nightly" $(CASES) \
	  $$(grep -rlE --include='test_*.py' 'mark\.needs|^from harness.browser' tests)

# Arrays and models of PyTorch and JAX. Where there is a build of PyTorch for processors alone, it is taken: 4 GB less.
$(VENV)/.torch: pyproject.toml | $(VENV)/.dev
	@echo "Installing PyTorch and JAX."
	@$(PIP) install -c constraints.txt jax expecttest 'torch==2.13.0+cpu' 2> /dev/null || $(PIP) install -c constraints.txt jax expecttest 'torch>=2.4'
	@touch $@

test-torch: check-tools $(VENV)/.torch
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "not nightly" $(CASES) tests/frameworks
	@$(BIN)/python -m pytest -q -m "not nightly" -k "torch or pytorch or network" tests/baselines/test_pytorch.py \
	  tests/models/test_networks_benchmark.py tests/kernels/test_nn.py

test-all: check-tools $(VENV)/.dev
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -o timeout=1800 -o faulthandler_timeout=2400

# The suite again and again in random order on a busy machine: make soak RUNS=5, or scripts/soak_tests.py --help.
soak: check-tools $(VENV)/.dev
	@$(BIN)/python scripts/soak_tests.py --jobs $(JOBS) --runs $(RUNS)

# Random programs, kernels and calls against NumPy: make fuzz MINUTES=10 SEED=3, or python -m fuzz --help.
fuzz: check-tools $(VENV)/.dev
	@$(BIN)/python -m fuzz --seed $(SEED) --minutes $(MINUTES) --programs 100000 --out .fuzz/seed$(SEED).jsonl

# Mistakes that the tests must notice, planted one by one: before and after tests are made fewer or faster.
mistakes: check-tools $(VENV)/.dev
	@$(BIN)/python scripts/plant_mistakes.py $(CASES)

lint: check-tools $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --diff src tests fuzz benchmarks examples > /dev/null || { echo "run: ruff format"; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# The hashes of all files of the versions in constraints.txt.
pins:
	@$(BIN)/uv pip compile -q --no-deps --generate-hashes --no-annotate \
	  --custom-compile-command "make pins" -o requirements.txt constraints.txt

docs: check-tools $(VENV)/.dev
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo docs/_build/html/index.html

# The source archive, the wheel that is made of it alone, and whether an index would take them.
wheel: $(VENV)/.dev
	@rm -rf dist && $(BIN)/python -m build --no-isolation --outdir dist . > /dev/null
	@$(BIN)/python -m twine check --strict dist/* && $(BIN)/check-wheel-contents dist/*.whl

# Installs the wheel from an index of its own with every Python that is here, and runs what each extra promises.
release-check: $(VENV)/.dev
	@$(BIN)/python scripts/release_check.py

update-golden: $(VENV)/.dev
	@$(BIN)/python -m pytest -q tests/kernels --update-golden -k golden

clean:
	rm -rf $(VENV) dist build docs/_build docs/_generated .pytest_cache .mypy_cache .ruff_cache demo.db*
