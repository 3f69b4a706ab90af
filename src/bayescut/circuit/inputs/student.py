r"""Student-t: a density with heavy tails; parameters location, scale and degrees of freedom.

.. math:: \ln p(x) = \ln\Gamma(\tfrac{\nu + 1}{2}) - \ln\Gamma(\tfrac{\nu}{2})
          - \tfrac12 \ln(\nu\pi) - \ln\sigma
          - \tfrac{\nu + 1}{2} \ln\Big(1 + \frac{(x - \mu)^2}{\nu\sigma^2}\Big)
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayescut._kernels import borrowed, kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._kinds import RESTRICTED, STUDENT
from bayescut.circuit._plan import NODE_VAR, PARAM, Inputs
from bayescut.circuit._route import list_rows
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._hooks import OneVariable, own_param
from bayescut.circuit.inputs._scratch import Marks, Sinks, add_number, draw

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
        v, at = plan.node[node, NODE_VAR], plan.node[node, PARAM]
        location, scale, freedom = plan.param[at], plan.param[at + 1], plan.param[at + 2]
        top = math.lgamma((freedom + 1.0) / 2.0) - math.lgamma(freedom / 2.0)
        top -= 0.5 * np.log(freedom * np.pi) + np.log(scale)
        for i in range(list_rows(need[node], which)):
            r = which[i]
            if block.states[r, v] < RESTRICTED:
                z = (block.values[r, v] - location) / scale
                value[start[node] + i] = top - 0.5 * (freedom + 1.0) * np.log1p(z * z / freedom)
            else:
                value[start[node] + i] = top if maximise else 0.0


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
        v, at = plan.node[node, NODE_VAR], plan.node[node, PARAM]
        scale, freedom = plan.param[at + 1], plan.param[at + 2]
        mean = plan.param[at] if freedom > 1.0 else np.nan
        spread = scale * scale * freedom / (freedom - 2.0) if freedom > 2.0 else np.inf
        for i in range(list_rows(need[node], which)):
            r = which[i]
            if flow[start[node] + i] == 0.0:
                continue
            known = block.states[r, v] < RESTRICTED
            x = block.values[r, v] if known else mean
            variance = 0.0 if known else spread
            add_number(sinks, node, r, v, flow[start[node] + i], x, variance)


@kernel
def _fill(
    plan: Inputs, ws: Marks, block: Block, nodes: IntArray, taken: IntArray, maximise: bool
) -> None:
    plan, ws, block = borrowed(plan), borrowed(ws), borrowed(block)
    which = ws.which
    for node in nodes:
        v, at = plan.node[node, NODE_VAR], plan.node[node, PARAM]
        scale, freedom = plan.param[at + 1], plan.param[at + 2]
        for i in range(list_rows(taken[node], which)):
            r = which[i]
            if block.states[r, v] < RESTRICTED:
                continue
            x = plan.param[at]
            if not maximise:
                # freedom · (u^(-2 / freedom) - 1), without loss for many degrees of freedom.
                u = 1.0 - draw(ws.random, r)
                radius = np.sqrt(freedom * np.expm1(-2.0 / freedom * np.log(u)))
                x += scale * radius * np.cos(2.0 * np.pi * draw(ws.random, r))
            block.values[r, v] = x
            block.states[r, v] = 0


class Student(OneVariable):
    """Hooks of Student-t inputs."""

    kind = STUDENT
    continuous = True
    kernels = _values, _posteriors, _fill

    def n_params(self, circuit: Circuit, nodes: IntArray) -> NDArray[Any]:
        """See `InputKind.n_params`."""
        return np.full(len(nodes), 3)

    def check(self, circuit: Circuit, nodes: IntArray) -> None:
        """See `InputKind.check`."""
        location, scale, freedom = (own_param(circuit, nodes, i) for i in range(3))
        good = np.isfinite(location) & np.isfinite(scale) & np.isfinite(freedom)
        good &= (scale > 0) & (freedom > 0)
        self.refuse(
            ~good, nodes, "it needs a finite location, a positive scale and degrees of freedom."
        )

    def text(self, circuit: Circuit, node: int, name: str) -> str:
        """See `InputKind.text`."""
        location, scale, freedom = circuit.param[circuit.param_ptr[node] :][:3]
        return f"{name}\nt({location:.2g}, {scale:.2g}; {freedom:.2g})"

    def entropy(self, param: Any) -> float:
        """See `InputKind.entropy`."""
        from scipy.special import betaln, digamma

        half, whole = param[2] / 2, (param[2] + 1) / 2
        shape = whole * (digamma(whole) - digamma(half))
        return float(shape + 0.5 * math.log(param[2]) + betaln(half, 0.5) + math.log(param[1]))
