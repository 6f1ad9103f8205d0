"""The documentation keeps its word: code runs and prints what the page says, commands work, links lead somewhere."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.utils import all_estimators

import dspnmf
from pages import Page, blocks, commands, commands_of, run

pytest.importorskip("sphinx", reason="the documentation needs sphinx (the extra `docs`)")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MADE = ("_build", "gallery", "api/generated")  # by the build
TUTORIALS = sorted(page for page in (DOCS / "tutorials").glob("*.md") if page.stem != "index")
PAGES = [
    ROOT / "README.md",
    *sorted(p for p in DOCS.rglob("*.md") if p.relative_to(DOCS).parts[0] not in ("gallery", "tutorials")),
]
PUBLIC_MODULES = (
    "anndata",
    "backends",
    "datasets",
    "estimators",
    "graphs",
    "io",
    "metrics",
    "persistence",
    "plot",
    "preprocessing",
    "report",
    "stability",
)
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
EXPERIMENTAL = ("HalvingGridSearchCV", "HalvingRandomSearchCV", "IterativeImputer")  # of scikit-learn, once enabled
NOT_RUN = {  # part of a statement -> why the tests do not run it
    "scanpy": "is not needed here; tests/test_anndata.py goes on with it where it is installed",
    'device="cuda"': "needs a GPU; tests/backends/test_torch.py fits tensors on the CPU, benchmarks/gpu.py on a device",
}
NOT_CALLED = {  # part of a command -> why the tests do not call it
    "reproduce --quick": "takes minutes; tests/cli/test_cli.py calls it for one data set",
    "reproduce --full": "takes hours, and files that do not come with the library",
}


def page_id(path: Path) -> str:
    """A page by its path in the project."""
    return path.relative_to(ROOT).as_posix()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with the files that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    wine = load_wine(as_frame=True)
    wine.frame.to_csv("wine.csv", index=False)
    wine.data[:20].to_csv("new.csv", index=False)
    Path("examples").mkdir()
    shutil.copy(ROOT / "examples" / "wine.csv", "examples")
    digits = load_digits().data[:300] / 16
    np.save("x.npy", digits)
    zarr = pytest.importorskip("zarr", reason="README reads a Zarr array (the extra `files`)")
    zarr.save("x.zarr", digits)
    return tmp_path


def given(page: Path) -> dict[str, object]:
    """Names that a page uses and leaves to the reader: its X, and the packages its lines are about."""
    if page.name not in ("README.md", "scaling.md"):
        return {}
    X = load_digits().data[:500] if page.name == "scaling.md" else load_wine().data  # 20 components: more than wine has
    packages = {name: pytest.importorskip(name) for name in ("torch", "dask")}
    importlib.import_module("dask.array")
    return {
        "X": X,
        "X_new": X[:5] if page.name == "scaling.md" else np.ones((2, 64)),
        "np": np,
        "DSPNMF": dspnmf.DSPNMF,
    } | packages


@pytest.mark.parametrize("page", [p for p in PAGES if any(b.language == "python" for b in blocks(p))], ids=page_id)
def test_code_runs(page: Path, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block of Python on a page runs, in order, as one module, and prints what the page says it prints."""
    module = ModuleType(f"page_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names = vars(module)
    names |= given(page)
    np.random.seed(0)  # noqa: NPY002  fits without a seed draw from this generator
    for block in blocks(page):
        if block.language == "python":
            run(page, block, names, lambda source: any(part in source for part in NOT_RUN))


@pytest.mark.parametrize(
    "lie",
    ["```python\nprint(1 + 1)  # 3\n```\n", "```python\nprint(2)\n```\n\n```text\n3\n```\n"],
    ids=["comment", "text"],
)
def test_a_page_that_lies_is_caught(lie: str, tmp_path: Path) -> None:
    """Code that prints something else than its page says fails."""
    page = tmp_path / "page.md"
    page.write_text(lie)
    with pytest.raises(AssertionError, match="printed"):
        run(page, blocks(page)[0], {}, lambda source: False)


def test_a_console_is_read(tmp_path: Path) -> None:
    """Commands of a console come with what it shows below them; those of a script are lines."""
    page = tmp_path / "page.md"
    page.write_text("```console\n$ dspnmf a  # why\none\ntwo\n$ ls\n```\n```bash\npip install .\ndspnmf b\n```\n")
    assert list(commands(page)) == [(["dspnmf", "a"], "one\ntwo\n"), (["dspnmf", "b"], "")]


def test_all_code_is_in_markdown() -> None:
    """No page in another markup holds code that the tests would not see."""
    written = [p for p in DOCS.rglob("*.rst") if not {"gallery", "generated", "_templates"} & set(p.parts)]
    assert [p.name for p in written if re.search(r"::\n\n|code-block::|>>>", p.read_text(encoding="utf-8"))] == []


def test_every_exception_is_used() -> None:
    """What is listed as not run is still somewhere on a page."""
    code = "".join(block.code for page in [*PAGES, *TUTORIALS] for block in blocks(page))
    called = [" ".join(words) for page in PAGES for words, _ in commands(page)]
    assert [part for part in NOT_RUN if part not in code] == []
    assert [part for part in NOT_CALLED if not any(part in call for call in called)] == []


@pytest.mark.parametrize("page", [p for p in PAGES if list(commands(p))], ids=page_id)
def test_commands_work(page: Path, desk: Path) -> None:
    """Every ``dspnmf`` command on a page, in order, ends well, and says what the page says it says."""
    pytest.importorskip("typer", reason="the command line needs typer (the extra `cli`)")
    app = importlib.import_module("dspnmf.cli.app").app
    for words, shown in commands(page):
        if not any(part in " ".join(words) for part in NOT_CALLED):
            called(app, words, shown)


def called(app: object, words: list[str], shown: str) -> None:
    """Call a command, which must end well and say what its page says it says."""
    typer = pytest.importorskip("typer.testing", reason="the command line needs typer (the extra `cli`)")
    result = typer.CliRunner().invoke(app, words[1:])
    assert result.exit_code == 0, f"{' '.join(words)}: {result.output}"
    assert shown.strip() in ("", result.stdout.strip())  # progress of a slow machine is not on it


@pytest.mark.parametrize("page", TUTORIALS, ids=page_id)
@pytest.mark.filterwarnings("ignore::FutureWarning:anndata")
def test_a_tutorial_runs_as_written(page: Path, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block of a tutorial, Python and commands in their order, works and prints what the page says."""
    stable = [found for found in all_estimators() if found[0] not in EXPERIMENTAL]  # what others may have switched on
    monkeypatch.setattr("sklearn.utils.all_estimators", lambda: stable)
    module = ModuleType(f"tutorial_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    app = importlib.import_module("dspnmf.cli.app").app
    for block in blocks(page):
        if block.language == "python":
            run(page, block, vars(module), lambda source: any(part in source for part in NOT_RUN))
        for words, shown in commands_of(block):
            called(app, words, shown)


def test_five_tutorials_of_one_page() -> None:
    """There are five tutorials, each with code, and none longer than a page of 100 lines."""
    assert len(TUTORIALS) == 5
    for page in TUTORIALS:
        assert any(block.language == "python" for block in blocks(page))
        assert len(page.read_text(encoding="utf-8").splitlines()) <= 100, page.name


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation, built from a copy of the sources, once; warnings are errors."""
    copy = tmp_path_factory.mktemp("project")
    for folder in ("docs", "examples", "tests", "benchmarks", "src"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", *MADE, "generated"))
    for file in ("README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / file, copy / file)
    out = copy / "html"
    call = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-j2",
        "-b",
        "html",
        str(copy / "docs"),
        str(out),
    ]
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(call, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths}, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return out


@pytest.fixture(scope="module")
def pages(built: Path) -> dict[Path, Page]:
    """Every built page."""
    return {path: Page(path) for path in sorted(built.rglob("*.html")) if "_static" not in path.parts}


def test_builds(built: Path) -> None:
    """The documentation builds without a warning, and every page of the guide is there."""
    sources = [p for p in DOCS.rglob("*.md") if not {"reproduction", "gallery"} & set(p.relative_to(DOCS).parts[:-1])]
    for source in sources:
        assert (built / source.relative_to(DOCS)).with_suffix(".html").exists()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path, built: Path) -> None:
    """Every example ran when the gallery was built, made a picture, and warned of nothing."""
    page = (built / "gallery" / f"{example.stem}.html").read_text(encoding="utf-8")
    assert f"sphx_glr_{example.stem}_001.png" in page
    assert "Warning:" not in page


def test_links(built: Path, pages: dict[Path, Page]) -> None:
    """Every link inside the documentation leads to a file, and to a place on it."""
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages.get(target)
            if not target.exists() or (parts.fragment and known and unquote(parts.fragment) not in known.anchors):
                broken.append(f"{path.relative_to(built)}: {link}")
    assert broken == []


def test_loads_nothing_from_elsewhere(built: Path, pages: dict[Path, Page]) -> None:
    """Scripts, styles, fonts and pictures of a page come with it."""
    outside, missing = [], []
    for path, page in pages.items():
        for load in page.loads - {"#"}:
            parts = urlsplit(load)
            if parts.scheme or parts.netloc:
                outside.append(f"{path.relative_to(built)}: {load}")
            elif not (path.parent / unquote(parts.path)).exists():
                missing.append(f"{path.relative_to(built)}: {load}")
    styles = [s.name for s in built.rglob("*.css") if re.search(r"url\(\s*['\"]?(https?:)?//", s.read_text("utf-8"))]
    assert (outside, missing, styles) == ([], [], [])


def public_names() -> list[str]:
    """Every name a user may import: those the package and its public modules export, where they are documented."""
    found = [f"dspnmf.{name}" for name in dspnmf.__all__ if not name.startswith("_")]
    for name in PUBLIC_MODULES:
        module = importlib.import_module(f"dspnmf.{name}")
        own = [key for key, m in inspect.getmembers(module) if getattr(m, "__module__", "") == module.__name__]
        exported = getattr(module, "__all__", [key for key in own if key[0] != "_"])
        elsewhere = [key for key in exported if getattr(dspnmf, key, None) is getattr(module, key)]
        found += [f"dspnmf.{name}.{key}" for key in exported if key not in elsewhere]
    return found


@pytest.mark.parametrize("name", public_names())
def test_api_names(name: str, built: Path) -> None:
    """Every public name has a page."""
    assert (built / "api" / "generated" / f"{name}.html").exists()
