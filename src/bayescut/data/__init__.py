"""How a table becomes exact integers: domains and encoding."""

from bayescut.data.cells import halvings, learn_grid
from bayescut.data.domains import (
    MAX_STATES,
    MISSING8,
    MISSING16,
    Domain,
    Domains,
    code_dtype,
    missing_code,
)
from bayescut.data.encode import decode, encode, encode_row, encode_sets, learn_domains
from bayescut.data.grid import Grid
from bayescut.data.tables import column_names

__all__ = [
    "MAX_STATES",
    "MISSING8",
    "MISSING16",
    "Domain",
    "Domains",
    "Grid",
    "code_dtype",
    "column_names",
    "decode",
    "encode",
    "encode_row",
    "encode_sets",
    "halvings",
    "learn_domains",
    "learn_grid",
    "missing_code",
]
