"""How a table becomes exact integers, and numbers: kinds of columns, domains, encoding."""

from bayescut.data.cells import halvings, learn_grid
from bayescut.data.columns import ColumnReport, TableReport, describe_table, learn_domains
from bayescut.data.domains import (
    MAX_STATES,
    MISSING8,
    MISSING16,
    Domain,
    Domains,
    code_dtype,
    missing_code,
)
from bayescut.data.encode import decode, encode, encode_table, unseen_cells
from bayescut.data.evidence import (
    Interval,
    above,
    at_least,
    at_most,
    below,
    between,
    encode_evidence,
    encode_row,
    encode_sets,
)
from bayescut.data.grid import Grid
from bayescut.data.tables import column_names

__all__ = [
    "MAX_STATES",
    "MISSING8",
    "MISSING16",
    "ColumnReport",
    "Domain",
    "Domains",
    "Grid",
    "Interval",
    "TableReport",
    "above",
    "at_least",
    "at_most",
    "below",
    "between",
    "code_dtype",
    "column_names",
    "decode",
    "describe_table",
    "encode",
    "encode_evidence",
    "encode_row",
    "encode_sets",
    "encode_table",
    "halvings",
    "learn_domains",
    "learn_grid",
    "missing_code",
    "unseen_cells",
]
