"""The words of messages: short, countable and safe to print, whatever is put into them."""

from __future__ import annotations

import polars as pl
import pytest

from rt_frames._names import did_you_mean, duplicates, has_control_characters, join_path
from rt_frames._text import count, format_bytes, list_names, make_printable, one_line, shorten, show_value


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Coloured:
    def __repr__(self) -> str:
        return "\x1b[31mred\x1b[0m \ud800"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\nb", r"'a\nb'"),
        ("x" * 100, "'" + "x" * 78 + "…"),
        (list(range(10**5)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, …"),
        (Unprintable(), "an object of type Unprintable"),
        (Coloured(), r"\x1b[31mred\x1b[0m \ud800"),
        (pl.Series("n", [1]), "shape: (1,) Series: 'n' [i64] [ 1 ]"),
    ],
)
def test_any_value_is_shown_on_one_short_line(value, shown):
    assert show_value(value) == shown
    shown.encode()


def test_a_text_is_cut_where_it_is_too_long():
    assert shorten("abcd", 4) == "abcd"
    assert shorten("abcde", 4) == "abc…"
    assert one_line("  a\n\tb  c ", 80) == "a b c"


def test_what_moves_the_cursor_or_turns_the_text_is_escaped():
    assert make_printable("größe 東京 🙂") == "größe 東京 🙂"
    assert make_printable("a\u202eb\x1b\n") == r"a\u202eb\x1b\n"


@pytest.mark.parametrize(
    ("nbytes", "words"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (999_499, "999 kB"), (999_600, "1 MB"), (10**10, "10 GB"),
     (12_345 * 10**9, "12.3 TB"), (10**17, "100 PB")],
)  # fmt: skip
def test_bytes_are_written_with_three_digits(nbytes, words):
    assert format_bytes(nbytes) == words


def test_things_are_counted():
    assert [count(n, "row") for n in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]


def test_long_lists_of_names_say_how_many_there_are():
    assert list_names(["a", "b"]) == "'a', 'b'"
    assert list_names(map(str, range(1200)), limit=2) == "'0', '1', … (1,200)"


@pytest.mark.parametrize("name", ["\n", "a\x00", "a\x7f", "a\x9f", "a\ud800"])
def test_control_characters_and_lone_surrogates_are_found(name):
    assert has_control_characters(name)


@pytest.mark.parametrize("name", ["", "a b", "größe", "東京", "🙂", "a\u200bb", "a\u202eb"])
def test_other_names_have_none(name):
    assert not has_control_characters(name)


def test_names_are_joined_compared_and_offered():
    assert (join_path("", "a"), join_path("a", "b")) == ("a", "a.b")
    assert duplicates(["b", "a", "c", "a", "b"]) == ["b", "a"]
    assert did_you_mean("pricee", ["price", "name"]) == "did you mean 'price'?"
    assert did_you_mean("x", ["price", "name"]) == "did you mean 'name', 'price'?"
    assert did_you_mean("x", []) == "there are none"
    assert did_you_mean("PREIS_NETTO", ["preise_netto", "preisNetto"]) == "did you mean 'preisNetto'?"
