import numpy as np
import pytest

from bayescut.data import Domains
from bayescut.data.table import Table
from bayescut.exceptions import DataError

CODES = np.array([[0, 2], [1, 255], [1, 0]], dtype=np.uint8)
DOMAINS = Domains.of_sizes([2, 3])


def test_a_table_knows_its_shape_and_its_gaps():
    table = Table(CODES, DOMAINS)
    assert (table.n_rows, table.n_columns) == (3, 2)
    assert table.sizes.tolist() == [2, 3]
    assert table.observed.tolist() == [[True, True], [True, False], [True, True]]
    assert table.has_gaps and not table.take([0, 2]).has_gaps
    wide = Table(CODES.astype(np.uint16), DOMAINS)
    assert not wide.has_gaps  # 255 is a code like any other of 16 bits
    assert Table(np.full((1, 2), 65535, dtype=np.uint16), DOMAINS).has_gaps


def test_weights():
    table = Table(CODES, DOMAINS)
    assert table.total_weight() == 3.0 and table.total_weight([0, 1]) == 2.0
    assert table.all_weights.tolist() == [1.0, 1.0, 1.0]
    assert table.weighty().tolist() == [0, 1, 2] and table.weighty().dtype == np.int32
    heavy = table.with_weights(np.array([0.5, 0.0, 2.0]))
    assert table.weights is None
    assert heavy.total_weight() == 2.5 and heavy.total_weight(np.array([1, 2])) == 2.0
    assert heavy.weighty().tolist() == [0, 2]
    assert heavy.weighty(np.array([2, 1, 2])).tolist() == [2, 2]


def test_rows_are_taken_with_all_that_belongs_to_them():
    values = np.array([[1.5, np.nan], [2.5, np.nan], [3.5, np.nan]])
    part = Table(CODES, DOMAINS, np.array([1.0, 2.0, 3.0]), values).take(np.array([2, 0]))
    assert part.codes.tolist() == [[1, 0], [0, 2]] and part.codes.flags.c_contiguous
    assert part.weights.tolist() == [3.0, 1.0]
    assert part.values[:, 0].tolist() == [3.5, 1.5]
    assert part.domains is DOMAINS


@pytest.mark.parametrize(
    "arguments",
    [
        (CODES.astype(np.int64), DOMAINS),
        (CODES[0], DOMAINS),
        (CODES, Domains.binary(3)),
        (CODES, DOMAINS, np.ones(2)),
        (CODES, DOMAINS, np.ones(3, dtype=int)),
        (CODES, DOMAINS, np.ones((3, 1))),
        (CODES, DOMAINS, None, np.ones(3)),
    ],
)
def test_what_is_no_table_is_refused(arguments):
    with pytest.raises(DataError):
        Table(*arguments)
