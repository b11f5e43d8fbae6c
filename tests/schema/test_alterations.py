from __future__ import annotations

import itertools
import pickle
import re

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rt_frames as rt
from rt_frames._schema.alterations import Alteration, AlterationPlan, as_plan
from rt_frames._schema.casts import INSTEAD
from rt_frames._schema.compare import plan
from rt_frames._schema.data_type import arrow_type
from rt_frames.errors import AlterationError, UnsupportedTypeError

I32, I64, TEXT = pa.int32(), pa.int64(), pa.large_string()
POINT = pa.struct([("x", I32), ("y", I32)])
WIDE_POINT = pa.struct([("x", I64), ("y", I32)])


def columns(**types: pa.DataType) -> pa.Schema:
    return pa.schema(list(types.items()))


def sent(*args, **options) -> list[dict]:
    return plan(*args, **options).to_json()["alterations"]


CASES = [
    pytest.param({"a": I32}, {"a": I32}, {}, [], id="the same columns are no change"),
    pytest.param({"a": I32, "b": I32}, {"b": I32, "a": I32}, {}, [], id="the order of columns is no change"),
    pytest.param(
        {"b": I32, "a": I32},
        {"a": I64, "b": I64},
        {},
        [{"path": "b", "data_type": {"type": "int64"}}, {"path": "a", "data_type": {"type": "int64"}}],
        id="changes come in the order of before",
    ),
    pytest.param(
        {"a": I32},
        {"n": I64},
        {"rename": {"a": "n"}},
        [{"path": "a", "rename": "n", "data_type": {"type": "int64"}}],
        id="a rename and a cast are one alteration",
    ),
    pytest.param(
        {"a": I32, "b": TEXT},
        {"a": TEXT, "b": I32},
        {"rename": {"a": "b", "b": "a"}},
        [{"path": "a", "rename": "b"}, {"path": "b", "rename": "a"}],
        id="names are swapped",
    ),
    pytest.param(
        {"s": POINT}, {"s": WIDE_POINT}, {}, [{"path": "s.x", "data_type": {"type": "int64"}}], id="inside a struct"
    ),
    pytest.param(
        {"l": pa.list_(pa.field("element", POINT))},
        {"l": pa.list_(WIDE_POINT)},
        {},
        [{"path": "l.element.x", "data_type": {"type": "int64"}}],
        id="through a list by the name of its child",
    ),
    pytest.param(
        {"s": POINT},
        {"t": pa.struct([("q", I32), ("y", I32)])},
        {"rename": {"s": "t", "s.x": "q"}},
        [{"path": "s", "rename": "t"}, {"path": "s.x", "rename": "q"}],
        id="paths stay those of before",
    ),
    pytest.param(
        {"a": I32, "b": I32},
        {"b": I64, "c": I32},
        {"strict": False},
        [{"path": "b", "data_type": {"type": "int64"}}],
        id="strict=False leaves one-sided columns alone",
    ),
    pytest.param(
        {"s": POINT},
        {"s": POINT},
        {"nullable": {"s.x": False}},
        [{"path": "s.x", "nullable": False}],
        id="nullability is asked for by path",
    ),
]


@pytest.mark.parametrize(("before", "after", "options", "expected"), CASES)
def test_a_plan_says_what_leads_from_before_to_after(before, after, options, expected):
    assert sent(columns(**before), columns(**after), **options) == expected


def test_nullability_is_compared_between_two_schemas_only():
    before, after = pa.schema([pa.field("a", I32, nullable=False)]), columns(a=I32)
    assert sent(before, after) == []
    assert sent(before, after, compare_nullability=True) == [{"path": "a", "nullable": True}]
    assert sent(before, after, nullable={"a": False}) == []
    assert sent(after, after, nullable={"a": True}) == [{"path": "a", "nullable": True}]  # a frame's table may differ


REFUSED = [
    pytest.param({"a": I32}, {"a": I32}, {"rename": {"aa": "a"}}, "'a'", id="unknown path, close match"),
    pytest.param({"qty": I32}, {"quantity": I32}, {"rename": {"qty": "quantty"}}, "'quantity'", id="unknown target"),
    pytest.param({"a": I32, "b": I32}, {"b": I32}, {"rename": {"a": "b"}, "strict": False}, "'b'", id="name taken"),
    pytest.param({"a": I32}, {"a": I32}, {"nullable": {"zz": True}}, "'zz'", id="unknown nullable"),
    pytest.param({"s": POINT}, {"s": pa.struct([("x", I32)])}, {}, "'s.y'", id="struct child gone"),
    pytest.param(
        {"s": pa.struct([("p.q", I32)])}, {"s": pa.struct([("p.q", I64)])}, {}, "dot", id="a dot in a changed name"
    ),
    pytest.param(
        {"l": pa.list_(pa.field("p.q", POINT))}, {"l": pa.list_(WIDE_POINT)}, {}, "dot", id="a dot in an item's name"
    ),
]


@pytest.mark.parametrize(("before", "after", "options", "named"), REFUSED)
def test_what_does_not_fit_is_refused_by_name(before, after, options, named):
    with pytest.raises(AlterationError, match=re.escape(named)):
        plan(columns(**before), columns(**after), **options)


def test_a_type_without_a_word_is_refused_with_its_path():
    with pytest.raises(UnsupportedTypeError, match=r"'a'.*map"):
        plan(columns(a=I32), columns(a=pa.map_(pa.string(), I32)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"qty": I32}, {"n": TEXT}),
        ({"s": POINT}, {"s": pa.struct([("x", I32), ("why", I32)])}),
        ({"city": TEXT, "sold": I32}, {"CITY": TEXT, "units": I64}),
        ({"net_price": I32, "gross_price": I32, "id": TEXT}, {"gross_prices": I32, "net_prices": I32, "key": TEXT}),
        ({"unit price": I32, "list_price": I64}, {"UnitPrice": I32, "listPrice": I64}),
    ],
)
def test_the_offered_rename_works_when_pasted(before, after):
    before, after = columns(**before), columns(**after)
    with pytest.raises(AlterationError) as refused:
        plan(before, after)
    offered = eval(re.search(r"rename=(\{.*?\})", str(refused.value))[1])
    assert {a["path"]: a["rename"] for a in sent(before, after, rename=offered)} == offered


OFFERS = [
    pytest.param({"a": I32}, {"n": TEXT}, ["rename={'a': 'n'}; 'a' is then cast from int32 to large_string"], id="one"),
    pytest.param({"a": I32, "b": I32}, {"n": I32, "m": I32}, [], id="none is alike"),
    pytest.param({"price": I32, "b": I32}, {"prices": I64, "m": I64}, [], id="alike, of another type"),
    pytest.param(
        {"price": I32, "b": I32, "c": I32}, {"prices": I32, "m": I64},
        ["rename={'price': 'prices'}, strict=False, which leaves the others alone"], id="others are left over",
    ),
    pytest.param(
        {"price": I32, "b": I32}, {"prices": I32, "m": I64},
        ["rename={'price': 'prices', 'b': 'm'}; 'b' is then cast from int32 to int64"], id="one is alike, one left",
    ),
    pytest.param(
        {"s": pa.struct([("x", I32)]), "t": TEXT}, {"s": pa.struct([("p", I32)]), "u": TEXT},
        ["rename={'s.x': 'p', 't': 'u'}"], id="one on each level",
    ),
    pytest.param({str(n): I32 for n in range(51)}, {f"{n}_": I32 for n in range(51)}, [], id="too many"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "offered"), OFFERS)
def test_the_message_names_every_column_on_one_side_and_offers_what_was_probably_renamed(before, after, offered):
    with pytest.raises(AlterationError, match=r"only before: .*; only after: ") as refused:
        plan(columns(**before), columns(**after))
    text = str(refused.value)
    assert re.findall(r"if they were renamed, pass (.*)$", text) == offered
    assert text.endswith("strict=False") or offered
    with pytest.raises(AlterationError, match=re.escape("rename={'b': 'B', 'a': 'x'}")):
        plan(columns(a=I32, b=I32), columns(x=I32, B=I32), rename={"b": "B"})  # what was said is part of the call


def applied(schema: pa.Schema, alterations: list[dict]) -> pa.Schema:
    """Do what the service documents, on a schema alone."""
    by_path = {a["path"]: a for a in alterations}

    def field(at: str, old: pa.Field) -> pa.Field:
        path = at + old.name
        change = by_path.get(path, {})
        arrow = arrow_type(change["data_type"]) if "data_type" in change else inside(path, old.type)
        return pa.field(change.get("rename", old.name), arrow, change.get("nullable", old.nullable))

    def inside(path: str, arrow: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(arrow):
            return pa.struct([field(f"{path}.", child) for child in arrow])
        if pa.types.is_list(arrow):
            return pa.list_(
                pa.field(arrow.value_field.name, inside(f"{path}.{arrow.value_field.name}", arrow.value_type))
            )
        return arrow

    return pa.schema([field("", old) for old in schema])


FAMILIES = [[pa.int8(), I32, I64], [pa.float32(), pa.float64()], [pa.string(), TEXT]]
leaves = st.sampled_from(FAMILIES).flatmap(lambda family: st.tuples(st.sampled_from(family), st.sampled_from(family)))
names = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=4, unique=True)


def struct_pair(fields: list[tuple[str, tuple]]) -> tuple[pa.DataType, pa.DataType]:
    return tuple(pa.struct([(name, pair[side]) for name, pair in fields]) for side in (0, 1))


pairs = st.recursive(
    leaves,
    lambda inner: st.one_of(
        names.flatmap(lambda ns: st.tuples(*[inner.map(lambda p, n=n: (n, p)) for n in ns]).map(struct_pair)),
        leaves.map(lambda pair: tuple(map(pa.list_, pair))),
    ),
    max_leaves=8,
)


@given(data=st.data(), old=names)
def test_applying_a_plan_gives_after_and_a_second_plan_is_empty(data, old):
    types = [data.draw(pairs) for _ in old]
    new = data.draw(st.permutations(old))
    before = pa.schema([(name, t[0]) for name, t in zip(old, types, strict=True)])
    after = pa.schema([(name, t[1]) for name, t in zip(new, types, strict=True)])
    result = applied(before, sent(before, after, rename=dict(zip(old, new, strict=True))))
    assert result == after
    assert not plan(result, after)


SWAP_AND_CAST = (columns(a=I32, b=I32, c=I32), columns(b=I32, a=I32, c=I64))


def test_a_plan_that_one_request_does_not_take_is_split_casts_first():
    whole = plan(*SWAP_AND_CAST, rename={"a": "b", "b": "a"})
    assert [part.to_json()["alterations"] for part in whole.requests()] == [
        [{"path": "c", "data_type": {"type": "int64"}}],
        [{"path": "a", "rename": "b"}, {"path": "b", "rename": "a"}],
    ]
    assert "Send two" in str(whole)
    assert "Send two" in whole._repr_html_()


def test_the_text_shows_each_change_in_aligned_columns():
    at = pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us")
    shown = str(plan(columns(a=I64, p=pa.float64(), t=I32, at=at[0]), columns(a=I32, p=I64, t=I64, at=at[1])))
    assert shown.splitlines()[1:] == [
        "",
        "path  before                           after          what",
        "----  -------------------------------  -------------  " + "-" * 61,
        "a     int64                            int32          casts",
        f"p     double{' ' * 27}int64          casts; refused: double stays within floats",
        "t     int32                            int64          casts",
        f"at    {at[0]}  timestamp[us]  casts; lossy: clock times in Europe/Berlin would become UTC's",
        "",
        "lossy: stored values may change; alter_table asks for lossy=True, rt-frames alter for --lossy.",
        "",
        f"refused: the engine does not do it; {INSTEAD}.",
    ]


MARKED = [
    (
        pa.timestamp("us", "Asia/Tokyo"),
        pa.timestamp("us"),
        "casts; lossy: clock times in Asia/Tokyo would become UTC's",
    ),
    (pa.timestamp("us", "UTC"), pa.timestamp("us"), "casts"),
    (pa.list_(pa.float64()), pa.list_(pa.float32()), "casts; lossy: double to float keeps 7 digits"),
    (I64, TEXT, "casts; refused: int64 stays within integers"),
    (I64, pa.int8(), "casts"),
]


@pytest.mark.parametrize(("before", "after", "what"), MARKED)
def test_what_may_lose_values_or_is_refused_is_marked_by_a_word_too(before, after, what):
    made = plan(columns(at=before), columns(at=after))
    assert made._listing().rows[0][-1].startswith(what)
    assert bool(made._listing().marked) == (what != "casts") == ("<tr style" in made._repr_html_())
    word = what.partition("; ")[2].partition(":")[0]
    assert f"<p>{word}" in made._repr_html_()


def test_names_are_escaped_in_html_and_control_characters_in_text():
    odd = "<b>\x1b[31m"
    shown = plan(columns(**{odd: I32}), columns(**{odd: I64}))
    assert "<b>\x1b" not in shown._repr_html_()
    assert "&lt;b&gt;" in shown._repr_html_()
    assert "\x1b" not in str(shown)


def test_an_empty_plan_is_false_and_says_so():
    empty = plan(columns(a=I32), columns(a=I32))
    assert (bool(empty), empty.to_json()) == (False, {"alterations": []})
    assert all("nothing to alter" in shown for shown in (repr(empty), empty._repr_html_()))


def test_plans_and_alterations_are_values():
    one = plan(columns(a=I32), columns(a=I64))
    assert pickle.loads(pickle.dumps(one)) == one == AlterationPlan([Alteration("a", data_type=int)])
    assert len({Alteration("a", data_type="int64"), Alteration("a", data_type=pa.int64())}) == 1


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ([], "empty"),
        ([{"path": "a"}], "changes nothing"),
        ([{"path": "a", "type": "int64"}], "type"),
        ([{"rename": "a"}], "path"),
        ([{"path": "a", "rename": "b"}, {"path": "a", "nullable": True}], "'a'"),
        ([{"path": "a", "rename": "b.c"}], "dot"),
        ([{"path": "a", "data_type": {"type": "nope"}}], "nope"),
    ],
)
def test_alterations_that_cannot_be_sent_are_refused_before_sending(given, error):
    with pytest.raises(ValueError, match=error):
        as_plan(given)


ASKED = [
    ("n", I32, "", None),
    ("n", TEXT, "", "int64 stays within integers"),
    ("l.item.x", I32, "large_list", "nothing inside a large_list is cast"),
    ("a`b", I32, "", "cannot address a name with a backtick"),
]


@pytest.mark.parametrize(("path", "data_type", "lists", "refused"), ASKED)
def test_an_alteration_can_be_asked_why_the_engine_refuses_it(path, data_type, lists, refused):
    assert Alteration(path, data_type=data_type, before=I64, lists=lists).refused == refused


def test_what_a_column_was_is_known_to_a_plan_and_neither_compared_nor_shown_nor_sent():
    (one,) = plan(columns(n=I64), columns(n=TEXT))
    plain = Alteration("n", data_type=TEXT)
    assert (one.before, plain.before, plain.refused) == (I64, None, None)
    assert (one, repr(one), one.to_json()) == (plain, repr(plain), plain.to_json())
    with pytest.raises(ValueError, match="before"):
        as_plan({"path": "n", "data_type": "int32", "before": "int64"})


def test_alterations_are_taken_in_every_form():
    said = {"alterations": [{"path": "a", "rename": "b"}]}
    one = Alteration("a", rename="b")
    forms = [one, [one], {"path": "a", "rename": "b"}, [{"path": "a", "rename": "b", "data_type": None}], said]
    assert [as_plan(form).to_json() for form in forms] == list(itertools.repeat(said, 5))
    assert as_plan(AlterationPlan()) == as_plan(AlterationPlan().to_json()) == AlterationPlan()


UUIDS = pa.ListArray.from_arrays([0, 1, 1], pa.array([b"0" * 16], pa.uuid()))


@pytest.mark.parametrize(
    ("extension", "storage"),
    [(pa.uuid(), pa.binary(16)), (pa.json_(), pa.string()), (UUIDS.type, pa.list_(pa.binary(16)))],
    ids=str,
)
def test_json_and_uuid_are_other_types_than_what_they_are_stored_as(extension, storage):
    for before, after in [(extension, storage), (storage, extension)]:
        with pytest.raises(AlterationError, match=r"column 'c' is .* before and .* after, which the service never"):
            rt.plan_alterations(columns(c=before), columns(c=after))
    assert not rt.plan_alterations(columns(c=extension), columns(c=extension))
    with pytest.raises(AlterationError, match="never casts"):
        rt.plan_alterations(columns(c=pa.dictionary(pa.int32(), pa.string())), columns(c=pa.json_()))


def test_of_a_stored_table_its_service_tells_only_how_such_types_are_stored(tmp_path):
    texts = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1", None]))
    table = pa.table({"j": texts, "u": pa.array([b"0" * 16, None], pa.uuid()), "l": UUIDS})
    with rt.connect(tmp_path, default=False) as client:
        made = client.create_table("t", table)
        assert not rt.plan_alterations(made, table)
        assert not rt.plan_alterations(client.table("t"), table)


def test_lists_of_structs_are_alike_whether_large_or_not():
    def lists(make, item):
        return columns(c=make(pa.struct({"x": item})))

    assert not rt.plan_alterations(lists(pa.list_, pa.int64()), lists(pa.large_list, pa.int64()))
    (change,) = rt.plan_alterations(lists(pa.list_, pa.int64()), lists(pa.large_list, pa.int32()))
    assert (change.path, change.refused, change.loss) == ("c.item.x", None, None)
    (change,) = rt.plan_alterations(columns(c=pa.list_(pa.int8())), columns(c=pa.large_list(pa.int8())))
    assert change.to_json()["data_type"]["type"] == "large_list"


def test_the_two_requests_of_a_plan_still_show_what_was_before():
    before = pl.DataFrame({"n": [1], "s": ["x"]})
    plan = rt.plan_alterations(before, before.cast({"n": pl.Int8}), rename={}, nullable={"s": False})
    casts, others = plan.requests()
    assert re.search(r"^n +int64 +int8 +casts$", repr(casts), re.MULTILINE)
    assert re.search(r"^s +large_string +not null +changes nullability$", repr(others), re.MULTILINE)
