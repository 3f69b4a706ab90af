"""Pictures of dependence: what is drawn, not how it looks."""

import numpy as np
import pytest

from bayescut.plots.depends import dependence_graph, dependence_map, strongest_pairs

MATRIX = np.array([[1, 0.1, 0.8, 0], [0.1, 1, 0, 0.6], [0.8, 0, 1, 0], [0, 0.6, 0, 1]])


def test_strongest_pairs_come_first():
    assert strongest_pairs(MATRIX, 0.05) == [(0, 2, 0.8), (1, 3, 0.6), (0, 1, 0.1)]
    with pytest.raises(ValueError, match="square"):
        strongest_pairs([[1, 2, 3]])


def test_map_puts_neighbours_together():
    pytest.importorskip("matplotlib")
    axes = dependence_map(MATRIX, ["a", "b", "c", "d"])
    order = [text.get_text() for text in axes.get_yticklabels()]
    assert sorted(order) == ["a", "b", "c", "d"]
    assert abs(order.index("a") - order.index("c")) == 1
    assert abs(order.index("b") - order.index("d")) == 1
    shown = axes.images[0].get_array()
    assert (shown.shape == (4, 4) and np.ma.is_masked(shown[0, 0])) or np.isnan(shown[0, 0])


def test_graph_has_a_line_for_each_pair():
    pytest.importorskip("matplotlib")
    axes = dependence_graph(MATRIX, ["a", "b", "c", "d"])
    assert len(axes.lines) == 3
    assert len(dependence_graph(MATRIX, list("abcd"), n_edges=1).lines) == 1
    assert sorted(text.get_text() for text in axes.texts) == ["a", "b", "c", "d"]
