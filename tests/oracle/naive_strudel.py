"""Strudel as its pseudo-code reads, on nested objects: the twin of `bayescut.learn.strudel`."""

from __future__ import annotations

import math

import numpy as np


class Node:
    """A literal (column, state), an OR (list of children) or an AND (prime, sub)."""

    def __init__(self, kind, children=(), column=-1, state=-1):
        self.kind, self.children = kind, list(children)
        self.column, self.state = column, state

    def literals(self):
        if self.kind == "literal":
            return {(self.column, self.state)}
        return set().union(*(child.literals() for child in self.children))

    def holds(self, row):
        if self.kind == "literal":
            return row[self.column] == self.state
        test = all if self.kind == "and" else any
        return test(child.holds(row) for child in self.children)


def information(x, y, sizes, w):
    """Mutual information of tables smoothed by four rows."""
    table = np.full(sizes, 4.0 / (sizes[0] * sizes[1]))
    np.add.at(table, (x, y), w)
    p = table / table.sum()
    return float((p * np.log(p / np.outer(p.sum(1), p.sum(0)))).sum())


def tree(codes, sizes, w):
    """Parents by Kruskal, ties to the lower pair, rooted at the centre."""
    m = codes.shape[1]
    pairs = sorted(
        ((i, j) for i in range(m) for j in range(i + 1, m)),
        key=lambda p: (
            -round(information(codes[:, p[0]], codes[:, p[1]], sizes[list(p)], w), 10), p,
        ),
    )  # fmt: skip
    part, near = list(range(m)), [[] for _ in range(m)]
    for i, j in pairs:
        if part[i] != part[j]:
            part = [part[i] if q == part[j] else q for q in part]
            near[i].append(j)
            near[j].append(i)

    def depth(v, above):
        return 1 + max((depth(u, v) for u in near[v] if u != above), default=0)

    return near, min(range(m), key=lambda v: (depth(v, -1), v))


def start(codes, sizes, w):
    near, root = tree(codes, sizes, w)
    literal = {
        (v, s): Node("literal", column=v, state=s)
        for v in range(len(sizes)) for s in range(sizes[v])
    }  # fmt: skip

    def join(parts):
        if len(parts) == 1:
            return parts[0]
        half = len(parts) // 2
        first, second = join(parts[:half]), join(parts[half:])
        return [
            Node("or", [Node("and", [a, b])]) for a, b in zip(first, second, strict=True)
        ]  # fmt: skip

    def circuits(v, above):
        below = [circuits(u, v) for u in sorted(near[v]) if u != above]
        rest = join(below) if below else None
        made = []
        for _ in range(1 if above < 0 else sizes[above]):
            branches = []
            for s in reversed(range(sizes[v])):
                at = literal[v, s]
                branches.append(at if rest is None else Node("and", [at, rest[s]]))
            made.append(Node("or", branches))
        return made

    return circuits(root, -1)[0]


def post_order(root):
    seen, found = set(), []

    def visit(node):
        if id(node) not in seen:
            seen.add(id(node))
            for child in node.children:
                visit(child)
            found.append(node)

    visit(root)
    return found


def rows_of(root, codes):
    """Rows that flow through each (OR, child)."""
    rows = {}

    def flow(node, r):
        if node.kind == "and":
            for child in node.children:
                flow(child, r)
        elif node.kind == "or":
            child = next(c for c in node.children if c.holds(codes[r]))
            rows.setdefault((id(node), id(child)), []).append(r)
            flow(child, r)

    for r in range(len(codes)):
        flow(root, r)
    return rows


def free(node, sizes):
    literals = node.literals()
    return [v for v in range(len(sizes)) if sum((v, s) in literals for s in range(sizes[v])) > 1]


def condition(node, v, s, done):
    """A node given that column v has state s; None if that cannot be."""
    if id(node) in done:
        return done[id(node)]
    result = node
    if node.kind == "literal":
        result = None if node.column == v and node.state != s else node
    else:
        parts = [condition(child, v, s, done) for child in node.children]
        if node.kind == "and":
            if any(part is None for part in parts):
                result = None
            elif any(a is not b for a, b in zip(parts, node.children, strict=True)):
                result = Node("and", parts)
        else:
            left = [part for part in parts if part is not None]
            if not left:
                result = None
            elif len(left) == 1 and left[0].kind == "literal":
                result = left[0]
            elif len(left) < len(parts) or any(
                a is not b for a, b in zip(left, node.children, strict=True)
            ):
                result = Node("or", left)
    done[id(node)] = result
    return result


def split_once(root, codes, sizes, w):
    """Make one split in place; False if there is none."""
    rows = rows_of(root, codes)
    best = None
    for node in post_order(root):
        if node.kind == "or":
            for child in node.children:
                if child.kind == "and" and free(child, sizes):
                    mass = w[rows.get((id(node), id(child)), [])].sum()
                    if best is None or mass > best[0]:
                        best = mass, node, child
    if best is None:
        return False
    _, node, child = best
    inside = rows.get((id(node), id(child)), [])
    columns = free(child, sizes)
    sums = [
        sum(
            information(codes[inside, v], codes[inside, u], sizes[[v, u]], w[inside])
            for u in columns if u != v
        )
        for v in columns
    ]  # fmt: skip
    v = columns[next(i for i, x in enumerate(sums) if x >= max(sums) - 1e-10)]
    literals = child.literals()
    copies = [condition(child, v, s, {}) for s in reversed(range(sizes[v])) if (v, s) in literals]
    node.children = copies + [c for c in node.children if c is not child]
    return True


def mean_log_likelihood(root, codes, w, pseudocount, test, test_w):
    rows, seen = rows_of(root, codes), rows_of(root, test)
    total = 0.0
    for node in post_order(root):
        c = len(node.children)
        if node.kind == "or" and c > 1:
            counts = [w[rows.get((id(node), id(child)), [])].sum() for child in node.children]
            for child, n in zip(node.children, counts, strict=True):
                weight = (n + pseudocount / c) / (sum(counts) + pseudocount)
                total += test_w[seen.get((id(node), id(child)), [])].sum() * math.log(weight)
    return total / test_w.sum()
