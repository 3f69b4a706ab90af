"""Sufficient statistics: exact single and pairwise counts of any subset of rows."""

from bayescut.counts.pairs import PairCounts, count_pairs

__all__ = ["PairCounts", "count_pairs"]
