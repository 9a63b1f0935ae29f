PYTHON ?= python3
BIN := .venv/bin
# --no-compile: Python compiles what is used when it is used, which saves a quarter of the time.
INSTALL = $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt

# Two processes; a module stays in one of them, so that what it trains is trained once.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile

.PHONY: quickstart test test-long lint wheel docs constraints clean

quickstart: .venv/.user  ## install, train the small example, compare the runs
	$(BIN)/mate train experiment=quickstart
	$(BIN)/mate compare outputs/

test: .venv/.dev  ## what to run before a commit: everything once, in five minutes on two cores
	$(PYTEST) -m "not long" $(OPTIONS)

test-long: .venv/.dev  ## the rest: whole releases, several processes, browsers; ten times the random tables
	$(PYTEST) -m "long or hypothesis" --hypothesis-profile=long $(OPTIONS)

lint: .venv/.dev  ## style, types and floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

wheel: .venv/.dev  ## dist/*.whl
	rm -rf dist
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

docs: .venv/bin/mkdocs  ## the documentation as a site, in build/site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

constraints: .venv/.dev  ## write the installed versions to constraints.txt
	{ sed -n '/^#/p' constraints.txt; $(BIN)/python -m pip freeze --all --exclude-editable | sed '/^pip=/d; s/+cpu$$//'; } > constraints.new
	mv constraints.new constraints.txt

clean:  ## remove the environment and what was built; outputs/ stays
	rm -rf .venv build dist

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.user: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) -e .
	touch $@

.venv/bin/mkdocs: .venv/.dev
	$(INSTALL) -e ".[docs]"

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) -e ".[dev]"
	touch $@ .venv/.user
