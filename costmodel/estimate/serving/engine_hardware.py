"""Whether an engine runs on the accelerators of a scenario at all."""

from __future__ import annotations

from costmodel.documents.reader.engine_releases import stack_meant
from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.resolved_scenario import ACCELERATOR
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.serving.engine import Engine
from costmodel.ground.errors import fail


def check_hardware(case: ServingCase, engine: Engine) -> None:
    """An error for an accelerator whose maker the engine does not support."""
    chip = case.accelerator
    if not engine.runs_on or chip.vendor in engine.runs_on:
        return
    sentence = f"{engine.name} runs on accelerators of {', '.join(engine.runs_on)} alone, not on {chip.vendor}'s"
    documents = (read("stack", name) for name in names("stack") if stack_meant(name) != name)  # the newest releases
    others = [each.name for each in documents if isinstance(each, Engine) and chip.vendor in each.runs_on]
    hint = (
        f"engines that do: {', '.join(others)}"
        if others
        else f"--set 'stack.runs_on=[{chip.vendor}]' states that it does"
    )
    raise fail("D016", sentence, case.place("stack", *ACCELERATOR), hint)
