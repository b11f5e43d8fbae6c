"""A few rounds of ``tests/longer/accessors.py``, whose service knows no package."""

from __future__ import annotations

from tests.longer import accessors


def test_each_accessor_means_the_same_to_a_service_made_from_its_documentation():
    count = 20
    assert accessors.run(count, seed=2).total() == 11 * count
