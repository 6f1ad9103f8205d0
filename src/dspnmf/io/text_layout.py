"""Where the table is in a text file: the delimiter, lines above the table, names and units of its columns.

All of it is found from the first lines, by what they have in common: a table has rows of as many cells, most of them
numbers, below at most a few rows of text.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile
from math import nan
from pathlib import Path

from dspnmf._option_words import option
from dspnmf.io.cell_units import is_measured
from dspnmf.io.errors import quoted, refused
from dspnmf.io.number_format import USUAL, NumberFormat, Tally, could_be_number
from dspnmf.io.other_rows import is_comment, is_ruler
from dspnmf.io.table import Options
from dspnmf.io.text_file import Row, TextFile

_DELIMITERS = ("\t", ";", "|", ",", " ", "^", "~")  # the first that fits wins a tie
_RARE = ":/&!#*_"  # that may separate cells, too
_FIRST_LINES = 20
_LINES, _LETTERS = 200, 2**21  # that are looked at for the delimiter
_ROWS, _CELLS = 200, 100_000  # and for all else
_TRIED = 20_000  # cells that are tried as numbers, for each delimiter
_HEADINGS = 4  # rows of text above the numbers
_FEW, _MANY = 4, 8  # cells that may be numbers and yet names: counted, rising
_IDENTIFIERS = frozenset(("id", "ids", "index", "key", "name", "names", "row", "sample", "samples"))
_NAMED = {"\\t": "\t", "tab": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}
_COMMENTS = ("#", "%", "!", "//")
WORDS = {"\t": "tabs", " ": "blanks"}


@dataclass(frozen=True)
class Layout:
    """How rows are separated, lines above the data, a name and a unit for each column, and what was assumed."""

    delimiter: str
    skip: int
    names: list[str]
    units: list[str]  # empty where there are none
    named: bool  # whether the names are in the file
    unnamed_index: bool
    rows: list[Row]  # the first ones
    assumed: tuple[str, ...]


def find_layout(file: TextFile, options: Options, allowed: Sequence[NumberFormat]) -> Layout:
    """The layout that the options and the first rows suggest."""
    above, comment, given = _comments(file, options.skip_rows or 0)
    delimiter = _delimiter(file, above, options.delimiter or given)
    sample: list[Row] = []
    for row in file.rows(delimiter, above):
        if is_ruler(row[1]):
            continue
        sample.append(row)
        if len(sample) > _ROWS or (len(sample) > 2 and len(sample) * len(row[1]) > _CELLS):
            break
    if not sample:
        raise refused(file.path, "it has no rows. Check how it was made.")
    begin, width = _begin(sample)
    head, rows = sample[:begin], [row for row in sample[begin:] if not is_comment(row[1], width)]
    tally = Tally()
    for row in rows[1:]:
        tally.add(row)
    form = tally.best(allowed)
    heading = _headings(rows, form) if options.header is None else int(options.header)
    top: list[Row] = []
    if options.header is not False and head and _is_short_header(head[-1][1], rows, width):
        top, head, heading = [head[-1]], head[:-1], heading if options.header is None else 0
    top, rows = [*top, *rows[:heading]], rows[heading:]
    if options.header is None and not top and len(noted := _cells(comment, delimiter)) == width > 1:
        top = [(0, noted)]
    if head and not top and len(head[-1][1]) > 1:
        line, cells = head[-1]
        what = f"line {line} has {len(cells)} cells, but the rows below have {width}"
        fix = "quote numbers with decimal commas, or separate cells by semicolons" if delimiter == "," else "correct it"
        advice = f"pass {option('skip_rows', str(line))} if the table begins below it"
        raise refused(
            file.path, f"{what} (separated by {WORDS.get(delimiter, quoted(delimiter))}): {fix}, or {advice}."
        )
    if not rows:
        raise refused(file.path, "it has names but no rows below them. Check how it was made.")
    return _described(file.path, delimiter, head, top, rows, width)


def _described(path: Path, delimiter: str, head: list[Row], top: list[Row], rows: list[Row], width: int) -> Layout:
    """The layout, with names from the rows of text at the top and what was assumed in words."""
    titles = [row for row in top if _is_title(row[1])] if len(top) > 1 else []
    head, top = [*head, *titles], [row for row in top if row not in titles]
    names, units = _names([[cell.strip() for cell in cells] for _, cells in top], width)
    shifted = bool(top) and len(names) == width - 1
    if shifted:  # R leaves out the name of the names of rows; or a delimiter ends the rows, but not the names
        trailing = all(len(cells) == width and not cells[-1].strip() for _, cells in rows)
        names, units = ([*names, ""], units) if trailing else (["", *names], units)
        shifted = not trailing
    names, units = names[:width], units[:width]
    where = [line for line, _ in top if line]
    assumed = [f"cells separated by {WORDS.get(delimiter, quoted(delimiter))}"] * (width > 1)
    assumed += [f"{len(head)} line{'s' * (len(head) > 1)} above the table left out"] * bool(head)
    if not top:
        assumed.append("no names of columns")
    elif where:
        lines = where[:1] if units and len(where) == 2 else where[:2]
        assumed.append(f"names in line{'s' * (len(lines) > 1)} {' and '.join(map(str, lines))}")
        assumed += [f"units in line {where[-1]}"] * bool(units)
    else:
        assumed.append("names in a comment")
    return Layout(
        delimiter=delimiter,
        skip=rows[0][0] - 1,
        names=names if top else [""] * width,
        units=units,
        named=bool(top),
        unnamed_index=shifted or (bool(top) and width > 1 and not names[0]),
        rows=rows,
        assumed=tuple(assumed),
    )


def _comments(file: TextFile, skip: int) -> tuple[int, str, str | None]:
    """Lines before the rows, the last comment in them, and the delimiter, if a first line ``sep=;`` gives it."""
    comment, given = "", None
    for count, line in enumerate(file.lines(skip), start=skip):
        text = line.strip()
        if text.startswith(_COMMENTS) and text[1:2] not in _DELIMITERS[:4]:
            comment = text.lstrip("#%!/").strip(" ")
        elif text.lower().startswith("sep=") and len(text) <= 5 and count == 0:
            given = text[4:] or "\t"
        elif text:
            return count, comment, given
    raise refused(file.path, "it has no rows: it is empty, or all of it is comments. Check how it was made.")


def _cells(comment: str, delimiter: str) -> list[str]:
    """A comment as a row of names."""
    noted = comment.split() if delimiter == " " else comment.split(delimiter)
    return [name.strip(' "') for name in noted]


def _delimiter(file: TextFile, skip: int, given: str | None) -> str:
    """The delimiter that is given, or what gives every line as many cells, and most of them numbers."""
    if given:
        delimiter = _NAMED.get(given, given)
        if len(delimiter) != 1 or delimiter in '"\r\n':
            what = f"{option('delimiter', delimiter)} must be one character, such as ; or the word tab."
            raise refused(file.path, what)
        return delimiter
    left, lines = _LETTERS, []
    for line in islice(file.lines(skip), _LINES):
        lines.append(line[:_LETTERS])
        left -= len(line)
        if left < 0:
            break
    fits = {delimiter: _fit(lines, delimiter) for delimiter in _DELIMITERS}
    if fits["\t"][-1] == 1.0:
        del fits[" "]  # the blanks are within cells
    return max(fits, key=lambda delimiter: fits[delimiter])


def other_delimiter(file: TextFile, skip: int) -> str:
    """A character that is not tried and is as often in every one of the first lines; "" if there is none."""
    lines = [line for line in islice(file.lines(skip), _FIRST_LINES) if line.strip()]
    counts = {mark: {line.count(mark) for line in lines} for mark in _RARE}
    return next((mark for mark, found in counts.items() if len(found) == 1 and found != {0}), "")


def _fit(lines: list[str], delimiter: str) -> tuple[float, ...]:
    """How well a delimiter fits the rows from where the table begins: as many cells, and most of them numbers."""
    if delimiter == " ":
        lines = [" ".join(line.split()) for line in lines]
    try:
        rows = [row for row in csv.reader(lines, delimiter=delimiter) if any(cell.strip() for cell in row)]
    except csv.Error:
        return (0.0,)
    if not rows:
        return (0.0,)
    begin, width = _begin([(0, row) for row in rows])
    if width < 2:
        return (0.0,)
    rows = rows[begin:]
    same = sum(len(row) == width for row in rows) / len(rows)
    cells = [cell for row in rows[1:] or rows for cell in row][:_TRIED]
    filled = [cell for cell in cells if not USUAL.is_missing(cell)]
    found = sum(could_be_number(cell) or is_measured(cell) for cell in filled) / max(len(filled), 1)
    return (1.0, round(same * found, 2), float(same == 1.0 and delimiter != " "), same)


def _begin(rows: Sequence[Row]) -> tuple[int, int]:
    """Where the table begins, and its width: that of most rows in the lower half; two such rows are its beginning."""
    widths = [len(cells) for _, cells in rows]
    lower = Counter(widths[len(widths) // 2 :])
    width = max(lower.items(), key=lambda item: (item[0] > 1, item[1]))[0]
    for at in range(len(widths)):
        if widths[at] == width and (at + 1 == len(widths) or widths[at + 1] == width):
            break
    else:
        at = widths.index(width)
    longer = [row for row, (_, cells) in enumerate(rows[:at]) if len(cells) > width + (not cells[-1].strip())]
    if longer:  # a row of a damaged table, if one that fits, or names, are above it
        at = next((row for row in range(longer[-1]) if widths[row] in (width, width - 1)), at)
    return at, width


def _is_title(cells: list[str]) -> bool:
    """Whether a row has text in its first cells only, as lines above a table have that a spreadsheet filled up."""
    filled = [bool(cell.strip()) for cell in cells]
    count = sum(filled)
    return len(cells) > 2 and all(filled[:count]) and 2 * count <= len(cells)


def _is_short_header(cells: list[str], rows: Sequence[Row], width: int) -> bool:
    """Whether the row above the table has its names, one less than columns, or one more that is empty."""
    if len(cells) == width + 1:
        return not cells[-1].strip() and all(cell.strip() for cell in cells[:-1])
    if len(cells) != width - 1 or not all(cell.strip() for cell in cells):
        return False
    texts = [cell for cell in cells if not could_be_number(cell)]
    return bool(rows) and (len(texts) == len(cells) or not texts)


def _names(top: list[list[str]], width: int) -> tuple[list[str], list[str]]:
    """Names and units from the rows of text above the numbers.

    A first row of names that are all there and all different is followed by units, if by anything; one with gaps or the
    same name twice has groups of columns, and the second row their names.
    """
    if not top:
        return [""] * width, []
    first, *more = top
    if not more:
        return first, []
    inner = [name for name in first[1:] if name]
    if len(set(inner)) == len(first) - 1:
        return first, more[-1]
    group, joined = "", []
    for name, lower in zip(first, more[0], strict=False):
        group = name or group
        joined.append(f"{group} {lower}".strip())
    return joined, more[1] if len(more) > 1 else []


def _headings(rows: Sequence[Row], form: NumberFormat) -> int:
    """How many of the first rows are names and units."""
    titles = sum(1 for _ in takewhile(lambda row: _is_title(row[1]), rows))
    for above in dict.fromkeys((0, titles)):
        if count := _texts_above_numbers(rows[above:], form):
            return above + count
    numeric, count = _numeric_columns(rows, form), 0
    while len(rows) > count + 1 and _is_title(rows[count][1]) and _has_names(rows[count + 1 :], form):
        count += 1
    if not _has_names(rows[count:], form):
        return 0
    units = rows[count + 1][1] if len(rows) > count + 2 else []
    over = [units[column] for column in numeric if column < len(units) and not form.is_missing(units[column])]
    return count + 1 + (bool(over) and not any(map(form.is_number, over)))


def _texts_above_numbers(rows: Sequence[Row], form: NumberFormat) -> int:
    """How many of the first rows are text above columns of numbers; 0 where no row is, or all are."""
    if not rows:
        return 0
    numeric, count = _numeric_columns(rows, form), 0
    for _, cells in rows[:_HEADINGS]:
        if any(map(form.is_number, cells)) or not any(
            column < len(cells) and not form.is_missing(cells[column]) for column in numeric
        ):
            break
        count += 1
    return count if count < len(rows) else 0


def _numeric_columns(rows: Sequence[Row], form: NumberFormat) -> list[int]:
    """Columns of numbers below the rows that may be headings."""
    body = [cells for _, cells in rows[min(_HEADINGS, len(rows) - 1) :]]
    columns = []
    for column in range(len(rows[0][1])):
        values = [form.number(cells[column]) for cells in body if column < len(cells)]
        known = [value for value in values if value is None or value == value]
        if known and 2 * sum(value is not None for value in known) > len(known):
            columns.append(column)
    return columns


def _has_names(rows: Sequence[Row], form: NumberFormat) -> bool:
    """Whether the first row has names: a text over numbers, or numbers that are names."""
    first, below = rows[0][1], [row for _, row in rows[1:]]
    text = [form.number(cell) is None for cell in first]
    if not below:
        return all(text)
    below = list(takewhile(lambda row: len(row) == len(first), below))
    for column in range(len(first)):
        cells = [row[column] for row in below if not form.is_missing(row[column])]
        if text[column] and cells and all(map(form.is_number, cells)):
            return True
    if text[0] and first[0].strip().lower() in _IDENTIFIERS:
        return True
    if not below or any(text[1:]):
        return all(text) and bool(below)
    if not first[0].strip():  # how pandas writes an index without a name
        missing = form.is_missing
        return len(first) > 1 and not any(missing(row[0]) for row in below) and not any(map(missing, first[1:]))
    cells = [cell.strip() for cell in first[text[0] :]]
    if len(cells) >= _FEW and [str(column + int(cells[0] != "0")) for column in range(len(cells))] == cells:
        return True  # columns counted from 0 or 1
    return (  # wave lengths
        len(cells) >= _MANY and _is_ordered(cells, form) and not any(_is_ordered(row[text[0] :], form) for row in below)
    )


def _is_ordered(cells: Iterable[str], form: NumberFormat) -> bool:
    """Whether all cells are numbers, each above the one before, or each below it."""
    values = [nan if value is None else value for value in form.numbers(list(cells))]
    return all(low < high for low, high in pairwise(values)) or all(low > high for low, high in pairwise(values))
