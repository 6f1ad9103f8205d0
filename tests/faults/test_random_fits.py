"""Random fits are judged by the documented promises; a judge that misses a broken number would be worthless."""

from __future__ import annotations

import pytest
from random_fits import study


def test_quick() -> None:
    """300 random fits keep every promise."""
    found = study(range(300))
    assert not found.failures, str(found)


@pytest.mark.slow
def test_many() -> None:
    """3,000 others do, too."""
    found = study(range(300, 3_300), jobs=2)
    assert not found.failures, str(found)
