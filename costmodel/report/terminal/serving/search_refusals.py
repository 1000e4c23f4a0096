"""Why plans of a search about serving are refused, and which limits none of them keeps."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from costmodel.estimate.serving.reason_codes import REFUSALS
from costmodel.explore.serving.found_plans import FoundPlans, VariantPlans, reasons, share_of
from costmodel.ground.units import counted, percent
from costmodel.report.terminal.search.varied_keys import headings
from costmodel.report.terminal.serving.serving_formatting import never_kept_line
from costmodel.report.terminal.serving.serving_variants import best_words
from costmodel.report.terminal.style.formatting import spaced
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import DIM, styled

_NAMED = 4  # reasons, of which the others are counted together


def never_kept(found: FoundPlans) -> list[Line]:
    """The limits that no plan keeps, since requests one at a time break them, with the plan that is nearest."""
    if found.works or found.stopped:
        return []
    alone = found.alone
    words = "" if alone is None else best_words(alone).partition(" ✗")[0]
    return [never_kept_line(found.inputs, None if alone is None else alone.costs, words)]


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
