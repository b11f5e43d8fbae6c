"""The longer runs, of which the test command has a few short ones: the programs are in ``tests/longer``."""

from __future__ import annotations

import shutil
import tempfile

import pytest

from tests.longer import answers, crowd, fronts, interrupts, kills, rows, streams


def times(*counts: int) -> pytest.MarkDecorator:
    """Run so many, the last of them only where ``long`` is asked for."""
    return pytest.mark.parametrize("count", [*counts[:-1], pytest.param(counts[-1], marks=pytest.mark.long)])


@times(100, 2000)
def test_s04_mutated_streams_leave_the_service_alive_and_its_tables_readable(count):
    answers = streams.run(count, seed=1)
    assert answers[200] > count / 20
    assert answers[400] > count / 2
    assert sum(answers.values()) == count


@times(20)
def test_killed_clients_and_services_leave_no_table_in_part(count):
    killed = kills.run(count, seed=1)
    assert killed["client"] > 0
    assert killed["service"] > 0
    assert killed["client"] + killed["service"] == count


@times(200)
def test_a_table_that_is_replaced_is_the_old_one_or_the_new_one_whoever_is_killed(count):
    killed = kills.run_replacing(count, seed=1)
    assert killed["client"] + killed["service"] >= count
    assert killed["acknowledged"] > 0
    assert killed["reads"] > 0


@times(50, 1000)
def test_mutated_answers_end_in_a_value_or_an_error_of_ours(count):
    assert sum(answers.run(count, seed=1).values()) == count * 6 // 5


@times(6, 300)
def test_appends_and_reads_are_whole_or_an_error_whatever_fails_at_any_step(count):
    assert sum(rows.run(count, seed=1).values()) == count


@times(50)
def test_a_table_is_written_once_or_not_at_all_by_workers_that_are_killed(count):
    cluster = pytest.importorskip("tests.longer.cluster", reason="it takes Dask")
    assert sum(cluster.run(count, seed=1).values()) == count


@pytest.mark.parametrize("gigabytes", [pytest.param(many, marks=pytest.mark.long) for many in (2, 10)])
def test_what_workers_write_does_not_come_through_the_client(gigabytes):
    cluster = pytest.importorskip("tests.longer.cluster", reason="it takes Dask")
    if shutil.disk_usage(tempfile.gettempdir()).free < 2e9 * gigabytes:
        pytest.skip("the disk is too full for it")
    _, peak, sent = cluster.measure(gigabytes)
    assert peak < 300e6
    assert sent < 1e6


@times(20)
def test_sixteen_clients_at_once_disturb_nobody(count):
    assert crowd.run(16, seconds=count) >= 16


@times(100)
def test_F45_an_interrupt_at_any_moment_comes_at_once_and_leaves_nothing_behind(count):
    counted = interrupts.run(count, seed=1)
    assert sum(counted.values()) - counted["latest"] == count
    assert any(what.endswith("interrupted") for what in counted)


has_a_front = pytest.mark.skipif(
    not any(map(fronts.binary, fronts.FRONTS)), reason="neither nginx, Apache, haproxy nor squid is installed"
)


@pytest.mark.long
@has_a_front
def test_what_goes_through_nginx_apache_haproxy_and_squid_arrives_once_and_whole():
    for name, counts in fronts.run(60, seed=1).items():
        assert sum(many for what, many in counts.items() if what.endswith("created")) >= 40, name


@pytest.mark.long
@has_a_front
def test_a_name_leads_to_its_own_table_or_is_refused_whatever_decodes_its_address():
    for door, counts in fronts.run_names().items():
        assert counts["done"] >= 2, door
        assert counts["ValueError"] >= 20, door
