"""Rank and weight of a table, by cross-validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dspnmf.io import Table
from dspnmf.selection import DSPNMFCV
from dspnmf.workflow.scaling import default_scale, scaled, scaler
from dspnmf.workflow.tables import check_values, labels_of


def select_table(table: Table, parameters: Mapping[str, Any], scale: str | None = None) -> tuple[Any, str]:
    """Candidates compared, with the labels if the table has some; and how the table was scaled."""
    scale = scale or default_scale(table)
    check_values(table, missing=False, scale=scale, way="fill it, or leave the sample or the feature out")
    here = scaled(table, scaler(scale, table).fit(table.X))
    return DSPNMFCV(**parameters).fit(here.X, labels_of(table)), scale
