"""Quantities in and out: what people write, what the code holds, and the traps between."""

from __future__ import annotations

import contextlib
import copy
import doctest
import math
import pickle

import numpy as np
import pytest
from each import each
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import figure
from costmodel.ground import counts, parsing, units
from costmodel.ground.counts import KINDS, words_of
from costmodel.ground.errors import Place
from costmodel.ground.parsing import UnitError, example, measured, parse, parse_unit
from costmodel.ground.units import Figure, Total, gib, show, show_time, significant

COUNTED = ("token", "node", "stage GPU", "token/GPU/s", "USD/node/s", "USD/Mtoken", "B/GPU/interface/s")
UNITS = ("B", "B/s", "FLOP", "FLOP/s", "FLOP/B", "s", "J", "J/s", "USD", "USD/GPU/s", "1", "1/s")


def test_docstring_examples_run() -> None:
    results = [doctest.testmod(module) for module in (units, parsing, counts)]
    assert all(result.attempted > 2 for result in results)
    assert sum(result.failed for result in results) == 0


@each(
    "text, unit, value",
    [
        ("3.35 TB/s", "B/s", 3.35e12),
        ("80 GB", "B", 80e9),
        ("80 GiB", "B", 80 * 2.0**30),
        ("80GiB", "B", 80 * 2.0**30),
        ("25 MiB", "B", 25 * 2.0**20),
        ("1 KiB", "B", 1024.0),
        ("1 kB", "B", 1000.0),
        ("1 KB", "B", 1000.0),
        ("0.5 TiB", "B", 2.0**39),
        ("400 Gb/s", "B/s", 50e9),
        ("400 GB/s", "B/s", 400e9),
        ("900 GB/s/GPU", "B/GPU/s", 900e9),
        ("400 Gbps", "B/s", 50e9),
        ("400 Gbit/s", "B/s", 50e9),
        ("400 Gbits/sec", "B/s", 50e9),
        ("400 Gbit per second", "B/s", 50e9),
        ("2.50 USD per GPU per hour", "USD/GPU/s", 2.5 / 3600),
        ("800 Mbps", "B/s", 100e6),
        ("1.6 Tbps", "B/s", 200e9),
        ("50 GBps", "B/s", 50e9),
        ("50 GByte/s", "B/s", 50e9),
        ("25 GiB/s", "B/s", 25 * 2.0**30),
        ("400 Gb/s/port", "B/GPU/interface/s", 50e9),
        ("2 B", "B", 2.0),
        ("16 b", "B", 2.0),
        ("989.4 TFLOP/s", "FLOP/s", 989.4e12),
        ("1.979 PFLOP/s", "FLOP/s", 1.979e15),
        ("1979 TOP/s", "FLOP/s", 1.979e15),
        ("1 EFLOP", "FLOP", 1e18),
        ("4.2 us", "s", 4.2e-6),
        ("4.2 µs", "s", 4.2e-6),
        ("750 ns", "s", 750e-9),
        ("3 ms", "s", 3e-3),
        ("10 min", "s", 600.0),
        ("2 h", "s", 7200.0),
        ("1.5 d", "s", 129600.0),
        ("700 W", "J/s", 700.0),
        ("10.2 kW", "J/s", 10200.0),
        ("1 kW h", "J", 3.6e6),
        ("1.755 GHz", "1/s", 1.755e9),
        ("2.50 USD/h", "USD/s", 2.5 / 3600),
        ("2.50 USD/GPU/h", "USD/GPU/s", 2.5 / 3600),
        ("2.50 USD/h", "USD/GPU/s", 2.5 / 3600),
        ("20 USD/node/h", "USD/node/s", 20 / 3600),
        ("0.1 USD/kW/h", "USD/J", 0.1 / 3.6e6),
        ("16Ki", "1", 16384.0),
        ("128 k", "1", 128e3),
        ("15.6T", "1", 15.6e12),
        ("405B", "1", 405e9),
        ("70 M", "1", 70e6),
        ("5 %", "1", 0.05),
        ("81%", "1", 0.81),
        ("0.81", "1", 0.81),
        ("1e-3", "1", 1e-3),
        (".5", "1", 0.5),
        ("1,024", "1", 1024.0),
        ("1_000_000", "1", 1e6),
        ("  8 GB  ", "B", 8e9),
        ("3 M USD", "USD", 3e6),
        ("3M USD", "USD", 3e6),
        ("3 MUSD", "USD", 3e6),
        ("3 million USD", "USD", 3e6),
        ("3 B USD", "USD", 3e9),
        ("$3M", "USD", 3e6),
        ("$ 3 million", "USD", 3e6),
        ("USD 3,000,000", "USD", 3e6),
        ("$2.50/h", "USD/s", 2.5 / 3600),
        ("2.50 $/h", "USD/s", 2.5 / 3600),
        ("$2.50/GPU/hour", "USD/GPU/s", 2.5 / 3600),
        ("2.50 USD/GPU-hour", "USD/GPU/s", 2.5 / 3600),
        ("0.5 USD/Mtoken", "USD/Mtoken", 0.5),
        ("$0.5/1M tokens", "USD/Mtoken", 0.5),
        ("0.5 USD", "USD/Mtoken", 0.5),
        ("60 USD/day", "USD/s", 60 / 86400),
        ("30 days", "s", 30 * 86400.0),
        ("2 weeks", "s", 14 * 86400.0),
        ("15 sec", "s", 15.0),
        ("15 seconds", "s", 15.0),
        ("90 minutes", "s", 5400.0),
        ("36 hours", "s", 129600.0),
        ("15 trillion", "1", 15e12),
        ("15 T tokens", "token", 15e12),
        ("15T tokens", "token", 15e12),
        ("15 Ttokens", "token", 15e12),
        ("4 million tokens", "token", 4e6),
        ("4Mi tokens", "token", 4 * 2.0**20),
        ("4,000,000", "token", 4e6),
        ("512 samples", "sequence", 512.0),
        ("512 Seqs", "sequence", 512.0),
        ("8 GPUs", "GPU", 8.0),
        ("8 ranks", "stage GPU", 8.0),
        ("4 stages", "stage GPU", 4.0),
        ("1 node", "node", 1.0),
        ("8 micro-batches", "micro-batch", 8.0),
        ("9,000 tokens/s/GPU", "token/GPU/s", 9000.0),
        ("9 ktoken/s", "token/GPU/s", 9000.0),
        ("8 B/parameter", "B/parameter", 8.0),
        ("4.2 μs", "s", 4.2e-6),
        ("1.5 million", "1", 1.5e6),
        ("8 G B", "B", 8e9),
        ("1e3 GB", "B", 1e12),
        ("-3 s", "s", -3.0),
    ],
)
def test_what_people_write(text: str, unit: str, value: float) -> None:
    assert parse(text, unit) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "unit", "spelling"),
    [
        ("3 M EUR", "USD", "'$3M'"),
        ("3 million dollars", "USD", "'3 million USD'"),
        ("2.50 EUR/h", "USD/s", "'2.50 USD/GPU/h'"),
        ("3 months", "s", "days or weeks"),
        ("1 year", "s", "days or weeks"),
        ("5 GB", "s", "days or weeks"),
        ("15 zillion", "1", "billion, trillion"),
    ],
)
def test_what_is_refused_hears_what_is_taken(text: str, unit: str, spelling: str) -> None:
    with pytest.raises(UnitError) as error:
        parse(text, unit)
    assert spelling in str(error.value)


@each(
    "text, unit",
    [
        ("80", "B"),
        ("3.35", "B/s"),
        ("80 GB", "B/s"),
        ("400 Gb/s", "B"),
        ("989 TFLOPS", "FLOP/s"),
        ("989 TFLOP", "FLOP/s"),
        ("989 TFLOP/s", "B/s"),
        ("80 gb", "B"),
        ("80 GIB", "B"),
        ("80 GiB GiB", "B"),
        ("5 %", "B"),
        ("50 % B", "B"),
        ("5 parsec", "s"),
        ("2.50 USD", "USD/s"),
        ("700 W", "J"),
        ("16 Kib", "1"),
        ("8 GPUs", "1"),
        ("4 %", "token"),
        ("4 mtokens", "token"),
        ("400 Gbps", "B"),
        ("two", "1"),
        ("", "1"),
        ("GB", "B"),
        ("- 3 s", "s"),
        ("3..5 s", "s"),
        ("1e s", "s"),
        ("8/", "1"),
        ("80 GB/", "B"),
        ("80 GB//s", "B/s"),
        ("1,5 GB", "B"),
        ("1,50", "1"),
        ("2 M M", "GPU"),
        ("2 k k", "1"),
        ("2 Ki M", "token"),
        ("5 B B", "1"),
        ("5 billion million", "token"),
        ("3 M tokens tokens", "token"),
        ("5 token/token", "token"),
        ("2.50 USD/GPU/GPU/h", "USD/GPU/s"),
    ],
)
def test_what_is_refused(text: str, unit: str) -> None:
    with pytest.raises(UnitError):
        parse(text, unit)


@pytest.mark.parametrize(
    ("text", "unit", "sentence"),
    [
        ("4 tokens", "node", "'4 tokens' counts tokens, and here nodes are counted; write e.g. '4 nodes'"),
        ("4M tokens", "GPU", "'4M tokens' counts tokens, and here GPUs are counted; write e.g. '4 M GPUs'"),
        ("1 layer", "GPU", "'1 layer' counts layers, and here GPUs are counted; write e.g. '1 GPU'"),
        ("32 GPUs", "node", "here nodes are counted: nodes are GPUs over those of a node"),
        ("8192 sequences", "token", "here tokens are counted: tokens are sequences times the length of one"),
        ("50 samples/s", "token/s", "'samples/s' counts sequences, and here tokens are counted"),
        ("9,000 token/s/GPU", "token/s", "'token/s/GPU' is for each GPU, and this is for the whole"),
        ("2.50 USD/node/h", "USD/GPU/s", "is for each node, and this is for each GPU; write e.g. '2.50 USD/GPU/h'"),
        ("2.50 USD/GPU/h", "USD/node/s", "is for each GPU, and this is for each node"),
        ("400 %", "node", "'400 %' is a share, and here nodes are counted; write e.g. '400 nodes'"),
        ("400 gbps", "B/s", "unknown unit 'gbps'; did you mean '400 GBps' or '400 Gbps'?"),
        ("80 gb", "B", "unknown unit 'gb'; did you mean '80 GB' or '80 Gb'?"),
        ("989 TFLOPS", "FLOP/s", "unknown unit 'TFLOPS'; did you mean '989 TFLOP/s'?"),
        ("4m tokens", "token", "unknown unit 'm'; did you mean '4 M tokens'?"),
        ("400G", "B/s", "'G' is no unit; did you mean '400 Gb/s' or '400 GB/s'?"),
        ("80 G", "B", "'G' is no unit; did you mean '80 GB'?"),
        ("400 GbE", "B/s", "unknown unit 'GbE'; did you mean '400 Gb/s'?"),
        ("400 gigabit/s", "B/s", "unknown unit 'gigabit'; did you mean '400 Gb/s'?"),
        ("80 Gigabytes", "B", "unknown unit 'Gigabytes'; did you mean '80 GB'?"),
    ],
)
def test_what_counts_or_measures_something_else_is_refused_exactly(text: str, unit: str, sentence: str) -> None:
    with pytest.raises(UnitError) as error:
        parse(text, unit)
    assert sentence in str(error.value)


@each("kind", KINDS)
def test_a_count_is_of_its_own_kind_alone(kind: str) -> None:
    for other in KINDS:
        for word in words_of(other):
            for text in (f"4 {word}", f"4 {word.upper()}", f"4k{word}"):
                if other == kind:
                    assert parse(text, kind) in (4.0, 4000.0)
                else:
                    with pytest.raises(UnitError, match="are counted") as error:
                        parse(text, kind)
                    assert error.value.exact


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "NaN", "Infinity", "nan B", "inf B"])
@pytest.mark.parametrize("unit", ["1", "B"])
def test_nan_and_infinity_are_no_quantities(text: str, unit: str) -> None:
    with pytest.raises(UnitError):
        parse(text, unit)


@pytest.mark.parametrize(("text", "unit"), [("1e999", "1"), ("1e999 B", "B"), ("9e307 TB", "B")])
def test_what_overflows_is_stopped_at_the_door(text: str, unit: str) -> None:
    with pytest.raises(PydanticCustomError, match="finite"):
        figure(text, unit)


@pytest.mark.parametrize(("bit", "byte"), [("Gb", "GB"), ("Gb/s", "GB/s"), ("Mb", "MB")])
def test_bits_are_an_eighth_of_bytes(bit: str, byte: str) -> None:
    (small, dimension), (large, same) = parse_unit(bit), parse_unit(byte)
    assert large == 8 * small
    assert dimension == same


def test_gib_and_gb_differ_by_seven_percent() -> None:
    assert parse("1 GiB", "B") / parse("1 GB", "B") == pytest.approx(1.073741824)


@pytest.mark.parametrize("unit", [*UNITS, *COUNTED])
def test_an_error_shows_how_to_write_it(unit: str) -> None:
    written = example(unit).split(" or ")[-1]
    assert math.isfinite(parse(written, unit))
    if measured(unit) != "1":
        with pytest.raises(UnitError, match="carries its unit"):
            parse("5", unit)


def test_units_cancel() -> None:
    assert parse_unit("B/B") == (1.0, ())
    assert parse_unit("1") == (1.0, ())
    assert parse_unit("W s") == parse_unit("W·s") == parse_unit("J")
    assert parse_unit("GB/GB/s") == parse_unit("Hz")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.35e12, "B/s", "3.35 TB/s"),
        (134217728, "B", "134 MB"),
        (989.4e12, "FLOP/s", "989 TFLOP/s"),
        (17.14, "s", "17.1 s"),
        (4.2e-6, "s", "4.20 us"),
        (0.0123, "s", "12.3 ms"),
        (599.0, "s", "599 s"),
        (605.0, "s", "10.1 min"),
        (-3600.0, "s", "-60.0 min"),
        (7200.0, "s", "2.00 h"),
        (172_800.0, "s", "2.00 days"),
        (0.0, "s", "0 s"),
        (0.0, "B", "0 B"),
        (700.0, "J/s", "700 W"),
        (10200.0, "J/s", "10.2 kW"),
        (2.5 / 3600, "USD/s", "2.50 USD/h"),
        (1234.6, "USD", "$1,235"),
        (99.5, "USD", "$99.50"),
        (4.2e6, "USD", "$4.20 M"),
        (8192.0, "1", "8,192"),
        (0.4567, "1", "0.457"),
    ],
)
def test_what_people_read(value: float, unit: str, text: str) -> None:
    assert show(value, unit) == text


def test_memory_is_read_in_gib() -> None:
    assert gib(80 * 2**30) == "80.0"


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("unit", UNITS)
def test_showing_never_fails(value: float, unit: str) -> None:
    assert show(value, unit)


@pytest.mark.parametrize("unit", ["B", "B/s", "FLOP", "FLOP/s", "J", "J/s", "1", "FLOP/B"])
@settings(derandomize=True, database=None)
@given(value=st.floats(1e-3, 1e20))
def test_what_is_shown_can_be_written(unit: str, value: float) -> None:
    assert parse(show(value, unit), unit) == pytest.approx(value, rel=6e-3)
    assert parse(show(value, unit, digits=6), unit) == pytest.approx(value, rel=6e-6)


@settings(derandomize=True, database=None)
@given(st.floats(1e-9, 170_000.0))
def test_a_shown_time_can_be_written(seconds: float) -> None:
    assert parse(show_time(seconds), "s") == pytest.approx(seconds, rel=6e-3)


@settings(derandomize=True, database=None)
@given(st.floats(1e-6, 1e9), st.integers(2, 6))
def test_significant_digits(value: float, digits: int) -> None:
    text = significant(value, digits)
    assert float(text.replace(",", "")) == pytest.approx(value, rel=6 * 10.0**-digits)
    assert len(text.replace(",", "").replace(".", "").lstrip("0")) <= max(digits, len(f"{value:.0f}"))


@settings(derandomize=True, database=None)
@given(st.floats(0, 1e6), st.sampled_from(["", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti"]))
def test_a_prefix_is_a_factor(value: float, prefix: str) -> None:
    factor, _ = parse_unit(f"{prefix}B")
    assert parse(f"{value!r} {prefix}B", "B") == value * factor


@settings(derandomize=True, database=None)
@given(st.text(max_size=20), st.sampled_from(UNITS))
def test_any_text_is_a_number_or_a_unit_error(text: str, unit: str) -> None:
    with contextlib.suppress(UnitError):
        assert isinstance(parse(text, unit), float)


def test_a_figure_is_a_number_with_a_place() -> None:
    place = Place("h200-sxm.yaml", 7, 3, "memory.bandwidth")
    number = Figure(4.8e12, place)
    assert number == 4.8e12
    assert number.place is place
    assert Figure(1.0).place is None
    for copied in (copy.copy(number), copy.deepcopy(number), pickle.loads(pickle.dumps(number))):
        assert (copied, copied.place) == (number, place)
    assert type(number**2) is float


def test_sums_of_figures_remember_them() -> None:
    """Plain numbers to whoever only counts; copies and pickles keep what they were made of."""
    first, second = Figure(58.0, Place("model.yaml")), Figure(3.0, Place("model.yaml"))
    doubled, half = first * 2, 1 / second
    assert (doubled, doubled.operation, doubled.parts) == (116.0, "multiply", (first, 2))
    assert (half, half.operation, half.parts) == (1 / 3.0, "divide", (1, second))
    total, rest = sum((second,), start=first), first - 2
    assert (total, rest, 1.0 + second, 1.0 - second) == (61.0, 56.0, 4.0, -2.0)
    assert (total, rest, 1.0 + second, type(first + np.ones(2))) == (61.0, 56.0, 4.0, np.ndarray)
    assert isinstance(total, Total)
    assert isinstance(rest, Total)
    assert (total.operation, total.parts, rest.operation, rest.parts) == (
        "add",
        (first, second),
        "subtract",
        (first, 2),
    )
    again = pickle.loads(pickle.dumps(total))
    assert (again, again.parts[0].place) == (61.0, first.place)
    assert copy.deepcopy(total) is total
