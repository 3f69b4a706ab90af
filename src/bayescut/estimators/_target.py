"""What the classifier and the regressor share: features in, members that predict a target."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayescut._clock import working_time
from bayescut._interrupts import late_interrupts
from bayescut._jobs import count_jobs
from bayescut._progress import progress
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit import Circuit
from bayescut.data import Domain, Domains, column_names, encode_table, learn_domains
from bayescut.data.domains import code_dtype, missing_code
from bayescut.data.table import Table
from bayescut.data.tables import as_table
from bayescut.estimators._density import without_weightless
from bayescut.estimators._reading import TableReader, encode_rows
from bayescut.estimators._validation import (
    check_size,
    check_weights,
    draw_seed,
    find_identifiers,
    warn_of_identifiers,
)
from bayescut.exceptions import DataError
from bayescut.learn.cells.conditional import (
    ConditionalLearner,
    Member,
    NormalMember,
    TreeMember,
    distinct_rows,
)
from bayescut.learn.cells.percell import read_columns
from bayescut.learn.cells.targeted import TargetForest
from bayescut.learn.ensemble.pool import Pool
from bayescut.learn.tables.copula import NormalScores

# Recipes of less weight are left out of predictions.
_LEAST_WEIGHT = 0.01
# Rows predicted at once: the probabilities of 64 cells of a target then take 4 MB.
_BLOCK = 8192


AnyMember = Member | TreeMember | NormalMember


class TargetEstimator(TableReader):
    """Predicts one column of labels or numbers, given as ``y``, from the others."""

    verbose: int

    # Positions of the columns that members know: all but identifiers, which tell nothing.
    _used: IntArray
    members_: list[tuple[float, AnyMember]]
    recipe_weights_: dict[str, float]
    n_members_: dict[str, int]
    oob_score_: float

    def __init__(
        self,
        n_members: int = 32,
        *,
        time_budget: float | None = None,
        width: int = 6,
        columns: Any = None,
        unseen: str = "missing",
        random_state: Any = 0,
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.n_members = n_members
        self.time_budget = time_budget
        self.width = width
        self.columns = columns
        self.unseen = unseen
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ---------------------------------------------------------------- learning

    def _rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, FloatArray | None]:
        """Check that rows, targets and weights go together; leave out rows of weight zero."""
        X = as_table(X)
        if X.shape[0] != len(y):
            raise DataError(
                f"Found input variables with inconsistent numbers of samples: {X.shape[0]} rows "
                f"of X but {len(y)} of y."
            )
        X, weights, kept = without_weightless(X, check_weights(sample_weight, len(y)))
        return X, y[kept], weights

    def _fit_target(
        self,
        X: Any,
        target: CodeArray,
        domain: Domain,
        weights: FloatArray | None,
        learner: ConditionalLearner,
    ) -> tuple[Table, IntArray, Pool]:
        """Learn members for a target that is encoded already.

        Returns what they were made from: distinct rows, which of them each row is, and the pool.
        """
        started = working_time()
        domains = learn_domains(X, numbers=True, columns=self.columns, sample_weight=weights)
        codes, _ = encode_table(X, domains, allow_missing=True, estimator_name=type(self).__name__)
        n_rows = len(codes) if weights is None else round(float(weights.sum()))
        apart = find_identifiers(domains, n_rows)
        check_size(domains, apart)
        warn_of_identifiers(domains, n_rows, apart)
        used = np.setdiff1d(np.arange(len(domains)), apart)
        known = [domains[j] for j in used.tolist()]
        whole = Domains(replace(d, name=None) for d in [*known, domain])
        joint = _join(codes[:, used], target, code_dtype(whole))
        table, place = distinct_rows(Table(joint, whole, weights))
        weights = table.weights
        deadline = np.inf if self.time_budget is None else started + self.time_budget
        with (
            progress(type(self).__name__, self.n_members, self.verbose) as advance,
            late_interrupts(),
        ):
            pool = learner.learn(
                table, self.n_members, draw_seed(self.random_state), deadline, advance
            )
        shares = pool.recipe_weights(weights)
        self.oob_score_ = pool.unseen_score(weights)
        self.recipe_weights_ = shares
        self.n_members_ = {name: len(made.circuits) for name, made in pool.recipes.items()}
        kept = {name: share for name, share in shares.items() if share >= _LEAST_WEIGHT}
        total = sum(kept.values())
        members: Any = pool.recipes
        self.members_ = [
            (share / total / self.n_members_[name], member)
            for name, share in kept.items()
            for member in members[name].circuits
        ]
        self.domains_, self._used = domains, used
        self._set_names(column_names(X))
        return table, place, pool

    # ---------------------------------------------------------------- answers

    def _target_proba(self, X: Any) -> FloatArray:
        """Probabilities of the target's states for each row."""
        check_is_fitted(self, "members_")
        codes = np.ascontiguousarray(encode_rows(self, X)[0][:, self._used])
        jobs = count_jobs(self.n_jobs)
        out: FloatArray = np.zeros((len(codes), self._n_target()))
        for begin in range(0, len(codes), _BLOCK):
            rows = slice(begin, begin + _BLOCK)
            for weight, member in self.members_:
                out[rows] += weight * np.exp(member.log_proba(codes[rows], jobs))
        return out / out.sum(axis=1, keepdims=True)

    # ---------------------------------------------------------------- contract

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _get_state(self) -> dict[str, Any]:
        if not hasattr(self, "members_"):
            return {}
        return {
            "domains": self.domains_,
            "feature_names": self._names(),
            "used": self._used,
            "members": [
                {"weight": float(weight), **_written(member)} for weight, member in self.members_
            ],
            "recipe_weights": dict(self.recipe_weights_),
            "n_members": dict(self.n_members_),
            "oob_score": float(self.oob_score_),
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        state = dict(state)
        self.domains_ = state.pop("domains")
        if not isinstance(self.domains_, Domains):
            raise ValueError("domains are not the domains of columns")
        self._check_settings()
        self._read_names(state.pop("feature_names"))
        self._used = read_columns(state.pop("used"), len(self.domains_))
        self.members_ = [self._read_member(entry) for entry in state.pop("members")]
        if not self.members_:
            raise ValueError("there is no member")
        self.recipe_weights_ = {str(k): float(v) for k, v in state.pop("recipe_weights").items()}
        self.n_members_ = {str(k): int(v) for k, v in state.pop("n_members").items()}
        self.oob_score_ = float(state.pop("oob_score"))
        if state:
            raise ValueError(f"there is an attribute too many: {min(state)}")

    def _read_member(self, entry: dict[str, Any]) -> tuple[float, AnyMember]:
        """Check what a file says about a member: an index out of range would read elsewhere."""
        weight = float(entry["weight"])
        if not (math.isfinite(weight) and 0 <= weight <= 1 + 1e-9):
            raise ValueError("the weight of a member is no share")
        known = [replace(self.domains_[j], name=None) for j in self._used.tolist()]
        if "forest" in entry:
            forest = TargetForest.from_state(entry["forest"])
            sizes = [*(domain.n_states for domain in known), self._n_target()]
            if forest.sizes.tolist() != sizes or forest.target != len(known):
                raise ValueError("the trees of a member do not fit its columns")
            return weight, TreeMember(forest)
        if "covariance" in entry:
            whole = Domains([*known, self._target_domain()])
            columns = np.asarray(entry["columns"], dtype=np.int64)
            covariance = np.asarray(entry["covariance"], dtype=np.float64)
            normal = NormalScores(whole, columns, covariance)
            if not normal.knows(len(known)):
                raise ValueError("the normal scores of a member leave out its target")
            return weight, NormalMember(normal)
        views = tuple(np.asarray(view, dtype=np.uint16) for view in entry["views"])
        target = np.asarray(entry["target_view"], dtype=np.uint16)
        share = np.asarray(entry["log_share"], dtype=np.float64)
        prior, circuits = entry["log_prior"], tuple(entry["circuits"])
        if not circuits or not all(isinstance(circuit, Circuit) for circuit in circuits):
            raise ValueError("a member without circuits")
        n_target = self._n_target()
        if len(views) != len(known) or target.shape != (n_target,):
            raise ValueError("a member of other columns")
        if share.shape != target.shape or not np.isfinite(share).all():
            raise ValueError("the shares of a member do not fit its target")
        n_states = int(target.max()) + 1
        wanted = [(view, domain.n_states) for view, domain in zip(views, known, strict=True)]
        if prior is None:
            wanted.append((target, n_target))
            n_circuits = 1
        else:
            prior = np.asarray(prior, dtype=np.float64)
            n_circuits = n_states
            if prior.shape != (n_states,) or not np.isfinite(prior).all():
                raise ValueError("a member without probabilities of its states")
        if len(circuits) != n_circuits:
            raise ValueError("a member with a wrong number of circuits")
        for circuit in circuits:
            sizes = circuit.domains.n_states
            if len(sizes) != len(wanted) or any(
                view.shape != (n,) or view.max() >= size
                for (view, n), size in zip(wanted, sizes, strict=True)
            ):
                raise ValueError("the circuit of a member does not fit its views")
        return weight, Member(views, target, share, circuits, prior)

    def _target_domain(self) -> Domain:
        """States or cells of the target."""
        raise NotImplementedError

    def _n_target(self) -> int:
        return self._target_domain().n_states


def _written(member: AnyMember) -> dict[str, Any]:
    """What a file holds of a member."""
    if isinstance(member, NormalMember):
        return {"columns": member.normal.columns, "covariance": member.normal.covariance}
    if isinstance(member, TreeMember):
        return {"forest": member.forest.state()}
    return {
        "views": list(member.views),
        "target_view": member.target_view,
        "log_share": member.log_share,
        "circuits": list(member.circuits),
        "log_prior": member.log_prior,
    }


def _join(codes: CodeArray, target: CodeArray, dtype: Any) -> CodeArray:
    """Features and target in one array of codes."""
    out = np.empty((len(codes), codes.shape[1] + 1), dtype=dtype)
    out[:, :-1] = np.where(codes == missing_code(codes.dtype), missing_code(dtype), codes)
    out[:, -1] = target
    return out
