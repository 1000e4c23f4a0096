"""Words for users and requests that wait in line, and for plans to which more requests come than they answer."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from costmodel.documents.schemas.serving.serving_schema import Serving
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.estimate.serving.waiting_requests import waiting_requests
from costmodel.report.terminal.serving.serving_formatting import result
from costmodel.report.terminal.style.theme import BAD, WARN, styled


def waiting_lines(workload: Serving, costs: Mapping[str, float], before: str = "") -> list[Text]:
    """A line on how many requests wait for their first token; empty if few do."""
    waiting = waiting_requests(workload, costs)
    if not waiting:
        return []
    everyone, name = workload.users or workload.concurrency or 0.0, "users" if workload.users else "requests"
    words = f"{before}{waiting:,.0f} of {everyone:,.0f} {name} wait for their first token at a time: replicas are full"
    return [styled(f"  {words}", WARN)]


def at_most_lines(answer: ServingAnswer) -> list[Text]:
    """A line for a load above capacity: figures are at the highest rate that the plan can serve."""
    if not answer.overload:
        return []
    most = result("saturation_per_s", answer.costs["saturation_per_s"])
    words = f"figures at {most}, the highest rate it can serve; at a higher rate the queue grows without bound"
    return [styled(f"  ✗ {' '.join(answer.overload)}: {words}", BAD)]


def brief(name: str, value: float) -> str:
    """A result in a table of many: a wait without end in few letters."""
    return result(name, value).replace("without end", "no end")
