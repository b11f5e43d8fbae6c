"""What a plan says of casts and of one request, beside what the engine does."""

from __future__ import annotations

import copy

import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames import Alteration, AlterationPlan
from tests.schema.test_casts import cast

I32, I64, TEXT = pa.int32(), pa.int64(), pa.large_string()
POINT = pa.struct([("x", I32), ("y", I32)])

SCALARS = [
    *map(
        pa.type_for_alias,
        [
            "bool",
            "int8",
            "int64",
            "uint16",
            "float16",
            "float32",
            "float64",
            "string",
            "large_string",
            "binary",
        ],
    ),
    *map(pa.type_for_alias, ["large_binary", "date32", "date64"]),
    *(
        pa.timestamp("s"),
        pa.timestamp("us", "UTC"),
        pa.time32("s"),
        pa.time64("ns"),
        pa.duration("s"),
    ),
    *(
        pa.duration("us"),
        pa.decimal128(10, 2),
        pa.decimal256(40, 4),
        pa.binary(4),
        pa.null(),
        POINT,
    ),
    *(pa.dictionary(I32, TEXT), pa.dictionary(I32, I64)),
]
LISTED = [
    I32,
    I64,
    pa.float32(),
    pa.string(),
    TEXT,
    pa.bool_(),
    pa.date32(),
    pa.timestamp("us"),
    pa.binary(4),
    POINT,
]
FIXED = [
    pa.list_(I32, 3),
    *(
        pa.list_(pa.field(*item), 2)
        for item in (("item", I32, False), ("x", I32, True))
    ),
]
TYPES = [*SCALARS, *FIXED]
TYPES += [
    make(t)
    for t in LISTED
    for make in (pa.list_, pa.large_list, lambda t: pa.list_(t, 2))
]


def as_it_is(arrow: pa.DataType) -> dict:
    """Spell a type. Of an Arrow type, `rt.data_type` would change the items' field."""
    said = rt.data_type(arrow)
    if arrow in FIXED:
        item = arrow.value_field
        said["fields"][0] |= {"name": item.name, "nullable": item.nullable}
    return said


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.long)])
def test_the_marks_are_what_the_real_engine_does(tmp_path, step):
    lance = pytest.importorskip("lance")
    wrong = []
    for i, before in enumerate(TYPES):
        where = str(tmp_path / str(i))
        column = (
            pa.array([[1] * before.list_size], before)
            if before in FIXED
            else pa.nulls(1, before)
        )
        lance.write_dataset(pa.table({"c": column}), where)
        for after in (arrow for arrow in TYPES[i % step :: step] if arrow != before):
            table = lance.dataset(where, version=1)
            table.restore()
            try:
                table.alter_columns({"path": "c", "data_type": after})
                done = table.schema.field("c").type == after
            except OSError:
                done = False
            refused = cast(before, as_it_is(after)).refused
            if done != ("would" in (refused or "") or refused is None):
                wrong.append((str(before), str(after), done))
    assert wrong == []


def rename(path: str, new: str, data_type: pa.DataType | None = None) -> Alteration:
    return Alteration(path, rename=new, data_type=data_type)


CAST_C, CAST_N = Alteration("c", data_type="int64"), Alteration("n", data_type="int64")
TOGETHER = [
    ("a swap", [rename("a", "b"), rename("b", "a")], True),
    ("a chain", [rename("a", "b"), rename("b", "d")], True),
    ("a rename to a new name, and a cast", [rename("a", "d"), CAST_C], True),
    ("rename and cast of one column", [rename("a", "d", I64)], True),
    ("a swap, both cast", [rename("a", "b", I64), rename("b", "a", I64)], True),
    (
        "a chain onto a name whose old owner moves, itself cast",
        [rename("a", "b", I64), rename("b", "d")],
        True,
    ),
    ("a swap and another cast", [rename("a", "b"), rename("b", "a"), CAST_C], False),
    ("a swap, one cast", [rename("a", "b", I64), rename("b", "a")], False),
    ("a chain and another cast", [rename("a", "b"), rename("b", "d"), CAST_C], False),
    ("no nulls, and another cast", [Alteration("a", nullable=False), CAST_C], False),
    (
        "no nulls and cast of one column",
        [Alteration("a", nullable=False, data_type="int64")],
        False,
    ),
    (
        "nulls allowed, and another cast",
        [Alteration("n", nullable=True), CAST_C],
        False,
    ),
    (
        "nulls allowed and cast of one column",
        [Alteration("n", nullable=True, data_type="int64")],
        True,
    ),
    (
        "fields of a struct swapped, both cast",
        [rename("s.x", "y", I64), rename("s.y", "x", I64)],
        False,
    ),
    (
        "fields of a struct renamed, both cast",
        [rename("s.x", "p", I64), rename("s.y", "q", I64)],
        True,
    ),
    ("nested swap and a cast", [rename("s.x", "y"), rename("s.y", "x"), CAST_C], False),
]


@pytest.mark.parametrize(
    ("alterations", "together"),
    [case[1:] for case in TOGETHER],
    ids=[c[0] for c in TOGETHER],
)
def test_what_one_request_takes_is_what_the_real_engine_takes(
    tmp_path, alterations, together
):
    lance = pytest.importorskip("lance")
    from tests.support.local import STRICT_MERGES

    schema = pa.schema(
        [
            ("a", I32),
            ("b", I32),
            ("c", I32),
            pa.field("n", I32, nullable=False),
            ("s", POINT),
        ]
    )
    row = {"a": 1, "b": 2, "c": 3, "n": 4, "s": {"x": 5, "y": 6}}

    def altered(*requests: list[dict]) -> pa.Table | None:
        where = str(tmp_path / str(len(list(tmp_path.iterdir()))))
        table = lance.write_dataset(pa.Table.from_pylist([row], schema), where)
        try:
            for request in requests:
                table.alter_columns(*map(_for_lance, copy.deepcopy(request)))
        except OSError:
            return None
        return table.to_table()

    def _for_lance(one: dict) -> dict:
        names = {
            "path": "path",
            "rename": "name",
            "nullable": "nullable",
            "data_type": "data_type",
        }
        return {
            names[k]: rt.arrow_type(v) if k == "data_type" else v
            for k, v in one.items()
        }

    body = AlterationPlan(alterations).to_json()["alterations"]
    casts = [
        {"path": a["path"], "data_type": a["data_type"]}
        for a in body
        if "data_type" in a
    ]
    rest = [{k: v for k, v in a.items() if k != "data_type"} for a in body]
    assert (len(AlterationPlan(alterations).requests()) == 1) == together
    one_by_one = altered(*filter(None, (casts, [a for a in rest if len(a) > 1])))
    assert one_by_one is not None
    at_once = altered(body)
    is_right = at_once is not None and at_once.equals(one_by_one)
    assert is_right if together else not is_right or not STRICT_MERGES
