"""Tables as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from bayescut.bench.tables import Column, Table

__all__ = ["latex", "markdown", "render", "to_csv"]

_ABSENT = "–"
_MARK = "†"


def markdown(table: Table) -> str:
    """Return a table as Markdown: published columns marked, the best of each row bold."""
    lines = [["Data set", *(heading(column) for column in table.columns)]]
    for dataset in table.datasets:
        best = table.best(dataset)
        cells = [
            f"**{column.cells[dataset].text}**"
            if index in best
            else column.cells[dataset].text or _ABSENT
            for index, column in enumerate(table.columns)
        ]
        lines.append([table.title(dataset), *cells])
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*escaped, strict=True)]

    def row(cells: list[str]) -> str:
        first = cells[0].ljust(widths[0])
        others = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "| " + " | ".join([first, *others]) + " |"

    rule = "|" + "|".join(
        "-" * (width + 2) if index == 0 else "-" * (width + 1) + ":"
        for index, width in enumerate(widths)
    )
    body = [row(escaped[0]), rule + "|", *map(row, escaped[1:])]
    notes = "\n".join(f"{note}  " for note in table.notes)
    return f"**{table.caption}**\n\n" + "\n".join(body) + f"\n\n{notes}".rstrip() + "\n"


def heading(column: Column) -> str:
    """Return the title of a column, marked if its numbers are from the literature."""
    return column.title + _MARK if column.group.startswith("published") else column.title


def to_csv(table: Table) -> str:
    """Return a table as CSV with full precision: one line per data set.

    Cells that failed hold the reason; columns of several seeds are followed by one with their
    standard deviation.
    """
    spread = [
        any(cell.deviation is not None for cell in column.cells.values())
        for column in table.columns
    ]
    header = ["dataset"]
    for column, has_spread in zip(table.columns, spread, strict=True):
        title = column.title
        if column.group.startswith("published"):
            title += " (published)"
        header += [title, f"{title} sd"] if has_spread else [title]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for dataset in table.datasets:
        line = [dataset]
        for column, has_spread in zip(table.columns, spread, strict=True):
            cell = column.cells[dataset]
            exact = "" if cell.value is None else repr(cell.value)
            line.append(cell.text if cell.value is None or column.is_published else exact)
            if has_spread:
                line.append("" if cell.deviation is None else repr(cell.deviation))
        writer.writerow(line)
    return text.getvalue()


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "†": r"$^\dagger$",
    "±": r"$\pm$",
    "–": "--",
    "−": "$-$",
    ">": "$>$",
    "<": "$<$",
}

_GROUPS = {
    "ours": "this library",
    "published cutset learners": "published: cutset learners",
    "published others": "published: other learners",
    "best known": "best",
}


def _escape(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _number(text: str) -> str:
    """Escape a cell; a leading hyphen is a minus sign."""
    escaped = _escape(text)
    return f"${escaped[0]}${escaped[1:]}" if escaped.startswith("-") else escaped


def latex(table: Table) -> str:
    """Return a table as LaTeX: needs the package booktabs.

    Groups of columns (ours, published cutset learners, other published learners) are told apart by
    rules as in the published tables.
    """
    groups: list[tuple[str, list[Column]]] = []
    for column in table.columns:
        if not groups or groups[-1][0] != column.group:
            groups.append((column.group, []))
        groups[-1][1].append(column)
    alignment = "l" + "|".join("r" * len(columns) for _, columns in groups)
    spans, position = [], 2
    rules = []
    for group, columns in groups:
        spans.append(rf"\multicolumn{{{len(columns)}}}{{c}}{{{_GROUPS[group]}}}")
        rules.append(rf"\cmidrule(lr){{{position}-{position + len(columns) - 1}}}")
        position += len(columns)
    lines = [
        r"\begin{table*}",
        r"  \centering",
        r"  \scriptsize",
        rf"  \begin{{tabular}}{{{alignment}}}",
        r"  \toprule",
        f"   & {' & '.join(spans)} \\\\",
        f"  {''.join(rules)}",
        f"  Data set & {' & '.join(_escape(heading(c)) for c in table.columns)} \\\\",
        r"  \midrule",
    ]
    for dataset in table.datasets:
        best = table.best(dataset)
        cells = []
        for index, column in enumerate(table.columns):
            text = _number(column.cells[dataset].text or _ABSENT)
            cells.append(rf"\textbf{{{text}}}" if index in best else text)
        lines.append(f"  {_escape(table.title(dataset))} & {' & '.join(cells)} \\\\")
    caption = " ".join([table.caption, *table.notes])
    lines += [
        r"  \bottomrule",
        r"  \end{tabular}",
        rf"  \caption{{{_escape(caption)}}}",
        rf"  \label{{tab:{table.kind}}}",
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


#: Writers by the ending of a file.
FORMATS: dict[str, Callable[[Table], str]] = {"md": markdown, "csv": to_csv, "tex": latex}


def render(table: Table, form: str) -> str:
    """Return a table in one of the formats ``md``, ``csv`` and ``tex``."""
    return FORMATS[form](table)
