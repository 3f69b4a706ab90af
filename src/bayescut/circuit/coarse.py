"""Tables of rounded logits: what a mixture of thousands of tables is stored by.

A table of learned probabilities holds 52 bits of noise in every cell, which no compression takes
away, and nearly all bytes of a model are cells. Logits that are whole multiples of 2^-10 say the
same: an ensemble of nltcs with 833,692 cells lost 2e-6 nats and 86 % of its file. Tables are
computed from them by additions, multiplications and divisions alone, which give the same numbers on
every machine, so that a file may hold the whole numbers instead of the tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._kinds import JUNCTION
from bayescut.circuit._model import Circuit

#: What a file holds of the tables of a circuit.
PACKED = {"fam_row": np.uint16, "fam_logit": np.uint32, "fam_table": np.float64}
_STEPS = 1024.0  # of a logit of 1
_MOST = 2**20  # steps: 1,000 nats
_ROWS = 2**15  # rows at a time, which stay in the cache
_LN2_HIGH, _LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
_EXP = [1.0 / math.factorial(k) for k in range(13, -1, -1)]
_LOG = [1.0 / k for k in range(25, 0, -2)]


def coarse(circuit: Circuit) -> Circuit:
    """Round the logits of the tables of junction leaves.

    Rows that hold a zero stay as they are.

    Parameters
    ----------
    circuit : Circuit

    Returns
    -------
    Circuit
    """
    states = _states_of_rows(circuit)
    table = circuit.fam_table.copy()
    first = np.cumsum(states) - states
    is_junction = circuit.kind[_nodes_of_families(circuit)] == JUNCTION
    junction = np.repeat(is_junction, np.diff(circuit.fam_table_ptr))[first]
    for k, _, cells in _blocks(states, first, junction & (states > 1)):
        whole = _whole(table[cells])
        usable = np.isfinite(whole).all(axis=1)
        table[cells[usable]] = _logs(whole[usable], k)
    return replace(circuit, fam_table=table)


def pack_table(circuit: Circuit) -> dict[str, NDArray[Any]]:
    """Split the tables of a circuit into what a file holds.

    Returns
    -------
    dict of array
        ``fam_row``: for every row of rounded logits its number of states, for every other cell 0.
        ``fam_logit``: the logits of those rows, one for each state but the first, as 0, 1, 2, ...
        for 0, -1, 1, ... steps, whose upper bytes are zero. ``fam_table``: the other cells. Without
        such rows there is only the last.
    """
    states = _states_of_rows(circuit)
    first = np.cumsum(states) - states
    found = np.zeros(len(states), dtype=bool)
    logits: IntArray = np.zeros(int((states - 1).sum()), dtype=np.int32)
    begin = np.cumsum(states - 1) - (states - 1)
    packable = (states > 1) & (states <= np.iinfo(np.uint16).max)
    for k, rows, cells in _blocks(states, first, packable):
        table = circuit.fam_table[cells]
        whole = _whole(table)
        usable = np.flatnonzero(np.isfinite(whole).all(axis=1))
        again = _logs(whole[usable], k).view(np.int64)
        usable = usable[(again == table[usable].view(np.int64)).all(axis=1)]
        found[rows[usable]] = True
        logits[begin[rows[usable], None] + np.arange(k - 1)] = whole[usable]
    if not found.any():
        return {"fam_table": circuit.fam_table}
    kept = np.repeat(found, states - 1)
    rows_of_file = np.where(found, states, 0).repeat(np.where(found, 1, states))
    return {
        "fam_row": rows_of_file.astype(np.uint16),
        "fam_logit": (np.where(logits < 0, -2 * logits - 1, 2 * logits)[kept]).astype(np.uint32),
        "fam_table": circuit.fam_table[~np.repeat(found, states)],
    }


def unpack_table(
    fam_row: NDArray[Any], fam_logit: NDArray[Any], fam_table: FloatArray, n_cells: int
) -> FloatArray:
    """Tables from what `pack_table` made of them; a `ValueError` if that cannot be.

    Files may lie: nothing is laid out before the lengths agree, and the rows are worked off some
    at a time, so that it takes little more memory than the tables themselves.
    """
    n_packed = int(np.count_nonzero(fam_row))
    in_rows = int(fam_row.sum(dtype=np.int64))
    if (
        len(fam_logit) != in_rows - n_packed
        or len(fam_table) != len(fam_row) - n_packed
        or n_cells != in_rows + len(fam_table)
        or np.any(fam_row == 1)
    ):
        raise ValueError("its tables have rows of other lengths than they say")
    if int(fam_logit.max(initial=0)) > 2 * _MOST:
        raise ValueError("its tables hold a logit that is too large")
    table = np.empty(n_cells)
    cell = logit = other = 0
    for at in range(0, len(fam_row), _ROWS):
        rows = fam_row[at : at + _ROWS]
        found = rows > 0
        states = np.maximum(rows, 1).astype(np.int64)
        first = cell + np.cumsum(states) - states
        begin = logit + np.cumsum(states - 1) - (states - 1)
        n_others = int(np.count_nonzero(~found))
        table[first[~found]] = fam_table[other : other + n_others]
        for k, some, cells in _blocks(states, first, found):
            steps = fam_logit[begin[some, None] + np.arange(k - 1)]
            half = (steps // 2).astype(np.float64)
            table[cells] = _logs(np.where(steps % 2, -half - 1.0, half), k)
        cell += int(states.sum())
        logit += int((states - 1).sum())
        other += n_others
    return table


def _nodes_of_families(circuit: Circuit) -> IntArray:
    return np.repeat(np.arange(len(circuit.kind)), np.diff(circuit.fam_ptr))


def _states_of_rows(circuit: Circuit) -> IntArray:
    """Number of states of each row of each table."""
    states = circuit.fam_states
    return np.repeat(states, np.diff(circuit.fam_table_ptr) // states)


def _blocks(
    states: IntArray, first: IntArray, wanted: NDArray[np.bool_]
) -> Iterator[tuple[int, IntArray, IntArray]]:
    """Rows of one number of states at a time, some of them: K, the rows and their cells."""
    every = np.flatnonzero(wanted)
    every = every[np.argsort(states[every], kind="stable")]
    numbers, starts = np.unique(states[every], return_index=True)
    for k, rows in zip(numbers.tolist(), np.split(every, starts)[1:], strict=True):
        for begin in range(0, len(rows), max(_ROWS // k, 1)):
            part = rows[begin : begin + max(_ROWS // k, 1)]
            yield k, part, first[part, None] + np.arange(k)


def _whole(table: FloatArray) -> FloatArray:
    """Logits against the first state in whole steps, NaN where there is none that is usable."""
    with np.errstate(invalid="ignore"):
        whole = np.rint((table[:, 1:] - table[:, :1]) * _STEPS)
    whole[~(np.abs(whole) <= _MOST)] = np.nan
    return whole


def _logs(whole: FloatArray, k: int) -> FloatArray:
    """Logarithms of the probabilities of these logits, the same on every machine."""
    logits = np.zeros((len(whole), k))
    logits[:, 1:] = whole / _STEPS
    highest = logits[:, 0].copy()
    for j in range(1, k):
        np.maximum(highest, logits[:, j], out=highest)
    logits -= highest[:, None]
    powers = _exp(logits)
    total = powers[:, 0].copy()
    for j in range(1, k):  # in this order: NumPy's sums may take another on other machines
        total += powers[:, j]
    return logits - _log(total)[:, None]


def _exp(x: FloatArray) -> FloatArray:
    """exp(x) for x up to 0, by its series around multiples of ln 2."""
    x = np.maximum(x, -700.0)
    n = np.rint(x * (1.0 / math.log(2.0)))
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = np.full_like(r, _EXP[0])
    for c in _EXP[1:]:
        p *= r
        p += c
    return np.ldexp(p, n.astype(np.int32))


def _log(x: FloatArray) -> FloatArray:
    """ln(x) for x from 1, by the series of artanh."""
    m, e = np.frexp(x)
    low = m < math.sqrt(0.5)
    m = np.where(low, 2.0 * m, m)
    e = (e - low).astype(np.float64)
    t = (m - 1.0) / (m + 1.0)
    square = t * t
    p = np.full_like(t, _LOG[0])
    for c in _LOG[1:]:
        p *= square
        p += c
    return e * _LN2_HIGH + (2.0 * t * p + e * _LN2_LOW)
