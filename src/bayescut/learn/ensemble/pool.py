"""Members of an ensemble by the recipes that made them, and what those recipes weigh.

A recipe is judged by rows its members have not seen. The weights are the most likely ones of such
rows, and a recipe that none of them speaks for has none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bayescut._typing import FloatArray, IntArray
from bayescut.circuit import Circuit
from bayescut.circuit.build import mixture
from bayescut.circuit.coarse import coarse
from bayescut.data.table import Table
from bayescut.learn.mixture.em import evidence_of
from bayescut.learn.mixture.weights import most_likely_weights

NETWORK = "network"
BAG = "bag"
REPEATS = "repeats"
# A few weights are fitted: more rows than this would not make them any better.
_MOST_UNSEEN = 20_000
# A recipe that looks useless is tried again now and then: its first member may have been poor.
_LEAST_SHARE = 0.05
# A recipe of less weight is left out of the circuit.
_LEAST_WEIGHT = 1e-3
# Parts of the unseen rows whose score comes from weights that are fitted to the other parts.
_N_PARTS = 5


@dataclass
class Members:
    """Members made by one recipe, and what they predict for the rows they have not seen.

    Attributes
    ----------
    circuits : list of Circuit
        The members.
    unseen : float64 array of shape (n,)
        Logarithm of the summed predictions of what has not seen a row: members or, of a recipe
        whose member sees all rows, what it makes of all folds but one.
    n_unseen : int64 array of shape (n,)
        Number of such predictions.
    n_turns : int
        How often the recipe was followed.
    seconds : float
        Time of all turns.
    expected : float
        Time that a turn takes at least, as far as is known.
    n_sweeps : int
        Sweeps of the shortest chain whose last circuit is a member.
    """

    circuits: list[Circuit]
    unseen: FloatArray
    n_unseen: IntArray
    n_turns: int = 0
    seconds: float = 0.0
    expected: float = 0.0
    n_sweeps: int = 0

    @classmethod
    def none(cls, n_rows: int) -> Members:
        """No members yet."""
        return cls([], np.full(n_rows, -np.inf), np.zeros(n_rows, dtype=np.int64))

    def judge(self, circuit: Circuit, table: Table, left_out: IntArray, n_jobs: int) -> None:
        """Take note of what a circuit predicts for rows it has not seen."""
        if len(left_out):
            predicted = circuit.log_likelihood(evidence_of(table, circuit, left_out), n_jobs=n_jobs)
            if table.values is not None:
                predicted = predicted + table.log_inside[left_out]
            self.unseen[left_out] = np.logaddexp(self.unseen[left_out], predicted)
            self.n_unseen[left_out] += 1

    @property
    def cost(self) -> float:
        """Seconds of a turn, on average."""
        return self.seconds / max(self.n_turns, 1)


@dataclass
class Pool:
    """Members made by all recipes.

    Attributes
    ----------
    n_rows : int
        Number of training rows.
    recipes : dict of Members
        By the name of the recipe.
    """

    n_rows: int
    recipes: dict[str, Members] = field(default_factory=dict)

    @classmethod
    def empty(cls, n_rows: int, names: Sequence[str]) -> Pool:
        """A pool without members."""
        return cls(n_rows, {name: Members.none(n_rows) for name in names})

    @property
    def n_members(self) -> int:
        """Number of all members."""
        return sum(len(members.circuits) for members in self.recipes.values())

    def add(
        self, recipe: str, member: Circuit, table: Table, left_out: IntArray, n_jobs: int
    ) -> None:
        """Take in a member that has not seen the rows ``left_out``."""
        members = self.recipes[recipe]
        members.circuits.append(member)
        members.judge(member, table, left_out, n_jobs)

    # ---------------------------------------------------------------- weights

    def recipe_weights(
        self, sample_weight: FloatArray | None, group: IntArray | None = None
    ) -> dict[str, float]:
        """Weights of the recipes that maximise the likelihood of unseen rows.

        If by rows that had no part in fitting the weights the mixture is not better than the single
        network by more than the standard error, that gets all weight. A recipe that was not judged
        gets none, unless none was.

        Parameters
        ----------
        sample_weight : float64 array of shape (n,), optional
            Weights of the rows.
        group : int64 array of shape (n,), optional
            Rows with equal numbers stay together when the weights are tried on other rows.
        """
        shares, _ = self._fit(sample_weight, group)
        return {name: shares.get(name, 0.0) for name in self.recipes}

    def unseen_score(
        self, sample_weight: FloatArray | None, group: IntArray | None = None
    ) -> float:
        """Mean log-likelihood of rows under members that have not seen them; NaN without any.

        The recipes are weighted by other rows than those that are scored.
        """
        return self._fit(sample_weight, group)[1]

    def _fit(
        self,
        sample_weight: FloatArray | None,
        group: IntArray | None,
        *,
        may_be_single: bool = True,
    ) -> tuple[dict[str, float], float]:
        """Weights of the recipes and their score by other rows than they are fitted to."""
        names = [name for name, members in self.recipes.items() if members.circuits]
        judged = [name for name in names if self.recipes[name].n_unseen.any()]
        if set(judged) <= {REPEATS} or (NETWORK in names and NETWORK not in judged):
            # Nothing says that the others are better than the single network.
            equal = [NETWORK] if NETWORK in names else _without_repeats(names)
            return dict.fromkeys(equal, 1.0 / len(equal)), math.nan
        while True:
            rows = self._unseen_rows(judged)
            weight = np.ones(len(rows)) if sample_weight is None else sample_weight[rows]
            if not weight.sum() > 0:
                # No row is unseen by all: the recipe goes without which most rows are.
                if len(judged) == 1:
                    return {judged[0]: 1.0}, math.nan
                fewer = [[other for other in judged if other != name] for name in judged
                         if name != NETWORK]  # fmt: skip
                judged = max(
                    [rest for rest in fewer if rest != [REPEATS]],
                    key=lambda rest: (
                        len(self._unseen_rows(rest)),
                        sum(int(np.count_nonzero(self.recipes[r].n_unseen)) for r in rest),
                    ),
                )
                continue
            log_p = self._predictions(judged, rows)
            shares = most_likely_weights(log_p, weight)
            small = [
                name for name, share in zip(judged, shares, strict=True) if share < _LEAST_WEIGHT
            ]
            # Recipes without weight no longer say which rows count. What is known by heart is no
            # model: one of the others stays, whatever its weight.
            left = [name for name in judged if name not in small]
            if set(left) <= {REPEATS}:
                shares, left = _with_a_model(judged, shares)
                if len(left) == len(judged):
                    break
            elif not small:
                break
            judged = left
        part = np.arange(len(rows)) if group is None else group[rows]
        score = float(np.average(_by_parts(log_p, weight, part % _N_PARTS), weights=weight))
        if may_be_single and NETWORK in names:
            both = self._unseen_rows([*judged, NETWORK])
            w = np.ones(len(both)) if sample_weight is None else sample_weight[both]
            if w.sum() > 0:
                part = np.arange(len(both)) if group is None else group[both]
                mixed = _by_parts(self._predictions(judged, both), w, part % _N_PARTS)
                single = self._predictions([NETWORK], both)[0]
                if not _surely_positive(mixed - single, w):
                    return {NETWORK: 1.0}, float(np.average(single, weights=w))
        return dict(zip(judged, shares.tolist(), strict=True)), score

    def _unseen_rows(self, names: Sequence[str]) -> IntArray:
        """Rows that all these recipes have been judged by, a sample if there are very many."""
        unseen = np.ones(self.n_rows, dtype=bool)
        for name in names:
            unseen &= self.recipes[name].n_unseen > 0
        rows = np.flatnonzero(unseen)
        if len(rows) > _MOST_UNSEEN:
            rows = np.sort(np.random.default_rng(0).choice(rows, _MOST_UNSEEN, replace=False))
        return rows

    def _predictions(self, names: Sequence[str], rows: IntArray) -> FloatArray:
        """Log-probabilities of rows by the recipes that have not seen them."""
        found = np.empty((len(names), len(rows)))
        for line, name in zip(found, names, strict=True):
            members = self.recipes[name]
            line[:] = members.unseen[rows] - np.log(members.n_unseen[rows])
        return found

    # ---------------------------------------------------------------- turns

    def turn_number(self, recipe: str) -> int:
        """Number of a recipe's next turn that no other turn has."""
        return list(self.recipes).index(recipe) + len(self.recipes) * self.recipes[recipe].n_turns

    def next_recipe(
        self, names: Sequence[str], sample_weight: FloatArray | None, *, by_cost: bool = False
    ) -> str:
        r"""Which of the recipes is to have the next turn: first those that had none.

        Averaging k members takes what they differ by down to a k-th of it, at a weight w for
        :math:`w^2 / k` of the whole, at a cost of k turns: the best numbers of turns are in
        proportion to w over the square root of a turn's cost. Without ``by_cost`` all turns cost
        the same, and what is learned does not depend on the clock.
        """
        for name in names:
            if self.recipes[name].n_turns == 0:
                return name
        shares, _ = self._fit(sample_weight, None, may_be_single=False)

        def urgency(name: str) -> float:
            members = self.recipes[name]
            cost = max(members.cost, 1e-3) if by_cost else 1.0
            return max(shares.get(name, 0.0), _LEAST_SHARE) / math.sqrt(cost) / members.n_turns

        return max(names, key=urgency)

    def circuit(self, shares: dict[str, float]) -> Circuit:
        """All members as one mixture, the recipes weighted by their shares, with rounded logits."""
        weights: list[float] = []
        circuits: list[Circuit] = []
        for name, share in shares.items():
            members = self.recipes[name].circuits
            if share >= _LEAST_WEIGHT:
                weights.extend([share / len(members)] * len(members))
                circuits.extend(members)
        if len(circuits) == 1:
            return circuits[0]
        return coarse(mixture(np.array(weights) / np.sum(weights), circuits))


def _without_repeats(names: list[str]) -> list[str]:
    return [name for name in names if name != REPEATS] or names


def _with_a_model(names: list[str], shares: FloatArray) -> tuple[FloatArray, list[str]]:
    """Give the largest of the recipes that are models a weight that counts.

    Returns the shares, and which recipes are left; no other has so much.
    """
    others = [i for i, name in enumerate(names) if name != REPEATS]
    best = max(others, key=lambda i: shares[i])
    shares = shares.copy()
    shares[best] = max(shares[best], 2 * _LEAST_WEIGHT)
    left = [best, *(i for i, name in enumerate(names) if name == REPEATS)]
    return shares / shares.sum(), [names[i] for i in sorted(left)]


def _by_parts(log_p: FloatArray, weight: FloatArray, part: IntArray) -> FloatArray:
    """Log-likelihood of rows under mixtures whose weights are fitted to the other parts."""
    total = np.empty(log_p.shape[1])
    for p in np.unique(part):
        here = part == p
        shares = most_likely_weights(log_p[:, ~here], weight[~here])
        total[here] = np.logaddexp.reduce(log_p[:, here] + np.log(shares)[:, None], axis=0)
    return total


def _surely_positive(gain: FloatArray, weight: FloatArray) -> bool:
    """Whether the mean gain of rows is above its standard error."""
    mean = float(np.average(gain, weights=weight))
    error = math.sqrt(float(weight**2 @ (gain - mean) ** 2)) / float(weight.sum())
    return mean > error
