"""Short runs of the programs in ``tests/longer``."""

from __future__ import annotations

import shutil
import tempfile

import pytest

from tests.longer import (
    bounds,
    cluster,
    fronts,
    interrupts,
    kills,
    late,
    model,
    mutations,
    nightly,
    once,
    writers,
)


def times(*counts: int) -> pytest.MarkDecorator:
    """Run so many. The last of them runs only with the marker ``long``."""
    return pytest.mark.parametrize(
        "count", [*counts[:-1], pytest.param(counts[-1], marks=pytest.mark.long)]
    )


@times(60, 2000)
def test_s04_mutated_streams_leave_the_service_alive_and_its_tables_readable(count):
    answers = mutations.streams(count, seed=1)
    assert answers[200] > count / 20
    assert answers[400] > count / 2
    assert sum(answers.values()) == count


@times(30, 1000)
def test_mutated_answers_end_in_a_value_or_an_error_of_ours(count):
    assert sum(mutations.answers(count, seed=1).values()) == count


@pytest.mark.long
def test_the_worst_100_kB_cost_a_service_bounded_memory_and_time():
    assert bounds.run_service() == {}


@pytest.mark.long
def test_the_worst_100_kB_cost_a_client_bounded_memory_and_time():
    assert bounds.run_client() == {}


@times(200)
def test_mutated_alterations_are_done_or_refused(count):
    assert set(mutations.alterations(count, seed=1)) <= {200, 400}


@times(2, 200)
def test_a_day_is_there_once_whenever_the_service_that_replaces_it_is_killed(count):
    found = kills.run(count, seed=1)
    assert found["open, done"] + found["open, not done"] == count
    assert found["replaced"] > 0


@times(3, 300)
def test_a_write_is_stored_once_and_succeeds_whatever_is_lost_or_killed(count):
    assert once.run(count, seed=1).total() == count


@times(8, 2000)
def test_calls_at_once_are_made_once_each_whatever_is_lost_or_killed(count):
    found = once.together(count, seed=1)
    assert found["calls"] == count
    assert found["kills"] > 0


@times(30, 1000)
def test_every_value_is_as_in_a_model_after_each_step_of_nightly_jobs(count):
    counts = nightly.run(count, seed=1)
    kinds = {what.split(":")[0] for what in counts}
    assert kinds == {*nightly.KINDS}
    assert counts.total() > 3 * count


@times(12, 500)
def test_of_two_clients_in_each_others_middle_one_comes_after_the_other(count):
    counts = writers.run(count, seed=1)
    assert counts.total() == count
    assert counts["middle: 2 confirmed"]
    # How many of these are confirmed depends on which call is faster.
    assert any(what.startswith("together") for what in counts)


@times(8, 500)
def test_of_two_clients_one_replaces_rows_before_or_after_the_other(count):
    counts = writers.run(count, seed=2, kind=model.draw_replace_where)
    assert counts.total() == count
    assert counts["middle: 2 confirmed"]


@times(25)
def test_a_table_is_written_once_or_not_at_all_by_workers_that_are_killed(count):
    assert sum(cluster.run(count, seed=1).values()) == count


@pytest.mark.parametrize(
    "gigabytes", [pytest.param(many, marks=pytest.mark.long) for many in (2, 10)]
)
def test_what_workers_write_does_not_come_through_the_client(gigabytes):
    if shutil.disk_usage(tempfile.gettempdir()).free < 2e9 * gigabytes:
        pytest.skip("the disk is too full for it")
    _, peak, sent = cluster.measure(gigabytes)
    assert peak < 300e6
    assert sent < 1e6


@times(100)
def test_F45_an_interrupt_at_any_moment_comes_at_once_and_leaves_nothing_behind(count):
    counted = interrupts.run(count, seed=1)
    assert counted.total() == count
    assert any(what.endswith("interrupted") for what in counted)


# an interrupt while a socket is made leaves it to the garbage collector
@pytest.mark.filterwarnings("ignore:.*unclosed <socket:ResourceWarning")
@pytest.mark.filterwarnings("ignore:.*<socket:pytest.PytestUnraisableExceptionWarning")
@times(4, 100)
def test_an_interrupt_tells_what_becomes_of_a_write_that_was_sent(count):
    counted = late.run(count, seed=1)
    assert counted.total() == 2 * count
    assert any("says done" in what for what in counted)


has_a_front = pytest.mark.skipif(
    not any(map(fronts.binary, fronts.FRONTS)),
    reason="neither nginx, Apache, haproxy nor squid is installed",
)


@pytest.mark.long
@has_a_front
def test_what_goes_through_nginx_apache_haproxy_and_squid_arrives_once_and_whole():
    counts = fronts.run(60, seed=1)
    for name in filter(fronts.binary, fronts.FRONTS):
        created = 0
        for what, many in counts.items():
            if what.startswith(name) and what.endswith("created"):
                created += many
        assert created >= 30, name


@pytest.mark.long
@has_a_front
def test_a_name_leads_to_its_own_table_or_is_refused_whatever_decodes_its_address():
    for door, done in fronts.run_names().items():
        assert 1 <= done <= len(fronts.NAMES) - 10, door
