"""Tables for the tests of learners."""

import numpy as np

from bayescut.data import Domains
from bayescut.data.table import Table


def table_of(codes, sizes, weights=None):
    """The table of these codes, whose labels are the codes."""
    weights = None if weights is None else np.asarray(weights, dtype=np.float64)
    return Table(np.asarray(codes, dtype=np.uint8), Domains.of_sizes(sizes), weights)
