"""Sentences and the table of a day of traffic in the answer of `buy`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

from costmodel.equations.run.economics import excess
from costmodel.explore.purchase.buy_day import Day, Hour
from costmodel.explore.purchase.smallest_size import CHANCE
from costmodel.ground.units import chance_words, counted, percent, rounded_dollars, show_time, significant
from costmodel.report.answers.buy_sentences import chance_cell, linked, money_cell, number_cell, sourced
from costmodel.report.document import Cell, Column, Headline, Section, Table, Value
from costmodel.report.terminal.layout import HEAD, Detail, styled


def day_section(day: Day) -> Section:
    """A section with the replicas that each hour of a day needs; equal hours share a row."""
    title, sizes = f"A day on {day.machine.node}", [Column("replicas"), Column("GPUs")]
    rows = list[list[Cell]]()
    for hours, hour in _spans(day, _texts_of_hour):
        rate, ready = (Value(significant(value), value, "requests_per_s") for value in (hour.rate, hour.ready))
        figures = [sourced(rate, "--day"), linked(ready, hour.named("ready"))]
        figures += [sourced(number_cell(hour.replicas, "replicas"), "the fewest that meet every limit, by trial")]
        figures += [linked(number_cell(hour.gpus, "gpus"), hour.named("GPUs"))]
        sure = chance_cell(hour.chance)
        figures += [linked(sure, hour.named(CHANCE)) if hour.settings else sourced(sure, "an hour without requests")]
        rows.append([hours, *figures])
    of_size = dict[tuple[float, float], list[str]]()  # the hours that need so many replicas and GPUs
    for hours, hour in _spans(day, lambda hour: (hour.replicas, hour.gpus)):
        of_size.setdefault((hour.replicas, hour.gpus), []).append(hours)
    few = [[", ".join(of_size[size]), *map(counted, size)] for size in sorted(of_size, reverse=True)]
    columns = [Column("hours", "l"), Column("requests/s"), Column("ready for"), *sizes, Column("chance")]
    return Section(
        "day", title, day_sentence(day), ahead=[Detail([styled(title, HEAD)], spare=4)], table=Table(columns, rows),
        least=Table([Column(title, "l"), *sizes], few, rest="rates and chances of the hours"),
    )  # fmt: skip


def _spans(day: Day, same: Callable[[Hour], object]) -> Iterator[tuple[str, Hour]]:
    """Hours in a row that are the same, in words, with the first of them."""
    begin = 0
    for _, group in itertools.groupby(day.hours, same):
        hours = [*group]
        end = begin + len(hours) - 1
        yield f"{begin}" if begin == end else f"{begin} – {end}", hours[0]
        begin = end + 1


def _texts_of_hour(hour: Hour) -> tuple[str, ...]:
    """The figures of an hour as they are shown; hours that look alike share a row."""
    return (
        significant(hour.rate),
        significant(hour.ready),
        counted(hour.replicas),
        counted(hour.gpus),
        chance_words(hour.chance),
    )


def day_headlines(day: Day) -> list[Headline]:
    """Headlines with the monthly rent in USD of replicas by the hour, and of a fixed fleet."""
    by_hour = linked(money_cell(day.month(day.autoscaled).whole), "by the hour")
    fixed = linked(money_cell(day.month(day.fixed).whole), "a fixed fleet")
    return [Headline("A month by the hour", by_hour, day.machine.node), Headline("Of a fixed fleet", fixed)]


def day_sentence(day: Day, *, short: bool = False) -> str:
    """A sentence on the monthly cost of replicas by the hour, compared with a fixed fleet for the busiest hour."""
    origin = " (assumed: its engine starts and reads the weights; --cold-start)" if day.assumed else ""
    starts = f"each starts in {show_time(day.start)}{origin}" if day.start else "each starts at once (--cold-start)"
    scaled, fixed, other = map(day.month, (day.autoscaled, day.fixed, day.fixed_lasting))
    terms = " on demand" if day.elastic != day.price else ""
    often = "" if len(day.hours) == 24 else f" of such {len(day.hours)} hours"
    rents = f"{rounded_dollars(scaled.whole)} a month{often} by the hour{terms}, {rounded_dollars(fixed.whole)} fixed"
    lead = f"{rents}: replicas follow the load on {day.machine.node}, {starts}"
    if (scaled.whole, fixed.whole) != (scaled.in_use, fixed.in_use) and not short:
        lead += f"; both by whole nodes; of GPUs in use alone {rounded_dollars(scaled.in_use)}"
        lead += f", {_compared(scaled.in_use, fixed.in_use)}"
    least = min(fixed.whole, other.whole) if math.isfinite(other.whole) else fixed.whole
    cheaper = " A fixed fleet costs no more." if least <= scaled.whole else ""
    if day.lasting is not None:
        cheaper += f" {day.lasting.sold.capitalize()}, a fixed fleet costs {rounded_dollars(other.whole)} a month."
    return f"{lead}.{cheaper}"


def _compared(rent: float, other: float, whose: str = "") -> str:
    """A rent compared with another one in percent, such as `20 % less than $300`; whose: the owner of the other."""
    part = float(excess(rent, other)) if other else 0.0
    if not part:
        return f"as much as {whose}{rounded_dollars(other)}"
    return f"{percent(abs(part), 2)} {'less' if part < 0 else 'more'} than {whose}{rounded_dollars(other)}"
