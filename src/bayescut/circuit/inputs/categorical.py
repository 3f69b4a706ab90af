"""Categorical: a probability for each state of one variable, or for each that a view shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayescut._kernels import borrowed, inner, kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._kinds import CATEGORICAL, MISSING, RESTRICTED
from bayescut.circuit._plan import (
    NODE_VAR,
    NODE_VIEW,
    PARAM,
    VAR_OFFSET,
    VAR_STATES,
    Inputs,
)
from bayescut.circuit._route import list_rows
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._hooks import OneVariable
from bayescut.circuit.inputs._scratch import Marks, Sinks, pick

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit


def _unnormalised(circuit: Circuit) -> NDArray[np.bool_]:
    from bayescut.circuit._check import unnormalised

    return unnormalised(circuit.param, circuit.param_ptr)


@inner
def _log_terms(plan: Inputs, ws: Marks, block: Block, node: int, r: int, states: int) -> float:
    """Write the log of weight times probability of every state to ``ws.weight``, return the top."""
    v, at, view = plan.node[node, NODE_VAR], plan.node[node, PARAM], plan.node[node, NODE_VIEW]
    offset = plan.variable[v, VAR_OFFSET]
    given = block.weights[r if len(block.weights) > 1 else 0]
    restricted = block.states[r, v] == RESTRICTED
    top = -np.inf
    for s in range(states):
        ws.weight[s] = -np.inf
        if view < 0:
            x = plan.param[at + s]
        elif plan.view_local[view + s] >= 0:
            x = plan.param[at + plan.view_local[view + s]] + plan.view_share[view + s]
        else:
            continue
        if restricted:
            x += np.log(given[offset + s])
        ws.weight[s] = x
        top = max(top, x)
    return top


@inner
def _exponentials(weight: FloatArray, n: int, top: float) -> float:
    total = 0.0
    for s in range(n):
        weight[s] = np.exp(weight[s] - top) if weight[s] > -np.inf else 0.0
        total += weight[s]
    return total


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
        v, at, view = plan.node[node, NODE_VAR], plan.node[node, PARAM], plan.node[node, NODE_VIEW]
        n = plan.variable[v, VAR_STATES]
        for i in range(list_rows(need[node], which)):
            r = which[i]
            state = np.int64(block.states[r, v])
            if state < RESTRICTED:
                if view < 0:
                    value[start[node] + i] = plan.param[at + state]
                elif plan.view_local[view + state] >= 0:
                    local = plan.view_local[view + state]
                    value[start[node] + i] = plan.param[at + local] + plan.view_share[view + state]
                else:
                    value[start[node] + i] = -np.inf
            elif state == MISSING and not maximise:
                value[start[node] + i] = 0.0
            else:
                top = _log_terms(plan, ws, block, node, r, n)
                if not maximise and top > -np.inf:
                    top += np.log(_exponentials(ws.weight, n, top))
                value[start[node] + i] = top


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
    which = ws.which
    for node in nodes:
        v, at, view = plan.node[node, NODE_VAR], plan.node[node, PARAM], plan.node[node, NODE_VIEW]
        n, offset = plan.variable[v, VAR_STATES], plan.variable[v, VAR_OFFSET]
        want_flow, want_posterior = len(sinks.params) > 0, len(sinks.posterior) > 0
        for i in range(list_rows(need[node], which)):
            r = which[i]
            if flow[start[node] + i] == 0.0:
                continue
            state = np.int64(block.states[r, v])
            if state < RESTRICTED:
                if want_flow:
                    local = state if view < 0 else np.int64(plan.view_local[view + state])
                    sinks.params[at + local] += flow[start[node] + i]
                continue
            top = _log_terms(plan, ws, block, node, r, n)
            total = _exponentials(ws.weight, n, top)
            for s in range(n):
                q = flow[start[node] + i] * (ws.weight[s] / total)
                if q > 0.0:
                    if want_posterior:
                        sinks.posterior[offset + s, r] += q
                    if want_flow:
                        own = s if view < 0 else int(plan.view_local[view + s])
                        sinks.params[at + own] += q


@kernel
def _fill(
    plan: Inputs, ws: Marks, block: Block, nodes: IntArray, taken: IntArray, maximise: bool
) -> None:
    plan, ws, block = borrowed(plan), borrowed(ws), borrowed(block)
    which = ws.which
    for node in nodes:
        v = plan.node[node, NODE_VAR]
        n = plan.variable[v, VAR_STATES]
        for i in range(list_rows(taken[node], which)):
            r = which[i]
            if block.states[r, v] >= RESTRICTED:
                top = _log_terms(plan, ws, block, node, r, n)
                total = _exponentials(ws.weight, n, top)
                block.states[r, v] = pick(ws.weight, n, total, maximise, ws.random, r)


class Categorical(OneVariable):
    """Hooks of categorical inputs."""

    kind = CATEGORICAL
    dirichlet = True
    kernels = _values, _posteriors, _fill

    def n_params(self, circuit: Circuit, nodes: IntArray) -> NDArray[Any]:
        """See `InputKind.n_params`."""
        view = circuit.view[nodes]
        every = circuit.domains.n_states[circuit.var[nodes]]
        return np.where(view < 0, every, np.append(circuit.view_states, 0)[view])

    def check(self, circuit: Circuit, nodes: IntArray) -> None:
        """See `InputKind.check`."""
        self.refuse(_unnormalised(circuit)[nodes], nodes, "its probabilities must sum to 1.")

    def n_parameters(self, circuit: Circuit, nodes: IntArray) -> int:
        """See `InputKind.n_parameters`."""
        return int((self.n_params(circuit, nodes) - 1).sum())

    def text(self, circuit: Circuit, node: int, name: str) -> str:
        """See `InputKind.text`."""
        param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
        if len(param) > 4:
            return name
        return f"{name}\n" + " ".join(f"{p:.2g}" for p in np.exp(param))
