"""What tables, clients and plans look like in a terminal and in a notebook."""

from __future__ import annotations

import html.parser
import pydoc
import re

import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames._display import Listing, as_html, as_text
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
    assert set(seen.tags) <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "code"}
    assert seen.attributes <= {"style"}
    assert KEY not in shown._repr_html_()
    return seen


def test_a_table_shows_what_is_known_of_it(client, name):
    table = rt.to_table(pl.DataFrame({"n": [1, 2], HOSTILE: ["x", None]}), name)
    assert re.fullmatch(
        rf"RemoteTable\('{name}', 2 columns, 2 rows, [\d.]+ k?B sent, version 1, at {client.url}\)", repr(table)
    )
    seen = seen_in(table)
    for word in (f"Remote table {name}: 2 columns, 2 rows", "int64", "large_string", HOSTILE, client.url):
        assert word in seen.words
    assert table.request_id in seen.words


def test_a_table_of_which_nothing_is_known_shows_its_name(client):
    assert repr(client.table("sales")) == f"RemoteTable('sales', at {client.url})"
    assert seen_in(client.table("sales")).words.startswith("Remote table sales\n")


def test_a_skipped_table_says_that_it_was_there(client, name):
    frame = pl.DataFrame({"n": [1]})
    rt.to_table(frame, name)
    assert (
        repr(rt.to_table(frame, name, if_exists="skip")) == f"RemoteTable({name!r}, was there already, at {client.url})"
    )


def test_a_client_shows_where_it_goes():
    with rt.connect("https://words-x1.us-east-1.example.com", api_key=KEY, default=False) as client:
        assert repr(client) == "Client('https://words-x1.us-east-1.example.com')"


def test_a_folder_is_shown_as_the_folder_that_it_is(tmp_path):
    folder = tmp_path / "tables"
    client = rt.connect(folder, default=False)
    assert repr(client) == f"Client({str(folder)!r}, the embedded service, which needs no key)"
    assert str(folder) in repr(client.table("sales"))
    assert str(folder) in seen_in(client.table("sales")).words


def test_a_plan_shows_hostile_names_as_they_are():
    before = pl.DataFrame({HOSTILE: [1]})
    plan = rt.plan_alterations(before, before.cast(pl.Int16))
    assert HOSTILE in repr(plan)
    assert {HOSTILE, "int64", "int16", "casts"} <= set(seen_in(plan).words.split("\n"))


def test_a_plan_has_the_new_name_in_a_column_of_its_own_and_marks_what_may_lose_values():
    before = pl.DataFrame({"a": [1], "b": [1], "c": [1.0]})
    after = before.rename({"a": "x"}).cast({"x": pl.Int8, "c": pl.String})
    plan = rt.plan_alterations(before, after, rename={"a": "x"}, nullable={"b": False})
    head, _, *rows = repr(plan).split("\n")[2:7]
    assert head.split() == ["path", "new", "name", "before", "after", "what"]
    assert [row.split()[:5] for row in rows] == [
        ["a", "x", "int64", "int8", "renames,"],
        ["b", "int64", "not", "null", "changes"],
        ["c", "double", "large_string", "casts;", "refused:"],
    ]
    marked = re.findall(r"<tr style=[^>]*><td [^>]*><code>(\w+)</code>", plan._repr_html_())
    assert marked == ["c"]
    widened = rt.plan_alterations({"a": "int8"}, {"a": "int64"})
    assert "new name" not in repr(widened) + widened._repr_html_()
    assert "<tr style" not in widened._repr_html_()


def test_a_table_says_only_of_columns_that_forbid_nulls_that_they_do():
    schema = pa.schema([pa.field("a", pa.int8(), nullable=False), ("b", pa.int8())])
    with rt.connect("http://127.0.0.1:9", api_key=KEY) as client:
        shown = rt.RemoteTable("t", client, schema)
        assert seen_in(shown).words.split("\n")[1:-2] == ["column", "type", "nullable", "a", "int8", "no", "b", "int8"]
        assert "nullable" not in seen_in(rt.RemoteTable("t", client, pa.schema([("b", pa.int8())]))).words


def test_a_long_listing_shows_its_first_rows_and_how_many_there_are_more():
    listing = Listing("Numbers", ("n", "name"), [(str(i), f"number {i}") for i in range(1234)], ["A note."])
    lines = as_text(listing).split("\n")
    assert lines[:5] == ["Numbers", "", "n   name", "--  ---------", "0   number 0"]
    assert lines[-4:] == ["59  number 59", "… and 1,174 more", "", "A note."]
    words = Seen(as_html(listing)).words.split("\n")
    assert words[-4:] == ["number 59", "… and 1,174 more", "A note.", ""]


def test_a_listing_is_as_wide_as_the_terminal(monkeypatch):
    listing = Listing("Wide", ("a", "b", "c"), [("x" * 100, "y" * 50, "short")])
    monkeypatch.setenv("COLUMNS", "40")
    assert {len(line) for line in as_text(listing).split("\n")[3:]} == {40}
    monkeypatch.setenv("COLUMNS", "10")
    assert as_text(listing).endswith("xxxxxxxxxxx…  yyyyyyyyyyy…  short")  # a column keeps 12 characters


def test_names_cannot_draw_on_the_terminal():
    before = pl.DataFrame({"a\u202eb": [1], "東京": [1]})
    plan = rt.plan_alterations(before, before.cast(pl.Int16))
    assert r"a\u202eb" in repr(plan)
    assert "東京" in repr(plan)
    assert "\n" not in as_text(Listing("", ("a",), [("x\n\x1b[2Jy",)])).rpartition("--\n")[2]


@pytest.mark.parametrize("name", sorted(set(rt.__all__) - {"__version__", "errors"}))
def test_help_of_every_public_name_says_what_it_does(name):
    text = pydoc.plain(pydoc.render_doc(getattr(rt, name)))
    assert len(text.splitlines()) > 8
    assert ">>> " in text
