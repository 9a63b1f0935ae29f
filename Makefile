PYTHON ?= python3
BIN := .venv/bin
# pip install, without the extra indexes that do not answer and, on Linux without a GPU, with PyTorch's CPU build.
INSTALL = $(BIN)/python tools/install.py

# Two processes; a module stays in one of them, so that what it trains is trained once. In alphabetical order the last
# ones are short, where by their number of tests the few that train long would come last and leave a process idle.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: quickstart test test-long test-trains lint wheel reference docs constraints lock audit clean

quickstart: .venv/.user  ## install, train the small example, compare the runs
	$(BIN)/mate train experiment=quickstart
	$(BIN)/mate compare outputs/

test: .venv/.dev  ## what to run before a commit: all parts of the package, of families of cases a sample
	$(PYTEST) -m "not long" $(OPTIONS)

test-long: .venv/.dev  ## the rest: whole releases, several processes, browsers, all cases; six times the random tables
	$(PYTEST) -m "long or hypothesis" --hypothesis-profile=long $(OPTIONS)

test-trains: .venv/.dev  ## the tests that train, with the instructions that any processor has
	ATEN_CPU_CAPABILITY=default $(PYTEST) -m "trains and not long" $(OPTIONS)

lint: .venv/.dev  ## style, types and floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

wheel: .venv/.dev  ## dist/*.whl
	rm -rf dist
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

reference: .venv/bin/python  ## write docs/reference/python.md from the code
	$(BIN)/python tools/python_reference.py

docs: .venv/bin/mkdocs  ## the documentation as a site, in build/site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

constraints: .venv/.dev  ## write the installed versions to constraints.txt
	{ sed -n '/^#/p' constraints.txt; $(BIN)/python -m pip freeze --all --exclude-editable | sed '/^pip=/d; s/+cpu$$//'; } > constraints.new
	mv constraints.new constraints.txt

lock: .venv/.tools  ## write the sums of what constraints.txt pins to requirements.lock
	sed -n '/^#/p' requirements.lock > lock.new
	.venv/tools/bin/uv pip compile pyproject.toml --quiet --extra dev --extra tensorflow --python-version 3.11 --python-platform x86_64-unknown-linux-gnu \
		--constraints constraints.txt --generate-hashes --no-annotate --no-header | \
		awk '/^[^ ]/ {skip = /^(torch==|nvidia-|cuda-)/} !skip' >> lock.new
	mv lock.new requirements.lock

audit: .venv/.tools  ## known weaknesses of what is locked; says so where their database cannot be reached
	.ci/audit .venv/tools/bin/pip-audit

clean:  ## remove the environment and what was built; outputs/ stays
	rm -rf .venv build dist

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.tools: | .venv/bin/python
	$(BIN)/python -m venv .venv/tools
	.venv/tools/bin/python -m pip install --quiet --disable-pip-version-check pip-audit uv
	touch $@

# What CI begins with: nothing is installed whose sum is not the one that was tested, but for torch.
.venv/.locked: requirements.lock | .venv/bin/python
	$(INSTALL) --no-deps --require-hashes -r requirements.lock
	touch $@

.venv/.user: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) -c constraints.txt -e .
	touch $@

.venv/bin/mkdocs: .venv/.dev
	$(INSTALL) -c constraints.txt -e ".[docs]"

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) -c constraints.txt -e ".[dev]"
	touch $@ .venv/.user
