"""Learners of the literature with settings for small tables, and a table for them."""

import numpy as np

from bayescut import DCSN, CNet, XCNet
from bayescut.estimators import IDSPN, EiNet, LearnSPN, Strudel

CUTSETS = {
    "CNet": lambda **s: CNet(**s),
    "XCNet": lambda **s: XCNet(**{"min_rows": 60, "random_state": 0} | s),
    "DCSN": lambda **s: DCSN(**{"min_rows": 60} | s),
}
SPNS = {
    "LearnSPN": lambda **s: LearnSPN(**{"random_state": 0, "n_restarts": 2, "n_init": 1} | s),
    "Strudel": lambda **s: Strudel(**{"random_state": 0, "patience": 20} | s),
    "Strudel-bd": lambda **s: Strudel(**{"criterion": "bd"} | s),
    "Strudel-mixture": lambda **s: Strudel(
        **{"n_components": 3, "random_state": 0, "max_splits": 5, "max_iter": 5} | s
    ),
    "IDSPN": lambda **s: IDSPN(
        **{"max_clusters": 3, "n_init": 1, "random_state": 0, "min_columns": 2, "max_iter": 2} | s
    ),
}


def einet(k=3, **settings):
    small = {"n_trees": 2, "depth": 2, "max_epochs": 20, "min_epochs": 5, "patience": 5}
    return EiNet(k, **small | {"random_state": 0} | settings)


LEARNERS = CUTSETS | SPNS | {"EiNet": einet}

#: All rows of six columns of two states.
WORLDS = np.array(list(np.ndindex(*[2] * 6)))


def make_table(seed, n):
    """Three kinds of rows; two columns are equal in one of them."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 3, n)
    X = (rng.random((n, 6)) < np.array([0.15, 0.5, 0.9])[hidden][:, None]).astype(np.uint8)
    X[hidden == 1, 3] = X[hidden == 1, 4]
    return X


def two_kinds():
    """Two kinds of rows; a column follows one other in the first kind and another in the second."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 2, 400)
    X = (rng.random((400, 6)) < np.where(hidden[:, None] == 1, 0.8, 0.2)).astype(np.uint8)
    X[hidden == 1, 3] = X[hidden == 1, 4]
    X[hidden == 0, 3] = 1 - X[hidden == 0, 5]
    return X
