"""What the classifier and the regressor share: features in, members that predict a target."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bayescut._interrupts import late_interrupts
from bayescut._jobs import count_jobs
from bayescut._progress import progress
from bayescut._typing import CodeArray, FloatArray
from bayescut.circuit import Circuit
from bayescut.data import Domain, Domains, column_names, encode_table, learn_domains
from bayescut.data.domains import code_dtype, missing_code
from bayescut.data.table import Table
from bayescut.data.tables import as_table
from bayescut.estimators._density import without_weightless
from bayescut.estimators._validation import (
    check_choice,
    check_count,
    check_number,
    check_size,
    check_weights,
    check_width,
    draw_seed,
)
from bayescut.exceptions import DataError
from bayescut.learn.conditional import ConditionalLearner, Member
from bayescut.learn.pool import Pool

# Recipes of less weight are left out of predictions.
_LEAST_WEIGHT = 0.01
# Rows predicted at once: the probabilities of 64 cells of a target then take 4 MB.
_BLOCK = 8192


class TargetEstimator(BaseEstimator):  # type: ignore[misc]
    """Predicts one column of labels or numbers, given as ``y``, from the others."""

    n_members: int
    time_budget: float | None
    width: int
    columns: Any
    unseen: str
    random_state: Any
    n_jobs: int | None
    verbose: int

    domains_: Domains
    n_features_in_: int
    members_: list[tuple[float, Member]]
    recipe_weights_: dict[str, float]
    n_members_: dict[str, int]
    oob_score_: float

    # ---------------------------------------------------------------- learning

    def _check_settings(self) -> None:
        """Raise an error if a setting cannot be used."""
        count_jobs(self.n_jobs)
        check_choice("unseen", self.unseen, ("error", "missing"))
        check_count("n_members", self.n_members)
        check_width("width", self.width)
        if self.time_budget is not None:
            check_number("time_budget", self.time_budget, strict=True)

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
    ) -> tuple[Table, Pool]:
        """Learn members for a target that is encoded already; return what they were made from."""
        started = time.monotonic()
        domains = learn_domains(X, numbers=True, columns=self.columns, sample_weight=weights)
        codes, _ = encode_table(X, domains, allow_missing=True, estimator_name=type(self).__name__)
        check_size(domains)
        whole = Domains([*(replace(d, name=None) for d in domains), replace(domain, name=None)])
        table = Table(_join(codes, target, code_dtype(whole)), whole, weights)
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
        self.domains_ = domains
        self.n_features_in_ = len(domains)
        names = column_names(X)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return table, pool

    # ---------------------------------------------------------------- answers

    def _encode(self, X: Any) -> CodeArray:
        check_is_fitted(self, "members_")
        unseen: Any = self.unseen
        codes, _ = encode_table(
            X,
            self.domains_,
            allow_missing=True,
            unseen=unseen,
            estimator_name=type(self).__name__,
        )
        return codes

    def _target_proba(self, X: Any) -> FloatArray:
        """Probabilities of the target's states for each row."""
        codes = self._encode(X)
        jobs = count_jobs(self.n_jobs)
        out: FloatArray = np.zeros((len(codes), len(self.members_[0][1].target_view)))
        for begin in range(0, len(codes), _BLOCK):
            rows = slice(begin, begin + _BLOCK)
            for weight, member in self.members_:
                out[rows] += weight * np.exp(member.log_proba(codes[rows], jobs))
        return out / out.sum(axis=1, keepdims=True)

    # ---------------------------------------------------------------- contract

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = False
        return tags

    def _get_state(self) -> dict[str, Any]:
        if not hasattr(self, "members_"):
            return {}
        names = getattr(self, "feature_names_in_", None)
        return {
            "domains": self.domains_,
            "feature_names": None if names is None else [str(name) for name in names],
            "members": [
                {
                    "weight": float(weight),
                    "views": list(member.views),
                    "target_view": member.target_view,
                    "log_share": member.log_share,
                    "circuits": list(member.circuits),
                    "log_prior": member.log_prior,
                }
                for weight, member in self.members_
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
        self.n_features_in_ = len(self.domains_)
        names = state.pop("feature_names")
        if names is not None:
            if type(names) is not list or names != self.domains_.names:
                raise ValueError("the feature names are not those of the columns")
            self.feature_names_in_ = np.asarray(names, dtype=object)
        self.members_ = [self._read_member(entry) for entry in state.pop("members")]
        if not self.members_:
            raise ValueError("there is no member")
        self.recipe_weights_ = {str(k): float(v) for k, v in state.pop("recipe_weights").items()}
        self.n_members_ = {str(k): int(v) for k, v in state.pop("n_members").items()}
        self.oob_score_ = float(state.pop("oob_score"))
        if state:
            raise ValueError(f"there is an attribute too many: {min(state)}")

    def _read_member(self, entry: dict[str, Any]) -> tuple[float, Member]:
        """Check what a file says about a member: an index out of range would read elsewhere."""
        views = tuple(np.asarray(view, dtype=np.uint16) for view in entry["views"])
        target = np.asarray(entry["target_view"], dtype=np.uint16)
        share = np.asarray(entry["log_share"], dtype=np.float64)
        prior, circuits = entry["log_prior"], tuple(entry["circuits"])
        if not circuits or not all(isinstance(circuit, Circuit) for circuit in circuits):
            raise ValueError("a member without circuits")
        n_target = self._n_target()
        if len(views) != len(self.domains_) or target.shape != (n_target,):
            raise ValueError("a member of other columns")
        if share.shape != target.shape or not np.isfinite(share).all():
            raise ValueError("the shares of a member do not fit its target")
        n_states = int(target.max()) + 1
        wanted = list(zip(views, self.domains_.n_states.tolist(), strict=True))
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
        weight = float(entry["weight"])
        if not (math.isfinite(weight) and 0 <= weight <= 1 + 1e-9):
            raise ValueError("the weight of a member is no share")
        return weight, Member(views, target, share, circuits, prior)

    def _n_target(self) -> int:
        """Number of the target's states."""
        raise NotImplementedError


def _join(codes: CodeArray, target: CodeArray, dtype: Any) -> CodeArray:
    """Features and target in one array of codes."""
    out = np.empty((len(codes), codes.shape[1] + 1), dtype=dtype)
    out[:, :-1] = np.where(codes == missing_code(codes.dtype), missing_code(dtype), codes)
    out[:, -1] = target
    return out
