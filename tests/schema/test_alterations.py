"""Two schemas → the plan that leads from one to the other, or an error.

tests/client/test_plans.py has the values.
"""

from __future__ import annotations

import copy
import dataclasses
import html
import json
import pickle
import re

import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames import Alteration, AlterationPlan
from rt_frames import plan_alterations as plan
from rt_frames.errors import AlterationError, UnsupportedTypeError

I32 = pa.int32()
I64 = pa.int64()
TEXT = pa.large_string()
POINT = pa.struct([("x", I32), ("y", I32)])
WIDE_POINT = pa.struct([("x", I64), ("y", I32)])
LONG = {"data_type": {"type": "int64"}}


def columns(**types: pa.DataType) -> pa.Schema:
    return pa.schema(list(types.items()))


def sent(*args, **options) -> list[dict]:
    return plan(*args, **options).to_json()["alterations"]


A = {"a": I32}
AB = {"a": I32, "b": I32}
BA = {"b": I32, "a": I32}
S = {"s": POINT}
BOTH_LONG = {"a": I64, "b": I64}
A_LONG = {"path": "a", **LONG}
B_LONG = {"path": "b", **LONG}
ELEMENTS = {"l": pa.list_(pa.field("element", POINT))}
ELEMENT_LONG = [{"path": "l.element.x", **LONG}]
WIDE_POINTS = pa.list_(WIDE_POINT)
POINTS = {"c": pa.list_(POINT)}
LARGE_POINTS = {"c": pa.large_list(WIDE_POINT)}
ITEM_LONG = [{"path": "c.item.x", **LONG}]
OTHER_POINT = pa.struct([("q", I32), ("y", I32)])
BOTH_RENAMED = {"rename": {"s": "t", "s.x": "q"}}
INNER_FIRST = [{"path": "s.x", "rename": "q"}, {"path": "s", "rename": "t"}]
CHAIN = {"rename": {"a": "b", "b": "d"}}
FREED_FIRST = [{"path": "b", "rename": "d"}, {"path": "a", "rename": "b"}]
FULL_X = [{"path": "s.x", "nullable": False}]
RENAMED_LONG = [{"path": "a", "rename": "n", **LONG}]
CASES = {  # before, after, options, what is sent
    "the same columns are no change": (A, A, {}, []),
    "the order of columns is no change": (AB, BA, {}, []),
    "a name is freed first": (AB, {"b": I32, "d": I32}, CHAIN, FREED_FIRST),
    "the order is that of before": (BA, BOTH_LONG, {}, [B_LONG, A_LONG]),
    "a rename with a cast": (A, {"n": I64}, {"rename": {"a": "n"}}, RENAMED_LONG),
    "inside a struct": (S, {"s": WIDE_POINT}, {}, [{"path": "s.x", **LONG}]),
    "through a list by its child": (ELEMENTS, {"l": WIDE_POINTS}, {}, ELEMENT_LONG),
    "paths stay those of before": (S, {"t": OTHER_POINT}, BOTH_RENAMED, INNER_FIRST),
    "what only before has is left alone": (AB, {"b": I64}, {}, [B_LONG]),
    "nullability is asked for by path": (S, S, {"nullable": {"s.x": False}}, FULL_X),
    "large lists of structs are lists": (POINTS, LARGE_POINTS, {}, ITEM_LONG),
}


@pytest.mark.parametrize(
    ("before", "after", "options", "expected"), CASES.values(), ids=CASES
)
def test_a_plan_says_what_leads_from_before_to_after(before, after, options, expected):
    made = plan(columns(**before), columns(**after), **options)
    assert made.to_json()["alterations"] == expected
    assert bool(made) == bool(expected)
    assert [(one.refused, one.loss) for one in made] == [(None, None)] * len(expected)


def test_lists_of_plain_items_are_cast_from_small_to_large():
    (cast,) = sent(columns(c=pa.list_(I32)), columns(c=pa.large_list(I32)))
    assert cast["data_type"]["type"] == "large_list"
    assert not plan(columns(c=pa.list_(POINT)), columns(c=pa.large_list(POINT)))


def test_nullability_is_compared_between_two_schemas_only():
    before = pa.schema([pa.field("a", I32, nullable=False)])
    after = columns(a=I32)
    frame = pa.table({"a": pa.array([1], I32)})
    allowed = [{"path": "a", "nullable": True}]
    assert sent(before, frame) == []
    assert sent(before, after, nullable={"a": False}) == []
    assert sent(before, after) == allowed
    assert sent(frame, frame, nullable={"a": True}) == allowed


ADD = {"add_columns": True}
ONE_FIELD = {"s": pa.struct([("x", I32)])}
DOTTED = {"s": pa.struct([("p.q", I32)])}
WIDE_DOTTED = {"s": pa.struct([("p.q", I64)])}
DOTTED_ITEM = {"l": pa.list_(pa.field("p.q", POINT))}
WIDE_ITEM = {"l": pa.list_(WIDE_POINT)}
NO_FIELD = "'s.y'; fields cannot be added to a struct"
QTY = {"qty": I32}
QUANTITY = {"quantity": I32}
REFUSED = {  # before, after, options, what is named
    "unknown path, close match": (A, A, {"rename": {"aa": "a"}}, "'a'"),
    "unknown target": (QTY, QUANTITY, {"rename": {"qty": "quantty"}}, "'quantity'"),
    "name taken": (AB, {"b": I32}, {"rename": {"a": "b"}}, "'b'"),
    "unknown nullable": (A, A, {"nullable": {"zz": True}}, "'zz'"),
    "struct child new": (ONE_FIELD, S, ADD, NO_FIELD),
    "added, of other case": (A, {**A, "A": I32}, ADD, "'A' and the table's 'a' differ"),
    "added, without a type": (A, {**A, "b": pa.null()}, ADD, "'b' has no values"),
    "dropped, unknown": (AB, A, {"drop_columns": ["c"]}, "'c'"),
    "a dot in a changed name": (DOTTED, WIDE_DOTTED, {}, "dot"),
    "a dot in an item's name": (DOTTED_ITEM, WIDE_ITEM, {}, "dot"),
    "a type without a word": (A, {"a": pa.map_(pa.string(), I32)}, {}, "'a'"),
}


@pytest.mark.parametrize(
    ("before", "after", "options", "named"), REFUSED.values(), ids=REFUSED
)
def test_what_does_not_fit_is_refused_by_name(before, after, options, named):
    with pytest.raises((AlterationError, UnsupportedTypeError), match=re.escape(named)):
        plan(columns(**before), columns(**after), **options)


# before, after, the rename that is offered
ONE_RENAME = [
    ({"a": I32}, {"n": I32}, {"a": "n"}),
    ({"a": I32, "b": TEXT}, {"b": TEXT, "n": I32}, {"a": "n"}),
    ({"l": pa.list_(POINT)}, {"m": pa.list_(POINT)}, {"l": "m"}),
]


@pytest.mark.parametrize(("before", "after", "offered"), ONE_RENAME)
def test_a_rename_is_offered_for_one_column_of_one_type_on_each_side(
    before, after, offered
):
    before = columns(**before)
    after = columns(**after)
    with pytest.raises(AlterationError) as refused:
        plan(before, after)
    said = re.search(
        r"pass rename=(\{.*?\}) if .*, or add_columns=True", str(refused.value)
    )
    assert eval(said[1]) == offered
    renamed = plan(before, after, rename=offered)
    assert {one.path: one.rename for one in renamed} == offered
    added = plan(before, after, add_columns=True)
    assert added.added.names == [*offered.values()]
    assert added.left_alone == (*offered,)


def test_a_rename_is_offered_for_one_field_of_a_struct_which_cannot_be_added():
    before = columns(s=POINT)
    after = columns(s=pa.struct([("x", I32), ("why", I32)]))
    with pytest.raises(AlterationError, match=r"'s.y': 'why'") as refused:
        plan(before, after)
    assert "add_columns" not in str(refused.value)


NO_RENAME = [
    ({"count": I32}, {"ratio": pa.float64()}),
    ({"price": I32}, {"prices": pa.int64()}),
    ({"a": I32, "b": I32}, {"n": I32, "m": I32}),
    ({"a": I32}, {"n": I32, "m": I32}),
    ({"a": I32, "b": I32}, {"n": I32}),
    ({"price": I32, "old": TEXT}, {"prices": I32, "new": pa.float64()}),
]


@pytest.mark.parametrize(("before", "after"), NO_RENAME)
def test_other_columns_of_one_side_are_named_with_every_option_and_no_pairs(
    before, after
):
    before = columns(**before)
    after = columns(**after)
    with pytest.raises(AlterationError) as refused:
        plan(before, after)
    said = str(refused.value)
    assert "pass rename={…} for renamed columns, or add_columns=True for new" in said
    assert said.endswith("drop_columns=[…] for columns to drop")
    swap = plan(before, after, add_columns=True, drop_columns=before.names)
    assert swap.added.names == after.names
    assert swap.dropped == (*before.names,)


def test_columns_that_only_the_new_side_has_are_offered_to_be_added():
    with pytest.raises(AlterationError, match=r"; pass add_columns=True to add them$"):
        plan(columns(a=I32), columns(a=I32, b=I32, c=TEXT))


def test_renames_that_were_given_are_part_of_the_offered_call():
    with pytest.raises(AlterationError, match=re.escape("rename={'b': 'B', 'a': 'x'}")):
        plan(columns(a=I32, b=I32), columns(x=I32, B=I32), rename={"b": "B"})


def test_columns_are_added_as_nulls_dropped_by_name_and_left_alone_otherwise():
    before = columns(a=I32, note=TEXT, old=TEXT)
    after = pa.schema(
        [pa.field("a", I64), pa.field("day", pa.date32(), nullable=False)]
    )
    found = plan(before, after, add_columns=True, drop_columns=["note"])
    assert found.added == columns(day=pa.date32())
    assert (found.dropped, found.left_alone) == (("note",), ("old",))
    alters, adds, drops = found.requests()
    assert alters.to_json() == {"alterations": [{"path": "a", **LONG}]}
    assert (len(adds), adds.added) == (0, found.added)
    assert drops.to_json() == {"columns": ["note"]}
    with pytest.raises(ValueError, match=r"plan\.requests\(\)"):
        found.to_json()
    with pytest.raises(ValueError, match=r"plan\.added"):
        adds.to_json()
    assert found == plan(before, after, add_columns=True, drop_columns=["note"])
    assert found != alters
    assert pickle.loads(pickle.dumps(found)) == found
    assert copy.deepcopy(found) == found
    for shown in (repr(found), found._repr_html_()):
        assert all(word in shown for word in ("add", "drop", "date32", "left alone"))
    assert "left alone" in repr(plan(before, columns(a=I32)))


BOTH = {"a": TEXT, "note": TEXT}
NOTE = {"note": TEXT}
NOT_DROPPED = [  # what is passed, the columns before, renames, what is said
    (7, BOTH, {}, "expected the name of a column, or a list .*, got 7"),
    (["a"], BOTH, {}, "the frame has column 'a'"),
    (["note", "note"], BOTH, {}, "each once, got .*'note', 'note'"),
    (["s.x"], BOTH, {}, "'s.x' is not the name of a whole column"),
    (["note"], NOTE, {"note": "a"}, "'note' is also in rename"),
]


@pytest.mark.parametrize(("drop_columns", "before", "rename", "message"), NOT_DROPPED)
def test_columns_to_drop_are_checked(drop_columns, before, rename, message):
    options = {"drop_columns": drop_columns, "rename": rename}
    with pytest.raises(ValueError, match=message):
        plan(columns(**before), columns(a=TEXT), **options)


def test_a_plan_that_one_request_does_not_take_is_split_casts_first():
    before = columns(a=I32, b=I32, c=I32)
    after = columns(b=I32, a=I32, c=I64)
    whole = plan(before, after, rename={"a": "b", "b": "a"}, nullable={"c": False})
    casts, others = whole.requests()
    assert casts.to_json()["alterations"] == [{"path": "c", **LONG}]
    assert [one["path"] for one in others.to_json()["alterations"]] == ["a", "b", "c"]
    assert casts[0].before == others[0].before == I32
    assert all("make two: c" in shown for shown in (str(whole), whole._repr_html_()))


SHOWN = {  # what a plan calls the type of an added column
    "category": pa.dictionary(I32, TEXT),
    "ordered category": pa.dictionary(I32, TEXT, ordered=True),
    "category of string": pa.dictionary(I32, pa.string()),
    "category of int64": pa.dictionary(I32, I64),
    "large_list<item: category>": pa.large_list(pa.dictionary(I32, TEXT)),
    "struct<x: category of int64, y: ordered category>": pa.struct(
        {"x": pa.dictionary(I32, I64), "y": pa.dictionary(I32, TEXT, ordered=True)}
    ),
}


@pytest.mark.parametrize(("called", "arrow"), SHOWN.items(), ids=[*SHOWN])
def test_a_dictionary_is_shown_as_a_category(called, arrow):
    field = pa.field("added", arrow)
    found = AlterationPlan(added=pa.schema([field]))
    assert re.search(rf"^added +{re.escape(called)} +add$", repr(found), re.MULTILINE)
    assert f"<code>{html.escape(called)}</code>" in found._repr_html_()
    cast = Alteration("a", data_type=pa.dictionary(I32, I64))
    assert str(dataclasses.replace(cast, before=I64)) == "a: int64 to category of int64"


def test_plans_and_alterations_are_values():
    one = plan(columns(a=I32), columns(a=I64))
    assert pickle.loads(pickle.dumps(one)) == one
    assert one == AlterationPlan([Alteration("a", data_type=int)])
    same = [Alteration("a", data_type="int64"), Alteration("a", data_type=pa.int64())]
    assert len({*same}) == 1
    nothing = AlterationPlan()
    assert "nothing to alter" in repr(nothing)
    assert "nothing to alter" in nothing._repr_html_()


def test_the_length_items_and_order_of_a_plan_are_those_of_its_changes():
    before = columns(a=I32, b=I32, note=TEXT)
    after = columns(a=I64, b=I64, day=pa.date32())
    found = plan(before, after, add_columns=True, drop_columns=["note"])
    assert len(found) == 2
    assert [change.path for change in found] == ["a", "b"]
    assert found[-1] is found.changes[1]
    assert found[:1] == [found.changes[0]]
    assert found.changes[0] in found
    with pytest.raises(IndexError):
        found[2]


@pytest.mark.parametrize(
    "one",
    [
        AlterationPlan([Alteration("a", rename="b")]),
        AlterationPlan(added=columns(day=pa.date32())),
        AlterationPlan(dropped=["note"]),
    ],
)
def test_a_plan_is_true_if_it_changes_adds_or_drops_and_is_a_value(one):
    again = pickle.loads(pickle.dumps(one))
    assert one
    assert again == copy.copy(one) == dataclasses.replace(one) == one
    assert len({one, again, AlterationPlan()}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.dropped = ()


def test_a_plan_that_only_leaves_columns_alone_is_false():
    assert not AlterationPlan(left_alone=["old"])


WRONG = [
    ([], "empty"),
    ([{"path": "a"}], "'a'"),
    ([{"path": "a", "type": "int64"}], "'type'"),
    ([{"path": "a", "data_type": "int32", "before": "int64"}], "'before'"),
    ([{"rename": "a"}], "path"),
    ([{"path": "a", "rename": "b"}, {"path": "a", "nullable": True}], "'a'"),
    ([{"path": "a", "rename": "b.c"}], "dot"),
    ([{"path": "a", "data_type": {"type": "nope"}}], "nope"),
]


@pytest.mark.parametrize(("wrong", "named"), WRONG, ids=str)
def test_alterations_that_cannot_be_sent_are_refused_before_sending(
    remote, server, wrong, named
):
    with pytest.raises(ValueError, match=named):
        remote.alter_columns("t", wrong)
    assert server.requests == []


ASKED = [
    ("n", I32, "", None),
    ("n", TEXT, "", "int64"),
    ("l.item.x", I32, "large_list", "large_list"),
    ("a`b", I32, "", "backtick"),
]


@pytest.mark.parametrize(("path", "data_type", "lists", "refused"), ASKED)
def test_an_alteration_can_be_asked_why_the_engine_refuses_it(
    path, data_type, lists, refused
):
    told = Alteration(path, data_type=data_type, before=I64, lists=lists).refused
    assert told is None if refused is None else refused in told


def test_what_a_column_was_is_known_to_a_plan_and_neither_compared_nor_shown_nor_sent():
    (one,) = plan(columns(n=I64), columns(n=TEXT))
    plain = Alteration("n", data_type=TEXT)
    assert one.before == I64
    assert plain.before is None
    assert plain.refused is None
    assert plain.loss is None
    assert (one, repr(one), one.to_json()) == (plain, repr(plain), plain.to_json())


def test_alterations_are_taken_in_every_form(remote, server):
    said = {"alterations": [{"path": "a", "rename": "b"}]}
    one = Alteration("a", rename="b")
    forms = [
        one,
        [one],
        {"path": "a", "rename": "b"},
        [{"path": "a", "rename": "b", "data_type": None}],
        said,
    ]
    for form in [*forms, AlterationPlan(), AlterationPlan().to_json()]:
        remote.alter_columns("t", form)
    assert [json.loads(request.body) for request in server.posts] == [said] * 5


UUIDS = pa.ListArray.from_arrays([0, 1, 1], pa.array([b"0" * 16], pa.uuid()))
EXTENSIONS = [
    (pa.uuid(), pa.binary(16)),
    (pa.json_(), pa.string()),
    (UUIDS.type, pa.list_(pa.binary(16))),
    (pa.json_(), pa.dictionary(I32, pa.string())),
]


@pytest.mark.parametrize(("extension", "storage"), EXTENSIONS, ids=str)
def test_json_and_uuid_are_other_types_than_what_they_are_stored_as(extension, storage):
    for before, after in [(extension, storage), (storage, extension)]:
        with pytest.raises(AlterationError, match="'c'"):
            plan(columns(c=before), columns(c=after))
    assert not plan(columns(c=extension), columns(c=extension))


def test_of_a_stored_table_its_service_tells_only_how_such_types_are_stored(tmp_path):
    texts = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1", None]))
    table = pa.table(
        {"j": texts, "u": pa.array([b"0" * 16, None], pa.uuid()), "l": UUIDS}
    )
    with rt.connect(tmp_path, default=False) as client:
        assert not plan(client.create_table("t", table), table)
        assert not plan(client.table("t"), table)
