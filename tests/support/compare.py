"""Read stored tables back with something this package did not write, and compare value by value."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["assert_same_values", "lance", "stored", "stored_by_lancedb"]


def stored(service, name: str) -> pa.Table:
    """Read a table with lance."""
    return lance.dataset(str(Path(service.root) / f"{name}.lance")).to_table()


def stored_by_lancedb(service, name: str) -> pa.Table:
    """Read a table with lancedb, whose import takes seconds."""
    import lancedb

    return lancedb.connect(str(service.root)).open_table(name).to_arrow()


def assert_same_values(actual: pa.Table, expected: pa.Table) -> None:
    """Compare names, nulls and values; a NaN equals a NaN, layouts may differ."""
    assert actual.schema.names == expected.schema.names
    assert actual.num_rows == expected.num_rows
    for name in expected.schema.names:
        kind = actual.schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        one, other = actual[name].cast(kind), expected[name].cast(kind)
        if pa.types.is_floating(kind):
            assert pc.is_null(one).equals(pc.is_null(other)), name
            assert pc.is_nan(one).equals(pc.is_nan(other)), name
            one, other = (pc.if_else(pc.is_nan(c), pa.scalar(0, kind), c) for c in (one, other))
        assert one.equals(other), name
