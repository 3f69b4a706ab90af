"""Benchmarks: learners × data sets × seeds, tables and figures beside the published numbers.

>>> from bayescut import bench
>>> results = bench.run(["CNetBD", "CNetBIC"], ["binary_digits"], "results.jsonl")  # doctest: +SKIP
>>> print(bench.make_table(results, "time").to_markdown())  # doctest: +SKIP
"""

from bayescut.bench._environment import environment
from bayescut.bench._reference import Published, published
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
from bayescut.bench.render import render
from bayescut.bench.tables import KINDS, Table, make_table

__all__ = [
    "KINDS",
    "PROTOCOLS",
    "BenchError",
    "Learner",
    "Published",
    "Result",
    "Table",
    "dataset_names",
    "environment",
    "load_dataset",
    "make_table",
    "parse_learner",
    "plan",
    "published",
    "read_results",
    "render",
    "run",
    "split_specs",
]
