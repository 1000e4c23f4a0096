"""Why plans of a search about serving are refused, and which limits none of them keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from costmodel.estimate.serving.reason_codes import REFUSALS
from costmodel.estimate.serving.service_limits import service_limits
from costmodel.explore.serving.found_plans import FoundPlans, VariantPlans, reasons, share_of
from costmodel.ground.units import counted, percent
from costmodel.report.terminal.search.varied_keys import headings
from costmodel.report.terminal.serving.serving_formatting import chance_of, result
from costmodel.report.terminal.serving.serving_variants import best_words
from costmodel.report.terminal.style.formatting import spaced
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import BAD, DIM, styled

_NAMED = 4  # reasons, of which the others are counted together


def never_kept(found: FoundPlans) -> list[Line]:
    """The limits that no plan keeps, since requests one at a time break them, with the plan that is nearest."""
    if found.kept or found.stopped:
        return []
    missed = "" if found.alone is None else _missed_alone(found, found.alone.costs)
    if found.alone is None or not missed:
        return [styled(f"  No lever found: nothing that costmodel tries would {chance_of(found.inputs.case)}.", BAD)]
    nearest = f"the nearest, {best_words(found.alone).partition(' ✗')[0]}, has {missed}"
    return [styled(f"  No plan keeps the limits, even of one request at a time: {nearest}", BAD)]


def _missed_alone(found: FoundPlans, costs: Mapping[str, float]) -> str:
    """Limits of users that a plan breaks, with what it has."""
    limits = (limit for limit in service_limits(found.inputs) if not limit.holds(costs[limit.column]))
    return ", ".join(f"{limit.key} {result(limit.column, costs[limit.column])}" for limit in limits)


def shares(found: FoundPlans) -> list[Line]:
    """The most frequent reasons, with the share of all plans that each refuses."""
    codes = [code for code, _ in reasons(found)]
    words = [f"{code} {REFUSALS[code].title} {percent(share_of(found, code))}" for code in codes[:_NAMED]]
    others = sum(share_of(found, code) for code in codes[_NAMED:])
    more = [f"others {percent(others)}, --why-not lists them"] if others else []
    return [styled(f"  why not   {' · '.join([*words, *more])}", DIM)] if words else []


def examples(found: FoundPlans) -> Iterator[Line]:
    """What refuses plans, with how many at each value, and one of them."""
    if not any(found.refused.values()):
        return
    paths = found.variants.paths
    rows = [
        (
            *map(spaced, found.variants.values(part.number).values()),
            code,
            f"{count:,}",
            REFUSALS[code].title,
            _example(part, code),
        )
        for part in found.parts
        for code, count in reasons(part)
    ]
    yield from [Text()] if paths else []
    yield CellTable((*headings(paths), "code", "plans", "why", "for example"), rows, f"{'k' * len(paths)}lrll")


def _example(part: VariantPlans, code: str) -> str:
    sizes = part.examples[code]
    return " · ".join(f"{name} {counted(sizes[name])}" for name in sizes if sizes[name] > 1)
