"""One self-contained HTML file: templates, style and scripts put together.

The page asks nothing of any network: its Content-Security-Policy forbids every request and allows just the scripts and
the style that are in it, by their hashes. Text is escaped wherever it comes from; data lie in JSON blocks in which no
character can end the block. The same content gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any, NamedTuple

from dspnmf.report.charts import plain

_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


class Assets(NamedTuple):
    """Styles and scripts of a page, in their order, and whether it contains pictures (as data addresses)."""

    styles: tuple[str, ...] = ("page.css", "parts.css")
    scripts: tuple[str, ...] = ("scale.js", "chart.js", "figure.js", "table.js", "theme.js")
    pictures: bool = False


SHARED = Assets()


def render(template: str, assets: Assets = SHARED, **content: Any) -> str:
    """A page from one of the templates."""
    environment = require()
    safe = import_module("markupsafe").Markup
    content |= {
        "policy": policy(assets),
        "styles": [safe(asset(name)) for name in assets.styles],
        "scripts": [safe(asset(name)) for name in assets.scripts],
    }
    return environment.get_template(template).render(content)


def embed(data: object) -> str:
    """Data as JSON that is safe between script tags."""
    text = json.dumps(plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_UNSAFE)


def policy(assets: Assets = SHARED) -> str:
    """The Content-Security-Policy: nothing from outside, and inside only the styles and scripts of these assets."""
    digests = {name: hashlib.sha256(asset(name).encode()).digest() for group in assets[:2] for name in group}
    hashes = {name: f"'sha256-{base64.b64encode(digest).decode()}'" for name, digest in digests.items()}
    styles, scripts = (" ".join(hashes[name] for name in group) for group in assets[:2])
    pictures = "img-src data:; " if assets.pictures else ""
    return (
        f"default-src 'none'; {pictures}style-src {styles}; script-src {scripts}; base-uri 'none'; form-action 'none'"
    )


@cache
def asset(name: str) -> str:
    """The text of a style or a script."""
    return files("dspnmf.report").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def require() -> Any:
    """The templates, with escaping on in all of them; where jinja2 is missing, an error that says what to install."""
    try:
        jinja2, safe = import_module("jinja2"), import_module("markupsafe").Markup
    except ImportError as error:
        raise ImportError('The page needs jinja2: install it with pip install "dspnmf[report]".') from error
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["embed"] = lambda data: safe(embed(data))
    return environment
