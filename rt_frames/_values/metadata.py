"""Metadata of fields and schemas: dropped of rows that are handed to the caller.

A server's metadata may be anything: an extension type of a library's own aborts the
process in Polars 1.35. UUIDs and JSON are types of Arrow, not metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import types

from rt_frames._schema.data_type import map_fields

# kinds that are made of fields as they are
_WITH_FIELDS = (
    types.is_struct,
    types.is_map,
    types.is_list,
    types.is_large_list,
    types.is_fixed_size_list,
)


class Batches(Protocol):
    """Rows that are read once."""

    @property
    def schema(self) -> pa.Schema: ...
    def __iter__(self) -> Iterator[pa.RecordBatch]: ...
    def close(self) -> None: ...


class PlainRows:
    """Rows without metadata, at every depth."""

    def __init__(self, rows: Batches) -> None:
        self._rows = rows
        self.schema = without_metadata(rows.schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._rows.schema.equals(self.schema, check_metadata=True):
            return iter(self._rows)
        return (with_schema(batch, self.schema) for batch in self._rows)

    def close(self) -> None:
        """Close the rows, even if some are unread."""
        self._rows.close()


def without_metadata(schema: pa.Schema) -> pa.Schema:
    """Return a schema without metadata, at every depth."""
    return pa.schema([_without_metadata(field) for field in schema])


def _without_metadata(field: pa.Field) -> pa.Field:
    arrow = field.type
    if any(is_kind(arrow) for is_kind in _WITH_FIELDS):
        arrow = map_fields(arrow, _without_metadata)
    return field.with_type(arrow).remove_metadata()


def with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch under another schema of the same layout. No value is touched."""
    return pa.record_batch(_WithSchema(batch, schema))


class _WithSchema:
    """A batch that exports another schema than its own."""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch = batch
        self._schema = schema

    # the name is the protocol's
    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        return self._schema.__arrow_c_schema__(), self._batch.__arrow_c_array__()[1]
