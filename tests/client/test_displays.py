"""What tables, clients and plans look like in a terminal and in a notebook."""

from __future__ import annotations

import html.parser
import re
import time
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pyarrow as pa

import rt_frames as rt
from tests.support.hosted import Hosted, Table
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


SAFE = ["div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "code"]


def seen_in(shown: object) -> Seen:
    seen = Seen(shown._repr_html_())
    assert seen.open == []
    assert set(seen.tags) <= set(SAFE)
    assert seen.attributes <= {"scope", "style"}
    assert KEY not in shown._repr_html_()
    return seen


def test_a_table_shows_what_is_known_of_it(client, name):
    frame = pl.DataFrame({"n": [1, 2], HOSTILE: ["x", None]})
    table = rt.to_table(frame, name)
    for fact in (name, "2 columns", "2 rows", "version 1", client.url):
        assert fact in repr(table)
    words = seen_in(table).words
    for fact in (name, "2 columns, 2 rows", "int64", "large_string", HOSTILE):
        assert fact in words
    assert client.url in words
    assert table.request_id in words


def test_a_table_that_was_skipped_shows_that_it_existed(client, name):
    frame = pl.DataFrame({"n": [1, 2]})
    rt.to_table(frame, name)
    skipped = rt.to_table(frame, name, if_exists="skip")
    assert "already existed" in repr(skipped)


def test_a_handle_shows_no_columns_where_the_service_cannot_tell_them(client):
    handle = client.table("sales")
    for shown in (repr(handle), seen_in(handle).words):
        assert "sales" in shown
        assert "column" not in shown


def test_a_handle_shows_its_columns_where_the_service_can_tell_them(place, name):
    place.create(name, pl.DataFrame({"n": [1], "word": ["x"]}))
    handle = place.table(name)
    assert "2 columns" not in repr(handle)
    assert {"n", "int64", "word", "large_string"} <= {*seen_in(handle).words.split()}


def test_a_handle_shows_the_version_and_rows_of_now(place, name):
    made = place.create(name, pl.DataFrame({"n": [1, 2, 3]}))
    handle = place.table(name)
    assert f"{name}: 1 column, 3 rows, version 1\n" in seen_in(handle).words
    handle.delete(pl.col("n") == 1)
    handle.rename({"n": "m"})
    shown = seen_in(handle).words
    assert f"{name}: 1 column, 2 rows, version 3\n" in shown
    assert "m\n" in shown
    old = place.table(name, version=1)
    assert f"{name}: 1 column, 3 rows, version 1\n" in seen_in(old).words
    # the result of a write shows what it wrote
    assert "3 rows" in seen_in(made).words
    assert "version 1" in seen_in(made).words
    assert repr(handle) == f"RemoteTable({name!r}, 1 column, at {place.root})"


def test_a_handle_shows_that_its_table_does_not_exist(place, name):
    handle = place.table(name)
    assert f"{name}: does not exist\n" in seen_in(handle).words
    place.create(name, pl.DataFrame({"n": [1]}))
    old = place.table(name, version=7)
    assert f"{name}: version 7, does not exist\n" in seen_in(old).words
    assert "1 row, version 1" in seen_in(handle).words
    handle.drop()
    assert f"{name}: does not exist\n" in seen_in(handle).words


def shown_by_a_server_that_is_deaf_to(step: str) -> str:
    hosted = Hosted(tables={"t": Table([[pa.table({"n": [1]})]])})
    hosted.meet(step, "deaf")
    with hosted.connect(timeout=60) as client:
        return seen_in(client.table("t")).words


def test_a_display_waits_for_a_server_no_longer_than_its_timeout():
    start = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        steps = ["describe", "count_rows"]
        nothing, some = pool.map(shown_by_a_server_that_is_deaf_to, steps)
    assert time.monotonic() - start < 20
    assert "does not exist" not in nothing
    assert "version 1" not in nothing
    assert "version 1" in some


def test_a_client_shows_where_it_goes(tmp_path):
    url = "https://words-x1.us-east-1.example.com"
    folder = str(tmp_path / "tables")
    assert repr(rt.connect(url, api_key=KEY, default=False)) == f"Client({url!r})"
    with rt.connect(folder, default=False) as client:
        handle = client.table("sales")
        assert folder in repr(client)
        assert folder in repr(handle)
        assert folder in seen_in(handle).words


BEFORE = pl.DataFrame({"a": [1], "b": [1], "c": [1.0], "d": [1.0]})
CASTS = {"x": pl.Int8, "c": pl.String, "d": pl.Float32}
MARKED = r"<tr style=[^>]*><td [^>]*><code>(\w+)</code>"


def test_a_plan_has_a_column_of_new_names_and_marks_what_may_lose_values():
    rename = {"a": "x"}
    after = BEFORE.rename(rename).cast(CASTS)
    plan = rt.plan_alterations(BEFORE, after, rename=rename, nullable={"b": False})
    head, _, a, b, c, d = repr(plan).split("\n")[2:8]
    assert head.split() == ["path", "new", "name", "before", "after", "changes"]
    assert a.split()[:5] == ["a", "x", "int64", "int8", "rename,"]
    assert b.split()[:5] == ["b", "int64", "not", "null", "nullable"]
    assert c.split()[:5] == ["c", "double", "large_string", "cast;", "refused:"]
    assert d.split()[:5] == ["d", "double", "float", "cast;", "lossy:"]
    place = head.index("after")
    assert a[place:].startswith("int8")
    assert b[place:].startswith("not")
    assert c[place:].startswith("large_")
    assert d[place:].startswith("float")
    html = plan._repr_html_()
    assert re.findall(MARKED, html) == ["c", "d"]
    assert re.findall(r"<p>(refused|lossy): ", html) == ["lossy", "refused"]


def test_a_plan_that_renames_nothing_and_loses_nothing_shows_neither():
    plan = rt.plan_alterations({"a": "int8"}, {"a": "int64"})
    assert "new name" not in repr(plan)
    assert "new name" not in plan._repr_html_()
    assert "<tr style" not in plan._repr_html_()


def test_a_table_says_only_of_columns_that_forbid_nulls_that_they_do():
    b = pa.field("b", pa.int8())
    a = pa.field("a", pa.int8(), nullable=False)
    client = rt.connect("http://127.0.0.1:9", api_key=KEY, default=False)
    words = seen_in(rt.RemoteTable("t", client, pa.schema([a, b]))).words.split("\n")
    assert words[1:4] == ["column", "type", "nullable"]
    assert words[4:9] == ["a", "int8", "no", "b", "int8"]
    words = seen_in(rt.RemoteTable("t", client, pa.schema([b]))).words
    assert "nullable" not in words


def plan_of(names: list[str]) -> rt.AlterationPlan:
    before = dict.fromkeys(names, "int64")
    return rt.plan_alterations(before, dict.fromkeys(names, "int16"))


def test_a_long_plan_shows_its_first_rows_and_how_many_there_are_more():
    plan = plan_of([f"number {n}" for n in range(1234)])
    lines = repr(plan).split("\n")
    words = seen_in(plan).words.split("\n")
    assert lines[-2] == "number 59  int64   int16  cast"
    assert lines[-1] == "… and 1,174 more"
    assert words[-4:-1] == ["int16", "cast", "… and 1,174 more"]


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
        assert HOSTILE in shown
        assert r"a\u202eb" in shown
        assert "東京" in shown
