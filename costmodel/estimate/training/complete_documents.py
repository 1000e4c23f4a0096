"""What the documents of a case must state before anything can be computed, and the price that is assumed."""

from __future__ import annotations

from costmodel.documents.reader.resolved_scenario import ACCELERATOR, ResolvedScenario
from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.precision import Recipe
from costmodel.estimate.machine.node_in_use import nvls_at
from costmodel.estimate.machine.number_formats import possible
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.model.lora_support import tunable
from costmodel.estimate.model.vision_support import seen
from costmodel.estimate.training.stack_in_use import attention_fit, attention_in_use
from costmodel.ground.errors import fail
from costmodel.ground.units import show


def complete(case: ResolvedScenario, recipe: Recipe) -> None:
    """A fault where the documents lack something that every computation needs."""
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
    """A fault where the documents lack what every collective needs, or have no such algorithm as the stack takes."""
    if case.network.network is None:
        raise fail("D017", f"the efficiency of {case.scale_out.name} has no network part")
    if not {"all_gather", "all_reduce"} <= set(case.efficiency.collectives):
        raise fail("D017", f"the efficiency of {case.accelerator.name} lacks fits of all_reduce and all_gather")
    for chosen, present in (("nvls", nvls_at(case)), ("sharp", case.scale_out.reduces)):
        if chosen in case.stack.collectives and not present:
            sentence = f"{case.node.name} with {case.scale_out.name} has no measured {chosen}"
            raise fail("D016", sentence, case.place("stack.collectives"), f"leave {chosen} out of stack.collectives")


def assumed_price(case: ResolvedScenario) -> tuple[Assumption, ...]:
    """The list price that a cost is counted with, where the scenario states none: the node's, or that of an offer."""
    price = price_of(case)
    listed = price.listed
    if listed is None:
        return ()
    where = f" in {listed.region}" if listed.region else ""
    origin = f"nodes/{price.node}, {listed.sold}{where}, {listed.date}"
    if price.assumed:
        return (Assumption("assume.price", f"{price.each * 3600:.4g} USD/GPU/h", origin),)
    each = "a node" if listed.per == "node" else "an accelerator"
    return (Assumption("assume.price", f"{show(listed.hourly, 'USD/s')} {each}", origin),)
