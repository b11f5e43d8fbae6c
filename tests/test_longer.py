"""The programs in ``tests/longer``; ``python -m tests.longer`` runs one of them."""

from __future__ import annotations

import shutil
import tempfile

import pytest

from tests.longer import (
    accessors,
    bounds,
    cluster,
    fronts,
    golden,
    interrupts,
    late,
    mutations,
    nightly,
    nights,
    power,
    writers,
)

pytestmark = pytest.mark.long


def test_s04_mutated_streams_leave_the_process_alive_and_its_tables_readable():
    count = 2000
    answers = mutations.streams(count, seed=1)
    assert answers[200] > count / 20
    assert answers[400] > count / 2
    assert sum(answers.values()) == count


def test_mutated_answers_end_in_a_value_or_an_error_of_ours():
    count = 1000
    assert sum(mutations.answers(count, seed=1).values()) == count


def test_the_worst_100_kB_cost_a_client_bounded_memory_and_time():
    assert bounds.run() == {}


def test_each_accessor_means_the_same_to_a_service_made_from_its_documentation():
    count = 300
    counts = accessors.run(count, seed=1)
    kinds = [f"from {kind}" for kind in accessors.STREAMS]
    for kind in (*accessors.FRAMES, *accessors.SOURCES):
        kinds += [f"from {kind}", f"to {kind}"]
    statuses = map(str, accessors.STATUSES)
    drawn = {*kinds, *statuses, *accessors.REFUSED, "circle", "list: read"}
    assert drawn <= {*counts}
    assert counts.total() == 11 * count


def test_ten_nights_of_drift_kills_and_two_runs_at_once_end_with_the_sources_rows():
    count = 6
    counts = nights.run(count, seed=1)
    assert counts.total() == 10 * count
    assert counts["killed"] > 2 * count
    assert counts["done"] > count
    assert {*counts} <= {"killed", "done", "rt_frames.errors.UnsupportedTypeError"}


def test_no_table_and_no_confirmed_change_is_lost_whenever_the_power_fails():
    count = 200
    try:
        found = power.run(count, seed=1)
    except OSError as error:
        pytest.skip(str(error))
    assert found.total() == count
    assert {what.split(",")[0] for what in found} == {*power.STEPS}


def test_every_value_is_as_in_a_model_after_each_step_of_nightly_jobs():
    count = 1000
    counts = nightly.run(count, seed=1)
    kinds = {what.split(":")[0] for what in counts}
    assert kinds == {*nightly.KINDS}
    assert counts.total() > 3 * count


def test_of_two_clients_in_each_others_middle_one_comes_after_the_other():
    count = 500
    counts = writers.run_server(count, seed=1)
    assert counts.total() == count
    assert counts["middle: 2 confirmed"]
    # How many of these are confirmed depends on which call is faster.
    assert any(what.startswith("together") for what in counts)


def test_of_two_clients_of_a_folder_one_comes_before_or_after_the_other():
    count = 500
    counts = writers.run_folder(count, seed=2)
    assert counts.total() == count
    assert counts["together: 2 confirmed"]


@pytest.mark.filterwarnings("ignore")
def test_the_data_sets_of_packages_come_back_equal_or_are_refused_by_column():
    counts = golden.run(golden.packages())
    assert counts["equal"] >= 25
    assert not counts["WRONG"]


def test_a_table_is_written_once_or_not_at_all_by_workers_that_are_killed():
    count = 25
    assert sum(cluster.run(count, seed=1).values()) == count


@pytest.mark.parametrize("gigabytes", [2, 10])
def test_what_workers_write_does_not_come_through_the_client(gigabytes):
    if shutil.disk_usage(tempfile.gettempdir()).free < 2e9 * gigabytes:
        pytest.skip("the disk is too full for it")
    _, peak, sent = cluster.measure(gigabytes)
    assert peak < 300e6
    assert sent < 1e6


def test_F45_an_interrupt_at_any_moment_comes_at_once_and_leaves_nothing_behind():
    count = 100
    counted = interrupts.run(count, seed=1)
    assert counted.total() == count
    assert any(what.endswith("interrupted") for what in counted)


# an interrupt while a socket is made leaves it to the garbage collector
@pytest.mark.filterwarnings("ignore:.*unclosed <socket:ResourceWarning")
@pytest.mark.filterwarnings("ignore:.*<socket:pytest.PytestUnraisableExceptionWarning")
# another one in what threading does when a thread's object goes
@pytest.mark.filterwarnings("ignore:.*WeakSet:pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_tells_what_becomes_of_a_write_that_was_sent():
    count = 100
    counted = late.run(count, seed=1)
    assert counted.total() == 2 * count
    assert any("says done" in what for what in counted)


has_a_front = pytest.mark.skipif(
    not any(map(fronts.binary, fronts.FRONTS)),
    reason="neither nginx, Apache, haproxy nor squid is installed",
)


@has_a_front
def test_what_goes_through_nginx_apache_haproxy_and_squid_arrives_once_and_whole():
    counts = fronts.run(60, seed=1)
    for name in filter(fronts.binary, fronts.FRONTS):
        created = 0
        for what, many in counts.items():
            if what.startswith(name) and what.endswith("created"):
                created += many
        assert created >= 30, name


@has_a_front
def test_a_name_leads_to_its_own_table_or_is_refused_whatever_decodes_its_address():
    for door, done in fronts.run_names().items():
        assert 1 <= done <= len(fronts.NAMES) - 10, door
