"""Einsum networks: dense circuits of a fixed structure, learned by EM in batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from bayescut._jobs import count_jobs
from bayescut._progress import progress
from bayescut._typing import FloatArray
from bayescut.circuit import Circuit
from bayescut.data.table import Table
from bayescut.estimators._held_out import HeldOutEstimator, Parts, all_rows, one_or_more
from bayescut.estimators._validation import check_choice, check_count, check_number, draw_seed
from bayescut.exceptions import DataError, ModelFileError
from bayescut.learn.einet.backend import make_backend
from bayescut.learn.einet.em import Progress, Settings, Trainer, run_em, start
from bayescut.learn.einet.freeze import freeze_network
from bayescut.learn.einet.layout import Layout, lay_out
from bayescut.learn.einet.network import DenseNetwork
from bayescut.learn.einet.structure import RegionGraph, poon_domingos, random_binary_trees


class EiNet(HeldOutEstimator):
    r"""EiNet: a dense network of sums and products over a fixed structure, learned by EM.

    Every region of columns has K components. A leaf region's are products of independent columns;
    where a region is divided in two, each component is a weighted sum of all K² products of the
    components of its halves, and where it is divided in several ways, of these again [1]_. Regions
    are the rectangles of an image [2]_ if ``image_shape`` says that the columns are one, else those
    of trees that halve the columns at random [3]_. Nothing but weights is learned, by EM in batches
    of rows with the constants of the authors' program, until the likelihood of validation rows has
    not grown for long.

    Parameters
    ----------
    n_components : int, default=20
        Components K of every region; time and memory grow with its third power.
    n_trees : int, default=10
        Random trees, if the columns are no image.
    depth : int, default=3
        How often a tree halves its columns.
    image_shape : tuple of int or None, default=None
        Shape of the image that the columns are, row by row (28 x 28 pixels: ``(28, 28)``).
    pieces : int or list of int, default=4
        Pieces into which both sides of an image are cut. Of a list, coarsest first, a rectangle
        uses the first that cuts it.
    batch_size : int, default=6400
        Rows after which parameters move (50 times 128 in the authors' experiments); all rows if
        there are fewer.
    step_size : float, default=0.5
        How far they move towards those of the batch, above 0, at most 1.
    alpha : float, default=0.1
        Pseudo-count of each state in the tables of leaves. With 0, as in the original, a state that
        a component never saw has probability 1e-6, which costs a row of the test set 13.8 nats.
    max_epochs : int, default=300
        Most passes through the table.
    min_epochs : int, default=100
        Passes before learning may stop.
    patience : int, default=30
        It stops so many passes after the best likelihood of the validation rows; the network is the
        one that had it.
    backend : {"numpy", "torch"}, default="numpy"
        Who does the arithmetic, in learning and where answers come from tensors. ``"torch"`` needs
        PyTorch (``pip install 'bayescut[gpu]'``). Results agree up to rounding.
    device : str or None, default=None
        Device of PyTorch, such as ``"cuda"``; None: a GPU if there is one.
    dtype : {"float32", "float64"}, default="float32"
        Numbers to learn with. Circuits have float64 in any case.
    max_circuit_edges : int or None, default=5,000,000
        Networks of more edges (about the number of weights) are not turned into a circuit, at 20
        bytes an edge. Their tensors answer `score_samples`, `sample`, `marginals` and what follows
        from these; `mpe` and model files need a circuit, and say so. None: no limit.
    validation_fraction : float, default=0.1
        Part of the rows that decide when to stop, and are not learned from, if `fit` is given no
        ``X_valid``. 0: all rows are learned from, and decide.
    random_state : int, Generator or None, default=None
        Source of trees, first weights and the order of rows.
    n_states, columns, missing, unseen, n_jobs, verbose
        See `CNetBD`; the threads are those of NumPy and of queries.

    Attributes
    ----------
    circuit_ : Circuit or DenseNetwork
        The learned circuit, smooth and decomposable, not deterministic; above
        ``max_circuit_edges`` the tensors, with the queries that they answer.
    n_epochs_, best_epoch_ : int
        Passes made, and those after which validation rows were most likely.
    learning_curve_ : dict of float64 arrays
        Mean log-likelihood ``train`` (of each row just before it is learned from) and ``valid``
        after every epoch.
    n_weights_ : int
        Weights and probabilities, as the literature counts them.
    n_parameters_ : int
        Number of independent parameters.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    .. [1] R. Peharz et al. Einsum networks: fast and scalable learning of tractable probabilistic
       circuits. ICML 2020.
    .. [2] H. Poon, P. Domingos. Sum-product networks: a new deep architecture. UAI 2011.
    .. [3] R. Peharz et al. Random sum-product networks: a simple and effective approach to
       probabilistic deep learning. UAI 2019.

    Examples
    --------
    >>> from bayescut.estimators import EiNet
    >>> X = [[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]] * 30
    >>> model = EiNet(4, n_trees=2, depth=2, random_state=0).fit(X)
    >>> round(model.score(X), 1)
    -1.1
    """

    _state_names = ("n_epochs_", "best_epoch_", "learning_curve_", "n_weights_")
    # Copies of one row must not be learned from and held out.
    _one_completion = True

    n_epochs_: int
    best_epoch_: int
    learning_curve_: dict[str, FloatArray]
    n_weights_: int

    def __init__(
        self,
        n_components: int = 20,
        *,
        n_trees: int = 10,
        depth: int = 3,
        image_shape: Sequence[int] | None = None,
        pieces: int | Sequence[int] = 4,
        batch_size: int = 6400,
        step_size: float = 0.5,
        alpha: float = 0.1,
        max_epochs: int = 300,
        min_epochs: int = 100,
        patience: int = 30,
        backend: Literal["numpy", "torch"] = "numpy",
        device: str | None = None,
        dtype: Literal["float32", "float64"] = "float32",
        max_circuit_edges: int | None = 5_000_000,
        validation_fraction: float = 0.1,
        random_state: Any = None,
        n_states: Any = None,
        columns: Any = None,
        missing: str = "random",
        unseen: str = "error",
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_trees = n_trees
        self.depth = depth
        self.image_shape = image_shape
        self.pieces = pieces
        self.batch_size = batch_size
        self.step_size = step_size
        self.alpha = alpha
        self.max_epochs = max_epochs
        self.min_epochs = min_epochs
        self.patience = patience
        self.backend = backend
        self.device = device
        self.dtype = dtype
        self.max_circuit_edges = max_circuit_edges
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_states = n_states
        self.columns = columns
        self.missing = missing
        self.unseen = unseen
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _learn(self, table: Table) -> Circuit:
        settings = self._settings()
        most = self.max_circuit_edges
        if most is not None:
            check_count("max_circuit_edges", most, low=0)
        backend = make_backend(self.backend, self.device, self.dtype, count_jobs(self.n_jobs))
        seed = draw_seed(self.random_state)
        layout = self._layout(table, seed)
        parts = self._given_parts(table) or self._own_parts(table, seed)
        codes, rows, weights, valid, _ = parts
        total = settings.max_epochs * len(rows)
        with progress(type(self).__name__, total, self.verbose) as advance, backend.busy():
            trainer = Trainer(layout, start(layout, np.random.default_rng(seed)), settings, backend)

            def tell(found: Progress) -> bool:
                name = f"{type(self).__name__}: validation {found.valid[-1]:.3f}"
                advance(description=name)
                return True

            found = run_em(
                trainer, codes, rows, weights, parts.mean, valid, seed,
                told=advance, after_epoch=tell,
            )  # fmt: skip
            assert found.best is not None
            parameters = found.best.map(backend.get)
        self.n_epochs_ = len(found.valid)
        self.best_epoch_ = found.best_epoch
        self.learning_curve_ = {
            "train": np.array(found.train), "valid": np.array(found.valid)
        }  # fmt: skip
        self.n_weights_ = layout.n_weights
        if most is None or layout.n_edges <= most:
            return freeze_network(layout, parameters, table.domains)
        network: Any = DenseNetwork(
            layout, parameters, table.domains, self.backend, self.device, self.dtype
        )
        return network

    def _own_parts(self, table: Table, seed: int) -> Parts:
        """Hold out rows, or let the rows learned from decide."""
        if check_number("validation_fraction", self.validation_fraction) > 0:
            return self._drawn_parts(table, seed)
        parts = all_rows(table)
        own = None if parts.weights is None else parts.weights[parts.rows]
        return parts._replace(valid=table.codes[parts.rows], valid_weights=own)

    def _settings(self) -> Settings:
        step = check_number("step_size", self.step_size, strict=True)
        if step > 1:
            raise ValueError(f"step_size must be at most 1, got {self.step_size!r}")
        return Settings(
            batch_size=check_count("batch_size", self.batch_size),
            step_size=step,
            alpha=check_number("alpha", self.alpha),
            max_epochs=check_count("max_epochs", self.max_epochs),
            min_epochs=check_count("min_epochs", self.min_epochs, low=0),
            patience=check_count("patience", self.patience),
        )

    def _layout(self, table: Table, seed: int) -> Layout:
        k = check_count("n_components", self.n_components)
        return lay_out(self._graph(table.codes.shape[1], seed), table.domains.n_states, k)

    def _graph(self, n_columns: int, seed: int) -> RegionGraph:
        if self.image_shape is None:
            n_trees = check_count("n_trees", self.n_trees)
            depth = check_count("depth", self.depth, low=0)
            rng = np.random.default_rng([seed, 1])
            return random_binary_trees(n_columns, n_trees, depth, rng)
        shape = self.image_shape
        if not isinstance(shape, (Sequence, np.ndarray)) or len(shape) == 0:
            raise ValueError(f"image_shape must be a tuple such as (28, 28), got {shape!r}")
        sides = [check_count("image_shape", side) for side in shape]
        if math.prod(sides) != n_columns:
            raise DataError(
                f"image_shape={tuple(sides)} has {math.prod(sides)} cells, the table "
                f"{n_columns} columns"
            )
        pieces = [check_count("pieces", d) for d in one_or_more("pieces", self.pieces)]
        return poon_domingos(sides, pieces)

    def _get_state(self) -> dict[str, Any]:
        if isinstance(getattr(self, "circuit_", None), DenseNetwork):
            raise ModelFileError(
                f"model files need a circuit, which a network of {self.n_weights_:,} weights was "
                "not turned into: raise max_circuit_edges, learn a smaller one, or pickle it"
            )
        return super()._get_state()

    def _check_settings(self) -> None:
        super()._check_settings()
        check_choice("backend", self.backend, ("numpy", "torch"))
        check_choice("dtype", self.dtype, ("float32", "float64"))
