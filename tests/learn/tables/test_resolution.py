"""How finely numbers are learned."""

import numpy as np
import pandas as pd

from bayescut.data import learn_domains
from bayescut.data.encode import encode_table
from bayescut.data.table import Table
from bayescut.learn.tables import resolution


def test_wide_tables_have_fewer_cells(monkeypatch):
    x = np.random.default_rng(0).normal(size=(2000, 1))
    frame = pd.DataFrame(np.hstack([x, 2 * x, x**3, -x, np.exp(x)])).add_prefix("x")
    domains = learn_domains(frame, numbers=True)
    codes, values = encode_table(frame, domains, allow_missing=False)
    table = Table(codes, domains, None, values)
    counted = []
    pairs = resolution.available_pairs

    def noted(some):
        counted.append(int(some.domains.n_states.sum()))
        return pairs(some)

    monkeypatch.setattr(resolution, "available_pairs", noted)
    # Of 2,000 columns, pairs of 64,000 states took 30 GiB.
    for most, depth in ((1000, 5), (100, 4), (50, 3), (25, 2), (1, 2)):
        monkeypatch.setattr(resolution, "_MOST_STATES", most)
        assert resolution.best_depth(table) == depth
        assert all(n <= most for n in counted)
        counted.clear()
