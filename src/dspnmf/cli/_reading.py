"""Options about the file of data, shared by the commands that read one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dspnmf.workflow import SCALES

Data = Annotated[
    Path,
    typer.Argument(
        help="CSV, TSV, Parquet, .npy, .npz, .mtx, .mat, Zarr, HDF5, .h5ad, or a folder of images.", show_default=False
    ),
]
Label = Annotated[
    str | None, typer.Option(help="Column of labels, by name (.mat: a variable); no feature.", show_default=False)
]
Index = Annotated[str | None, typer.Option(help="Column that names the samples.", show_default="found")]
Delimiter = Annotated[str | None, typer.Option(help="What separates columns of text.", show_default="found")]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether the first row holds names.", show_default="found")
]
Variable = Annotated[
    str | None, typer.Option(help="Name of the array, where a file holds several.", show_default=False)
]
Exclude = Annotated[list[str] | None, typer.Option(help="Column that is no feature; repeatable.", show_default=False)]
Scale = Annotated[
    str | None,
    typer.Option(
        help=f"{', '.join(SCALES)}: features to [0, 1], by their largest value, rows to unit length, as they are.",
        show_default="minmax; max for sparse data; none for files above 1 GiB",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace results that are there.")]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where in the program an error arose.")]


def reading(
    label: str | None,
    index: str | None,
    delimiter: str | None,
    header: bool | None,
    variable: str | None,
    exclude: list[str] | None,
) -> dict[str, Any]:
    """What `dspnmf.io.read` is told; what was not said is left to it."""
    options = {
        "label": label,
        "index": index,
        "delimiter": {"\\t": "\t", "tab": "\t"}.get(delimiter or "", delimiter),
        "header": header,
        "variable": variable,
        "exclude": tuple(exclude) if exclude else None,
    }
    return {name: value for name, value in options.items() if value is not None}


def check_scale(scale: str | None) -> None:
    """One of the known ways."""
    if scale is not None and scale not in SCALES:
        raise typer.BadParameter(f"{scale!r} is no scaling: choose from {', '.join(SCALES)}.", param_hint="--scale")
