"""Searches a service on nodes of several kinds: replicas on each kind under its share of the load, in one ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.estimate.serving.mixed_fleet import shared_load, under_share
from costmodel.estimate.serving.predict_serving import within_limits
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.explore.search.ranges import Axis
from costmodel.explore.search.stream import HERE, SearchOptions
from costmodel.explore.serving.found_plans import ServiceSearch
from costmodel.explore.serving.search_layouts import search
from costmodel.ground.errors import fail

_LIGHT = 1e-3  # of the load, under which a kind of nodes is looked at for the rate that it could answer


def search_groups(case: ServingCase, top: int, over: Sequence[Axis], how: SearchOptions = HERE) -> ServiceSearch:
    """The best plans on each kind of nodes, of one ranking; each kind takes its share of the load."""
    if over:
        sentence, hint = "a search on several kinds of nodes varies no other key", "leave --over out, or take one kind"
        raise fail("C010", sentence, case.place("cluster.groups"), hint)
    kinds = {group.node.name: _machine(case, group) for _, group in case.groups}
    bare = ["plan=null"] if case.scenario.plan is not None else []
    alone = [serving(vary_any(case, [*bare, f"cluster={machine}"])) for machine in kinds.values()]
    parts = shared_load(case, list(map(_most, alone)))
    shares = {part.case.node.name: part.share for part in parts}
    make, values = partial(_inputs, shares), tuple(kinds[name] for name in shares)
    first = next(each for each in alone if each.node.name in shares)
    found = search(make(first), top, [Axis("cluster", values)], how, make=make)
    found.shares = shares
    return found


def _machine(case: ServingCase, group: ServingCase) -> str:
    """The nodes of a kind, as a value of the key `cluster`."""
    if not any(isinstance(each.node, str) and each.node == group.node.name for each in case.cluster.groups or ()):
        sentence = f"a search names nodes, and cluster.groups writes {group.node.name} out"
        raise fail("D010", sentence, case.place("cluster.groups"), "save it as a document under hardware/nodes")
    return f"{{node: {group.node.name}, nodes: {float(group.cluster.nodes):g}}}"


def _most(case: ServingCase) -> float:
    """Requests a second within limits of the best plan on one kind of nodes; 0 where none fits."""
    light = under_share(case, _LIGHT) if case.scenario.workload.rate is not None else case
    asked = light.scenario.model_copy(update={"objective": "rate_within_slo_per_s", "search": case.scenario.search})
    found = search(inputs_of(replace(light, scenario=asked)), 1, bands=False).best
    return within_limits(found[0].costs) if found and not {"M001"} & set(found[0].broken) else 0.0


def _inputs(shares: dict[str, float], case: LoadedScenario) -> ServingInputs:
    """The numbers of the service on one kind of nodes, under its share of the load."""
    held = serving(case)
    return inputs_of(under_share(held, shares[held.node.name]))
