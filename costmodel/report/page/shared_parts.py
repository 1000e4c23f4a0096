"""Parts of a page that every workload has: what was assumed, the scenario as a file, limits that are kept, remarks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.default_values import Assumption
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.shared.remarks import REMARKS
from costmodel.exchange.writing.scenario_text import scenario_text
from costmodel.report.document import Verdict
from costmodel.report.page.content import PageTable, Part
from costmodel.report.terminal.style.head import price_lines, title

SIGNS = {"at_most": "≤", "at_least": "≥", "target": "≈"}
_ONE_PLAN: Mapping[str, str] = {}


def inputs_part(case: LoadedScenario, assumed: Sequence[Assumption]) -> Part:
    """A page's section on assumptions, documents and the price."""
    stated = [(item.path, item.value, item.origin) for item in assumed]
    own, digests = case.own_names, case.named_digests
    documents = [(name, digest, "your own" if name in own else "shipped") for name, digest in digests.items()]
    tables = [PageTable(("path", "value", "from"), stated, "lll", "Assumed: not stated")] if stated else []
    tables.append(PageTable(("document", "digest", ""), documents, "lll", "Documents"))
    price = "; ".join(line.plain for line in price_lines(subject_of(case).price))
    return Part("inputs", "Assumed, and sources", f"Price: {price}.", tables=tables)


def scenario_part(case: LoadedScenario) -> Part:
    """The scenario as a file."""
    text = scenario_text(case, Path("scenario.yaml"), title(case))
    return Part("scenario", "The scenario", plain=text, screen_only=True)


def remark_findings(codes: Iterable[str], counted: Mapping[str, str] = _ONE_PLAN) -> Iterator[tuple[Verdict, str]]:
    """Remarks, each once; counted: on how many of several plans."""
    for code in dict.fromkeys(codes):
        yield "warn", f"{code} {REMARKS[code].title}{counted.get(code, '')}: {REMARKS[code].meaning}"
