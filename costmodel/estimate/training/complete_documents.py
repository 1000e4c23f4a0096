"""What the documents of a case must state before anything can be computed, and the price that is assumed."""

from __future__ import annotations

from costmodel.documents.reader.resolved_scenario import ACCELERATOR, ResolvedScenario
from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.model import Layers
from costmodel.documents.schemas.precision import RECIPES, Recipe
from costmodel.documents.schemas.tuning import Adapted, Tuning, adaptable
from costmodel.estimate.machine.node_in_use import nvls_at
from costmodel.estimate.machine.number_formats import possible
from costmodel.estimate.machine.price import price_of, price_of_unit
from costmodel.estimate.model.vision_support import seen
from costmodel.estimate.training.stack_in_use import attention_fit, attention_in_use
from costmodel.ground.errors import Place, fail
from costmodel.ground.units import show


def complete(case: ResolvedScenario, recipe: Recipe) -> None:
    """An error if the documents lack something that every computation needs."""
    possible(case, recipe)
    tunable(case)
    workload = case.scenario.workload
    seen(case, case.model, workload.images, workload.sequence)
    efficiency, kernel = case.efficiency, attention_in_use(case)
    name = case.accelerator.name
    for key in (recipe.wide, recipe.fit):
        if key not in (case.common.matmul if recipe.full else efficiency.matmul):
            place = case.place("workload.precision", *ACCELERATOR)
            raise fail("D016", f"{name} has no {key} rate with a fit", place, "take another precision")
    if efficiency.memory is None or efficiency.sustained is None:
        place = case.place(*ACCELERATOR)
        raise fail("D017", f"the efficiency of {name} lacks memory or sustained", place, "write both into it")
    check_links(case)
    if kernel != "unfused" and attention_fit(case) is None:
        raise fail("D017", f"the efficiency of {name} has no attention class {kernel}")


def check_links(case: ResolvedScenario) -> None:
    """An error if the documents lack a fit that every collective needs, or an algorithm that the stack uses."""
    if case.network.network is None:
        raise fail("D017", f"the efficiency of {case.scale_out.name} has no network part")
    if not {"all_gather", "all_reduce"} <= set(case.efficiency.collectives):
        raise fail("D017", f"the efficiency of {case.accelerator.name} lacks fits of all_reduce and all_gather")
    for chosen, present in (("nvls", nvls_at(case)), ("sharp", case.scale_out.reduces)):
        if chosen in case.stack.collectives and not present:
            sentence = f"{case.node.name} with {case.scale_out.name} has no measured {chosen}"
            raise fail("D016", sentence, case.place("stack.collectives"), f"leave {chosen} out of stack.collectives")


def assumed_price(case: ResolvedScenario) -> tuple[Assumption, ...]:
    """The list price used for costs, as an assumption if the scenario states none: the node's, or that of an offer."""
    price = price_of(case)
    listed = price.listed
    if listed is None:
        return ()
    where = f" in {listed.region}" if listed.region else ""
    origin = f"nodes/{price.node}, {listed.sold}{where}, {listed.date}"
    if price.assumed:
        return (Assumption("assume.price", f"{price.each * 3600:.4g} USD/GPU/h", origin),)
    each = "a node" if listed.per == "node" else "an accelerator"
    unit = price_of_unit(listed, case.node, case.accelerator)
    return (Assumption("assume.price", f"{show(float(unit), 'USD/s')} {each}", origin),)


# --- adapters: whether the model has the matrices that they adapt


def tunable(case: ResolvedScenario) -> None:
    """An error for adapters that are not modelled, or on matrices that the model does not have."""
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
    """An error for modules that the model does not have, or has only in experts, which the tuning leaves out."""
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
        sentence = f"{case.model.name} has no {', '.join(absent)} to adapt"
        raise fail("D016", sentence, _place(case, modules.index(absent[0])), remedy)


def _place(case: ResolvedScenario, index: int) -> Place | None:
    """The place where a module was stated; the place of the tuning if none was."""
    return case.place(f"workload.tuning.modules.{index}") or case.place("workload.tuning")


def _names(kinds: list[Layers], *, experts: bool) -> list[Adapted]:
    return list(dict.fromkeys(name for kind in kinds for name in adaptable(kind, experts=experts)))
