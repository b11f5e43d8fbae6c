"""The longer runs, each short, and marked ``long`` ten times as long: the programs are in ``tests/longer``."""

from __future__ import annotations

import pytest

from tests.longer import answers, crowd, kills, streams


def times(few: int, many: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("count", [few, pytest.param(many, marks=pytest.mark.long)])


@times(200, 2000)
def test_s04_mutated_streams_leave_the_service_alive_and_its_tables_readable(count):
    answers = streams.run(count, seed=1)
    assert answers[200] > count / 20
    assert answers[400] > count / 2
    assert sum(answers.values()) == count


@times(2, 20)
def test_killed_clients_and_services_leave_no_table_in_part(count):
    killed = kills.run(count, seed=1)
    assert killed["client"] > 0
    assert killed["service"] > 0
    assert killed["client"] + killed["service"] == count


@times(100, 1000)
def test_mutated_answers_end_in_a_value_or_an_error_of_ours(count):
    assert sum(answers.run(count, seed=1).values()) == count * 6 // 5


@times(2, 20)
def test_sixteen_clients_at_once_disturb_nobody(count):
    assert crowd.run(16, seconds=count) >= 16
