"""How much slower tensor cores are in a real step than in kernels alone, on one part."""

from __future__ import annotations

import math

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.efficiency import SustainedFit
from costmodel.documents.schemas.hardware import Accelerator
from costmodel.equations.kernels.roofline import capped_slowdown, narrow_slowdown, part_slowdown
from costmodel.equations.run.economics import capped_clock
from costmodel.ground.equation import Number
from costmodel.ground.errors import fail


def slowdown_of(case: ResolvedScenario, narrow: Number | None = None) -> Number:
    """Slowdown of the tensor cores: as stated, else as fitted and scaled by the accelerator's power over its peak.

    narrow: slowdown of products in a narrow type over that of products in 16 bits
    """
    return _under_cap(case, _uncapped(case, narrow))


def _uncapped(case: ResolvedScenario, narrow: Number | None) -> Number:
    written, fit = case.scenario.assume.sustained, case.efficiency.sustained
    assert fit
    if written is not None:
        return written if narrow is None else narrow_slowdown(written, narrow)
    found = by_power(fit.factor if narrow is None else narrow * fit.factor, fit, case.accelerator)
    return found * untuned(case)


def untuned(case: ResolvedScenario) -> float:
    """Factor on the time of products and attention on accelerators that the stack is not tuned for; else 1."""
    level = getattr(getattr(case, "stack", None), "untuned", None)  # an engine has none
    return 1.0 if level is None else float(level(case.accelerator.vendor))


def power_cap(case: ResolvedScenario) -> Number | None:
    """The cap on each accelerator's power; None if the scenario states none."""
    run = case.scenario.run
    return None if run is None else run.power.cap


def cap_over_rating(case: ResolvedScenario) -> float:
    """The power cap over the accelerator's rated power; infinite without a cap or a rating."""
    cap, power = power_cap(case), case.accelerator.power
    return math.inf if cap is None or power is None else float(cap / power.max)


def _under_cap(case: ResolvedScenario, slowdown: Number) -> Number:
    cap = power_cap(case)
    if cap is None:
        return slowdown
    power = case.accelerator.power
    if power is None:
        sentence = f"{case.accelerator.name} has no rated power, so that the effect of a cap is unknown"
        raise fail("D016", sentence, case.place("run.power.cap"), "state power.max of the accelerator")
    if cap >= power.max:
        return slowdown
    return capped_slowdown(slowdown, capped_clock(cap, power.max, 0.0))


def by_power(factor: Number, fit: SustainedFit, part: Accelerator) -> Number:
    """A fitted slowdown scaled to another accelerator by its ratio of power to peak."""
    if part.power is None or part.peak.wide is None or fit.power is None or fit.peak is None:
        return factor
    return part_slowdown(factor, part.power.max, part.peak.wide, fit.power, fit.peak)
