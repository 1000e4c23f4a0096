"""Words for plans to which more requests come than they answer."""

from __future__ import annotations

from rich.text import Text

from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.report.terminal.serving.serving_formatting import result
from costmodel.report.terminal.style.theme import BAD, styled


def at_most_lines(answer: ServingAnswer) -> list[Text]:
    """Of a plan that cannot answer all that arrives: what its figures are of."""
    if not answer.overload:
        return []
    most = result("saturation_per_s", answer.costs["saturation_per_s"])
    words = f"figures at {most}, the highest rate it can serve; at a higher rate the queue grows without bound"
    return [styled(f"  ✗ {' '.join(answer.overload)}: {words}", BAD)]


def brief(name: str, value: float) -> str:
    """A result in a table of many: a wait without end in few letters."""
    return result(name, value).replace("without end", "no end")
