"""What every estimator shares: tables in, a circuit inside, answers out."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from bayescut._atomic import check_folder
from bayescut._interrupts import interruptible, late_interrupts
from bayescut._jobs import count_jobs
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit import Circuit
from bayescut.circuit._passes import refuse_impossible
from bayescut.data import (
    Domains,
    column_names,
    decode,
    describe_table,
    encode_table,
    learn_domains,
)
from bayescut.data.columns import check_floors
from bayescut.data.table import Table
from bayescut.data.tables import as_table, is_frame
from bayescut.estimators._answers import (
    QUANTILES,
    Given,
    complete,
    conjunction,
    draw,
    expected,
    fill_number,
    given_mapping,
    given_table,
    log_density,
    marginal_frame,
    modes,
    mpe,
    number_means,
    number_quantiles,
)
from bayescut.estimators._predict import PredictMixin
from bayescut.estimators._validation import (
    check_choice,
    check_size,
    check_weights,
    draw_seed,
    find_identifiers,
    repeat_rows,
    warn_of_identifiers,
)
from bayescut.exceptions import DataError, ModelFileError
from bayescut.files import load
from bayescut.learn.cutset.network import NetworkLearner
from bayescut.learn.leaves.sharpen import sharpen
from bayescut.learn.leaves.spare import with_spare
from bayescut.learn.tables.apart import SetApart
from bayescut.learn.tables.gaps import Completions, fill_empty, with_indicators
from bayescut.learn.tables.resolution import MOST_CELLS, Worth, choose_depth, coarsen
from bayescut.scores.base import BayesDirichlet, Score


class CircuitEstimator(PredictMixin, DensityMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A density over tables whose fitted form is a `bayescut.Circuit`.

    Subclasses implement `_learn`. Columns hold labels, numbers or dates; numbers are learned as
    ordered cells with a density inside (`bayescut.data.grid`). Missing cells (NaN, None, pandas NA)
    are marginalised exactly in every query. A label never seen in training is an error that names
    it, or a missing cell if ``unseen="missing"``.
    """

    # Declared so that one place lists what a fitted estimator carries.
    circuit_: Circuit
    domains_: Domains
    n_parameters_: int
    n_features_in_: int
    n_jobs: int | None
    verbose: int
    n_states: Any
    columns: Any
    missing: str
    unseen: str

    # Attributes of a fitted estimator that model files hold, beside those of every estimator.
    _state_names: tuple[str, ...] = ()
    # Settings that may change when a run goes on from a checkpoint.
    _may_change: tuple[str, ...] = ("checkpoint", "n_jobs", "n_states", "unseen", "verbose")
    # Whether gaps are filled once: copies of one row must not be learned from and held out.
    _one_completion = False
    # Whether the learner fills the gaps of a table by itself.
    _takes_gaps = False
    # Cells of a number, of which the learner sees unions.
    _max_cells = MOST_CELLS
    # What is done about columns of too many states; an argument where it can be chosen.
    identifiers: str = "keep"
    # Columns set apart, while a model is fitted.
    _aside: SetApart | None = None
    # Rows whose columns by themselves stand beside Gaussian leaves, while a model is fitted.
    _spare: Table | None = None
    # What a checkpoint was made from, see `_fingerprint`.
    _made_from: str | None = None

    @abstractmethod
    def _learn(self, table: Table) -> Circuit:
        """Learn a circuit from a complete table and set the learner's own attributes."""

    def _identifiers(self, domains: Domains, n_rows: int) -> IntArray:
        """Columns that are taken to be independent of the rest; one is left if all are."""
        check_choice("identifiers", self.identifiers, ("independent", "keep"))
        if self.identifiers == "keep":
            return np.empty(0, dtype=np.int64)
        return find_identifiers(domains, n_rows)

    def _smoothing(self) -> tuple[Score, bool]:
        """How columns are learned that are set apart: `SetApart.of`."""
        return BayesDirichlet(1.0), True

    def _set_aside(self, table: Table) -> Table:
        """Set identifiers apart; returns what is left to learn from."""
        n_rows = round(table.total_weight())
        apart = self._identifiers(table.domains, n_rows)
        if len(apart) == 0:
            return table
        otherwise = "bin them, or pass identifiers='keep'"
        warn_of_identifiers(table.domains, n_rows, apart, otherwise)
        self._aside = SetApart.of(table, apart, *self._smoothing())
        return self._aside.others(table)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CircuitEstimator:
        """Learn a circuit from a table.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            A DataFrame with columns of labels, numbers and dates, as their dtypes and contents (or
            ``columns``) say; `bayescut.data.describe_table` prints what they are taken for. Or an
            array: whole-number codes 0 .. K - 1, or numbers if there are fractions. Leave out
            columns that are different in nearly every row, such as names.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_rows,), optional
            Non-negative weights; a weight of 2 is a row given twice.

        Returns
        -------
        self
        """
        count_jobs(self.n_jobs)  # an impossible setting is told before any work
        check_choice("unseen", self.unseen, ("error", "missing"))
        domains, weights = self._describe(X, sample_weight)
        codes, values = encode_table(
            X, domains, allow_missing=True, estimator_name=type(self).__name__
        )
        check_choice("missing", self.missing, ("random", "informative"))
        table = fill_empty(Table(codes, domains, weights, values))
        del codes, values  # the learner may see others, and there may be many
        rows = table.weighty()
        if len(rows) < table.n_rows:  # the others have given their states, and that is all
            table = table.take(rows)
        table = self._resolve(table)
        told: list[int] = []
        if self.missing == "informative":
            if getattr(self, "_valid", None) is not None:
                raise ValueError("missing='informative' and X_valid exclude each other")
            told = np.flatnonzero(~table.observed.all(axis=0)).tolist()
            table = with_indicators(table, told)
        # Kept aside until there is a circuit: a fit that fails leaves the model as it was.
        self._source = column_names(X), is_frame(X), told
        try:
            with late_interrupts():
                table = self._set_aside(table)
                if table.has_gaps and not self._takes_gaps:
                    drawn = Completions(table, self._gap_seed(), n_jobs=self._threads())
                    table = drawn.single(0) if self._one_completion else drawn.copies()
                self._keep(self._learn(table))
        finally:
            del self._source
            self.__dict__.pop("_aside", None)
            self.__dict__.pop("_spare", None)
        return self

    def _resolve(self, table: Table) -> Table:
        """Return the table in the cells that the learner is given, if its pairs can be counted."""
        depth = choose_depth(self._dependent(table), self._worth())
        if depth is not None:
            table = coarsen(table, depth)
        check_size(table.domains, self._identifiers(table.domains, round(table.total_weight())))
        return table

    def _dependent(self, table: Table) -> Table:
        """Return the table without identifiers, which have no part in how numbers are learned.

        1,500 rows of 20 columns, names and gaps among them: 4 seconds instead of 400.
        """
        apart = self._identifiers(table.domains, round(table.total_weight()))
        if len(apart) == 0:
            return table
        return table.of_columns(np.setdiff1d(np.arange(table.n_columns), apart))

    def _resolver(self) -> NetworkLearner | None:
        """The learner whose score says how many cells numbers have; None: forests say it."""
        return None

    def _worth(self) -> Worth | None:
        """What the states of a complete table are worth, if there is somebody to ask."""
        learner = self._resolver()
        if learner is None:
            return None
        # One search says it as well as two: the same resolution on eleven tables of numbers.
        learner = replace(learner, rankings=learner.rankings[:1])

        def worth(table: Table) -> float:
            return learner.learn(*repeat_rows(table)).total_score()

        return worth

    def _gap_seed(self) -> int:
        """Seed of the draws of missing cells: the same table gives the same model."""
        seed = getattr(self, "random_state", None)
        return int(seed) if isinstance(seed, (int, np.integer)) else 0

    def _describe(self, X: Any, sample_weight: Any) -> tuple[Domains, FloatArray | None]:
        """Decide what the columns are, and check the weights of the rows."""
        if self.columns is not None and not isinstance(self.columns, Mapping):
            raise TypeError(
                f"columns must be a mapping from columns to kinds, got {self.columns!r}"
            )
        table = as_table(X)
        if not is_frame(table) and table.dtype.kind in "biu" and not self.columns:
            domains = learn_domains(X, self.n_states)
            return domains, check_weights(sample_weight, len(table))
        weights = check_weights(sample_weight, len(table))
        report = describe_table(
            X,
            columns=self.columns,
            n_states=self.n_states,
            sample_weight=weights,
            max_cells=self._max_cells,
        )
        return report.domains, weights

    def _keep(self, circuit: Circuit, **attributes: Any) -> None:
        """Set the fitted attributes; learners that take long do so after every step."""
        names, from_frame, told = self._source
        self._learned = circuit
        if self._spare is not None:
            circuit = with_spare(circuit, self._spare)
        if self._aside is not None:
            circuit = self._aside.beside(circuit)
        if circuit.has_normals:
            circuit = sharpen(circuit)
        self._set_domains(circuit.domains, names, from_frame, told)
        self.circuit_ = circuit
        self.n_parameters_ = circuit.n_parameters
        for name, value in attributes.items():
            setattr(self, name, value)

    def _set_domains(
        self, domains: Domains, names: list[str] | None, from_frame: bool, told: list[int]
    ) -> None:
        # Columns of the circuit that tell gaps stand behind those of the table.
        self.domains_ = domains[: len(domains) - len(told)] if told else domains
        self._gap_columns = told
        self.n_features_in_ = len(self.domains_)
        self._from_frame = from_frame
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    # ---------------------------------------------------------------- queries

    @interruptible
    def score_samples(self, X: Any) -> FloatArray:
        r"""Natural log-probability of each row; missing cells are marginalised.

        Columns of numbers count with their density, in the units of the table and never above one
        over the step in which they are recorded (``domains_[j].grid.step``): for whole numbers in
        steps of one it is a probability. Dates count in the unit ``domains_[j].unit``.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Rows, possibly with missing cells.

        Returns
        -------
        float64 array of shape (n_rows,)
        """
        return log_density(self._fitted_circuit(), self._table(X), self._threads())

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-probability of the rows of ``X``; see `score_samples` for its unit."""
        return float(np.mean(self.score_samples(X)))

    @interruptible
    def sample(self, n_samples: int = 1, evidence: Any = None, random_state: Any = None) -> Any:
        """Draw rows, given evidence if there is any.

        Parameters
        ----------
        n_samples : int
            Number of rows to draw (for each row of evidence).
        evidence : mapping or table, optional
            What is known: ``{column: value}``, where a set of values says that it is one of them
            and `bayescut.between` and its like that it lies in an interval; or partial rows in
            which NaN marks what is to be drawn.
        random_state : None, int or Generator
            Source of randomness; None draws anew at every call.

        Returns
        -------
        array or DataFrame of shape (n_samples * n_evidence_rows, n_columns)
            Draws for the first row of evidence come first. As `fit` was given: numbers come in
            the steps of the table.
        """
        circuit = self._fitted_circuit()
        if isinstance(n_samples, bool) or not isinstance(n_samples, (int, np.integer)):
            raise ValueError(f"n_samples must be a whole number, got {n_samples!r}")
        if n_samples < 1:
            raise ValueError(
                f"Invalid value for 'n_samples': {n_samples}. At least one sample is needed."
            )
        given = self._evidence({} if evidence is None else evidence, tell=True)
        given = given.repeat(int(n_samples))
        return self._decode(*draw(circuit, given, _generator(random_state), self._threads()))

    @interruptible
    def conditional_log_likelihood(self, query: Any, evidence: Any) -> FloatArray:
        r"""Log-probability of the query given the evidence, row by row.

        .. math:: \ln p(q \mid e) = \ln p(q, e) - \ln p(e)

        Parameters
        ----------
        query, evidence : mappings or tables
            ``{column: value, set or interval}`` or partial rows; NaN marks what is neither asked
            nor given. One row of either goes with all rows of the other. A number that is asked
            for counts with its density, an interval with its probability.

        Returns
        -------
        float64 array of shape (n_rows,)
            -inf where the query contradicts the evidence.

        Raises
        ------
        ZeroProbabilityError
            If a row of evidence has probability zero; it is named.
        """
        circuit = self._fitted_circuit()
        asked, given = self._evidence(query), self._evidence(evidence)
        joint, conflict = conjunction(asked, given)
        below = log_density(circuit, given, self._threads())
        refuse_impossible(int(np.argmin(below)) if np.any(below == -np.inf) else -1)
        above = log_density(circuit, joint, self._threads())
        return np.where(conflict, -np.inf, above - below)

    @interruptible
    def marginals(self, X: Any, quantiles: Sequence[float] = QUANTILES) -> Any:
        """Posterior of every column given what is known of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns), or mapping
            Rows, in which NaN marks what is not known, or evidence on single columns as in
            `sample`. Observed cells come back as they are: with probability 1, without a spread.
        quantiles : sequence of float
            Which quantiles of numbers are returned.

        Returns
        -------
        list of float64 arrays, one for each column
            Of labels the probabilities of the states, shape (n_rows, K); of numbers the mean, the
            standard deviation and the quantiles, shape (n_rows, 2 + n_quantiles).
            If the model was fitted on a DataFrame: one DataFrame whose columns are pairs
            (column, label), and (column, "mean"), (column, "std"), (column, "50%") and so on for
            numbers and dates.
        """
        circuit, given = self._fitted_circuit(), self._evidence(X, tell=True)
        found = circuit.marginals(given.evidence, n_jobs=self._threads())
        if not self._from_frame:
            parts = []
            for j, domain in enumerate(self.domains_):
                lo, hi = self.domains_.offsets[j : j + 2]
                if domain.grid is None:
                    parts.append(np.ascontiguousarray(found[:, lo:hi]))
                else:
                    spread = np.column_stack(number_means(given, found, j))
                    parts.append(np.hstack([spread, number_quantiles(given, found, j, quantiles)]))
            return parts
        return marginal_frame(given, found, self.domains_, quantiles, getattr(X, "index", None))

    @interruptible
    def expectation(self, X: Any, functions: Any) -> Any:
        """Posterior expectation of functions of single columns.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns), or mapping
            What is known, as for `marginals`.
        functions : mapping from column to function, or sequence of columns
            Of a column of labels: a mapping from labels to numbers, or a callable that turns a
            label into a number. Of numbers: ``"mean"`` or ``"square"``, of dates in units of their
            column since 1970 (`marginals` has them as dates). Of both: a set or an
            interval as in `sample`, for the probability that it holds. A column alone stands for
            its mean, its labels being numbers.

        Returns
        -------
        array or DataFrame of shape (n_rows, n_functions)

        Examples
        --------
        >>> from bayescut import CNetBD, at_least
        >>> model = CNetBD().fit([[0, 2], [1, 1], [1, 1], [0, 0]] * 20)
        >>> model.expectation([[0, float("nan")]], [1]).round(2)
        array([[1.]])
        >>> model.expectation([[0, float("nan")]], {1: at_least(1)}).round(2)
        array([[0.5]])
        """
        circuit, given = self._fitted_circuit(), self._evidence(X, tell=True)
        found = circuit.marginals(given.evidence, n_jobs=self._threads())
        wanted = functions
        if not isinstance(functions, Mapping):
            wanted = {column: "mean" for column in functions}
        answers = [expected(given, found, key, f) for key, f in wanted.items()]
        out = np.column_stack(answers) if answers else np.empty((given.n_rows, 0))
        if not self._from_frame:
            return out
        import pandas as pd

        return pd.DataFrame(out, index=getattr(X, "index", None), columns=list(wanted))

    @interruptible
    def mpe(self, X: Any, return_log_likelihood: bool = False) -> Any:
        """Complete each row with its most probable explanation.

        With numbers it is the mode of the joint density. Exact on deterministic circuits (single
        networks without Gaussian leaves). On mixtures and ensembles, where the problem is NP-hard,
        this is the usual approximation: the best completion within the component whose best
        completion is most probable.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns), or mapping
            Rows, in which NaN marks what is to be completed, or evidence on single columns as in
            `sample`.
        return_log_likelihood : bool
            Return the log-probability of the completed rows too.

        Returns
        -------
        array or DataFrame, and a float64 array if asked for
        """
        circuit, given = self._fitted_circuit(), self._evidence(X, tell=True)
        codes, values, value = mpe(circuit, given, self._threads())
        table = self._decode(codes, values, getattr(X, "index", None), X)
        return (table, value) if return_log_likelihood else table

    @interruptible
    def impute(self, X: Any, method: str = "mpe", random_state: Any = None) -> Any:
        """Fill the missing cells of a table.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Rows with missing cells.
        method : {"mpe", "mode", "median", "mean", "sample"}
            ``mpe`` fills each row with its jointly most probable completion, ``mode`` each cell
            with its most probable value, ``median`` and ``mean`` each number with its own (rounded
            to the step of its column) and each label as ``mode`` does, ``sample`` with a draw from
            the posterior.
        random_state : None, int or Generator
            For ``sample``.

        Returns
        -------
        array or DataFrame
            Observed cells are as they were.
        """
        check_choice("method", method, ("mpe", "mode", "median", "mean", "sample"))
        index = getattr(X, "index", None)
        circuit, given = self._fitted_circuit(), self._table(X, tell=True)
        if method == "mpe":
            codes, values, _ = mpe(circuit, given, self._threads())
        elif method == "sample":
            codes, values = draw(circuit, given, _generator(random_state), self._threads())
        else:
            found = circuit.marginals(given.evidence, n_jobs=self._threads())
            codes = modes(given, found)
            numbers = {j: fill_number(given, found, j, method) for j in given.grids()}
            values = complete(given, codes, numbers)
        return self._decode(codes, values, index, X)

    # ---------------------------------------------------------------- translation

    def _fitted_circuit(self) -> Circuit:
        """Return the fitted circuit, or raise scikit-learn's NotFittedError."""
        check_is_fitted(self, "circuit_")
        return self.circuit_

    def _threads(self) -> int:
        return count_jobs(self.n_jobs)

    def _encode_table(self, X: Any) -> tuple[CodeArray, FloatArray | None]:
        """Codes of a table, and the values of its numbers."""
        check_is_fitted(self, "circuit_")
        unseen: Any = self.unseen
        return encode_table(
            X,
            self.domains_,
            allow_missing=True,
            unseen=unseen,
            estimator_name=type(self).__name__,
        )

    def _encode(self, X: Any) -> CodeArray:
        return self._encode_table(X)[0]

    def _table(self, X: Any, *, tell: bool = False) -> Given:
        """What the rows of a table say; if asked to tell and gaps are informative, by those too."""
        codes, values = self._encode_table(X)
        return given_table(self.circuit_.domains, codes, values, self._gap_columns, tell=tell)

    def _evidence(self, evidence: Any, *, tell: bool = False) -> Given:
        """What evidence on single columns, or partial rows, say."""
        check_is_fitted(self, "circuit_")
        if not isinstance(evidence, Mapping):
            return self._table(evidence, tell=tell)
        return given_mapping(evidence, self.circuit_.domains)

    def _decode(
        self,
        codes: CodeArray,
        values: FloatArray | None = None,
        index: Any = None,
        given: Any = None,
    ) -> Any:
        m = len(self.domains_)
        return decode(
            codes[:, :m],
            self.domains_,
            values=None if values is None else values[:, :m],
            index=index,
            given=given,
            as_frame=self._from_frame,
        )

    # ---------------------------------------------------------------- checkpoints

    def _begin_checkpoint(self, path: str | os.PathLike[str], *tables: Table | None) -> None:
        """See that there is a place for it, and note what it is made from."""
        check_folder(path)
        self._made_from = self._fingerprint(*tables)

    def _fingerprint(self, *tables: Table | None) -> str:
        """Digest of tables and of the settings that decide what is learned from them."""
        settings = {
            name: np.asarray(value).tolist() if isinstance(value, (list, tuple)) else value
            for name, value in self.get_params(deep=False).items()
            if name not in self._may_change
        }
        if not isinstance(settings.get("random_state"), (int, np.integer)):
            settings.pop("random_state", None)  # the seed was drawn, and is in the checkpoint
        digest = hashlib.sha256(repr(sorted(settings.items())).encode())
        for table in tables:
            digest.update(b"none" if table is None else table.domains.to_json().encode())
            arrays = () if table is None else (table.codes, table.weights, table.values)
            for array in arrays:
                shape = None if array is None else (array.shape, array.dtype.str)
                digest.update(repr(shape).encode())
                if array is not None:
                    digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def _load_checkpoint(self, path: str | os.PathLike[str]) -> Any:
        """Read what an earlier run of this estimator on the same table has saved."""
        other = load(path)
        if type(other) is not type(self) or other._made_from is None:
            raise ModelFileError(
                f"{os.fspath(path)!r} is not a checkpoint of a {type(self).__name__}; remove it or "
                "name another file"
            )
        if other._made_from != self._made_from:
            raise DataError(
                f"the checkpoint {os.fspath(path)!r} was made from another table or with other "
                "settings; remove it or name another file"
            )
        return other

    # ---------------------------------------------------------------- contract

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        return tags

    def _get_state(self) -> dict[str, Any]:
        if not hasattr(self, "circuit_"):
            return {}
        names = getattr(self, "feature_names_in_", None)
        state = {name: getattr(self, name) for name in self._state_names}
        state["circuit_"] = self.circuit_
        state["from_frame"] = self._from_frame
        state["feature_names"] = None if names is None else [str(name) for name in names]
        if self._gap_columns:
            state["told"] = list(self._gap_columns)
        if self._made_from is not None:
            state["made_from"] = self._made_from
        return state

    def _set_state(self, state: dict[str, Any]) -> None:
        state = dict(state)
        self.circuit_ = state.pop("circuit_")
        if not isinstance(self.circuit_, Circuit):
            raise ValueError("circuit_ is not a circuit")
        self._learned = self.circuit_
        names, from_frame = state.pop("feature_names"), state.pop("from_frame")
        told = state.pop("told", [])
        m = len(self.circuit_.domains) - (len(told) if type(told) is list else 0)
        if type(told) is not list or not all(type(j) is int and 0 <= j < m for j in told):
            raise ValueError("the columns whose gaps are told are not columns of the table")
        if any(size != 2 for size in self.circuit_.domains.n_states[m:].tolist()):
            raise ValueError("what tells a gap has two states")
        own = self.circuit_.domains[:m].names
        if names is not None and (type(names) is not list or names != own):
            raise ValueError("the feature names are not those of the columns")
        if type(from_frame) is not bool:
            raise ValueError("from_frame is not a truth value")
        self._set_domains(self.circuit_.domains, names, from_frame, told)
        self._check_settings()
        self.n_parameters_ = self.circuit_.n_parameters
        if "made_from" in state:
            self._made_from = str(state.pop("made_from"))
        if set(state) != set(self._state_names):
            raise ValueError(f"attributes {sorted(state)} instead of {sorted(self._state_names)}")
        score = state.get("structure_score_")
        if not (score is None or (isinstance(score, Real) and not isinstance(score, bool))):
            raise ValueError("structure_score_ is not a number")
        for name, value in state.items():
            setattr(self, name, value)

    def _check_settings(self) -> None:
        """Raise an error if a setting of a fitted model cannot be used; for files."""
        count_jobs(self.n_jobs)
        check_choice("unseen", self.unseen, ("error", "missing"))
        check_choice("missing", self.missing, ("random", "informative"))
        if not isinstance(self.verbose, (int, np.integer)):
            raise ValueError(f"verbose must be a whole number, got {self.verbose!r}")
        check_floors(self.n_states, len(self.domains_))


def _generator(random_state: Any) -> np.random.Generator:
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    return np.random.default_rng(draw_seed(random_state))
