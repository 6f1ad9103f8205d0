"""What a page of Markdown promises: blocks of Python with what they print, commands, and links of built pages."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shlex
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

SHELL = ("bash", "console", "sh", "shell")
COMMENT = re.compile(r"\)\s+# (.+)$")


class Block(NamedTuple):
    """One fenced block; `printed` is the block of text that follows a block of Python at once."""

    language: str
    code: str
    line: int
    printed: str | None


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    found: list[Block] = []
    inside, between = None, ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(keepends=True), 1):
        if line.startswith("```") and inside is None:
            inside = Block(line[3:].strip(), "", number + 1, None)
        elif line.startswith("```") and inside is not None:
            if inside.language == "text" and found and not between.strip():
                found[-1] = found[-1]._replace(printed=inside.code)
            found.append(inside)
            inside, between = None, ""
        elif inside is not None:
            inside = inside._replace(code=inside.code + line)
        else:
            between += line
    return found


def run(page: Path, block: Block, names: dict[str, Any], skipped: Callable[[str], bool]) -> None:
    """Run a block of Python, statement by statement, and compare what it prints with what the page says.

    ``print(...)  # text`` must print that text; a block of text after the code is what all other statements print.
    """
    spoken = ""
    for statement in ast.parse(block.code).body:
        source = ast.get_source_segment(block.code, statement) or ""
        if skipped(source):
            continue
        ast.increment_lineno(statement, block.line - 1)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(ast.Module([statement], []), str(page), "exec"), names)
        line = block.code.splitlines()[(statement.end_lineno or 0) - block.line]
        promise = COMMENT.search(line) if source.startswith("print(") else None
        if promise:
            assert said.getvalue().strip() == promise[1], f"{page.name}, {source}: printed {said.getvalue()!r}"
        else:
            spoken += said.getvalue()
    if block.printed is not None:
        assert spoken.rstrip() == block.printed.rstrip(), f"{page.name}, line {block.line}: printed\n{spoken}"


def commands(page: Path) -> Iterator[tuple[list[str], str]]:
    """The calls of ``dspnmf`` in the shell blocks of a page, as words; and what a console shows below each."""
    for block in blocks(page):
        yield from commands_of(block)


def commands_of(block: Block) -> Iterator[tuple[list[str], str]]:
    """The same of one block."""
    if block.language in SHELL:
        shown = block.language == "console"
        for part in re.split(r"^\$ " if shown else r"^", block.code.replace("\\\n", " "), flags=re.MULTILINE):
            line, _, output = part.partition("\n")
            words = shlex.split(line, comments=True)
            if words[:1] == ["dspnmf"]:
                yield words, output if shown else ""


class Page(HTMLParser):
    """A built page: where it leads, what it loads, and where one can land on it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Sort what a tag refers to."""
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        elif tag == "link" and found.get("rel") not in ("canonical", "next", "prev", "search", "index", "author"):
            self.loads.add(found.get("href", ""))
        self.loads |= {found[name] for name in ("src", "data") if found.get(name, "data:")[:5] != "data:"}
        self.loads |= {part.split()[0] for part in found.get("srcset", "").split(",") if part.strip()}
