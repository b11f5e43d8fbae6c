"""The longer runs, each short: the programs themselves are in ``tests/longer``."""

from __future__ import annotations

from tests.longer import answers, crowd, kills, streams


def test_two_hundred_mutated_streams_leave_the_service_alive_and_its_tables_readable():
    answers = streams.run(200, seed=1)
    assert sum(answers.values()) == 200
    assert answers[400] > 100


def test_killed_clients_and_services_leave_no_table_in_part():
    assert sum(kills.run(4, seed=1)[victim] for victim in ("client", "service")) == 4


def test_a_hundred_mutated_answers_end_in_a_value_or_an_error_of_ours():
    assert sum(answers.run(100, seed=1).values()) == 120


def test_sixteen_clients_at_once_disturb_nobody():
    assert crowd.run(16, seconds=2) >= 16
