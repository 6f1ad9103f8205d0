"""Options that several commands share: about the file of data, and about the output."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

Data = Annotated[
    Path,
    typer.Argument(
        help="CSV, TSV, Parquet, .npy, .npz, .mtx, .mat, Zarr, HDF5, .h5ad, or a folder of images.", show_default=False
    ),
]
Scale = Annotated[
    Literal["minmax", "max", "l2", "none"] | None,
    typer.Option(
        help="Features to [0, 1], by their largest value, rows to unit length, or as they are.",
        show_default="minmax; max for sparse data; none for files above 1 GiB",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of random numbers.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing results.")]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where in the program an error arose.")]


def _read_options(
    label: Annotated[
        str | None,
        typer.Option(help="Column of labels, by name (.mat: a variable); not a feature.", show_default=False),
    ] = None,
    index: Annotated[str | None, typer.Option(help="Column that names the samples.", show_default="found")] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="Character between columns of text, or tab.", show_default="found")
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether the first row holds names.", show_default="found"),
    ] = None,
    variable: Annotated[
        str | None, typer.Option(help="Name of the array, where a file holds several.", show_default=False)
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Column that is not a feature; repeatable.", show_default=False)
    ] = None,
) -> dict[str, Any]:
    """Keyword arguments of `dspnmf.io.read`: the options that were given."""
    delimiter = "\t" if delimiter in ("\\t", "tab") else delimiter
    columns = {"label": label, "index": index, "exclude": tuple(exclude) if exclude else None}
    options = {**columns, "delimiter": delimiter, "header": header, "variable": variable}
    return {name: value for name, value in options.items() if value is not None}


def reads_file(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `dspnmf.io.read`; it gets those that were given as `read_options`."""
    signature = inspect.signature(function, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "read_options"]
    added = inspect.signature(_read_options, eval_str=True).parameters

    @wraps(function)
    def command(**arguments: Any) -> None:
        given = {name: arguments.pop(name) for name in added}
        function(**arguments, read_options=_read_options(**given))

    command.__signature__ = signature.replace(parameters=[*own, *added.values()])  # type: ignore[attr-defined]
    return command
