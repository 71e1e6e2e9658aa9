# make demo: the main job on bundled pairs, in under a minute.   make test: every check.
# Both need Python 3.11 or later and make. They set up the rest in .venv here.

PYTHON ?= python3
BIN := .venv/bin

# If it were set, each test process would compile robin and the tests again.
unexport PYTHONDONTWRITEBYTECODE
# Three test processes share two cores: numpy's threads would only wait for each other.
pytest test-all: export OPENBLAS_NUM_THREADS := 1

.PHONY: demo test test-all test-beside lint types pytest docs release golden clean

demo: .venv/robin
	@$(BIN)/robin demo

# The types are checked beside the tests. Their output is printed in one piece, as soon as they are done.
test: lint
	@log=$$(mktemp) && { $(MAKE) types >"$$log" 2>&1; types=$$?; cat "$$log"; rm "$$log"; exit $$types; } & \
	$(MAKE) pytest; tests=$$?; wait $$! && exit $$tests

lint: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/dev
	$(BIN)/mypy

pytest: .venv/dev
	$(BIN)/python -m pytest -n 3 --dist worksteal # tests mostly wait for other processes

# Also the cases of which each run tests a part: every kill at every write, every fault of a cluster.
test-all: .venv/dev
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "" --hypothesis-profile whole

# uv is six times as fast as pip. pip takes over where uv finds no index: uv does not read pip's configuration. Neither compiles
# what it installs: most of Ray is never imported.
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check
UV := .venv/uv/bin/uv pip install --quiet --cache-dir .venv/uv/cache --python

.venv/robin: pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "robin needs Python 3.11 or later, this is %d.%d: make PYTHON=python3.11 ..." % v[:2])'
	@echo "setting up .venv (once, about a minute)"
	@$(PYTHON) -m venv .venv
	@$(PIP) --target .venv/uv uv && $(UV) $(BIN)/python --editable . || $(PIP) --editable .
	@rm -rf .venv/uv/cache
	@touch $@

.venv/dev: .venv/robin
	@$(UV) $(BIN)/python --group dev || { $(PIP) --upgrade "pip>=25.1" && $(PIP) --no-compile --group dev; }
	@rm -rf .venv/uv/cache
	@touch $@

# The site, in build/docs/site: python3 -m http.server -d build/docs/site shows it.
docs: .venv/dev
	$(BIN)/python -m scripts.docs_site

# Builds the wheel and the sdist, checks both, and tries the wheel in an environment that holds nothing else.
release: .venv/dev
	rm -rf dist build/empty
	$(BIN)/python -m hatchling build
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	test $$(cat dist/*.whl | wc -c) -le 2000000
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	build/empty/bin/python -m pip check
	scripts/try_release.sh build/empty

# The tools that robin works beside have an environment of their own: DeepEval's plug-in would start with every pytest.
# MLflow comes without its server, which takes 400 MB.
build/beside/ready: .venv/robin pyproject.toml
	@$(PYTHON) -m venv build/beside
	@$(UV) build/beside/bin/python inspect-ai deepeval mlflow-skinny --editable . || build/beside/bin/python -m pip install --quiet inspect-ai deepeval mlflow-skinny --editable .
	@rm -rf .venv/uv/cache
	@touch $@

test-beside: build/beside/ready
	build/beside/bin/python -m pytest --noconftest -o filterwarnings=ignore tests/beside

golden: .venv/dev
	@$(BIN)/python -m tests.golden $(SCENES)

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .test-servers
