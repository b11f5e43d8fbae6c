"""Record batches as a library lays them out → record batches in portable Arrow types.

`portable_schema` decides once, by type; a `Converter` then turns batch after batch, and touches only the
columns whose layout differs. Dictionaries of one column become one dictionary that only ever grows, so
that a reader which keeps just the newest still reads every batch right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rt_frames._frames.convert import converted, same_values
from rt_frames._schema.portable import is_portable, to_portable
from rt_frames.errors import UnsupportedTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import pyarrow as pa


PIECE = 16 * 2**20


def nbytes_of(data: pa.RecordBatch | pa.Table) -> int:
    """Tell how many bytes a batch's own rows take; of views, older Arrow only knows what the buffers take."""
    import pyarrow as pa

    try:
        return int(data.nbytes)
    except pa.ArrowTypeError:
        return int(data.get_total_buffer_size())


def rows_per_piece(rows: int, nbytes: int) -> int:
    """Tell how many rows make a piece of about 16 MiB."""
    return max(1, rows * PIECE // max(nbytes, 1)) if nbytes > 2 * PIECE else max(rows, 1)


def portable_schema(schema: pa.Schema, dtypes: Mapping[str, pa.DataType]) -> pa.Schema:
    """Give the schema that is sent, or say which column cannot be."""
    import pyarrow as pa

    check_names(schema.names)
    if not dtypes and all(map(is_portable, schema.types)) and not any(field.metadata for field in schema):
        return schema.remove_metadata()
    fields = []
    for field in schema:
        found = to_portable(field.type, field.name)
        arrow = dtypes.get(field.name, found)
        _check_type(arrow, field.name, field.name)
        kept = {k: v for k, v in (field.metadata or {}).items() if k.startswith(b"ARROW:extension:")}
        standard = kept.get(b"ARROW:extension:name") in (b"arrow.uuid", b"arrow.json")
        fields.append(pa.field(field.name, arrow, field.nullable, kept if standard else None))
    return pa.schema(fields)


def check_names(names: list[str]) -> None:
    """Refuse column names that the service's engine cannot keep or address."""
    if not names:
        raise ValueError("the frame has no columns; a table needs at least one")
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"column names must be unique; these occur more than once: {_listed(twice)}; rename them")
    if any(not name for name in names):
        raise ValueError("a column has the empty string for a name; rename it")
    if odd := [name for name in names if not name.isprintable() and any(_is_control(c) for c in name)]:
        raise ValueError(f"column names must not hold control characters: {_listed(odd)}; rename them")


def check_no_dots(names: list[str]) -> None:
    """Refuse names that would read as the path of a nested column."""
    if dotted := [name for name in names if "." in name]:
        renames = {name: name.replace(".", "_") for name in dotted[:10]}
        raise ValueError(
            f"column names must not hold a dot, it separates the levels of nested columns: {_listed(dotted)}; "
            f"rename them, for example with {renames!r}"
        )


def _is_control(char: str) -> bool:
    return ord(char) < 32 or 127 <= ord(char) < 160 or 0xD800 <= ord(char) < 0xE000


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:10])) + (", …" if len(names) > 10 else "")


def _check_type(arrow: pa.DataType, column: str, path: str) -> None:
    import pyarrow as pa

    if pa.types.is_null(arrow):
        raise UnsupportedTypeError(
            f"column {path!r} has no values and no type; a table's null column could never be cast later: "
            f'say its type, for example dtypes={{{column!r}: "large_string"}}'
        )
    if not pa.types.is_nested(arrow):
        return
    children = [arrow.field(i) for i in range(arrow.num_fields)]
    names = [child.name for child in children]
    if pa.types.is_struct(arrow) and (not names or len(set(names)) < len(names) or not all(names)):
        raise UnsupportedTypeError(f"column {path!r}: a struct needs fields with distinct names, not {names!r:.200}")
    for child in children:
        _check_type(child.type, column, f"{path}.{child.name}")


class Converter:
    """Turn the batches of one source into batches of one portable schema.

    Parameters
    ----------
    schema : pyarrow.Schema
        The portable schema.
    cast : collection of str
        Columns that the caller wants cast; of the others only the layout may differ.
    dictionaries : dict of str to pyarrow.Array
        Dictionary values that are known beforehand.
    where : callable, optional
        Names the place in the source that the batch comes from, for errors; its number otherwise.
    """

    def __init__(
        self,
        schema: pa.Schema,
        cast: Collection[str] = (),
        dictionaries: Mapping[str, pa.Array] | None = None,
        where: Callable[[], str] | None = None,
    ) -> None:
        self._schema = schema
        self._cast = cast
        self._dictionaries = dict(dictionaries or {})
        self._where = where
        self._fit: set[tuple[str, pa.DataType]] = set()
        self._number = 0

    def _place(self) -> str:
        return self._where() if self._where is not None else f"batch {self._number}"

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert one batch; the error for one that does not fit names the batch and the column."""
        import pyarrow as pa

        self._number += 1
        if batch.schema.names != self._schema.names:
            batch = self._reordered(batch)
        columns = [self._column(array, field) for array, field in zip(batch.columns, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _reordered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        have, want = batch.schema.names, self._schema.names
        if sorted(have) != sorted(want):
            raise UnsupportedTypeError(
                f"{self._place()} has other columns than the first one: "
                f"missing {sorted(set(want) - set(have))}, new {sorted(set(have) - set(want))}; "
                "all data of one table needs the same columns"
            )
        return batch.select(want)

    def _column(self, array: pa.Array, field: pa.Field) -> pa.Array:
        import pyarrow as pa

        if array.type != field.type:
            self._check_fit(array.type, field)
            try:
                array = converted(array, field.type)
            except (pa.ArrowException, ValueError, TypeError) as error:
                raise UnsupportedTypeError(
                    f"column {field.name!r} ({self._place()}): {array.type} does not become {field.type}: "
                    f"{str(error)[:300]}; correct the values or choose another type"
                ) from error
        return self._one_dictionary(array, field.name) if pa.types.is_dictionary(array.type) else array

    def _check_fit(self, arrow: pa.DataType, field: pa.Field) -> None:
        import pyarrow as pa

        if (field.name, arrow) in self._fit:
            return
        if field.name not in self._cast and not pa.types.is_null(arrow):
            became = to_portable(arrow, field.name)
            if not same_values(became, field.type):
                raise UnsupportedTypeError(
                    f"column {field.name!r} is {became} in {self._place()} and {field.type} in the first one; "
                    f"cast it beforehand, or give dtypes={{{field.name!r}: ...}}"
                )
        self._fit.add((field.name, arrow))

    def _one_dictionary(self, array: pa.DictionaryArray, name: str) -> pa.DictionaryArray:
        import pyarrow as pa

        known = self._dictionaries.setdefault(name, array.dictionary)
        if known is array.dictionary:
            return array
        if known.equals(array.dictionary):
            return pa.DictionaryArray.from_arrays(array.indices, known)
        places = _places(array.dictionary, known)
        if places.null_count:
            new = array.dictionary.filter(places.is_null())
            known = self._dictionaries[name] = pa.concat_arrays([known, new.unique()])
            if len(known) > 2 ** (array.type.index_type.bit_width - 1):
                raise UnsupportedTypeError(
                    f"column {name!r} ({self._place()}): its dictionaries together have {len(known)} values, too many "
                    f"for {array.type.index_type} codes; cast it to dictionary<int32, {array.type.value_type}> first"
                )
            places = _places(array.dictionary, known)
        return pa.DictionaryArray.from_arrays(places.take(array.indices), known)


def _places(values: pa.Array, known: pa.Array) -> pa.Array:
    """Tell where each value stands among the known ones; null where it does not."""
    import pyarrow.compute as pc

    return pc.call_function("index_in", [values], pc.SetLookupOptions(value_set=known))
