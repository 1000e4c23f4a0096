"""Words that answers share: a result, a share and a band as people read them."""

from __future__ import annotations

import doctest
import math

import pytest

from costmodel.ground.units import percent
from costmodel.report.terminal import formatting
from costmodel.report.terminal.formatting import figure_text, is_memory, range_of, result


def test_docstring_examples_run() -> None:
    result = doctest.testmod(formatting)
    assert result.attempted > 1
    assert result.failed == 0


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("step_time", 17.14, "17.1 s"),
        ("mfu", 0.4494, "44.9 %"),
        ("memory_peak", 40 * 2.0**30, "40.0 GiB"),
        ("dp_volume", 40e9, "40.0 GB"),
        ("cost_per_mtoken", 0.7, "$0.700"),
        ("tokens_per_s_per_gpu", 992.44, "992 token/s"),
        ("flop_rate", 4.445e14, "444 TFLOP/s"),
        ("run_time", math.nan, "unknown"),
        ("run_time", None, "—"),
    ],
)
def test_a_result_is_said_in_the_unit_one_would_say_it_in(name: str, value: float | None, said: str) -> None:
    assert result(name, value) == said


def test_a_bare_rate_stands_under_its_name() -> None:
    assert result("tokens_per_s_per_gpu", 992.44, bare=True) == "992.4"
    assert result("step_time", 17.14, bare=True) == "17.1 s"


def test_a_line_of_the_ledger_has_its_unit_from_elsewhere() -> None:
    assert result("memory.weights", 2.0**31, "B") == "2.00 GiB"


@pytest.mark.parametrize(
    ("name", "held"),
    [("weights", True), ("memory_share", True), ("host_memory", True), ("memory_bound", False), ("tp_volume", False)],
)
def test_what_lies_in_memory_is_told_from_what_is_sent(name: str, held: bool) -> None:
    assert is_memory(name) is held
    assert figure_text(2.0**31, "B", held=is_memory(name)) == ("2.00 GiB" if held else "2.15 GB")


def test_a_band_says_its_unit_once() -> None:
    assert range_of("16.1 s", "18.0 s") == "16.1 – 18.0 s"
    assert range_of("999 ms", "1.02 s") == "0.999 – 1.02 s"
    assert percent(0.0123, 2) == "1.2 %"
