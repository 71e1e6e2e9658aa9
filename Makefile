# make demo: the main job, on bundled pairs, in under a minute.   make test: every check.
# Both need Python 3.11 or later and make; all else is set up in .venv here.

PYTHON ?= python3
BIN := .venv/bin

# Where it is set, each of the test processes would compile robin and the tests anew.
unexport PYTHONDONTWRITEBYTECODE
# Three processes of tests share two cores: threads of numpy beside them only wait for each other.
pytest test-all: export OPENBLAS_NUM_THREADS := 1

.PHONY: demo test test-all test-beside lint types pytest docs dist golden clean

demo: .venv/robin
	@$(BIN)/robin demo

# The types are checked beside the tests; what is said of them is said whole, as soon as they are done.
test: lint
	@said=$$(mktemp) && { $(MAKE) types >"$$said" 2>&1; types=$$?; cat "$$said"; rm "$$said"; exit $$types; } & \
	$(MAKE) pytest; tests=$$?; wait $$! && exit $$tests

lint: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/dev
	$(BIN)/mypy

pytest: .venv/dev
	$(BIN)/python -m pytest -n 3 --dist worksteal # they wait for other processes more than they work

# Also the whole of what each run tests a part of: every kill at every write, every fault of a cluster.
test-all: .venv/dev
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "" --hypothesis-profile whole

# uv takes a sixth of pip's work; pip takes over where uv finds no index (it does not read pip's configuration). Neither compiles
# what it brings: most modules of Ray nobody imports.
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

# What a release is: a wheel and an sdist, which tests/test_wheel.py checks; here the wheel is tried where there is nothing else.
dist: .venv/dev
	rm -rf dist build/empty
	$(BIN)/python -m hatchling build
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd build && empty/bin/robin demo --run empty/demo >/dev/null
	build/empty/bin/python -m pip check

# The tools that robin works beside, in an environment of their own: the plug-in of DeepEval would start with every pytest.
# MLflow without its server, which takes 400 MB.
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
