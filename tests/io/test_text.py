"""Text files become tables: whatever separates their cells and whatever names they have; errors name the cell."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dspnmf.io import ReadError, Table, large_text, read, text

X = [[1.0, 2.0], [3.0, 4.0]]


def table(folder: Path, content: str | bytes, name: str = "table.csv", **options: Any) -> Table:
    """What a file with that content becomes."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read(path, **options)


def refusal(folder: Path, content: str | bytes, name: str = "table.csv", **options: Any) -> str:
    """What is said of a file that is refused, without the folder."""
    with pytest.raises(ReadError) as caught:
        table(folder, content, name, **options)
    message = str(caught.value)
    assert message.startswith(f"{folder / name}: ")
    return message.removeprefix(f"{folder / name}: ")


@pytest.mark.parametrize(
    "content",
    [
        "a,b\n1,2\n3,4\n",
        "a;b\r\n1;2\r\n3;4",
        "a\tb\n1\t2\n3\t4\n",
        "a|b\n1|2\n3|4\n",
        "  a    b\n 1.0  2\n 3    4e0\n",
        '"a","b"\n"1","2"\n"3","4"\n',
        "a, b\n1, 2\n3, 4\n\n\n",
        "a,b,\n1,2,\n3,4,\n",
        "# made by hand\n# a,b\n1,2\n3,4\n",
        "# not names, but two\na,b\n1,2\n3,4\n",
        "sep=;\na;b\n1;2\n3;4\n",
        "a;b\n1,0;2,0\n3,0;4,0\n",
        b"\xef\xbb\xbfa,b\n1,2\n3,4\n",
        "a,b\n1,2\n3,4\n".encode("utf-16"),
        "a,b\r1,2\r3,4\r",
    ],
)
def test_same_table_in_many_dialects(tmp_path: Path, content: str | bytes) -> None:
    """Delimiter, quotes, ends of lines, byte order marks, comments and decimal commas do not change the table."""
    found = table(tmp_path, content)
    assert found.X.tolist() == X
    assert found.X.dtype == np.float64
    assert found.features.tolist() == ["a", "b"]
    assert found.index.tolist() == ["0", "1"]
    assert (found.index_name, dict(found.columns), found.label) == ("", {}, None)


def test_compressed(tmp_path: Path) -> None:
    """A .csv.gz is the .csv in it."""
    assert table(tmp_path, gzip.compress(b"a,b\n1,2\n3,4\n"), "table.csv.gz").X.tolist() == X


@pytest.mark.parametrize(
    ("content", "names", "index", "called"),
    [
        ("1,2\n3,4\n", ["x0", "x1"], ["0", "1"], ""),
        ("s,1,2\nt,3,4\n", ["x1", "x2"], ["s", "t"], ""),
        ("id,a,b\ns,1,2\nt,3,4\n", ["a", "b"], ["s", "t"], "id"),
        ("id,2019,2020\ns,1,2\nt,3,4\n", ["2019", "2020"], ["s", "t"], "id"),
        (",0,1\n7,1,2\n8,3,4\n", ["0", "1"], ["7", "8"], ""),
        ('"a" "b"\n"r 1" 1 2\n"r 2" 3 4\n', ["a", "b"], ["r 1", "r 2"], ""),
        ("a,a\n1,2\n3,4\n", ["a", "a.1"], ["0", "1"], ""),
        ("a,\n1,2\n3,4\n", ["a", "x1"], ["0", "1"], ""),
    ],
)
def test_names_are_found(tmp_path: Path, content: str, names: list[str], index: list[str], called: str) -> None:
    """Names of features and of rows are those of the file, or numbers; the same name twice gets a number."""
    found = table(tmp_path, content)
    assert found.X.tolist() == X
    assert (found.features.tolist(), found.index.tolist(), found.index_name) == (names, index, called)


def test_numbers_that_are_names(tmp_path: Path) -> None:
    """Wave lengths above spectra are names, columns counted from 0 are too, and other numbers are data."""
    waves = ",".join(map(str, range(400, 480, 10)))
    assert table(tmp_path, f"{waves}\n1,2,1,2,1,2,1,2\n").features[0] == "400"
    assert table(tmp_path, "0,1,2,3\n5,6,5,6\n").features.tolist() == ["0", "1", "2", "3"]
    assert table(tmp_path, "5,6,7\n5,6,5\n").X.shape == (2, 3)
    assert table(tmp_path, "5,6,7\n5,6,5\n", header=True).features.tolist() == ["5", "6", "7"]
    assert table(tmp_path, f"{waves}\n1,2,1,2,1,2,1,2\n", header=False).X.shape == (2, 8)


def test_columns_that_are_no_features(tmp_path: Path) -> None:
    """Texts, labels, the index and excluded columns are kept apart, whole numbers as integers."""
    content = "kind,id,a,note,age,b\n1,s,1,x,7,2\n2,t,3,,8.5,4\n"
    found = table(tmp_path, content, label="kind", index="id", exclude=["age"])
    assert found.X.tolist() == X
    assert found.index.tolist() == ["s", "t"]
    assert found.index_name == "id"
    assert found.labels is not None
    assert found.labels.tolist() == [1, 2]
    assert {name: column.tolist() for name, column in found.columns.items()} == {
        "kind": [1, 2],
        "note": ["x", ""],
        "age": [7.0, 8.5],
    }


def test_gaps_and_signs_are_read(tmp_path: Path) -> None:
    """Empty cells and their words become NaN; negative numbers, infinity and exponents are what they say."""
    found = table(tmp_path, "a,b,c\n,NA,-1.5\nnan,?,1e-3\nnull,N/A,inf\n 2 ,3.,.5\n")
    assert np.isnan(found.X[:3, :2]).all()
    assert found.X[:, 2].tolist() == [-1.5, 1e-3, np.inf, 0.5]
    assert found.X[3].tolist() == [2, 3, 0.5]


def test_quoted_text_is_verbatim(tmp_path: Path) -> None:
    """Delimiters, quotes and ends of lines inside quotes belong to the text."""
    found = table(tmp_path, 'who,said,v\nann,"hello, ""you""\nthere",1\nbob, x ,2\n')
    assert found.columns["said"].tolist() == ['hello, "you"\nthere', " x "]


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        ("a,b\n1,2\n3\n", {}, "line 3 has 1 cell, but the rows above have 2 (separated by ',')"),
        ("a,b\n1,2\n\n3,4,5\n", {}, "line 4 has 3 cells"),
        ("a,b\n1,2\n1,x\n1,3\n", {}, "line 3, column 'b': 'x' is not a number, but 2 of the column's 3 values are"),
        ("a,b\n" + "1,2\n" * 500 + "1,1_0\n", {}, "line 502, column 'b': '1_0' is not a number"),
        ("a,b\n" + "1,x\n" * 300 + "1,2\n" * 301, {}, "line 2, column 'b': 'x' is not a number, but 301"),
        (
            "a,b,c\n1,2,3\n1,x,y\n1,3,4\n",
            {},
            "column 'b': 'x' is not a number, but 2 of the column's 3 values are. There are more in 'c'",
        ),
        ("a;b\n1,5;2\n1.5;3\n2,5;3\n", {}, "line 3, column 'a': '1.5' is not a number"),
        (b"a,b\n1,\x81\n", {}, "it is not UTF-8 text, at line 2, byte 3 (0x81), nor Windows-1252"),
        ("a,b\n1,\xe9\n".encode("latin1"), {"encoding": "utf-8"}, "it is not 'utf-8' text"),
        ("a,b\n1,2\n", {"encoding": "utf-9"}, "there is no encoding 'utf-9'"),
        ("a,b\n1,\xfc".encode() + b"\xe9,2\n", {}, "it is not UTF-8 text, at line 2, byte 5 (0xe9)"),
        ("a,b\n1,\xfc\n".encode()[:-2], {}, "it is not UTF-8 text, at line 2, byte 3 (0xc3)"),
        ("a,b\n1,2\n".encode("utf-16")[:-1], {}, "it begins as UTF-16 text, but is not, or is cut off"),
        ("a,b\n1,2\n\0", {}, "line 3 has a zero byte"),
        ("", {}, "it is empty"),
        ("\n\n# nothing\n", {}, "it has no rows"),
        ("a,b\n", {}, "it has names but no rows"),
        ("a,b\nx,y\n", {}, "it has no column of numbers, only 'a', 'b'"),
        ('a,b\n1,"2\n', {}, "the row that begins in line 2 cannot be split"),
        ("kind,a\n1,2\n", {"label": "kinds"}, "it has no column 'kinds'. Is it 'kind'? Correct label."),
        ("a,b\n1,2\n", {"index": "zzz"}, "it has no column 'zzz'. Its columns: 'a', 'b'. Correct index."),
        ("a,a\n1,2\n", {"label": "a"}, "label='a' is ambiguous: columns 1 and 2 have that name"),
        ("a,b\n1,2\n", {"label": "a", "index": "a"}, "index and label both name the column 'a'"),
        ("a,b\n1,2\n", {"delimiter": "ab"}, "delimiter='ab' must be one character"),
        ("a,b\n1,2\n", {"variable": "X"}, "variable='X' means nothing for a text file"),
        (b"PAR1\x15\x00", {}, "It begins like a .parquet file: should its name end so?"),
    ],
)
def test_errors_name_the_place(tmp_path: Path, content: str | bytes, options: dict[str, Any], says: str) -> None:
    """An error is one line that names the file, the line, the cell, and what to do."""
    message = refusal(tmp_path, content, **options)
    assert says in message
    assert "\n" not in message


def test_a_column_of_texts_with_some_numbers_is_text(tmp_path: Path) -> None:
    """Where most values are texts, the others are texts too; an excluded column may hold anything."""
    assert table(tmp_path, "a,b\n1,x\n2,7\n3,y\n").columns["b"].tolist() == ["x", "7", "y"]
    assert table(tmp_path, "a,b\n1,8\n2,7\n3,y\n", exclude="b").columns["b"].tolist() == ["8", "7", "y"]


def test_wide_files(tmp_path: Path) -> None:
    """Rows may be longer than all that is looked at before reading."""
    m = 120_000
    found = table(tmp_path, ",".join(f"g{j}" for j in range(m)) + ("\n" + ",".join(["1.5"] * m)) * 2)
    assert found.X.shape == (2, m)
    assert found.features[-1] == f"g{m - 1}"


def test_decimal_commas_may_come_late(tmp_path: Path) -> None:
    """Decimals are found where the first hundreds of rows have none."""
    found = table(tmp_path, "a;b;kind\n" + "1;2;1\n" * 300 + "1,5;2;1\n", label="kind")
    assert found.X[-1].tolist() == [1.5, 2]
    assert found.columns["kind"].dtype == np.int64


def test_messages_are_harmless(tmp_path: Path) -> None:
    """What a file or its name holds cannot move the cursor of a terminal, and is cut where it is long."""
    message = refusal(tmp_path, "a,b\n1,2\n1,\x1b[31m" + "x" * 9000 + "\n1,3\n")
    assert "\x1b" not in message
    assert len(message) < 400
    with pytest.raises(ReadError, match=r"\\nname\.csv"):
        read(tmp_path / "my\nname.csv")


def test_one_long_text_does_not_widen_all(tmp_path: Path) -> None:
    """A column with one long text takes memory for that text, not for all rows to be as wide."""
    long = "z" * 100_000
    found = table(tmp_path, f"id,v\n{long},1\n" + "".join(f"{row},1\n" for row in range(1000)), index="id")
    assert found.index.nbytes < 10**6
    assert found.index[0] == long
    assert found.index[1] == "0"


def test_errors_far_down_name_the_line(tmp_path: Path) -> None:
    """A text or a short row hundreds of rows below the first is named; gaps and texts above it are read."""
    content = "id,a,b,note\n" + "".join(f"s{i},{i / 7},{'' if i % 3 else i},t{i % 2}\n" for i in range(500))
    found = table(tmp_path, content)
    assert found.X[:, 0].tolist() == [i / 7 for i in range(500)]
    assert np.isnan(found.X[:, 1]).tolist() == [i % 3 > 0 for i in range(500)]
    assert found.index[-1] == "s499"
    assert found.columns["note"].tolist() == ["t0", "t1"] * 250
    assert "line 502, column 'a': 'oops' is not a number" in refusal(tmp_path, content + "t,oops,1,x\n")
    assert "line 502 has 2 cells" in refusal(tmp_path, content + "t,1\n")


def test_large_files_are_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyArrow and the exact way read the same, and where it fails the error is the exact one."""
    content = "id,a,b,note\n" + "".join(f"s{i},{i / 7},{'' if i % 3 else i},t{i % 2}\n" for i in range(500))
    exact = table(tmp_path, content)
    monkeypatch.setattr(large_text, "_WORTHWHILE", 0)
    seen = []
    way = large_text.read_large
    monkeypatch.setattr(text, "read_large", lambda *given: seen.append(way(*given)) or seen[-1])
    fast = table(tmp_path, content)
    assert seen[-1] is not None
    assert np.array_equal(fast.X, exact.X, equal_nan=True)
    assert fast.index.tolist() == exact.index.tolist()
    assert fast.columns["note"].tolist() == exact.columns["note"].tolist()
    assert "line 502, column 'a': 'oops' is not a number" in refusal(tmp_path, content + "t,oops,1,x\n")
    assert "line 502 has 2 cells" in refusal(tmp_path, content + "t,1\n")


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text files are read without PyArrow, whatever their size."""
    monkeypatch.setattr(large_text, "_WORTHWHILE", 0)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert table(tmp_path, "a,b\n1,2\n3,4\n").X.tolist() == X


def test_agrees_with_pandas(tmp_path: Path) -> None:
    """A frame written by pandas is read as pandas reads it, to the last bit."""
    frame = pd.DataFrame(np.random.default_rng(0).random((30, 4)), columns=list("abcd"))
    frame.iloc[3, 2] = np.nan
    for index in (True, False):
        frame.to_csv(tmp_path / "frame.csv", index=index)
        found = read(tmp_path / "frame.csv")
        assert np.array_equal(found.X, frame.to_numpy(), equal_nan=True)
        assert found.features.tolist() == list(frame.columns)
