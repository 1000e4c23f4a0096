"""Which adapters can be trained: who lacks the matrices that they are to stand beside."""

from __future__ import annotations

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.model import Layers
from costmodel.documents.schemas.precision import RECIPES
from costmodel.documents.schemas.tuning import Adapted, Tuning, adaptable
from costmodel.ground.errors import Place, fail


def tunable(case: ResolvedScenario) -> None:
    """A fault for adapters that are not modelled, or beside matrices that the model does not have."""
    workload, model = case.scenario.workload, case.model
    tuning = workload.tuning
    if tuning == "full":
        return
    kinds = model.kinds
    if any(kind.scan_heads for kind in kinds):
        sentence = "adapters are modelled for attention, MLPs and experts, not for mixers that scan"
        hint = "take workload.tuning: full, or a model without state_space and linear"
        raise fail("D016", sentence, case.place("workload.tuning"), hint)
    if any(kind.compressed is not None for kind in kinds):
        sentence = "adapters are not modelled beside the matrices of compressed attention"
        hint = "take workload.tuning: full, or a model without compressed"
        raise fail("D016", sentence, case.place("workload.tuning"), hint)
    if tuning.method == "qlora" and RECIPES[workload.precision].narrow:
        sentence = f"weights of qlora are unpacked into 16 bits, which products in {workload.precision} do not read"
        hint = "take workload.precision: bf16, or workload.tuning.method: lora"
        raise fail("D016", sentence, case.place("workload.precision"), hint)
    _beside(case, tuning, kinds)


def _beside(case: ResolvedScenario, tuning: Tuning, kinds: list[Layers]) -> None:
    """A fault for modules that the model does not have, or has only in experts, which are left out."""
    there, everywhere = _names(kinds, experts=tuning.experts), _names(kinds, experts=True)
    remedy = f"workload.tuning.modules of it: {', '.join(there)}"
    modules = tuning.modules or there
    left = [name for name in modules if name in everywhere and name not in there]
    if left:
        sentence = (
            f"{case.model.name} has {', '.join(left)} only in its routed experts, which experts: false leaves out"
        )
        hint = f"take workload.tuning.experts: true, or {remedy}"
        raise fail("D016", sentence, _place(case, modules.index(left[0])), hint)
    absent = [name for name in modules if name not in there and (name != "gate" or not {*modules} & {*there})]
    if absent:
        sentence = f"{case.model.name} has no {', '.join(absent)} to put adapters beside"
        raise fail("D016", sentence, _place(case, modules.index(absent[0])), remedy)


def _place(case: ResolvedScenario, index: int) -> Place | None:
    """Where a module was named; the tuning, where none was."""
    return case.place(f"workload.tuning.modules.{index}") or case.place("workload.tuning")


def _names(kinds: list[Layers], *, experts: bool) -> list[Adapted]:
    return list(dict.fromkeys(name for kind in kinds for name in adaptable(kind, experts=experts)))
