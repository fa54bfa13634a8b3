"""Counts as people write them; sizes, times and bandwidths are tested where they are used."""

from __future__ import annotations

import pytest

from sim.units import parse_count, show_count, show_gigabytes


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("4096", 4096), ("70B", 70 * 10**9), ("15.6T", 15_600 * 10**9), ("1.5e9", 1_500_000_000),
        ("1,024", 1024), ("128k", 128_000), ("1e24", 10**24), ("0.1B", 10**8), (" 12 M ", 12 * 10**6),
        ("123456789012345678901", 123456789012345678901),
    ],
)  # fmt: skip
def test_counts(text, number):
    assert parse_count(text) == number


@pytest.mark.parametrize(
    "text", ["", "-1", "five", "1e25", "1e999999999", "nan", "inf", "2.5", "0.0001K", "70 B B", "9" * 50, "1.2.3"]
)
def test_what_is_no_count(text):
    with pytest.raises(ValueError, match=r"tokens .*: write a whole number like 4096, 70B"):
        parse_count(text, "tokens")


def test_shown():
    assert show_count(174_604_259_328) == "174.6 B"
    assert show_count(15_600_000_000_000) == "15.6 T"
    assert show_count(12) == "12"
    assert show_count(4e25) == "4.000e+13 T"
    assert show_gigabytes(23.03e9) == "23.03 GB"
