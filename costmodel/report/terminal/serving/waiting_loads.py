"""Words for users and requests in flight that wait in line."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from costmodel.documents.schemas.serving.serving_workload import Serving
from costmodel.estimate.serving.waiting_requests import waiting_requests
from costmodel.report.terminal.style.theme import WARN, styled


def waiting_lines(workload: Serving, costs: Mapping[str, float], before: str = "") -> list[Text]:
    """How many wait for their first token at a time, where engines are full; nothing where few do."""
    waiting = waiting_requests(workload, costs)
    if not waiting:
        return []
    everyone, name = workload.users or workload.concurrency or 0.0, "users" if workload.users else "requests"
    words = f"{before}{waiting:,.0f} of {everyone:,.0f} {name} wait for their first token at a time: replicas are full"
    return [styled(f"  {words}", WARN)]
