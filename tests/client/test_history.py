"""The versions of a table: when and how each was made, and reading one of a time."""

from __future__ import annotations

import contextlib
import datetime as dt
import pickle
import time
from zoneinfo import ZoneInfo

import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import ResponseError, ServerError, TableNotFoundError
from tests.support.faults import connected
from tests.support.hosted import Hosted
from tests.support.local import manifests

ROWS = pa.table({"id": [1, 2, 3], "s": ["x", "y", None]})
LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def table(place):
    """A table with a version of each kind, which is only read."""
    name = "versions"
    place.create(name, ROWS)
    place.append(name, ROWS.slice(0, 1))
    place.upsert(name, pa.table({"id": [3, 4], "n": [30, 40]}), add_columns=True)
    table = place.table(name)
    table.delete(pl.col("id") == 2)
    table.rename({"s": "text"})
    table.cast({"id": "int32"})
    table.set_nullable({"id": False})
    table.alter_columns(rt.AlterationPlan(dropped=["text"]))
    place.table(name, version=2).restore()
    first = ROWS.slice(0, 1)
    place.create(name, first, if_exists="replace", where=pl.col("id") == 1)
    place.create(name, first, if_exists="replace")
    return table


MADE = [
    ("replace", 1),
    ("replace where", 3),
    ("restore", 4),
    ("drop columns", 4),
    ("alter", 4),
    ("alter", 4),
    ("alter", 4),
    ("delete", 4),
    ("upsert", 5),
    ("add columns", 4),
    ("append", 4),
    ("create", 3),
]


def words_of(table):
    return [version.operation for version in table.history()]


def numbers_of(table):
    return [version.version for version in table.history()]


def test_it_lists_each_version_with_what_made_it_newest_first(place, table):
    history = table.history()
    assert [(each.operation, each.rows) for each in history] == MADE
    assert [each.version for each in history] == [*range(12, 0, -1)]
    for version, _, _, rows in history:
        assert place.table(table.name, version=version).count() == rows


def test_times_are_utc_and_those_of_the_manifests(place, table):
    history = table.history()
    stored = place.open(table.name).versions()
    # Lance itself rounds to a microsecond, now and then to another one
    for version, other in zip(reversed(history), stored, strict=True):
        off = version.time - other["timestamp"].astimezone(dt.UTC)
        assert abs(off) <= dt.timedelta(microseconds=1)
    assert {each.time.tzinfo for each in history} == {dt.UTC}
    assert dt.datetime.now(dt.UTC) - history[0].time < dt.timedelta(minutes=5)


def test_a_limit_gives_the_newest(place, table):
    assert table.history(3) == table.history()[:3]
    assert table.history(limit=10**9) == table.history()


@pytest.mark.parametrize("limit", [0, -1, 1.5, "3", None, True])
def test_what_is_no_limit_is_refused(table, limit):
    with pytest.raises(ValueError, match="limit: expected a whole number from 1"):
        table.history(limit)


def test_a_handle_of_a_version_lists_them_all(place, table):
    old = place.table(table.name, version=2)
    assert old.history() == table.history()


def test_it_is_shown_as_a_table_and_pickled(place, table):
    history = table.history()
    lines = repr(history).splitlines()
    assert lines[0] == "12 versions, newest first"
    assert lines[2].split("  ")[:2] == ["version", "time (UTC)"]
    assert lines[4].split()[0] == "12"
    assert lines[4].split()[3:] == ["replace", "1"]
    assert "<code>drop columns</code>" in history._repr_html_()
    assert pickle.loads(pickle.dumps(history)) == history
    assert type(history[:2]) is tuple


def test_a_table_that_is_not_there_is_told_by_its_name(place, name):
    with pytest.raises(TableNotFoundError, match=f"the versions of table '{name}'"):
        place.table(name).history()
    with pytest.raises(TableNotFoundError, match=f"the versions of table '{name}'"):
        place.table(name, version=dt.datetime.now(dt.UTC))


def test_numbers_begin_again_after_a_drop(place, name):
    place.create(name, ROWS)
    table = place.append(name, ROWS)
    table.drop()
    place.create(name, ROWS)
    assert words_of(table) == ["create"]
    assert numbers_of(table) == [1]


# What others did, and what is gone


def test_versions_that_were_removed_are_not_listed(place, name):
    place.create(name, ROWS)
    for _ in range(3):
        place.append(name, ROWS)
    place.table(name).rename({"s": "text"})
    place.open(name).cleanup_old_versions(dt.timedelta(0), delete_unverified=True)
    place.append(name, ROWS.rename_columns({"s": "text"}))
    table = place.table(name)
    assert numbers_of(table) == [6, 5]
    # the columns before are gone
    assert words_of(table) == ["append", "alter"]


def test_a_compaction_is_left_out(place, name):
    place.create(name, ROWS)
    place.append(name, ROWS)
    place.open(name).optimize.compact_files()
    assert place.open(name).version == 4
    table = place.table(name)
    assert numbers_of(table) == [2, 1]
    place.append(name, ROWS)
    place.open(name).optimize.compact_files()
    assert numbers_of(table) == [5, 2, 1]
    assert numbers_of(table)[:2] == [each.version for each in table.history(2)]


def test_a_compaction_is_listed_if_what_it_compacted_is_gone(place, name):
    place.create(name, ROWS)
    place.append(name, ROWS)
    stored = place.open(name)
    stored.optimize.compact_files()
    stored.cleanup_old_versions(dt.timedelta(0), delete_unverified=True)
    table = place.table(name)
    assert [(each.version, each.rows) for each in table.history()] == [(4, 6)]
    assert words_of(table) == ["compact"]
    place.append(name, ROWS)
    assert words_of(table) == ["append", "compact"]


def test_what_other_programs_did_has_the_engine_s_word(place, name):
    stored = lance.write_dataset(ROWS, str(place.root / f"{name}.lance"))
    stored.create_scalar_index("id", "BTREE")
    stored.update({"id": "id + 1"}, where="id = 3")
    stored.update_config({"a": "b"})
    stored.add_columns({"twice": "id * 2"})
    stored.drop_columns(["s"])
    table = place.table(name)
    words = ["drop columns", "add columns", "update config", "upsert"]
    assert words_of(table) == [*words, "create index", "create"]
    assert [each.rows for each in table.history()] == [3] * 6


def test_deleted_and_new_rows_in_one_commit_are_a_replacement(place, name):
    place.create(name, ROWS)
    stored = place.open(name)
    new = lance.fragment.write_fragments(ROWS.slice(0, 1), stored, mode="append")
    update = lance.LanceOperation.Update(removed_fragment_ids=[0], new_fragments=new)
    lance.LanceDataset.commit(stored, update, read_version=1)
    (version, _) = place.table(name).history()
    assert version.operation == "replace where"
    assert version.rows == 1


def test_a_version_that_cannot_be_read_is_left_out(place, name):
    for _ in range(3):
        place.append(name, ROWS)
    manifests(place.root, name)[2].write_bytes(b"damaged")
    assert numbers_of(place.table(name)) == [3, 1]


def test_a_version_that_the_disk_does_not_give_is_not_left_out(place, name):
    for _ in range(3):
        place.append(name, ROWS)
    path = manifests(place.root, name)[2]
    path.unlink()
    # which the file system follows in vain
    path.symlink_to(path)
    with pytest.raises(ServerError, match="the file system failed"):
        place.client.table(name).history()


# Reading the table as it was at a time


def test_each_time_of_the_history_reads_its_version(place, table):
    for version in table.history():
        old = place.table(table.name, version=version.time)
        assert old.version == version.version
        assert old.count() == version.rows


def test_a_time_between_two_versions_reads_the_older_one(place, table):
    newest, older, *_ = table.history()
    moment = newest.time - dt.timedelta(microseconds=1)
    assert place.table(table.name, version=moment).version == older.version
    now = dt.datetime.now(dt.UTC)
    assert place.table(table.name, version=now).version == newest.version


ZONES = {
    "New York": lambda time: time.astimezone(ZoneInfo("America/New_York")),
    "pandas": pd.Timestamp,
    "nanoseconds": lambda time: pd.Timestamp(time) + pd.Timedelta(1, "ns"),
}


@pytest.mark.parametrize("convert", ZONES.values(), ids=ZONES)
def test_a_time_may_have_any_zone(place, table, convert):
    version = table.history()[4]
    old = rt.table(table.name, version=convert(version.time), client=place.client)
    assert old.version == version.version


@pytest.fixture
def in_zone(monkeypatch):
    """Set the zone of the machine."""

    def in_zone(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield in_zone
    monkeypatch.undo()
    time.tzset()


def test_the_zone_of_the_machine_does_not_matter(place, name, in_zone):
    in_zone("America/St_Johns")
    (version,) = place.create(name, ROWS).history()
    assert place.table(name, version=version.time.astimezone()).version == 1
    assert abs(version.time - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=5)


def test_a_time_at_which_clocks_go_back_is_exact(place, name, in_zone):
    now = dt.datetime.now(dt.UTC)
    # half an hour ago it was an hour later
    back = now + dt.timedelta(minutes=30)
    day = back.timetuple().tm_yday - 1
    in_zone(f"STD0DST,{(day + 100) % 365}/0,{day}/{back:%H:%M:%S}")
    (version,) = place.create(name, ROWS).history()
    (of_lance,) = place.open(name).versions()
    assert abs(version.time - now) < dt.timedelta(minutes=5)
    # while this is so, Lance's own time does not tell which of the two hours it is
    assert of_lance["timestamp"].fold == 0


def test_a_time_behind_a_hundred_versions_is_found(place, name):
    place.create(name, ROWS)
    created = dt.datetime.now(dt.UTC)
    path = str(place.root / f"{name}.lance")
    for _ in range(120):
        lance.write_dataset(ROWS, path, mode="append")
    assert len(place.table(name).history()) == 100
    assert place.table(name, version=created).version == 1


def test_a_time_before_the_oldest_version_names_that(place, table):
    oldest = table.history()[-1]
    cause = f"the oldest, 1, is of {oldest.time}; pass a later time".replace("+", r"\+")
    with pytest.raises(TableNotFoundError, match=cause):
        place.table(table.name, version=LONG_AGO)


NO_ZONE = [dt.datetime(2026, 1, 1), dt.date(2026, 1, 1), pd.Timestamp(0), pd.NaT]


@pytest.mark.parametrize("moment", NO_ZONE, ids=str)
def test_a_time_without_a_zone_is_refused(place, table, moment):
    with pytest.raises(ValueError, match=r"no datetime with a zone; .* tzinfo=UTC"):
        place.table(table.name, version=moment)


# Other servers

FORMS = {
    "Z": {"timestamp": "2026-03-01T10:00:00Z"},
    "nanoseconds": {"timestamp": "2026-03-01T10:00:00.000000999Z"},
    "an offset": {"timestamp": "2026-03-01T11:00:00+01:00"},
    "no zone": {"timestamp": "2026-03-01T10:00:00"},
    "milliseconds": {"timestamp_millis": 1772359200000},
    "no metadata": {"timestamp": "2026-03-01T10:00:00Z", "metadata": None},
    "other metadata": {"timestamp": "2026-03-01T10:00Z", "metadata": {"rows": "x"}},
}
AT = dt.datetime(2026, 3, 1, 10, tzinfo=dt.UTC)


@pytest.fixture
def other(server):
    """A client of a scripted server."""
    with connected(server, dialect="lancedb", retries=0) as client:
        yield client


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_what_other_servers_report_is_listed(server, other, form):
    server.answering((200, {"versions": [{"version": 7, **form}]}))
    assert other.table("t").history() == ((7, AT, None, None),)
    assert server.posts[0].path == "/v1/table/t/version/list/"
    assert server.posts[0].body == b""


# the hour of each version, the oldest first; an hour and the version at that time
CLOCKS = {
    "right": ([1, 3, 5], {1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 9: 3}),
    "behind once": ([1, 3, -999, 5], {-999: 3, 0: None, 1: 1, 2: 1, 3: 2, 5: 4}),
    "behind at last": ([1, 3, -999], {1: 1, 2: 1, 3: 2, 9: 3}),
    "ahead once": ([1, 3, 99_999, 5, 7], {1: 1, 2: 1, 3: 2, 5: 4, 6: 4, 7: 5}),
    "ahead at last": ([1, 3, 99_999], {1: 1, 2: 1, 3: 2, 9: 3}),
}


@pytest.mark.parametrize(("hours", "expected"), CLOCKS.values(), ids=CLOCKS)
def test_a_clock_that_was_wrong_for_one_version_hides_no_other(
    server, other, hours, expected
):
    def at(hour):
        return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=hour)

    listed = [
        {"version": number, "timestamp": at(hour).isoformat()}
        for number, hour in enumerate(hours, 1)
    ]
    found = {}
    for hour in expected:
        server.answering((200, {"versions": listed}))
        found[hour] = None
        with contextlib.suppress(TableNotFoundError):
            found[hour] = other.table("t", version=at(hour)).version
    assert found == expected


def test_the_summary_of_a_manifest_tells_the_rows(server, other):
    metadata = {"total_rows": "1234", "total_fragments": "2"}
    version = {"version": 7, "timestamp": "2026-03-01T10:00:00Z", "metadata": metadata}
    server.answering((200, {"versions": [version]}))
    (found,) = other.table("t").history()
    assert found.rows == 1234
    assert repr(other.table("t").history()).splitlines()[2:] == [
        "version  time (UTC)           rows",
        "-------  -------------------  -----",
        "7        2026-03-01 10:00:00  1,234",
    ]


def listed(*numbers, **more):
    versions = [
        {"version": number, "timestamp": f"2026-03-01T10:00:0{number}Z"}
        for number in numbers
    ]
    return 200, {"versions": versions, **more}


def test_pages_in_any_order_are_joined_newest_first(server, other):
    server.answering(listed(2, 1, page_token="a/b"), listed(4, 3))
    assert numbers_of(other.table("t")) == [4, 3, 2, 1]
    assert server.posts[1].path == "/v1/table/t/version/list/?page_token=a%2Fb"
    server.answering(listed(1, 2, 3))
    assert [each.version for each in other.table("t").history(2)] == [3, 2]


def test_a_time_is_looked_for_among_all_versions(server, other):
    server.answering(listed(1, 2, 4, 5))
    moment = AT + dt.timedelta(seconds=3)
    assert other.table("t", version=moment).version == 2
    server.answering(listed())
    with pytest.raises(TableNotFoundError, match="or before; pass a later time"):
        other.table("t", version=moment)


UNREADABLE = {
    "no list": {"tables": []},
    "a list": [],
    "no number": {"versions": [{"timestamp": "2026-03-01T10:00:00Z"}]},
    "a bool": {"versions": [{"version": True, "timestamp": "2026-03-01T10:00:00Z"}]},
    "no time": {"versions": [{"version": 1}]},
    "another time": {"versions": [{"version": 1, "timestamp": 5}]},
    "a far time": {"versions": [{"version": 1, "timestamp_millis": 1e300}]},
    "a text": {"versions": ["1"]},
    "a token": {"versions": [], "page_token": 5},
}


@pytest.mark.parametrize("answer", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_list_of_versions_is_an_error_that_says_so(server, other, answer):
    server.answering((200, answer))
    with pytest.raises(ResponseError, match="could not list the versions of table 't'"):
        other.table("t").history()


def test_a_page_that_comes_again_is_an_error(server, other):
    server.answering(listed(1, page_token="a"))
    with pytest.raises(ResponseError, match="same page_token twice"):
        other.table("t").history()


def test_the_documented_service_has_no_versions(server, remote):
    message = 'cannot list the versions of a table with dialect="documented"'
    with pytest.raises(ValueError, match=message):
        remote.table("t").history()
    with pytest.raises(ValueError, match=r"cannot .* with dialect=\"documented\""):
        remote.table("t", version=AT)
    assert server.requests == []


# The first things that people type


def test_columns_and_head_are_those_of_the_table(place, name):
    table = place.create(name, pl.DataFrame({"id": range(9), "s": "x"}))
    table.rename({"s": "text"})
    assert table.columns == ["id", "text"]
    assert place.table(name, version=1).columns == ["id", "s"]
    assert table.head().equals(table.to_polars(limit=5))
    assert table.head(2)["id"].to_list() == [0, 1]
    assert table.head(n=0).columns == ["id", "text"]
    with pytest.raises(ValueError, match="n: expected a whole number from 0"):
        table.head(-1)


def test_columns_that_a_service_does_not_describe_are_refused(server, other):
    server.answering((200, {"version": 1}))
    with pytest.raises(ValueError, match=r"does not describe .* \.head\(1\)"):
        _ = other.table("t").columns


def test_columns_that_a_dialect_cannot_describe_are_refused(server, remote):
    with pytest.raises(ValueError, match="cannot describe a table with dialect="):
        _ = remote.table("t").columns
    assert server.requests == []


def test_a_time_before_all_versions_asks_for_the_list_once():
    hosted = Hosted()
    with hosted.connect() as client:
        client.create_table("t", pa.table({"n": [1]}))
        before = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
        with pytest.raises(TableNotFoundError, match="no version of"):
            client.table("t", version=before)
    assert hosted.steps.count("list_versions") == 1
