"""How much slower tensor cores are in a real step than in kernels alone, on one part."""

from __future__ import annotations

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.efficiency import SustainedFit
from costmodel.documents.schemas.hardware import Accelerator
from costmodel.equations.kernels.throttling import narrow_slowdown, part_slowdown
from costmodel.ground.equation import Number


def slowdown_of(case: ResolvedScenario, narrow: Number | None = None) -> Number:
    """As assumed, else as fitted, by the power that the part has for its peak.

    Of products in a narrow type, so many times that of 16 bits.
    """
    written, fit = case.scenario.assume.sustained, case.efficiency.sustained
    assert fit
    if written is not None:
        return written if narrow is None else narrow_slowdown(written, narrow)
    return by_power(fit.factor if narrow is None else narrow * fit.factor, fit, case.accelerator)


def by_power(factor: Number, fit: SustainedFit, part: Accelerator) -> Number:
    """A slow-down that was fitted, on a part: as much more or less as it has less or more power for its peak."""
    if part.power is None or part.peak.wide is None or fit.power is None or fit.peak is None:
        return factor
    return part_slowdown(factor, part.power.max, part.peak.wide, fit.power, fit.peak)
