PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# as many processes as there are cores, each with all its threads (they are tested too); a file's tests share fixtures
PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile
export PYTHONHASHSEED ?= 0

.PHONY: demo readme picture docs test test-all check bench clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[test,plot,report,cli]"
	touch $@

# what the demo needs, without readers of files and test tools; nothing to install where they are already
$(VENV)/.demo: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -e $(VENV)/.installed || $(BIN)/python -m pip install --quiet --editable ".[demo]"
	touch $@

demo: $(VENV)/.demo  ## the paper's comparison on data that comes with scikit-learn, few ranks and runs; prints where its page is
	$(BIN)/dspnmf reproduce --quick --out out/demo

readme: $(VENV)/.installed  ## docs/reproduction from its measurements, and from it the figures of pages and README.md
	$(BIN)/python docs/update_reproduction.py
	$(BIN)/python docs/update_figures.py
	$(BIN)/python docs/update_readme.py

picture: $(VENV)/.installed  ## the picture of README.md
	$(BIN)/python docs/picture.py

docs: $(VENV)/.installed  ## the documentation, into out/docs; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -j2 -d out/doctrees docs out/docs
	@echo "Page: out/docs/index.html"

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

test: check  ## every check but the slow studies
	$(PYTEST) -m "not slow"

test-all: check  ## with the slow studies
	$(PYTEST)

bench: $(VENV)/.installed  ## every benchmark, as tables, into benchmarks/README.md; FULL=1: at full size
	$(BIN)/python benchmarks/_run.py $(if $(FULL),--full)

clean:
	rm -rf $(VENV) out build dist docs/gallery docs/api/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis
