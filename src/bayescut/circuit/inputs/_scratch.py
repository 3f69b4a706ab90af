"""What inputs write to: scratch memory of one thread, and the sinks of expected counts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayescut._kernels import merged
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._plan import Sizes

# An ensemble of 69 columns, half of them missing, µs a row: 64 lanes 55, 128 lanes 46, 256 48.
LANES = 128
# The step of SplitMix64; each row has its own counter.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Marks(NamedTuple):
    """What a pass notes of the rows of a block."""

    which: IntArray  # rows that need the present node
    slot: IntArray  # row -> its place among those
    chosen: IntArray  # row -> the edge it takes
    top: FloatArray
    total: FloatArray
    random: IntArray  # uint64: a counter for every row
    weight: FloatArray  # one number per state


class RowLanes(NamedTuple):
    """One leaf, LANES rows side by side."""

    links: IntArray  # (families, 3): HEAD, LINK, SCALED
    message: FloatArray  # (slots, LANES)
    joint: FloatArray  # (margins and cliques, LANES): posteriors; none unless asked for
    above: FloatArray  # (bases of a family, LANES): posterior of its parents; likewise
    belief: FloatArray  # (states, LANES): how far evidence and messages leave each state
    product: FloatArray  # (states, LANES): the same for the cells of one base
    state: IntArray  # (LANES,) the variable's entry in each row
    number: FloatArray  # (6, LANES)


class LeafLanes(NamedTuple):
    """One row, the leaves of a stack side by side."""

    links: IntArray  # (families, 2): HEAD, LINK
    message: FloatArray  # slot times lanes
    joint: FloatArray  # cell times lanes: posterior probabilities; none unless asked for
    above: FloatArray  # slot times lanes: posterior of the parents
    bases: IntArray  # (2, bases)
    number: FloatArray  # (7, lanes)


class Scratch(NamedTuple):
    """Scratch memory of one thread: O(rows of a block + largest leaf)."""

    marks: Marks
    rows: RowLanes
    stack: LeafLanes


# Columns of links.
HEAD = 0  # family -> the last family that sent it a message
LINK = 1  # family -> the one that sent before it
SCALED = 2  # whether messages of the family were scaled in some lane

# Rows of number.
TERM = 0
PRODUCT_SO_FAR = 1
LOGS = 2
FOUND = 3  # the value of each lane
# ... of rows side by side: the state that a view shows, and the share of what is seen in it.
LOCAL = 4
SHARE = 5
# ... of leaves side by side.
TOTAL = 4
FLOW = 5
BEST = 6


class Sinks(NamedTuple):
    """Where posteriors go; what has no entries is not asked for.

    ``posterior`` and ``moments`` are per row, the others sum over rows.
    """

    posterior: FloatArray  # (states of all variables, rows): of unknown variables
    moments: FloatArray  # (rows, variables, [weight, mean, squared deviations])
    edges: FloatArray  # as Circuit.log_weight
    tables: FloatArray  # as Circuit.fam_table
    params: FloatArray  # as Circuit.param
    statistics: FloatArray  # (nodes, 3) of continuous inputs


def make_scratch(size: Sizes, n_rows: int, with_joint: bool = False) -> Scratch:
    """Allocate scratch memory for blocks of so many rows; only posteriors want the joint."""
    cells = size.cells if with_joint else 0
    return Scratch(
        Marks(
            which=np.empty(n_rows, dtype=np.int64),
            slot=np.empty(n_rows, dtype=np.int64),
            chosen=np.empty(n_rows, dtype=np.int64),
            top=np.empty(n_rows),
            total=np.empty(n_rows),
            random=np.zeros(n_rows, dtype=np.uint64),
            weight=np.empty(size.states),
        ),
        RowLanes(
            links=np.empty((size.families, 3), dtype=np.uint32),
            message=np.empty((size.slots, LANES)),
            joint=np.empty((size.margins if with_joint else 0, LANES)),
            above=np.empty((size.bases if with_joint else 0, LANES)),
            belief=np.empty((size.states, LANES)),
            product=np.empty((size.states, LANES)),
            state=np.empty(LANES, dtype=np.uint16),
            number=np.empty((6, LANES)),
        ),
        LeafLanes(
            links=np.empty((size.families, 2), dtype=np.uint32),
            message=np.empty(size.cells),
            joint=np.empty(cells),
            above=np.empty(cells),
            bases=np.empty((2, size.bases), dtype=np.uint32),
            number=np.empty((7, size.lanes)),
        ),
    )


@merged
def uniform(state: Any) -> float:
    """Turn a 64-bit counter into a number in [0, 1) as SplitMix64 does."""
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@merged
def draw(random: IntArray, r: int) -> float:
    """Draw row r's next number from [0, 1)."""
    random[r] += GOLDEN
    return uniform(random[r])


@merged
def pick(weight: FloatArray, n: int, total: float, maximise: bool, random: IntArray, r: int) -> int:
    """Return the first largest weight's index, or row r's draw in proportion to the weights."""
    chosen = 0
    if maximise:
        for s in range(1, n):
            if weight[s] > weight[chosen]:
                chosen = s
        return chosen
    rest = draw(random, r) * total
    for s in range(n):
        if weight[s] > 0.0:
            chosen = s
            rest -= weight[s]
            if rest < 0.0:
                break
    return chosen


@merged
def add_moments(sums: FloatArray, flow: float, mean: float, variance: float) -> None:
    """Update [weight, mean, squared deviations] as Welford does: plain sums of squares would lose
    the variance of numbers far from zero."""
    sums[0] += flow
    step = mean - sums[1]
    sums[1] += step * (flow / sums[0])
    sums[2] += flow * (variance + step * (mean - sums[1]))


@merged
def add_number(
    sinks: Sinks, node: int, r: int, v: int, flow: float, mean: float, variance: float
) -> None:
    """Add what row r expects of the number v of a continuous input to what is asked for."""
    if sinks.moments.shape[1] > 0:
        add_moments(sinks.moments[r, v], flow, mean, variance)
    if len(sinks.statistics) > 0:
        add_moments(sinks.statistics[node], flow, mean, variance)
