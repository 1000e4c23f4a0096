"""The assumptions of a scenario: values that the user did not state, and where each came from."""

from __future__ import annotations

from collections.abc import Iterable

from costmodel.documents.reader.checkpoint_types import name_words
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.count_kinds import FromTokens
from costmodel.documents.schemas.default_values import Assumption
from costmodel.equations.run.economics import share
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.results import number
from costmodel.ground.units import counted, show, significant


def converted(case: ResolvedScenario) -> tuple[Assumption, ...]:
    """Assumptions for converted values: a model stated by its hub name, and batches stated in tokens."""
    shapes = (Assumption("model", shape, name_words(name, shape)) for name, shape in case.hub.items())
    stacks = (Assumption("stack", stack, f"what {name} is taken for") for name, stack in case.stacks.items())
    batches = (
        Assumption(path, f"{counted(batch)} sequences", _division(batch)) for path, batch in case.scenario.from_tokens
    )
    return (*shapes, *stacks, *batches)


def _division(batch: FromTokens) -> str:
    sequences = float(share(batch.tokens, batch.sequence))
    exact = "" if sequences == batch else f" = {significant(sequences, 6)}, rounded"
    return f"{counted(batch.tokens)} tokens / {counted(batch.sequence)}{exact}"


# Assumptions that count only where an axis has several ranks: by path the axes, of which one must.
_NEEDS = {
    "assume.overlap.tp": ("tp",),
    "assume.overlap.dp": ("dp", "cp"),
    "assume.overlap.weights": ("dp", "cp"),
    "assume.overlap.pp": ("pp",),
    "assume.overlap.cp": ("cp",),
    "assume.overlap.ep": ("ep", "etp"),
    "assume.experts.dispatch": ("ep", "etp"),
    "assume.experts.deduplicated": ("ep", "etp"),
    "assume.compression.codec": ("dp", "cp"),
    "assume.compression.warm_up": ("dp", "cp"),
    "gradients on the network": ("dp", "cp"),
    "plan.sequence_parallel": ("tp",),
    "plan.schedule": ("pp",),
}


def relevant_assumptions(assumed: Iterable[Assumption], block: Block, *, leaves_domain: bool) -> tuple[Assumption, ...]:
    """The assumptions that affect the plan of a block of one row."""

    def counts(path: str) -> bool:
        if path == "assume.network_share":
            return leaves_domain
        return path not in _NEEDS or any(getattr(block, axis)[0] > 1 for axis in _NEEDS[path])

    return tuple(item for item in assumed if counts(item.path))


class AssumptionLog:
    """Returns the scenario's value, or the default and records it as an assumption."""

    def __init__(self) -> None:
        self.assumed: list[Assumption] = []

    def note(self, path: str, value: str, origin: str) -> None:
        """Record an assumed value."""
        self.assumed.append(Assumption(path, value, origin))

    def choose(self, path: str, written: float | None, default: float, origin: str, unit: str = "1") -> float:
        """The stated value, or the default."""
        if written is not None:
            return written
        self.note(path, show(number(default), unit), origin)
        return default
