"""Cases of serving and reinforcement learning, each imported only for such a scenario."""

from __future__ import annotations

from typing import Any

from costmodel.documents.reader.library import DocumentReader
from costmodel.documents.reader.resolved_scenario import LoadedScenario


def case_of_wing(scenario: Any, reader: DocumentReader, tree: dict[str, Any]) -> LoadedScenario:
    """A checked scenario of serving, or of reinforcement learning, with every document it names."""
    if scenario.workload.kind == "rl":
        from costmodel.documents.reader.rl_scenario import rl_case_of

        return rl_case_of(scenario, reader, tree)
    from costmodel.documents.reader.serving_scenario import serving_case_of

    return serving_case_of(scenario, reader, tree)
