from __future__ import annotations

import math
from itertools import product

import pytest

from _pareto import Point, _floor, _levels, front, pareto_points, plot_pareto
from bayescut.bench import Result

RESULTS = [
    Result("CNetBD", name, None, "train+valid", "ok", value, fit_seconds=seconds)
    for name, value, seconds in (("nltcs", -6.06, 0.01), ("dna", -87.6, 0.02))
]
RESULTS.append(Result("CNetBIC", "dna", None, "train+valid", "failed"))


def beats(a: Point, b: Point) -> bool:
    no_worse = a.seconds <= b.seconds and a.log_likelihood >= b.log_likelihood
    return no_worse and (a.seconds, a.log_likelihood) != (b.seconds, b.log_likelihood)


def test_the_front_is_what_nobody_beats() -> None:
    grid = [Point(f"{x}{y}", x, -y) for x, y in product((1.0, 2.0, 4.0), (1.0, 3.0))]
    for points in (grid, grid[1:], grid[::-1][:4], [*grid[2:], Point("twin", 2.0, -1.0)]):
        naive = {p.learner for p in points if not any(beats(q, p) for q in points)}
        assert {p.learner for p in front(points)} == naive
    assert front([]) == []


def test_points_have_a_value_and_a_time() -> None:
    points = pareto_points(RESULTS)
    assert list(points) == ["nltcs", "dna"]
    ours = [p for p in points["dna"] if not p.published]
    assert ours == [Point("CNetBD", 0.02, -87.6)]
    theirs = {p.learner for p in points["dna"] if p.published}
    assert len(theirs) == 8  # EM-CNetBD has no published time
    assert "EM-CNetBD" not in theirs
    assert [p.learner for p in pareto_points(RESULTS, learners=["CNet"])["dna"]] == [
        "CNetBD",
        "CNet",
    ]


def test_published_learners_go_by_the_names_of_ours() -> None:
    ours = Result("DCSN", "dna", None, "train+valid", "ok", -87.6, fit_seconds=0.3)
    points = pareto_points([*RESULTS, ours])["dna"]
    assert [p.published for p in points if p.learner == "DCSN"] == [False, True]
    assert "dCSN" in {p.learner for p in pareto_points(RESULTS)["dna"]}


def test_far_points_go_to_the_foot_of_a_panel() -> None:
    assert _floor([-1.0, -2.0, -3.0, -50.0]) == -3.0
    assert _floor([-1.0]) == -1.0
    assert _floor([-1.0, -1.0, -1.0]) == -1.0
    crowd = [Point(str(i), 10.0 + i, -50.0) for i in range(3)]
    assert _levels(crowd, 1.0, 1000.0) == [0, 1, 2]
    apart = [Point("a", 2.0, -50.0), Point("b", 900.0, -50.0)]
    assert _levels(apart, 1.0, 1000.0) == [0, 0]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_figure(theme: str) -> None:
    pytest.importorskip("matplotlib")
    figure = plot_pareto(pareto_points(RESULTS), theme=theme)
    panels = [axis for axis in figure.axes if axis.get_visible()]
    assert [axis.get_title() for axis in panels] == ["NLTCS", "DNA"]
    assert all(axis.get_xscale() == "log" for axis in panels)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[:2] == ["CNetBD", "CNet"]
    assert labels[-3:] == ["hollow: published", "Pareto front", "on the front"]
    for axis in panels:
        low, high = axis.get_ylim()
        for line in axis.lines:
            values = [float(y) for y in line.get_ydata()]  # type: ignore[union-attr]
            assert all(math.isfinite(y) and low <= y <= high for y in values)


def test_nothing_to_draw() -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_pareto({"dna": []})
    with pytest.raises(ValueError, match="theme"):
        plot_pareto(pareto_points(RESULTS), theme="pink")
