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
        metavar="DATA",
        help="CSV, TSV, Excel (.xlsx), Parquet, .npy, .npz, .mtx, .mat, Zarr, HDF5, .h5ad, a folder "
        "of images, or a folder of Cell Ranger.",
        show_default=False,
    ),
]
Scale = Annotated[
    Literal["common", "minmax", "max", "l2", "none"] | None,
    typer.Option(
        help="How the data are scaled: all features divided by one number (common), each feature to [0, 1] (minmax), "
        "each feature divided by its largest value (max), each sample to unit length (l2), or not at all (none).",
        show_default="common for data in one unit, else minmax; none for files above 1 GiB",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of random numbers.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing results.")]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where in the program an error arose.")]


def _read_options(
    label: Annotated[
        str | None,
        typer.Option(
            help="Name of the column with the labels (.mat: of a variable); it is not a feature.", show_default=False
        ),
    ] = None,
    index: Annotated[
        str | None, typer.Option(help="Name of the column that names the samples.", show_default="detected")
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(help="Character that separates columns of text; tab for tabs.", show_default="detected"),
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether the first row holds names.", show_default="detected"),
    ] = None,
    variable: Annotated[
        str | None, typer.Option(help="Name of the array or sheet, where a file holds several.", show_default=False)
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="Name of a column that is not a feature; may be given several times.", show_default=False),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            help="Name of a feature that looks like row numbers, an id, a label, an axis or the time; may be given "
            "several times.",
            show_default=False,
        ),
    ] = None,
    decimal: Annotated[str | None, typer.Option(help="Decimal mark in text: . or ,", show_default="detected")] = None,
    thousands: Annotated[
        str | None,
        typer.Option(help="What separates thousands in text: . , ' space or none.", show_default="detected"),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of text, such as cp1252 or utf-16.", show_default="detected")
    ] = None,
    skip_rows: Annotated[
        int | None, typer.Option(min=0, help="Number of lines above the table in a text file.", show_default="detected")
    ] = None,
    na: Annotated[
        list[str] | None,
        typer.Option(
            help="Word for a missing value, in addition to NA, n.d., <LOD, - and others; may be given several times."
        ),
    ] = None,
    transpose: Annotated[
        bool | None,
        typer.Option(
            "--transpose/--no-transpose",
            help="Whether samples are in columns, as instruments write spectra.",
            show_default="detected",
        ),
    ] = None,
) -> dict[str, Any]:
    """Keyword arguments of `dspnmf.io.read`: the options that were given."""
    delimiter = "\t" if delimiter in ("\\t", "tab") else delimiter
    several = {"exclude": exclude, "include": include, "na": na}
    options = {
        "label": label,
        "index": index,
        **{name: tuple(values) if values else None for name, values in several.items()},
        "delimiter": delimiter,
        "header": header,
        "variable": variable,
        "decimal": decimal,
        "thousands": thousands,
        "encoding": encoding,
        "skip_rows": skip_rows,
        "transpose": transpose,
    }
    return {name: value for name, value in options.items() if value is not None}


def numbers(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers from a list with commas, the value of an option."""
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ValueError(f"{option} {text!r} is not a list of whole numbers: write for example 2,3,5.") from None


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
