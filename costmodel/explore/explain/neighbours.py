"""Plans that differ from a scenario's own in one choice, each priced: why this axis, and not its neighbour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from pydantic import ValidationError

from costmodel.documents.schemas.plan import Plan
from costmodel.estimate.evaluate.evaluate_plans import TERM_COLUMNS
from costmodel.estimate.evaluate.predict import Answer, answer
from costmodel.ground.choices import Recompute, Zero
from costmodel.ground.errors import CostModelError
from costmodel.ground.plan_sizes import SIZES
from costmodel.ground.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST = 0.002  # share of the step below which a change of a term is ignored


@record
class Neighbour:
    """A plan next to the scenario's own.

    asked: the question that it answers; settings: what to set for it; found: its answer
    """

    asked: str
    words: str
    settings: dict[str, Any]
    found: Answer

    @property
    def works(self) -> bool:
        """Whether it is valid, fits and keeps the limits."""
        return not (self.found.refused or self.found.broken)


def neighbours(own: Answer) -> list[Neighbour]:
    """Every neighbour that the stack and the model know, in the order of their questions."""
    found = []
    for asked, settings in _changes(own):
        made = _made(own, settings)
        if made is not None:
            words = (
                f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}" for key, value in settings.items()
            )
            found.append(Neighbour(asked, " · ".join(words), settings, made))
    return found


def written_value(value: Any) -> str:
    """A value of a plan as --set takes it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def moved(own: Answer, other: Answer) -> tuple[str, float]:
    """The term of the step that moved most, and by how much; no name where none did."""
    before, after = own.evaluation.costs.row(), other.evaluation.costs.row()
    apart = {name: after[name] - before[name] for name in TERM_COLUMNS.values()}
    name = max(apart, key=lambda term: abs(apart[term]))
    return (name, apart[name]) if abs(apart[name]) > LEAST * before["step_time"] else ("", 0.0)


def _made(own: Answer, settings: dict[str, Any]) -> Answer | None:
    """The answer of a plan with other choices; nothing where no plan can be written so."""
    written = {name: getattr(own.plan, name) for name in own.plan.model_fields_set}
    try:
        return answer(own.inputs, Plan.model_validate({**written, **settings}))
    except (CostModelError, ValidationError):
        return None


def _changes(own: Answer) -> Iterator[tuple[str, dict[str, Any]]]:
    """What to set for each neighbour, by question; dp follows from the rest where the scenario does not state it."""
    block, stack = own.evaluation.block, own.inputs.stack
    size = {name: float(getattr(block, name)[0]) for name in SIZES}
    stated = own.plan.dp is not None

    def traded(changed: dict[str, float]) -> dict[str, Any]:
        inner = {name: changed.get(name, size[name]) for name in ("tp", "pp", "cp")}
        whole = size["dp"] * size["tp"] * size["pp"] * size["cp"]
        dp = {"dp": whole / (inner["tp"] * inner["pp"] * inner["cp"])} if stated else {}
        return {**changed, **dp}

    for zero in get_args(Zero):
        if zero != block.structure.zero and size["dp"] > 1:
            yield "DDP or FSDP (zero)", {"zero": zero}
    for tp, pp in ((0.5, 2.0), (2.0, 0.5)):
        if size["tp"] * tp >= 1 and size["pp"] * pp >= 1:
            yield "tp or pp", traded({"tp": size["tp"] * tp, "pp": size["pp"] * pp})
    for name in ("tp", "pp"):
        for factor in (0.5, 2.0):
            if size[name] * factor >= 1 and (factor < 1 or size["dp"] > 1):
                yield f"{name} or dp", traded({name: size[name] * factor})
    for factor in (0.5, 2.0):
        if size["cp"] * factor >= 1 and (factor < 1 or size["dp"] > 1):
            yield "cp or dp", traded({"cp": size["cp"] * factor})
    if own.inputs.experts is not None:
        for factor in (0.5, 2.0):
            if size["ep"] * factor >= 1:
                yield "more or fewer experts a rank", {"ep": size["ep"] * factor}
    for recompute in get_args(Recompute):
        if recompute != block.structure.recompute and recompute in stack.recompute:
            yield "recompute", {"recompute": recompute}
    for factor in (0.5, 2.0):
        if size["micro_batch"] * factor >= 1:
            yield "micro-batch", {"micro_batch": size["micro_batch"] * factor}
    for vpp in (1.0, 2.0):
        if size["pp"] > 1 and vpp != size["vpp"]:
            yield "chunks a stage", {"vpp": vpp}
