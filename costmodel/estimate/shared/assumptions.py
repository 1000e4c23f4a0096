"""What was assumed of a case: values nobody wrote, and where each came from."""

from __future__ import annotations

from collections.abc import Iterable

from costmodel.documents.reader.resolved_scenario import Case
from costmodel.documents.schemas.count_kinds import FromTokens
from costmodel.documents.schemas.default_values import Assumed as Assumed
from costmodel.documents.schemas.precision import Recipe
from costmodel.documents.schemas.stack import GradientType
from costmodel.equations.run.economics import share
from costmodel.estimate.machine.clock_throttling import slowdown_of
from costmodel.estimate.machine.number_formats import Linear
from costmodel.estimate.shared.plan_batch import Block
from costmodel.ground.errors import fail
from costmodel.ground.units import counted, show, significant


def converted(case: Case) -> tuple[Assumed, ...]:
    """What was written otherwise: a model by its name on the hub, batches in tokens with the division."""
    shapes = (Assumed("model", shape, f"the shape of {name} on the hub") for name, shape in case.hub.items())
    batches = (
        Assumed(path, f"{counted(batch)} sequences", _division(batch)) for path, batch in case.scenario.from_tokens
    )
    return (*shapes, *batches)


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
    "gradients on the network": ("dp", "cp"),
    "plan.sequence_parallel": ("tp",),
    "plan.schedule": ("pp",),
}


def that_count(assumed: Iterable[Assumed], block: Block, *, leaves_domain: bool) -> tuple[Assumed, ...]:
    """Those that change anything of the plan of a block of one row."""

    def counts(path: str) -> bool:
        if path == "assume.network_share":
            return leaves_domain
        return path not in _NEEDS or any(getattr(block, axis)[0] > 1 for axis in _NEEDS[path])

    return tuple(item for item in assumed if counts(item.path))


class Speaker:
    """Takes the scenario's value if it has one, else the default, and notes that it did."""

    def __init__(self) -> None:
        self.assumed: list[Assumed] = []

    def say(self, path: str, value: str, origin: str) -> None:
        """Notes a value that was assumed."""
        self.assumed.append(Assumed(path, value, origin))

    def gradients(self, case: Case) -> tuple[GradientType, GradientType]:
        """The types gradients are accumulated in, and reduced over the network."""
        written, stack = case.scenario.workload.gradients, case.stack
        if written is None:
            self.say("workload.gradients", stack.gradients, f"stacks/{stack.name}")
        if stack.reduced is not None:
            self.say("gradients on the network", stack.reduced, f"stacks/{stack.name}")
        accumulated = written or stack.gradients
        return accumulated, stack.reduced or accumulated

    def rates(self, case: Case, linear: Linear, origin: str) -> None:
        """Notes the attention kernel, the share of peak that products reach alone, and, unless the scenario states one,
        the slow-down of a real step.
        """
        share = show(linear.fit.compute_share, "1")
        self.say("attention and matmul", f"{case.stack.kernels.attention}; {share} of peak alone", origin)
        fit = case.efficiency.sustained
        if fit is None or case.scenario.assume.sustained is not None:
            return
        found = float(slowdown_of(case))
        self.say("assume.sustained", show(found, "1"), origin if found == fit.factor else f"{origin}, by power")

    def mfu_peak(self, case: Case, recipe: Recipe) -> float:
        """The rate an MFU is a share of: of the type the matmuls read, unless the scenario names another."""
        written, peaks = case.scenario.assume.mfu_peak, case.accelerator.peak
        peak: float | None = getattr(peaks, written or recipe.type)
        if peak is None:
            sentence, place = f"{case.accelerator.name} has no {written} peak", case.place("assume.mfu_peak")
            raise fail("D016", sentence, place, "take another assume.mfu_peak")
        if recipe.narrow and written is None:
            self.say("assume.mfu_peak", f"{recipe.type}, {show(peak, 'FLOP/s')}", f"precision {recipe.name}")
        return peak

    def choose(self, path: str, written: float | None, default: float, origin: str, unit: str = "1") -> float:
        """The written value, or the default."""
        if written is not None:
            return written
        self.say(path, show(default, unit), origin)
        return default
