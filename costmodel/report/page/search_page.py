"""The page of a search of a training scenario."""

from __future__ import annotations

from collections.abc import Sequence

from costmodel.estimate.shared.plan_batch import one_row
from costmodel.estimate.shared.reasons import REFUSALS
from costmodel.explore.kept_answers import brief_words
from costmodel.explore.page.ranked_nodes import RankedFacts
from costmodel.explore.search.search import SearchResult
from costmodel.ground.units import gib, percent
from costmodel.report.document import Headline, Verdict
from costmodel.report.page.content import HtmlPage
from costmodel.report.page.search_parts import front_part, plans_data, ranking_part, why_part
from costmodel.report.page.trace import PrefixedTraces, Traces
from costmodel.report.page.values import Figures, seconds
from costmodel.report.terminal.search.ranking import without_safety
from costmodel.report.terminal.style.head import head_of, title


def search_page(found: SearchResult, commands: Sequence[str]) -> HtmlPage:
    """The best plans, the front where one was asked for, and why others are refused."""
    case = found.inputs.case
    subtitle = [line.plain for line in head_of(case, [axis.path for axis in found.variants.over])]
    if not found.best:
        parts = [part for part in (why_part(found),) if part is not None]
        return HtmlPage(title(case), subtitle, _none(found), "bad", [], parts, commands=commands)
    best = found.best[0]
    traces = Traces(RankedFacts(found).nodes)
    figures = Figures(best.costs, PrefixedTraces(traces, "plans.0."))
    words = brief_words(one_row(best.structure, **best.sizes))
    risky = "N023" in best.remarked
    named = "Best" if found.is_safe else "Surest"
    conclusion = f"{named} of {found.tally.candidates:,} plans: {words}, {seconds(best.costs['step_time'])} a step at "
    conclusion += f"{percent(best.costs['mfu'])} MFU in {gib(best.costs['memory_peak'])} GiB"
    conclusion += ", though at P90 its memory does not fit." if risky else "."
    conclusion += f" {other}." if (other := without_safety(found)) else ""
    headlines = [
        Headline("Step time", figures("step_time")),
        Headline("MFU", figures("mfu")),
        Headline("Memory", figures("memory_peak"), f"of {gib(found.inputs_of(best.variant).usable)} GiB"),
        Headline("Cost per Mtoken", figures("cost_per_mtoken")),
    ]
    parts = [part for part in (front_part(found), ranking_part(found), why_part(found)) if part is not None]
    data = {"plans": plans_data(found, traces), "trace": traces.data()}
    verdict: Verdict = "warn" if risky else "good"
    return HtmlPage(title(case), subtitle, conclusion, verdict, headlines, parts, commands=commands, data=data)


def _none(found: SearchResult) -> str:
    """Why there is no plan, in the reason that refuses most."""
    tally = found.tally
    if found.stopped:
        return f"Stopped after {tally.candidates:,} plans; none of those fits."
    code, count = next(((code, count) for code, count in tally.refused.most_common() if count), ("", 0))
    most = f" {code} {REFUSALS[code].title} refuses {count:,} of {tally.candidates:,}." if code else ""
    return f"No plan fits.{most}"
