"""Files as spreadsheets, instruments and R write them, and what is to be read from each; the same ones at every run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

N = 12
NAMES = ["height", "mass", "speed", "yield"]
UNITS = ["cm", "g", "m/s", "%"]
VALUES = np.round(np.random.default_rng(0).random((N, 4)) * [9, 90, 900, 9], 2)
VALUES[:, 2] = np.round(VALUES[:, 2], 1)
LARGE = np.round(np.random.default_rng(1).random((N, 3)) * [9000, 400, 90_000], 1) + [0, 1, 3000]
WHOLE = np.random.default_rng(2).integers(0, 3_000_000, (N, 3)).astype(float)
SPECTRA = np.round(np.random.default_rng(3).random((N, 9)), 4)
KINDS = ["red", "blue", "green"] * (N // 3)
PLOTS = [f"plot {number}" for number in range(N)]


@dataclass(frozen=True)
class Messy:
    """A file, the features and values to be read from it, and words that say what was assumed."""

    name: str
    content: bytes
    features: list[str]
    X: np.ndarray
    says: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    index: str = ""


@dataclass(frozen=True)
class Question:
    """A file that leaves something open: the options that the message names, and what is read with each of them."""

    name: str
    content: bytes
    answers: tuple[tuple[str, np.ndarray], ...]
    asks: str = ""


def number(value: float, decimal: str = ".", thousands: str = "") -> str:
    """A number as programs write it."""
    text = f"{value:,.10g}" if thousands else f"{value:.10g}"
    return text.replace(",", "t").replace(".", "d").replace("t", thousands).replace("d", decimal)


def cells(X: np.ndarray, write: Callable[[float], str] = number) -> list[list[str]]:
    """Rows of cells; NaN is empty."""
    return [["" if np.isnan(value) else write(float(value)) for value in row] for row in X]


def text(rows: Sequence[Sequence[str]], delimiter: str = ",", end: str = "\n") -> str:
    """Rows of cells as text."""
    return "".join(delimiter.join(row) + end for row in rows)


def comma(value: float) -> str:
    """A number with a decimal comma."""
    return number(value, ",")


def quote(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """All cells in quotes."""
    return [[f'"{cell}"' for cell in row] for row in rows]


def holes() -> np.ndarray:
    """Values of which some are missing."""
    X = VALUES.copy()
    for row, column in ((0, 1), (2, 0), (3, 3), (5, 2), (6, 1), (8, 0)):
        X[row, column] = np.nan
    return X


def missing(words: Sequence[str]) -> list[list[str]]:
    """Rows with words where values are missing."""
    rows, word = cells(holes()), iter(words)
    return [[cell or next(word) for cell in row] for row in rows]


def separators_and_encodings() -> list[Messy]:
    """Every delimiter, encoding and end of line."""
    plain, decimal = cells(VALUES), cells(VALUES, comma)
    german = ["Größe", "Masse", "Geschwindigkeit", "Ertrag"]
    western = ["Länge [µm]", "Masse", "Température", "Ertrag"]
    return [
        Messy("comma.csv", text([NAMES, *plain]).encode(), NAMES, VALUES, ("separated by ','", "names in line 1")),
        Messy("bom.csv", text([NAMES, *plain], end="\r\n").encode("utf-8-sig"), NAMES, VALUES),
        Messy(
            "excel_german.csv",
            text([german, *decimal], ";", "\r\n").encode("cp1252"),
            german,
            VALUES,
            ("Windows-1252", "separated by ';'", "decimal commas"),
        ),
        Messy(
            "unicode_text.txt",
            text([german, *decimal], "\t", "\r\n").encode("utf-16"),
            german,
            VALUES,
            ("UTF-16", "separated by tabs", "decimal commas"),
        ),
        Messy("utf16be.txt", b"\xfe\xff" + text([NAMES, *plain], "\t").encode("utf-16-be"), NAMES, VALUES, ("UTF-16",)),
        Messy("utf16_no_bom.txt", text([NAMES, *plain], "\t").encode("utf-16-le"), NAMES, VALUES, ("UTF-16",)),
        Messy("tab_comma.tsv", text([NAMES, *decimal], "\t").encode(), NAMES, VALUES, ("tabs", "decimal commas")),
        Messy("western.tsv", text([western, *plain], "\t").encode("cp1252"), western, VALUES, ("Windows-1252",)),
        Messy("pipe.psv", text([NAMES, *plain], "|").encode(), NAMES, VALUES, ("separated by '|'",)),
        Messy(
            "instrument.dat",
            "".join("".join(f"{cell:>12}" for cell in row) + "\n" for row in plain).encode(),
            ["x0", "x1", "x2", "x3"],
            VALUES,
            ("separated by blanks", "no names"),
        ),
        Messy("mac.csv", text([NAMES, *plain], ",", "\r").encode(), NAMES, VALUES),
        Messy("sep.csv", ("sep=;\n" + text([NAMES, *decimal], ";")).encode(), NAMES, VALUES, ("decimal commas",)),
        Messy("blank_comma.txt", text([NAMES, *decimal], " ").encode(), NAMES, VALUES, ("blanks", "decimal commas")),
        Messy("quoted_comma.csv", text(quote([NAMES, *decimal])).encode(), NAMES, VALUES, ("decimal commas",)),
    ]


def programs_of_r() -> list[Messy]:
    """write.table, write.csv and write.csv2."""
    rows, decimal = cells(VALUES), cells(VALUES, comma)
    names, numbers = [f'"{name}"' for name in NAMES], [f'"{row}"' for row in range(1, N + 1)]
    numbered = [[number, *row] for number, row in zip(numbers, rows, strict=True)]
    return [
        Messy("write_table.txt", text([names, *numbered], " ").encode(), NAMES, VALUES, ("names in line 1",)),
        Messy("write_csv.csv", text([['""', *names], *numbered]).encode(), NAMES, VALUES),
        Messy(
            "write_csv2.csv",
            text(
                [['""', *names], *([f'"{plot}"', *row] for plot, row in zip(PLOTS, decimal, strict=True))], ";"
            ).encode(),
            NAMES,
            VALUES,
            ("decimal commas",),
        ),
        Messy("make_names.tsv", text([["", *names], *numbered], "\t").encode(), NAMES, VALUES),
    ]


def thousands() -> list[Messy]:
    """Separated by commas, points, blanks and apostrophes."""
    names = ["sales", "returns", "visits"]

    def rows(X: np.ndarray, decimal: str, mark: str) -> list[list[str]]:
        return [names, *cells(X, lambda value: number(value, decimal, mark))]

    return [
        Messy(
            "us.csv",
            text([names, *([f'"{cell}"' for cell in row] for row in rows(LARGE, ".", ",")[1:])]).encode(),
            names,
            LARGE,
            ("thousands separated by ','",),
        ),
        Messy("german.csv", text(rows(LARGE, ",", "."), ";").encode(), names, LARGE, ("thousands separated by '.'",)),
        Messy("french.csv", text(rows(LARGE, ",", "\u202f"), ";").encode(), names, LARGE, ("thousands separated",)),
        Messy(
            "french_1252.csv", text(rows(LARGE, ",", "\xa0"), ";").encode("cp1252"), names, LARGE, ("decimal commas",)
        ),
        Messy("swiss.tsv", text(rows(LARGE, ".", "'"), "\t").encode(), names, LARGE, ("thousands separated",)),
        Messy("millions.csv", text(rows(WHOLE, ",", "."), ";").encode(), names, WHOLE, ("thousands separated by '.'",)),
    ]


def headings() -> list[Messy]:
    """Lines above the table, two lines of names, units, comments, and none of them."""
    rows = cells(VALUES)
    above = "Instrument: XRF 3000\nOperator: Smith, J.\nDate: 2021-03-01 12:30\n\n"
    padded = [["Report of trial 7", "", "", ""], ["Station", "North", "", ""], ["", "", "", ""]]
    groups = [["A", "", "B", ""], ["mean", "sd", "mean", "sd"]]
    joined = ["A mean", "A sd", "B mean", "B sd"]
    spectra = [f"{wave:.1f}" for wave in np.linspace(400, 420, 9)]
    falling = [f"{wave:.1f}".replace(".", ",") for wave in np.linspace(4000, 3000, 9)]
    waves = [["sample", *spectra], *([plot, *row] for plot, row in zip(PLOTS, cells(SPECTRA), strict=True))]
    return [
        Messy("preamble.csv", (above + text([NAMES, *rows])).encode(), NAMES, VALUES, ("3 lines above", "line 5")),
        Messy("padded.csv", text([*padded, NAMES, *rows], ";").encode(), NAMES, VALUES, ("2 lines above",)),
        Messy("units.csv", text([NAMES, UNITS, *rows]).encode(), NAMES, VALUES, ("units in line 2",)),
        Messy("groups.csv", text([*groups, *rows], ";").encode(), joined, VALUES, ("names in lines 1 and 2",)),
        Messy(
            "title_units.csv",
            (above + text([NAMES, [f"[{unit}]" for unit in UNITS], *rows], "\t")).encode(),
            NAMES,
            VALUES,
            ("units in line 6", "3 lines above"),
        ),
        Messy("hash.txt", ("# run 7\n# " + text([NAMES, *rows], " ")).encode(), NAMES, VALUES, ("names in a comment",)),
        Messy("percent.dat", ("% run 7\n% made by hand\n" + text([NAMES, *rows], "\t")).encode(), NAMES, VALUES),
        Messy(
            "comments.csv",
            text([NAMES, *rows[:5], ["# lamp changed"], *rows[5:], ["# end"]]).encode(),
            NAMES,
            VALUES,
            ("2 comments left out",),
        ),
        Messy("none.csv", text(rows).encode(), ["x0", "x1", "x2", "x3"], VALUES, ("no names",)),
        Messy("spectra.csv", text(waves).encode(), spectra, SPECTRA, (), index="sample"),
        Messy("infrared.csv", text([falling, *cells(SPECTRA, comma)], ";").encode(), falling, SPECTRA),
        Messy("twice.csv", text([["a", "a", "b", "a"], *rows]).encode(), ["a", "a.1", "b", "a.2"], VALUES),
    ]


def other_columns() -> list[Messy]:
    """Ids, row numbers, dates, texts, constants, empty columns and trailing separators."""
    rows = cells(VALUES)

    def first(name: str, column: Sequence[str], delimiter: str = ",") -> bytes:
        return text([[name, *NAMES], *([a, *row] for a, row in zip(column, rows, strict=True))], delimiter).encode()

    ids = [str(1000 + 7 * ((5 * row) % N)) for row in range(N)]
    iso = [f"2021-03-{day:02d}" for day in range(1, N + 1)]
    german = [f"{day:02d}.03.2021" for day in range(1, N + 1)]
    more = [[kind, *row, "7", ""] for kind, row in zip(KINDS, rows, strict=True)]
    return [
        Messy("ids.csv", first("sample_id", ids), NAMES, VALUES, index="sample_id"),
        Messy("rising.csv", first("specimen no", [str(4 + 3 * row) for row in range(N)]), NAMES, VALUES),
        Messy("counted.csv", first("No.", [str(row + 1) for row in range(N)], ";"), NAMES, VALUES, index="No."),
        Messy("unnamed_numbers.csv", first("", [str(row) for row in range(N)]), NAMES, VALUES),
        Messy("dates.csv", first("date", iso), NAMES, VALUES, index="date"),
        Messy("german_dates.csv", first("Datum", german, ";"), NAMES, VALUES, index="Datum"),
        Messy(
            "mixed.csv",
            text([["kind", *NAMES, "constant", "remark"], *more]).encode(),
            [*NAMES, "constant"],
            np.column_stack([VALUES, np.full(N, 7.0)]),
            left_out=("kind", "remark"),
        ),
        Messy("trailing.csv", text([[*NAMES, ""], *([*row, ""] for row in rows)], ";").encode(), NAMES, VALUES),
        Messy("trailing_rows.csv", text([NAMES, *([*row, ""] for row in rows)]).encode(), NAMES, VALUES),
        Messy("trailing_names.csv", text([[*NAMES, ""], *rows]).encode(), NAMES, VALUES),
        Messy("padded_rows.csv", text([NAMES, *rows, *[[""] * 4] * 3], ";").encode(), NAMES, VALUES),
    ]


def other_cells() -> list[Messy]:
    """Words for missing values, limits, percent signs, signs and exponents."""
    X = holes()
    percent = [[*row[:3], f"{row[3]} %"] for row in cells(VALUES, comma)]
    shifted = np.round(VALUES - VALUES.mean(axis=0), 3)
    small = [[f"{value:.3E}".replace(".", ",") for value in row] for row in VALUES]
    words = ("n.d.", "<LOD", "-", "#N/A", ".", "")
    return [
        Messy("words.csv", text([NAMES, *missing(words)]).encode(), NAMES, X, ("'n.d.'", "'<LOD'", "empty cells")),
        Messy(
            "limits.csv", text([NAMES, *missing(["<0.05", "< 0.05", "> 100", "NA", "<LOQ", "bdl"])]).encode(), NAMES, X
        ),
        Messy(
            "errors.csv",
            text([NAMES, *missing(["#DIV/0!", "#VALUE!", "NaN", "nan", "null", "?"])], ";").encode(),
            NAMES,
            X,
        ),
        Messy("percent.csv", text([NAMES, *percent], ";").encode(), NAMES, VALUES, ("percent signs left out",)),
        Messy("negative.csv", text([NAMES, *cells(shifted)]).encode(), NAMES, shifted),
        Messy("exponents.csv", text([NAMES, *small], ";").encode(), NAMES, VALUES.astype(float), ("decimal commas",)),
    ]


def other_rows() -> list[Messy]:
    """Sums and means below a table, remarks, headings of parts of it, and its names again."""
    rows = [[plot, *row] for plot, row in zip(PLOTS, cells(VALUES), strict=True)]
    names, end = ["plot", *NAMES], [["", "", "", "", ""]]
    sums = ["Total", *(number(value) for value in VALUES.sum(axis=0).round(2))]
    means = ["Mean:", *(number(value) for value in VALUES.mean(axis=0).round(2))]
    spread = ["SD", *(number(value) for value in VALUES.std(axis=0, ddof=1).round(2))]
    counted = [[str(3 * row + 4), *cells] for row, (_, *cells) in enumerate(rows)]
    part = [[f"Field {letter}", "", "", "", ""] for letter in "AB"]
    remark = [["Source: trial 7", "", "", "", ""], ["n.d. = not determined", "", "", "", ""]]

    def file(name: str, table: Sequence[Sequence[str]], says: str, below: str = "", delimiter: str = ",") -> Messy:
        return Messy(name, (text(table, delimiter) + below).encode(), NAMES, VALUES, (says,), index="plot")

    return [
        file("sums.csv", [names, *rows, sums], "not samples: line 14 ('Total')"),
        file("means.csv", [names, *rows, *end, means, spread], "line 15 ('Mean:'), line 16 ('SD')"),
        Messy(
            "sums_of_ids.csv", text([["id", *NAMES], *counted, sums]).encode(), NAMES, VALUES, ("('Total')",), (), "id"
        ),
        file("note.csv", [names, *rows], "line 15 ('Source: WHO 2021', a note)", "\nSource: WHO, 2021\n"),
        file("notes.csv", [names, *rows], "line 15 ('b second', a note)", "a first\nb second\n"),
        file(
            "padded_notes.csv", [names, *rows, *end, *remark], "line 16 ('n.d. = not determined', no values)", "", ";"
        ),
        file("parts.csv", [names, part[0], *rows[:6], part[1], *rows[6:]], "line 9 ('Field B', no values)", "", ";"),
        file("ruled.txt", [names, ["----"] * 5, *rows], "names in line 1", "", "|"),
        file("names_again.csv", [names, *rows[:5], names, *rows[5:]], "line 7 (the names again)"),
        file("dos.csv", [names, *rows], "names in line 1", "\x1a"),
    ]


def units_in_cells() -> list[Messy]:
    """Units, currencies, errors and marks next to numbers, and numbers that stand for missing values."""
    rows, decimal, X = cells(VALUES), cells(VALUES, comma), holes()

    def file(
        name: str, body: Sequence[Sequence[str]], says: str, X: np.ndarray = VALUES, delimiter: str = ";"
    ) -> Messy:
        table = [["plot", *NAMES], *([plot, *row] for plot, row in zip(PLOTS, body, strict=True))]
        return Messy(name, text(table, delimiter).encode(), NAMES, X, (says,), index="plot")

    measured = [[f"{a} cm", f"{b} g", f"{c}m/s", d] for a, b, c, d in decimal]
    money = [[f"€ {a}", f"{b} €", c, f"$\u00a0{d}"] for a, b, c, d in decimal]
    marked = [[f"{a}*", b, f"{c}**" if row % 3 else c, d] for row, (a, b, c, d) in enumerate(rows)]
    errors = [[f"{cell} ± 0.1" for cell in row[:2]] + [f"{cell} (0.02)" for cell in row[2:]] for row in rows]
    codes = [[cell or "-999" for cell in row] for row in cells(X)]
    many = missing(["k.A.", "not detected", "OVER", "trace", "#####", "n.b."])
    return [
        file("units_in_cells.csv", measured, "'cm', 'g', 'm/s' taken off the cells of 'height', 'mass', 'speed'"),
        file("money.csv", money, "'€', '$' taken off"),
        file("marks.csv", marked, "errors or marks taken off the cells of 'height', 'speed'", delimiter=","),
        file("errors_in_cells.csv", errors, "errors or marks taken off", delimiter=","),
        file("codes.csv", codes, "missing: '-999'", X, ","),
        file("many_words.csv", many, "'not detected', 'OVER'", X, ","),
        file("text_formulas.csv", [[f'="{cell}"' for cell in row] for row in decimal], "decimal commas"),
        file("apostrophes.csv", [[f"'{cell}" for cell in row] for row in rows], "names in line 1", delimiter=","),
        file(
            "fortran.tsv",
            [[f"{float(cell):.6E}".replace("E", "D") for cell in row] for row in rows],
            "tabs",
            delimiter="\t",
        ),
        file("caret.txt", rows, "separated by '^'", delimiter="^"),
        file("jcamp.txt", rows, "separated by tabs", delimiter="\t"),
    ]


def axes() -> list[Messy]:
    """Spectra in columns, series in time, codes with zeros in front, classes as numbers, an empty first column."""
    rows = cells(VALUES)
    waves = [str(wave) for wave in range(400, 400 + 10 * N, 10)]
    falling = [f"{wave:.1f}" for wave in np.linspace(4000, 3000, N)]
    spectra, named = [[wave, *row] for wave, row in zip(waves, rows, strict=True)], ["S1", "S2", "S3", "S4"]
    infrared = [[wave, *row] for wave, row in zip(falling, rows, strict=True)]
    samples = ("samples in columns",)
    euros = [[f"{number(value, ',', '.')} €" for value in row] for row in LARGE]
    lakhs = np.array([[1234567.0, 1234.0], [987654.0, 12345.0], [100000.0, 2.0]] * 4)
    indian = {1234567: "12,34,567", 987654: "9,87,654", 100000: "1,00,000", 12345: "12,345", 1234: "1,234", 2: "2"}

    def first(name: str, column: Sequence[str], delimiter: str = ",") -> bytes:
        return text([[name, *NAMES], *([a, *row] for a, row in zip(column, rows, strict=True))], delimiter).encode()

    dates = [f"202103{row + 1:02d}" for row in range(N)]
    unnamed = [["", "plot", *NAMES], *(["", plot, *row] for plot, row in zip(PLOTS, rows, strict=True))]
    grouped = [[f'"{indian[int(cell)]}"' for cell in row] for row in lakhs]
    return [
        Messy("instrument.csv", text([["Wavelength (nm)", *named], *spectra]).encode(), waves, VALUES.T, samples),
        Messy("infrared.txt", text([["cm-1", *named], *infrared], "\t").encode(), falling, VALUES.T, samples),
        Messy("seconds.csv", first("Time (s)", [f"{row / 2}" for row in range(N)]), NAMES, VALUES, (), (), "Time (s)"),
        Messy("years.csv", first("Year", [str(row) for row in range(1999, 1999 + N)]), NAMES, VALUES, (), (), "Year"),
        Messy("compact_dates.csv", first("date", dates), NAMES, VALUES, (), (), "date"),
        Messy("codes_with_zeros.csv", first("code", [f"{row:05d}" for row in range(N)]), NAMES, VALUES, (), (), "code"),
        Messy("batch.csv", first("batch", [str(1 + row % 2) for row in range(N)]), NAMES, VALUES, (), ("batch",)),
        Messy("steps.csv", first("t [h]", [f"{row / 4}" for row in range(N)]), NAMES, VALUES, (), (), "t [h]"),
        Messy("mass_spectra.csv", text([["m/z", *named], *spectra]).encode(), waves, VALUES.T, samples),
        Messy("class.csv", first("class", [str(row % 3) for row in range(N)]), NAMES, VALUES, (), ("class",)),
        Messy("empty_first.csv", text(unnamed, ";").encode(), NAMES, VALUES, (), (), "plot"),
        Messy("euros.csv", text([["a", "b", "c"], *euros], ";").encode(), ["a", "b", "c"], LARGE, ("'€' taken off",)),
        Messy("lakhs.csv", text([["rent", "tax"], *grouped]).encode(), ["rent", "tax"], lakhs, ("separated by ','",)),
        Messy(
            "cyrillic.csv", text([["высота", "масса", "скорость", "урожай"], *rows], ";").encode("cp1251"),
            [name.encode("cp1251").decode("cp1252") for name in ("высота", "масса", "скорость", "урожай")], VALUES,
            ("if the letters of the names are wrong, give the encoding",),
        ),
    ]  # fmt: skip


def messy_files() -> list[Messy]:
    """All that are to be read without an option."""
    return [
        *separators_and_encodings(), *programs_of_r(), *thousands(), *headings(), *other_columns(), *other_cells(),
        *other_rows(), *units_in_cells(), *axes(),
    ]  # fmt: skip


def questions() -> list[Question]:
    """Files that nobody can read without asking."""
    X = np.round(np.random.default_rng(4).random((N, 3)) * 9, 3) + 1
    X = np.where(X * 1000 % 10 == 0, X + 0.001, X)
    X[0], X[1, 0] = [3.255, 3.545, 0.431], 0.5
    rows = [[f"{value:.3f}" if value >= 1 else f"{1000 * value:.0f}" for value in row] for row in X]
    asked = np.array([[float(cell) for cell in row] for row in rows])
    grouped = np.array([[float(cell.replace(".", "")) for cell in row] for row in rows])
    german = missing(["kaputt"] * 6)
    japanese = text([["高さ", "質量", "速度", "収量"], *cells(VALUES)]).encode("shift_jis")
    return [
        Question(
            "point.csv",
            text([["a", "b", "c"], *rows], ";").encode(),
            (("--decimal .", asked), ("--thousands .", grouped)),
            "may be 3.255 or 3255",
        ),
        Question(
            "colon.txt", text([NAMES, *cells(VALUES)], ":").encode(), (("--delimiter :", VALUES),), "no column of"
        ),
        Question("japanese.csv", japanese, (("--encoding shift_jis", VALUES),), "nor Windows-1252"),
        Question("word.csv", text([NAMES, *german], ";").encode(), (("--na kaputt", holes()),), "is not a number"),
    ]
