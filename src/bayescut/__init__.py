"""Density models for tables that learn their own structure, need no tuning, and answer likelihoods,
marginals and conditionals exactly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayescut.circuit import Circuit, Evidence
    from bayescut.data import above, at_least, at_most, below, between
    from bayescut.estimators import (
        DCSN,
        IDSPN,
        CNet,
        CNetBD,
        CNetBIC,
        ContinuousMixture,
        CutsetClassifier,
        CutsetEnsemble,
        CutsetImputer,
        CutsetMixture,
        CutsetNetwork,
        CutsetOutlierDetector,
        CutsetRegressor,
        EiNet,
        EMCNetBD,
        LearnSPN,
        Strudel,
        XCNet,
    )
    from bayescut.files import load, save
    from bayescut.scores import BIC, BayesDirichlet
    from bayescut.scores.circuit_score import NormalGamma, bayes_score, bic_score, refit

__version__ = "0.1.0"

# Where each public name lives. They are imported when first used: scikit-learn alone takes most of
# a second, which `import bayescut` for a query on a saved circuit need not pay.
_HOME = {
    "BIC": "scores",
    "BayesDirichlet": "scores",
    "CNet": "estimators",
    "CNetBD": "estimators",
    "CNetBIC": "estimators",
    "Circuit": "circuit",
    "ContinuousMixture": "estimators",
    "CutsetClassifier": "estimators",
    "CutsetEnsemble": "estimators",
    "CutsetImputer": "estimators",
    "CutsetMixture": "estimators",
    "CutsetNetwork": "estimators",
    "CutsetOutlierDetector": "estimators",
    "CutsetRegressor": "estimators",
    "DCSN": "estimators",
    "EMCNetBD": "estimators",
    "EiNet": "estimators",
    "Evidence": "circuit",
    "IDSPN": "estimators",
    "LearnSPN": "estimators",
    "Strudel": "estimators",
    "NormalGamma": "scores.circuit_score",
    "XCNet": "estimators",
    "above": "data",
    "at_least": "data",
    "at_most": "data",
    "bayes_score": "scores.circuit_score",
    "below": "data",
    "between": "data",
    "bic_score": "scores.circuit_score",
    "load": "files",
    "refit": "scores.circuit_score",
    "save": "files",
}

# Modules that documentation names, so that `bc.data.describe_table` needs no import of its own.
_MODULES = {
    "bench",
    "circuit",
    "data",
    "datasets",
    "exceptions",
    "files",
    "plots",
    "report",
    "scores",
}

__all__ = [
    "BIC",
    "DCSN",
    "IDSPN",
    "BayesDirichlet",
    "CNet",
    "CNetBD",
    "CNetBIC",
    "Circuit",
    "ContinuousMixture",
    "CutsetClassifier",
    "CutsetEnsemble",
    "CutsetImputer",
    "CutsetMixture",
    "CutsetNetwork",
    "CutsetOutlierDetector",
    "CutsetRegressor",
    "EMCNetBD",
    "EiNet",
    "Evidence",
    "LearnSPN",
    "NormalGamma",
    "Strudel",
    "XCNet",
    "above",
    "at_least",
    "at_most",
    "bayes_score",
    "below",
    "between",
    "bic_score",
    "load",
    "refit",
    "save",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"bayescut.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'bayescut' has no attribute {name!r}")
    value = getattr(import_module(f"bayescut.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
