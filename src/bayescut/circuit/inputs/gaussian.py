"""Gaussian: the normal density of a continuous variable; parameters mean and standard deviation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayescut._kernels import borrowed, kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._kinds import GAUSSIAN, RESTRICTED
from bayescut.circuit._plan import NODE_VAR, PARAM, Inputs
from bayescut.circuit._route import list_rows
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._hooks import OneVariable, own_param
from bayescut.circuit.inputs._scratch import Marks, Sinks, add_number, draw
from bayescut.exceptions import DataError

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit

HALF_LOG_TAU = 0.9189385332046727  # ln(2π) / 2


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
        mean, deviation = plan.param[at], plan.param[at + 1]
        top = -np.log(deviation) - HALF_LOG_TAU
        for i in range(list_rows(need[node], which)):
            r = which[i]
            if block.states[r, v] < RESTRICTED:
                z = (block.values[r, v] - mean) / deviation
                value[start[node] + i] = top - 0.5 * z * z
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
        for i in range(list_rows(need[node], which)):
            r = which[i]
            if flow[start[node] + i] == 0.0:
                continue
            known = block.states[r, v] < RESTRICTED
            x = block.values[r, v] if known else plan.param[at]
            variance = 0.0 if known else plan.param[at + 1] ** 2
            add_number(sinks, node, r, v, flow[start[node] + i], x, variance)


@kernel
def _fill(
    plan: Inputs, ws: Marks, block: Block, nodes: IntArray, taken: IntArray, maximise: bool
) -> None:
    plan, ws, block = borrowed(plan), borrowed(ws), borrowed(block)
    which = ws.which
    for node in nodes:
        v, at = plan.node[node, NODE_VAR], plan.node[node, PARAM]
        for i in range(list_rows(taken[node], which)):
            r = which[i]
            if block.states[r, v] < RESTRICTED:
                continue
            x = plan.param[at]
            if not maximise:
                # Box and Muller; 1 - u lies in (0, 1].
                radius = np.sqrt(-2.0 * np.log(1.0 - draw(ws.random, r)))
                x += plan.param[at + 1] * radius * np.cos(2.0 * np.pi * draw(ws.random, r))
            block.values[r, v] = x
            block.states[r, v] = 0


class Gaussian(OneVariable):
    """Hooks of Gaussian inputs."""

    kind = GAUSSIAN
    continuous = True
    kernels = _values, _posteriors, _fill

    def n_params(self, circuit: Circuit, nodes: IntArray) -> NDArray[Any]:
        """See `InputKind.n_params`."""
        return np.full(len(nodes), 2)

    def check(self, circuit: Circuit, nodes: IntArray) -> None:
        """See `InputKind.check`."""
        mean, deviation = own_param(circuit, nodes, 0), own_param(circuit, nodes, 1)
        bad = ~(np.isfinite(mean) & np.isfinite(deviation) & (deviation > 0))
        self.refuse(bad, nodes, "it needs a finite mean and a positive, finite standard deviation.")

    def text(self, circuit: Circuit, node: int, name: str) -> str:
        """See `InputKind.text`."""
        mean, deviation = circuit.param[circuit.param_ptr[node] :][:2]
        return f"{name}\nN({mean:.2g}, {deviation:.2g}²)"

    def log_marginal(self, prior: Any, statistic: Any) -> float:
        """See `InputKind.log_marginal`; the prior is a `NormalGamma`."""
        return float(prior.log_marginal(*statistic.tolist()))

    def max_log_likelihood(self, node: int, statistic: Any) -> float:
        """See `InputKind.max_log_likelihood`."""
        weight, _, squares = statistic.tolist()
        if weight == 0:
            return 0.0
        if squares <= 0:
            raise DataError(
                f"Gaussian node {node} sees one value only: its likelihood has no maximum."
            )
        return -0.5 * weight * (math.log(2 * math.pi * squares / weight) + 1.0)

    def refit(self, prior: Any, statistic: Any) -> list[float]:
        """Posterior mean of the mean, and the root of that of the variance."""
        after = prior.posterior(*statistic.tolist())
        variance = after.b / (after.a - 1.0) if after.a > 1.0 else after.b / after.a
        return [after.mean, math.sqrt(variance)]

    def entropy(self, param: Any) -> float:
        """See `InputKind.entropy`."""
        return 0.5 * math.log(2 * math.pi * math.e) + math.log(param[1])
