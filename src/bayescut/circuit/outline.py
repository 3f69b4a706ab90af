"""The parts of a circuit that matter, as a small tree of words.

What a node is called, and what its edges say, stands in `describe` alone; `bayescut show` prints
the tree and `bayescut.circuit.drawing` draws it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bayescut.circuit._kinds import DECISION, JUNCTION, NAMES, NORMAL, PRODUCT, SUM
from bayescut.circuit.inputs import INPUTS

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit
    from bayescut.data import Domain

__all__ = ["Edge", "Item", "cells_text", "describe", "outline", "states_text", "summarise"]

# Branches of one node that are shown; of more, the largest.
MOST_BRANCHES = 8
# A product of so many leaves that stays closed says what they are.
MOST_PARTS = 3
# Labels of a branch that are named.
MOST_LABELS = 4
# Letters of a branch and of a title in an outline: a line of a screen, with some levels before it.
EDGE_LETTERS, TITLE_LETTERS = 48, 60
# A leaf of more variables is one item.
MOST_LEAF_VARIABLES = 12


@dataclass(frozen=True)
class Edge:
    """A branch: what it says, how probable it is, and where it leads."""

    label: str
    weight: float | None
    child: int
    brief: str = ""


@dataclass
class Item:
    """A node as it is shown.

    Parameters
    ----------
    title : str
    kind : str
        ``"cut"``, ``"sum"``, ``"product"``, ``"leaf"``, ``"variable"`` or ``"more"``.
    reach : float
        Probability of coming to it from the root.
    label : str
        On the edge that leads to it.
    brief : str
        The same in fewer letters.
    weight : float or None
        Probability of that edge.
    children : list of Item
    """

    title: str
    kind: str
    reach: float
    label: str = ""
    weight: float | None = None
    children: list[Item] = field(default_factory=list)
    brief: str = ""

    def edge(self, letters: int | None = None) -> str:
        """The words on the edge that leads to it; the label is cut short, not the number."""
        number = "" if self.weight is None else f"{self.weight:.3g}"
        if not self.label:
            return number
        number = f" ({number})" if number else ""
        if letters is None or len(self.label) + len(number) <= letters or not self.brief:
            return _short(self.label, letters, number)
        first, sign, rest = self.brief.rpartition(" +")
        return _short(first, letters, sign + rest + number)

    def name(self, letters: int | None = None) -> str:
        """The title; what is said of more items is not cut short."""
        head, sign, tail = self.title.partition(" (and ")
        return _short(head, letters, sign + tail)


def _short(text: str, letters: int | None, tail: str = "") -> str:
    room = len(text) if letters is None else max(letters - len(tail), 4)
    return (text if len(text) <= room else text[: room - 1] + "…") + tail


def name_of(circuit: Circuit, variable: int) -> str:
    """Return the name of a column, its position if it has none."""
    return circuit.domains[variable].name or str(variable)


def cells_text(domain: Domain, first: int, last: int) -> str:
    """Say which numbers lie in neighbouring cells of a column of numbers.

    Examples
    --------
    >>> from bayescut.circuit.outline import cells_text
    >>> from bayescut.data import describe_table
    >>> import pandas as pd
    >>> ages = pd.DataFrame({"age": range(10, 90)})
    >>> age = describe_table(ages, max_cells=4).domains[0]
    >>> cells_text(age, 0, 1), cells_text(age, 2, 2), cells_text(age, 2, 3)
    ('<= 49', '50 to 69', '>= 50')
    """
    grid = domain.grid
    if grid is None:
        raise ValueError("only numbers lie in cells")
    if first == 0 and last == grid.n_cells - 1:
        return "any"
    low = domain.value(float(grid.snap(grid.starts[max(first - 1, 0)] * grid.step)))
    if last == grid.n_cells - 1:
        return f">= {low}"
    high = domain.value(float(grid.snap((grid.starts[last] - 1) * grid.step)))
    if first == 0:
        return f"<= {high}"
    return str(low) if low == high else f"{low} to {high}"


def states_text(domain: Domain, states: Sequence[int]) -> str:
    """Say which states a branch takes: labels, few of many, or intervals of numbers.

    Examples
    --------
    >>> from bayescut.circuit.outline import states_text
    >>> from bayescut.data import Domain
    >>> towns = Domain("town", 9, list("abcdefghi"))
    >>> states_text(towns, [0, 3]), states_text(towns, [0, 2, 3, 4, 5, 6, 7, 8])
    ('a, d', 'all but b')
    >>> states_text(Domain("town", 20), range(0, 14, 2))
    '0, 2, 4, and 4 more'
    """
    if domain.grid is not None:
        runs: list[list[int]] = []
        for state in sorted(states):
            if runs and state == runs[-1][1] + 1:
                runs[-1][1] = state
            else:
                runs.append([state, state])
        parts = [cells_text(domain, first, last) for first, last in runs]
    else:
        rest = sorted(set(range(domain.n_states)) - set(states))
        if len(states) > MOST_LABELS and 0 < len(rest) < MOST_LABELS:
            return f"all but {', '.join(str(domain.label(state)) for state in rest)}"
        parts = [str(domain.label(state)) for state in states]
    if len(parts) > MOST_LABELS:
        parts = [*parts[: MOST_LABELS - 1], f"and {len(parts) - MOST_LABELS + 1:,} more"]
    return ", ".join(parts)


def describe(circuit: Circuit, node: int) -> tuple[str, str, list[Edge]]:
    """Return what a node is called, its kind, and its branches."""
    kind = int(circuit.kind[node])
    edges = range(int(circuit.child_ptr[node]), int(circuit.child_ptr[node + 1]))
    children = [int(circuit.child[edge]) for edge in edges]
    weights = [float(np.exp(circuit.log_weight[edge])) for edge in edges]
    if kind == DECISION:
        variable = int(circuit.var[node])
        domain = circuit.domains[variable]
        branches = []
        for edge, weight, child in zip(edges, weights, children, strict=True):
            begin, end = circuit.branch_ptr[edge], circuit.branch_ptr[edge + 1]
            states = circuit.branch_state[begin:end].tolist()
            brief = ""
            if domain.grid is None and len(states) > 1:
                brief = f"{domain.label(states[0])} +{len(states) - 1}"
            branches.append(Edge(states_text(domain, states), weight, child, brief))
        return f"cut on {name_of(circuit, variable)}", "cut", branches
    if kind == SUM:
        branches = [Edge("", w, c) for w, c in zip(weights, children, strict=True)]
        return f"mixture of {len(children)}", "sum", branches
    if kind == PRODUCT:
        return f"product of {len(children)}", "product", [Edge("", None, c) for c in children]
    if kind == NORMAL:
        first, last = int(circuit.fam_ptr[node]), int(circuit.fam_ptr[node + 1])
        return f"Gaussian of {last - first} numbers", "leaf", []
    if kind == JUNCTION:
        return _leaf_title(circuit, node), "leaf", []
    return _input_title(circuit, node, kind), "leaf", []


def _leaf_title(circuit: Circuit, node: int) -> str:
    begin, end = int(circuit.fam_ptr[node]), int(circuit.fam_ptr[node + 1])
    width = int(np.diff(circuit.fam_parent_ptr[begin : end + 1]).max(initial=0))
    if end - begin == 1:
        return f"distribution of {name_of(circuit, int(circuit.fam_var[begin]))}"
    if width == 0:
        return f"{end - begin} independent variables"
    what = "tree" if width == 1 else f"width-{width} leaf"
    return f"{what} over {end - begin} variables"


def _input_title(circuit: Circuit, node: int, kind: int) -> str:
    name = name_of(circuit, int(circuit.var[node]))
    text = INPUTS[kind].text(circuit, node, name).replace("\n", ": ")
    return f"{NAMES[kind]} input of {name}" if text == name else text


def _families(circuit: Circuit, node: int, reach: float) -> list[Item]:
    """Return the variables of a leaf, each under the one it depends on."""
    first, last = int(circuit.fam_ptr[node]), int(circuit.fam_ptr[node + 1])
    items: list[Item] = []
    roots: list[Item] = []
    for f in range(first, last):
        begin, end = int(circuit.fam_parent_ptr[f]), int(circuit.fam_parent_ptr[f + 1])
        parents = [name_of(circuit, int(p)) for p in circuit.fam_parent[begin:end]]
        given = f" | {', '.join(parents)}" if len(parents) > 1 else ""
        item = Item(f"{name_of(circuit, int(circuit.fam_var[f]))}{given}", "variable", reach)
        host = int(circuit.fam_host[f])
        (roots if host < 0 else items[host - first].children).append(item)
        items.append(item)
    return roots


def _count_cuts(circuit: Circuit, node: int) -> int:
    """Number of cuts at a node and below, each counted once."""
    seen, stack, found = set[int](), [node], 0
    while stack:
        here = stack.pop()
        if here in seen:
            continue
        seen.add(here)
        found += int(circuit.kind[here]) == DECISION
        stack += circuit.child[circuit.child_ptr[here] : circuit.child_ptr[here + 1]].tolist()
    return found


def summarise(
    circuit: Circuit,
    most_rows: int = 24,
    depth: int | None = None,
    *,
    leaf_variables: int = MOST_LEAF_VARIABLES,
) -> Item:
    """Return the top of a circuit: the branches that most rows take.

    The node that is reached with the largest probability is opened first, as long as there is room
    for its branches; leaves are opened last.

    Parameters
    ----------
    circuit : Circuit
    most_rows : int
        Items without children, at most.
    depth : int, optional
        Levels that are opened, at most.
    leaf_variables : int
        Leaves of more variables stay closed, unless the circuit is one leaf.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> from bayescut.circuit.outline import summarise
    >>> node = build.decision(
    ...     0, [0.8, 0.2], build.categorical(1, [0.9, 0.1]), build.categorical(1, [0.3, 0.7])
    ... )
    >>> [child.edge() for child in summarise(build.circuit(node, [2, 2])).children]
    ['0 (0.8)', '1 (0.2)']
    """
    title, kind, edges = describe(circuit, circuit.root)
    root = Item(title, kind, 1.0)
    rows = 1
    # Cuts before leaves, frequent before rare ones, then in the order they were found in.
    heap = [(kind == "leaf", -1.0, 0, 0, circuit.root, root)]
    n_found = 1
    while heap:
        _, _, _, level, node, item = heapq.heappop(heap)
        if item.kind == "leaf":
            variables = _variables(circuit, node)
            large = variables > leaf_variables and node != circuit.root
            if variables < 2 or large or depth == level:
                continue
            families = _families(circuit, node, item.reach)
            if depth is not None and node != circuit.root and _height(families) > depth - level:
                continue
            if depth is not None:
                _close(families, depth - level)
            size = sum(map(_n_rows, families))
            if node == circuit.root:
                item.children = _clipped(families, most_rows)
            elif rows + size - 1 <= most_rows:
                item.children = families
                rows += size - 1
            continue
        _, _, edges = describe(circuit, node)
        shown = _largest(edges)
        size = len(shown) + (len(shown) < len(edges))
        if rows + size - 1 > most_rows or depth == level:
            n_cuts = _count_cuts(circuit, node) - (item.kind == "cut")
            if n_cuts:
                item.title += f" (and {n_cuts:,} more cut{'s' * (n_cuts != 1)})"
            elif edges:
                item.title = _closed(circuit, item, edges)
            continue
        rows += size - 1
        for edge in shown:
            title, kind, _ = describe(circuit, edge.child)
            reach = item.reach * (1.0 if edge.weight is None else edge.weight)
            child = Item(title, kind, reach, edge.label, edge.weight, brief=edge.brief)
            item.children.append(child)
            entry = (kind == "leaf", -reach, n_found, level + 1, edge.child, child)
            heapq.heappush(heap, entry)
            n_found += 1
        if len(shown) < len(edges):
            rest = [edge for edge in edges if edge not in shown]
            known = all(edge.weight is not None for edge in rest)
            weight = sum(edge.weight or 0.0 for edge in rest) if known else None
            item.children.append(Item(f"{len(rest):,} more", "more", 0.0, "", weight))
    return root


def _closed(circuit: Circuit, item: Item, edges: list[Edge]) -> str:
    """Return the title of a node whose branches are not shown: of a few leaves, what they are."""
    parts = [describe(circuit, edge.child) for edge in edges]
    if item.kind == "product" and len(parts) <= MOST_PARTS and all(p[1] == "leaf" for p in parts):
        return ", beside ".join(title for title, _, _ in parts)
    return f"{item.title} ..."


def _variables(circuit: Circuit, node: int) -> int:
    return int(circuit.fam_ptr[node + 1] - circuit.fam_ptr[node])


def _largest(edges: list[Edge]) -> list[Edge]:
    if len(edges) <= MOST_BRANCHES:
        return edges
    ranked = sorted(range(len(edges)), key=lambda i: (-(edges[i].weight or 0.0), i))
    return [edges[i] for i in sorted(ranked[: MOST_BRANCHES - 1])]


def _n_rows(item: Item) -> int:
    return sum(map(_n_rows, item.children)) or 1


def _clipped(items: list[Item], most_rows: int) -> list[Item]:
    """Cut the variables of one leaf down to as many rows, level by level."""
    level, rows = list(items), len(items)
    if rows > most_rows:
        rest = len(items) - most_rows + 1
        return [*items[: most_rows - 1], Item(f"{rest:,} more", "more", 0.0)]
    while level:
        below: list[Item] = []
        for item in level:
            size = len(item.children)
            if size and rows + size - 1 > most_rows:
                hidden = _size(item) - 1
                item.children = []
                item.title += f" (and {hidden:,} more)"
            elif size:
                rows += size - 1
                below += item.children
        level = below
    return items


def _close(items: list[Item], levels: int) -> None:
    """Close the items below so many levels."""
    for item in items:
        if levels > 1:
            _close(item.children, levels - 1)
        elif item.children:
            item.title += f" (and {_size(item) - 1:,} more)"
            item.children = []


def _height(items: list[Item]) -> int:
    return 1 + max(_height(item.children) for item in items) if items else 0


def _size(item: Item) -> int:
    return 1 + sum(map(_size, item.children))


def outline(circuit: Circuit, depth: int | None = None, most_rows: int = 24) -> list[str]:
    """Write the top of a circuit as an indented tree of text, one line for each item.

    Parameters
    ----------
    circuit : Circuit
    depth, most_rows
        See `summarise`.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> from bayescut.circuit.outline import outline
    >>> node = build.decision(
    ...     0, [0.8, 0.2], build.categorical(1, [0.9, 0.1]), build.categorical(1, [0.3, 0.7])
    ... )
    >>> print("\\n".join(outline(build.circuit(node, [2, 2]))))
    cut on 0
    ├─ 0 (0.8): 1: 0.9 0.1
    └─ 1 (0.2): 1: 0.3 0.7
    """
    lines: list[str] = []

    def write(item: Item, before: str, indent: str) -> None:
        edge = item.edge(EDGE_LETTERS)
        lines.append(f"{before}{f'{edge}: ' if edge else ''}{item.name(TITLE_LETTERS)}")
        for position, child in enumerate(item.children):
            last = position == len(item.children) - 1
            write(child, indent + ("└─ " if last else "├─ "), indent + ("   " if last else "│  "))

    write(summarise(circuit, most_rows, depth), "", "")
    return lines
