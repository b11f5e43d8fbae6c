"""What tables, clients and plans look like in a terminal and in a notebook."""

from __future__ import annotations

import html.parser
import re
import time

import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from tests.support.faults import connected
from tests.support.hosted import Hosted, Table, serving
from tests.support.servers import KEY

HOSTILE = "<script>alert(1)</script>"


class Seen(html.parser.HTMLParser):
    """The tags, attributes and words of a piece of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: set[str] = set()
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data + "\n"


def seen_in(shown: object) -> Seen:
    seen = Seen(shown._repr_html_())
    assert seen.open == []
    assert set(seen.tags) <= {
        "div",
        "p",
        "b",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "code",
    }
    assert seen.attributes <= {"scope", "style"}
    assert KEY not in shown._repr_html_()
    return seen


def test_a_table_shows_what_is_known_of_it(client, name):
    frame = pl.DataFrame({"n": [1, 2], HOSTILE: ["x", None]})
    table, skipped, handle = (
        rt.to_table(frame, name),
        rt.to_table(frame, name, if_exists="skip"),
        client.table("sales"),
    )
    for fact in (name, "2 columns", "2 rows", "version 1", client.url):
        assert fact in repr(table)
    for fact in (
        name,
        "2 columns, 2 rows",
        "int64",
        "large_string",
        HOSTILE,
        client.url,
        table.request_id,
    ):
        assert fact in seen_in(table).words
    assert "already existed" in repr(skipped)
    for shown in (repr(handle), seen_in(handle).words):
        assert "sales" in shown
        assert "column" not in shown


def test_a_handle_shows_its_columns_where_the_service_can_tell_them(service, name):
    with rt.connect(
        service.url, api_key=KEY, dialect="lancedb", default=False
    ) as client:
        client.create_table(name, pl.DataFrame({"n": [1], "word": ["x"]}))
        assert {"n", "int64", "word", "large_string"} <= set(
            seen_in(client.table(name)).words.split()
        )
        assert "2 columns" not in repr(client.table(name))


def test_a_handle_shows_the_version_and_rows_of_now(service, name):
    with rt.connect(
        service.url, api_key=KEY, dialect="lancedb", default=False
    ) as client:
        made = client.create_table(name, pl.DataFrame({"n": [1, 2, 3]}))
        handle = client.table(name)
        assert f"{name}: 1 column, 3 rows, version 1\n" in seen_in(handle).words
        handle.delete("n = 1")
        handle.rename({"n": "m"})
        shown = seen_in(handle).words
        assert f"{name}: 1 column, 2 rows, version 3\n" in shown
        assert "m\n" in shown
        old = client.table(name, version=1)
        assert f"{name}: 1 column, 3 rows, version 1\n" in seen_in(old).words
        # the result of a write shows what it wrote
        assert "3 rows" in seen_in(made).words
        assert "version 1" in seen_in(made).words
        assert repr(handle) == f"RemoteTable({name!r}, 1 column, at {client.url})"


def test_a_handle_shows_that_its_table_does_not_exist(service, name):
    with rt.connect(
        service.url, api_key=KEY, dialect="lancedb", default=False
    ) as client:
        handle = client.table(name)
        assert f"{name}: does not exist\n" in seen_in(handle).words
        client.create_table(name, pl.DataFrame({"n": [1]}))
        old = client.table(name, version=7)
        assert f"{name}: version 7, does not exist\n" in seen_in(old).words
        assert "1 row, version 1" in seen_in(handle).words
        handle.drop()
        assert f"{name}: does not exist\n" in seen_in(handle).words


@pytest.mark.parametrize("slow", ["describe", "count_rows"])
def test_a_display_waits_for_a_server_no_longer_than_its_timeout(slow):
    hosted = Hosted(fault=lambda _, step: "deaf" if step == slow else "")
    hosted.tables["t"] = Table([[pa.table({"n": [1]})]])
    options = {"dialect": "lancedb", "timeout": 60}
    with serving(hosted) as server, connected(server, **options) as client:
        handle = client.table("t")
        start = time.monotonic()
        shown = seen_in(handle).words
        assert time.monotonic() - start < 20
        assert "does not exist" not in shown
        assert ("version 1" in shown) == (slow == "count_rows")


def test_a_client_shows_where_it_goes(tmp_path):
    url = "https://words-x1.us-east-1.example.com"
    assert repr(rt.connect(url, api_key=KEY, default=False)) == f"Client({url!r})"
    with rt.connect(tmp_path / "tables", default=False) as client:
        for shown in (
            repr(client),
            repr(client.table("sales")),
            seen_in(client.table("sales")).words,
        ):
            assert str(tmp_path / "tables") in shown


def test_a_plan_has_the_new_name_in_a_column_of_its_own_and_marks_what_may_lose_values():
    before = pl.DataFrame({"a": [1], "b": [1], "c": [1.0], "d": [1.0]})
    after = before.rename({"a": "x"}).cast(
        {"x": pl.Int8, "c": pl.String, "d": pl.Float32}
    )
    plan = rt.plan_alterations(before, after, rename={"a": "x"}, nullable={"b": False})
    head, _, *rows = repr(plan).split("\n")[2:8]
    assert head.split() == ["path", "new", "name", "before", "after", "changes"]
    assert [row.split()[:5] for row in rows] == [
        ["a", "x", "int64", "int8", "rename,"],
        ["b", "int64", "not", "null", "nullable"],
        ["c", "double", "large_string", "cast;", "refused:"],
        ["d", "double", "float", "cast;", "lossy:"],
    ]
    assert {
        row.index(word)
        for row, word in zip(rows, ["int8", "not", "large_", "float"], strict=True)
    } == {head.index("after")}
    marked = re.findall(
        r"<tr style=[^>]*><td [^>]*><code>(\w+)</code>", plan._repr_html_()
    )
    assert marked == ["c", "d"]
    assert re.findall(r"<p>(refused|lossy): ", plan._repr_html_()) == [
        "lossy",
        "refused",
    ]
    widened = rt.plan_alterations({"a": "int8"}, {"a": "int64"})
    assert "new name" not in repr(widened) + widened._repr_html_()
    assert "<tr style" not in widened._repr_html_()


def test_a_table_says_only_of_columns_that_forbid_nulls_that_they_do():
    schema = pa.schema([pa.field("a", pa.int8(), nullable=False), ("b", pa.int8())])
    with rt.connect("http://127.0.0.1:9", api_key=KEY) as client:
        shown = rt.RemoteTable("t", client, schema)
        assert seen_in(shown).words.split("\n")[1:-2] == [
            "column",
            "type",
            "nullable",
            "a",
            "int8",
            "no",
            "b",
            "int8",
        ]
        assert (
            "nullable"
            not in seen_in(
                rt.RemoteTable("t", client, pa.schema([("b", pa.int8())]))
            ).words
        )


def plan_of(names: list[str]) -> rt.AlterationPlan:
    return rt.plan_alterations(
        dict.fromkeys(names, "int64"), dict.fromkeys(names, "int16")
    )


def test_a_long_plan_shows_its_first_rows_and_how_many_there_are_more():
    plan = plan_of([f"number {n}" for n in range(1234)])
    assert repr(plan).split("\n")[-2:] == [
        "number 59  int64   int16  cast",
        "… and 1,174 more",
    ]
    assert seen_in(plan).words.split("\n")[-4:-1] == [
        "int16",
        "cast",
        "… and 1,174 more",
    ]


def test_a_plan_is_as_wide_as_the_terminal(monkeypatch):
    plan = plan_of(["x" * 100, "y" * 50])
    monkeypatch.setenv("COLUMNS", "40")
    assert max(len(line) for line in repr(plan).split("\n")) == 40
    monkeypatch.setenv("COLUMNS", "10")
    # a column keeps 12 characters
    assert repr(plan).split("\n")[-1].startswith("yyyyyyyyyyy…  int64")


def test_names_cannot_draw_on_the_terminal_or_the_page():
    plan = plan_of([HOSTILE, "a\u202eb", "東京"])
    for shown in (repr(plan), seen_in(plan).words):
        assert [
            name for name in (HOSTILE, r"a\u202eb", "東京") if name not in shown
        ] == []
