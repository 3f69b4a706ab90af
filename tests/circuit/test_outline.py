"""Pictures and outlines of models large and small: everything fits, nothing overlaps."""

from __future__ import annotations

import numpy as np
import pytest

import bayescut as bc
from bayescut.circuit import Circuit, build
from bayescut.circuit.outline import Item, outline, summarise


def many_cuts(n_columns: int, depth: int, seed: int = 0) -> Circuit:
    """Cuts of three branches each, down to the given depth, over trees."""
    rng = np.random.default_rng(seed)

    def node(columns: list[int], level: int):
        if level == depth:
            half = [1 / 3] * 3
            tables = [half, *([[half] * 3] * (len(columns) - 1))]
            return build.chow_liu([-1, *range(len(columns) - 1)], tables, columns)
        cut, *rest = rng.permutation(columns).tolist()
        children = [node(rest, level + 1) for _ in range(3)]
        return build.decision(cut, rng.dirichlet([0.4] * 3), *children)

    return build.circuit(node(list(range(n_columns)), 0), [3] * n_columns)


def hundred() -> Circuit:
    rng = np.random.default_rng(1)
    return bc.CNetBD().fit(rng.integers(0, 2, (60, 100))).circuit_


CIRCUITS = {
    "nine columns": lambda: many_cuts(9, 4),
    "a hundred columns": lambda: many_cuts(100, 4),
    "one leaf": hundred,
    "mixture": lambda: build.mixture([1 / 30] * 30, [many_cuts(9, 2)] * 30),
    "plain": lambda: many_cuts(4, 2).expand(),
}


def walk(item: Item):
    yield item
    for child in item.children:
        yield from walk(child)


@pytest.mark.parametrize("make", CIRCUITS.values(), ids=CIRCUITS)
@pytest.mark.parametrize("most_rows", [2, 8, 24])
def test_an_outline_ends(make, most_rows: int) -> None:
    circuit = make()
    items = list(walk(summarise(circuit, most_rows)))
    assert sum(not item.children for item in items) <= most_rows
    lines = outline(circuit, most_rows=most_rows)
    assert len(lines) == len(items)
    assert len(outline(circuit, depth=0)) == 1
    assert max(map(len, lines)) < 120


def test_what_matters_is_shown() -> None:
    rare = build.decision(
        1, [0.5, 0.5], build.categorical(2, [0.5, 0.5]), build.categorical(2, [0.1, 0.9])
    )
    often = build.decision(
        2, [0.5, 0.5], build.categorical(1, [0.5, 0.5]), build.categorical(1, [0.1, 0.9])
    )
    circuit = build.circuit(build.decision(0, [0.1, 0.9], rare, often), [2] * 3)
    assert outline(circuit, most_rows=3) == [
        "cut on 0",
        "├─ 0 (0.1): cut on 1 ...",
        "└─ 1 (0.9): cut on 2",
        "   ├─ 0 (0.5): 1: 0.5 0.5",
        "   └─ 1 (0.5): 1: 0.1 0.9",
    ]
    assert outline(circuit, depth=1)[1] == "├─ 0 (0.1): cut on 1 ..."
    assert outline(circuit, depth=0) == ["cut on 0 (and 2 more cuts)"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("make", CIRCUITS.values(), ids=CIRCUITS)
def test_nothing_overlaps_in_a_picture(make, theme: str) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ax = make().draw(theme=theme)
    figure = ax.figure
    figure.canvas.draw()
    width, height = figure.get_size_inches()
    assert width <= 14 and height <= 9
    page = figure.bbox
    boxes = []
    for text in ax.texts:
        patch = text.get_bbox_patch()
        boxes.append((patch or text).get_window_extent())
    for i, one in enumerate(boxes):
        assert one.x0 >= page.x0 and one.x1 <= page.x1
        assert one.y0 >= page.y0 and one.y1 <= page.y1
        for other in boxes[i + 1 :]:
            apart = one.x1 <= other.x0 + 1 or other.x1 <= one.x0 + 1
            apart = apart or one.y1 <= other.y0 + 1 or other.y1 <= one.y0 + 1
            assert apart
    paper, ink = (
        matplotlib.colors.to_rgb(colour)
        for colour in (figure.get_facecolor(), ax.texts[0].get_color())
    )
    assert abs(sum(paper) - sum(ink)) > 2  # of 3
    plt.close(figure)


def test_a_branch_of_many_labels_is_short() -> None:
    labels = "Algeria, Argentina, Argentina/USA, and 69 more"
    item = Item("cut on ID", "cut", 1.0, labels, 0.661, brief="Algeria +71")
    assert item.edge() == f"{labels} (0.661)"
    assert item.edge(26) == "Algeria +71 (0.661)"
    assert item.edge(18) == "Alger… +71 (0.661)"
