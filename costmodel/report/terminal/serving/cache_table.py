"""The KV cache of a request by kinds of layers, as a table."""

from __future__ import annotations

from rich.text import Text

from costmodel.estimate.serving.cache_by_kind import cache_by_kind
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.report.terminal.plan.cache_rows import cache_rows
from costmodel.report.terminal.style.layout import Line


def cache_table(answer: ServingAnswer) -> list[Line]:
    """One row of each kind of layers, and their sum; of a rank, but of all heads a token's."""
    kinds = cache_by_kind(answer.inputs, answer.evaluation.layout)
    if not kinds:
        return []
    titles = ("a token", f"set aside for {answer.inputs.load.longest:,.0f}", "mean request")
    return [Text(), cache_rows(kinds, titles)]
