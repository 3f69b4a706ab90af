"""Indicator: 1 if the variable has the state, else 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayescut._kernels import borrowed, kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._kinds import INDICATOR, RESTRICTED
from bayescut.circuit._plan import NODE_STATE, NODE_VAR, VAR_OFFSET, Inputs
from bayescut.circuit._route import list_rows
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._hooks import OneVariable
from bayescut.circuit.inputs._scratch import Marks, Sinks

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit


@kernel
def _values(
    plan: Inputs,
    ws: Marks,
    block: Block,
    need: IntArray,
    start: IntArray,
    value: FloatArray,
    nodes: IntArray,
    maximise: bool,
) -> None:
    plan, ws, block = borrowed(plan), borrowed(ws), borrowed(block)
    which = ws.which
    for node in nodes:
        v, wanted = plan.node[node, NODE_VAR], plan.node[node, NODE_STATE]
        offset = plan.variable[v, VAR_OFFSET]
        for i in range(list_rows(need[node], which)):
            r = which[i]
            state = np.int64(block.states[r, v])
            value[start[node] + i] = 0.0
            if state == RESTRICTED:
                value[start[node] + i] = np.log(
                    block.weights[r if len(block.weights) > 1 else 0, offset + wanted]
                )
            elif state < RESTRICTED and state != wanted:
                value[start[node] + i] = -np.inf


@kernel
def _posteriors(
    plan: Inputs,
    ws: Marks,
    block: Block,
    need: IntArray,
    start: IntArray,
    nodes: IntArray,
    flow: FloatArray,
    sinks: Sinks,
) -> None:
    plan, ws, block, sinks = borrowed(plan), borrowed(ws), borrowed(block), borrowed(sinks)
    if len(sinks.posterior) == 0:
        return
    which = ws.which
    for node in nodes:
        v = plan.node[node, NODE_VAR]
        column = plan.variable[v, VAR_OFFSET] + plan.node[node, NODE_STATE]
        for i in range(list_rows(need[node], which)):
            if block.states[which[i], v] >= RESTRICTED:
                sinks.posterior[column, which[i]] += flow[start[node] + i]


@kernel
def _fill(
    plan: Inputs, ws: Marks, block: Block, nodes: IntArray, taken: IntArray, maximise: bool
) -> None:
    plan, ws, block = borrowed(plan), borrowed(ws), borrowed(block)
    which = ws.which
    for node in nodes:
        v = plan.node[node, NODE_VAR]
        for i in range(list_rows(taken[node], which)):
            r = which[i]
            if block.states[r, v] >= RESTRICTED:
                block.states[r, v] = plan.node[node, NODE_STATE]


class Indicator(OneVariable):
    """Hooks of indicators."""

    kind = INDICATOR
    kernels = _values, _posteriors, _fill

    def check(self, circuit: Circuit, nodes: IntArray) -> None:
        """See `InputKind.check`."""
        state = circuit.state[nodes]
        bad = (state < 0) | (state >= circuit.domains.n_states[circuit.var[nodes]])
        self.refuse(bad, nodes, "its state is not a state of its variable.")

    def text(self, circuit: Circuit, node: int, name: str) -> str:
        """See `InputKind.text`."""
        domain = circuit.domains[int(circuit.var[node])]
        return f"{name} = {domain.label(int(circuit.state[node]))}"
