"""Comparisons: learners, yours included, × data sets × seeds, with results that are kept.

>>> from bayescut import bench
>>> results = bench.run(["CNetBD", "CNetBIC"], ["binary_digits"], "results.jsonl")  # doctest: +SKIP
>>> bench.make_table(results, "time").print()  # doctest: +SKIP
"""

from bayescut.bench._environment import environment
from bayescut.bench._runner import PROTOCOLS, plan, run
from bayescut.bench._specs import (
    BenchError,
    Learner,
    dataset_names,
    load_dataset,
    parse_learner,
    split_specs,
)
from bayescut.bench._store import Result, read_results
from bayescut.bench.table import KINDS, Table, make_table

__all__ = [
    "KINDS",
    "PROTOCOLS",
    "BenchError",
    "Learner",
    "Result",
    "Table",
    "dataset_names",
    "environment",
    "load_dataset",
    "make_table",
    "parse_learner",
    "plan",
    "read_results",
    "run",
    "split_specs",
]
