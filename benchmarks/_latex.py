"""Tables of results as LaTeX, in the layout of the published ones."""

from __future__ import annotations

from bayescut.bench import Table
from bayescut.bench.table import Column

__all__ = ["latex"]

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
        f"  Data set & {' & '.join(_escape(title) for title in table.headings[1:])} \\\\",
        r"  \midrule",
    ]
    is_bold = table.is_bold
    for row, (title, *numbers) in enumerate(table.lines):
        cells = [
            rf"\textbf{{{_number(text)}}}" if is_bold(row, column) else _number(text)
            for column, text in enumerate(numbers, start=1)
        ]
        lines.append(f"  {_escape(title)} & {' & '.join(cells)} \\\\")
    caption = " ".join([table.caption, *table.notes])
    lines += [
        r"  \bottomrule",
        r"  \end{tabular}",
        rf"  \caption{{{_escape(caption)}}}",
        rf"  \label{{tab:{table.kind}}}",
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"
