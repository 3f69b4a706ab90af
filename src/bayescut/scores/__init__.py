"""Scores: what a structure is worth, given counts."""

from bayescut.scores.base import BIC, BayesDirichlet, Score

__all__ = ["BIC", "BayesDirichlet", "Score"]
