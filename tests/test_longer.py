"""The longer runs, each short: the programs themselves are in ``tests/longer``."""

from __future__ import annotations

import dataclasses

import polars as pl

from tests.longer import answers, crowd, kills, streams
from tests.longer.attack.draw import draw
from tests.longer.attack.judge import Case, Judge


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


def test_the_judge_of_drawn_frames_sees_a_single_value_a_type_and_a_row_that_differ():
    case = Case("", [pl.DataFrame({"a": [1, 2], "s": [{"x": ["b"]}, None]})], "frame")
    planted = [
        pl.DataFrame({"a": [1, 2], "s": [{"x": ["B"]}, None]}),
        pl.DataFrame({"a": [1, 2], "s": [{"x": ["b"]}, None]}, schema_overrides={"a": pl.Int32}),
        pl.DataFrame({"a": [1], "s": [{"x": ["b"]}]}),
        pl.DataFrame({"a": [1, 2], "s": [{"x": ["b"]}, {"x": None}]}),
    ]
    with Judge() as judge:
        assert judge.judge(case).verdict == "EQUAL"
        for other in planted:
            assert judge.judge(dataclasses.replace(case, opened=other.lazy)).verdict == "WRONG"


def test_a_drawn_frame_is_the_same_each_time():
    for number in range(20):
        assert draw(f"1/{number}", "polars").describe() == draw(f"1/{number}", "polars").describe()
