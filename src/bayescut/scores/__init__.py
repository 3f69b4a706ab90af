"""Scores and priors: what a structure is worth, given counts, and what it costs before them."""

from bayescut.scores.base import BIC, BayesDirichlet, Score, SmoothedLikelihood
from bayescut.scores.prior import NoPrior, StructureCosts, StructurePrior

__all__ = [
    "BIC",
    "BayesDirichlet",
    "NoPrior",
    "Score",
    "SmoothedLikelihood",
    "StructureCosts",
    "StructurePrior",
]
