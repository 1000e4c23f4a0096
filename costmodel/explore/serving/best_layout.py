"""The best layout of a search as settings, for a serving scenario that states no plan."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from dataclasses import replace

import numpy as np

from costmodel.documents.keys.overrides import path_of
from costmodel.documents.reader.library import DocumentReader
from costmodel.documents.reader.load_scenario import any_from, vary_any
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.documents.schemas.serving import ServingPlan
from costmodel.documents.text.yaml_tree import copied
from costmodel.estimate.serving.constraints import invalid
from costmodel.estimate.serving.evaluate_layouts import evaluate
from costmodel.estimate.serving.plan_columns import RARE, SIZES, PlanColumns, filled_with
from costmodel.estimate.serving.predict_serving import layout_of
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.explore.search.scenario_variants import Variants
from costmodel.explore.serving.fleet_size import sizes_of_cluster
from costmodel.explore.serving.layout_candidates import candidates
from costmodel.explore.serving.search_layouts import search
from costmodel.explore.serving.serving_search_result import RankedPlan, ServiceSearch
from costmodel.ground.errors import COMMAND_LINE, Place, fail

_DEGREES = ("tp", "pp", "dp_attention", "replicas")  # whose product is the ranks of a plan
_FEW, _MOST = 10, 100_000  # plans of which the best with the engine's own token budget is taken


def states_no_plan(case: ServingCase) -> bool:
    """Whether the scenario as written states no plan; plan keys of --set stay fixed in the search."""
    return case.scenario.plan is None or "plan" not in (case.original or case.tree)


def has_assumed_plan(case: ServingCase) -> bool:
    """Whether costmodel chose the plan for flags that state none."""
    return any(item.path == "plan" for item in case.asked.assumed)


def asked_case(case: ServingCase) -> LoadedScenario:
    """The scenario as the user stated it, without the plan that costmodel chose for it."""
    if not has_assumed_plan(case):
        return case
    written = {path_of(item) for item in case.assignments}
    stated = (item for item in case.changes if path_of(item) in written or not path_of(item).startswith("plan."))
    reader = DocumentReader(read=dict(case.read), own=list(case.own))
    asked = replace(case.asked, assumed=tuple(item for item in case.asked.assumed if item.path != "plan"))
    found = any_from(reader, copied(case.original), case.file, tuple(stated))
    return replace(found, name=case.name, asked=asked, assignments=case.assignments)


def by_search(case: ServingCase, *, best: bool) -> bool:
    """Whether each answer has the best plan of a search: if asked for, or if no plan is stated."""
    plan = case.scenario.plan
    if best and plan is not None and plan.prefill is not None:
        sentence = "--best searches another layout, and no search lists one for a plan with prefill and decode apart"
        place = Place(COMMAND_LINE, 0, 1, "", "--best", len("--best"))
        raise fail("C010", sentence, place, "leave the plan out: --set plan=null --set search.disaggregated=true")
    return best or states_no_plan(case)


def with_best_layout(case: LoadedScenario) -> LoadedScenario:
    """The case with the best layout for its load."""
    found = best_layout(serving(case))
    settings = {} if found is None else found[0]
    return vary_any(case, [f"{path}={value}" for path, value in settings.items()]) if settings else case


def best_layout(case: ServingCase, *, nearest: bool = False) -> tuple[dict[str, str], str] | None:
    """Settings of the best plan with its token budget, and where they are from.

    None if the plan is written in a form that no search lists. If no plan fits, a fault, or with `nearest` that plan.
    """
    if case.scenario.plan is not None and case.scenario.plan.prefill is not None:
        return None
    inputs = inputs_of(case)
    for most in (_FEW, _MOST):
        found = search(inputs, most, bands=False)
        best = next((ranked for ranked in found.best if ranked.sizes["budget"] == float(inputs.budget)), None)
        if best is not None or len(found.best) < most:
            break
    if best is None and case.scenario.plan is not None:
        return None
    if best is None:
        if nearest:
            return _nearest_to_fit(inputs), "the plan nearest to fit; none of costmodel search fits"
        why = "costmodel search with the same flags and --why-not shows why"
        raise fail("C004", "no plan of the search fits", Place(case.file), why)
    which = "the best plan of costmodel search"
    which = which if found.is_safe else "the plan of costmodel search with the highest chance"
    which = "the plan of costmodel search nearest to the limits" if best.broken else which
    return plan_settings(found, best), f"{which}, with the engine's token budget (stack.budget)"


def _nearest_to_fit(inputs: ServingInputs) -> dict[str, str]:
    """The degrees of the layout with the smallest share of memory, among valid ones where there are any."""
    layout = candidates(inputs)
    kept = np.ones(len(layout), dtype=bool)
    for _, mask in invalid(inputs, layout):
        kept &= ~mask
    layout = layout.at(kept) if kept.any() else layout
    with np.errstate(all="ignore"):
        row = int(np.argmin(evaluate(inputs, layout).results.column("memory_share")))
    sizes = {name: float(getattr(layout, name)[row]) for name in ("tp", "pp", "ep", "dp_attention")}
    return {f"plan.{name}": f"{size:.0f}" for name, size in sizes.items() if size > 1 or name == "tp"}


def plan_settings(found: ServiceSearch, ranked: RankedPlan) -> dict[str, str]:
    """Settings that turn the scenario's plan into one that a search found."""
    return settings_at(found.variants, ranked)


def settings_at(variants: Variants[ServingInputs], ranked: RankedPlan) -> dict[str, str]:
    """Settings that turn the scenario's plan into another one, including values of varied keys."""
    inputs, sizes = variants.of(ranked.variant), ranked.sizes
    varied = variants.values(ranked.variant)
    plan = inputs.case.scenario.plan
    if ranked.prefill is not None or (plan is not None and plan.prefill is not None):
        return {
            **varied,
            "plan": f"{{{', '.join(_whole_plan_keys(plan, ranked))}}}",
            **budget_settings(inputs, sizes["budget"], varied),
        }
    own = None if plan is None else layout_of(inputs, plan)[0]
    settings, names = {}, ("tp", "pp", "ep", "dp_attention", "replicas", *RARE)
    stated = _stated_degrees(inputs, sizes) if own is None else ()
    for name in names:
        none = RARE.get(name, 1.0)
        usual = none if own is None else float(getattr(own, name)[0])
        size = sizes.get(name, none)
        if size != usual or name in stated or (name == "replicas" and own is not None and _is_open(inputs, sizes)):
            settings[f"plan.{name}"] = f"{size:.0f}" if size else "null"
    settings |= budget_settings(inputs, sizes["budget"], varied)
    if own is None and not settings:
        settings["plan.tp"] = f"{sizes['tp']:.0f}"
    return {**varied, **settings}


def _is_open(inputs: ServingInputs, sizes: dict[str, float]) -> bool:
    """Whether the number of replicas must be stated, because the plan would otherwise get another number."""
    plan = inputs.case.scenario.plan
    if plan is None or plan.replicas is not None:
        return False
    layout = PlanColumns(*(np.array([sizes.get(name, RARE.get(name, 1.0))]) for name in SIZES))
    return sizes["replicas"] != float(filled_with(inputs, layout).replicas[0])


def _stated_degrees(inputs: ServingInputs, sizes: dict[str, float]) -> tuple[str, ...]:
    """Degrees to write although they are 1, because the cluster has room for more of them."""
    ranks = math.prod(sizes.get(name, 1.0) for name in _DEGREES)
    if 2 * ranks > inputs.ranks:
        return ()
    return ("tp", "pp", "replicas", *(("ep", "dp_attention") if inputs.model.has_experts else ()))


def fleet_settings(found: ServiceSearch, fleet: RankedPlan) -> dict[str, str]:
    """Settings for the best plan with the replicas that the rate needs, and the nodes that contain them."""
    inputs, settings = found.variants.of(fleet.variant), plan_settings(found, fleet)
    sizes = sizes_of_cluster(inputs.case)
    number = sizes.number(fleet.costs["gpus"])
    if sizes.gpus(number) != float(inputs.ranks):
        settings |= dict(setting.split("=", 1) for setting in sizes.settings(number))
    return settings


def budget_settings(inputs: ServingInputs, budget: float, varied: Container[str] = ()) -> dict[str, str]:
    """The setting of a plan's token budget, where the engine would pick another one."""
    if budget == float(inputs.budget):
        return {}
    named = {} if "stack" in inputs.case.tree or "stack" in varied else {"stack": inputs.engine.name}
    return {**named, "stack.budget": f"{budget:.0f}"}


def _whole_plan_keys(plan: ServingPlan | None, ranked: RankedPlan) -> Iterator[str]:
    """The keys of a complete plan, which replaces a plan with other kinds of instances."""
    sizes = ranked.sizes
    if ranked.prefill is None:
        names = [
            name
            for name in ("tp", "pp", "ep", "dp_attention", "dcp", "replicas")
            if sizes.get(name, 1.0) > 1 or name in ("tp", "replicas")
        ]
        yield from (f"{name}: {sizes[name]:.0f}" for name in names)
    else:
        halves = (("prefill", ranked.prefill), ("decode", sizes))
        alone = all(
            half["replicas"] == 1 for _, half in halves
        )  # left out, there would be as many as there is room for
        yield from (f"{name}: {_half(half, ('tp', 'replicas') if alone else ('tp',))}" for name, half in halves)
    if sizes.get("redundant_experts"):
        yield f"redundant_experts: {sizes['redundant_experts']:.0f}"
    if plan is not None and plan.host_experts:
        yield f"host_experts: {100 * plan.host_experts:g} %"
    if plan is not None and plan.speculation is not None:
        drafts = plan.speculation
        words = f"{drafts.accepted_words}{drafts.tree_words}"
        yield f"speculation: {{tokens: {drafts.tokens:g}, {words}, draft: {drafts.draft}}}"


def _half(sizes: dict[str, float], written: tuple[str, ...]) -> str:
    """Instances of one kind as a plan writes them."""
    names = ("tp", "ep", "dp_attention", "dcp", "replicas")
    degrees = {name: sizes[name] for name in names if sizes.get(name, 1.0) > 1 or name in written}
    return f"{{{', '.join(f'{name}: {degree:.0f}' for name, degree in degrees.items())}}}"
