"""One table printer."""

import csv
import io

from bayescut._text import aligned, markdown, to_csv

HEAD = ["name", "kind", "n"]
BODY = [["a", "x|y", "10"], ["long", "", "2"]]


def test_aligned_text():
    assert aligned(HEAD, BODY, left=(0, 1)) == [
        "name  kind   n",
        "a     x|y   10",
        "long         2",
    ]
    assert aligned(HEAD, []) == ["name  kind  n"]
    assert aligned(["n", "text"], [["1", "a"]], left=(1,)) == ["n  text", "1  a"]


def test_markdown():
    assert markdown(HEAD, BODY, left=(0, 1), bold=lambda row, column: (row, column) == (1, 2)) == [
        "| name | kind | n |",
        "|---|---|---:|",
        "| a | x\\|y | 10 |",
        "| long |  | **2** |",
    ]
    assert markdown(["a", "b"]) == ["| a | b |", "|---|---:|"]


def test_csv_comes_back():
    odd = [["a,b", 'c"d', "e\nf"]]
    assert list(csv.reader(io.StringIO(to_csv(HEAD, odd), newline=""))) == [HEAD, *odd]
