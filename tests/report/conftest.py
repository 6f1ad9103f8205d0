"""The browser that all tests of pages share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from browser import Browser, launched


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all pages."""
    with launched(tmp_path_factory.mktemp("profile")) as found:
        yield found
