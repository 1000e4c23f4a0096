"""How much slower tensor cores are in a real step than in kernels alone, on one part."""

from __future__ import annotations

from costmodel.documents.case import Case
from costmodel.equation import Number
from costmodel.equations.counting import repeated
from costmodel.equations.slowdown import narrow_slowdown, part_slowdown


def slowdown_of(case: Case, narrow: Number | None = None) -> Number:
    """As assumed, else as fitted: as much more or less as the part has less or more power for its peak in 16 bits.

    Of products in a narrow type, so many times that of 16 bits.
    """
    written, fit = case.scenario.assume.sustained, case.efficiency.sustained
    power, peak = case.accelerator.power, case.accelerator.peak.bf16 or case.accelerator.peak.fp16
    assert fit
    if written is not None:
        return written if narrow is None else narrow_slowdown(written, narrow)
    factor: Number = fit.factor if narrow is None else repeated(narrow, fit.factor)
    if power is None or peak is None or fit.power is None or fit.peak is None:
        return factor
    return part_slowdown(factor, power.max, peak, fit.power, fit.peak)
