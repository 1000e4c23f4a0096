"""A serving scenario with every document it names, ready to be estimated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from costmodel.documents.keys.paths import place_at
from costmodel.documents.keys.suggestions import nearest
from costmodel.documents.reader.folders import names
from costmodel.documents.reader.library import DocumentReader
from costmodel.documents.reader.resolved_scenario import UNDERSTOOD, LoadedScenario, named_documents, purpose_of
from costmodel.documents.schemas.engine import Engine
from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.practice import Practice
from costmodel.documents.schemas.serving import DRAFTS, Serving, ServingPlan, ServingScenario, without_gaps
from costmodel.ground.errors import CostModelError, Place, fail, quoted_value
from costmodel.ground.record import record

PRACTICE = "usual"


@record
class ServingCase(LoadedScenario):
    """A serving scenario with every document it names.

    With several kinds of nodes, `groups` has the number and the scenario of each kind; if one kind does prefill and
    another decode, this is the scenario of the decode nodes, and `prompts` that of the prefill nodes.
    """

    kind: ClassVar[str] = "serving"
    scenario: ServingScenario
    stack: Engine
    draft: Model | None = None  # of speculative decoding, where the plan names a model
    prompts: ServingCase | None = None
    by_kind: tuple[ServingCase, ...] = ()  # of groups
    practice: Practice | None = None  # of how much power nodes draw; none where a job has engines as its part

    @property
    def run(self) -> None:
        """None: a service has no end."""

    @property
    def kinds(self) -> tuple[tuple[float, Any], ...]:
        """The number and the scenario of each kind of node: of node groups, or of prefill and decode."""
        if self.prompts is None:
            return self.groups
        return tuple((float(side.cluster.nodes), side) for side in (self.prompts, self))


def serving_case_of(scenario: ServingScenario, reader: DocumentReader, tree: dict[str, Any]) -> ServingCase:
    """A validated serving scenario with every document it names."""
    try:
        held = named_documents(scenario, reader, tree)
    except CostModelError as error:
        raise _with_engines(error, scenario, reader) from None
    engine = held["stack"]
    if not isinstance(engine, Engine):
        sentence = f"{engine.name} {purpose_of(engine)}; a scenario that serves takes an engine"
        raise fail("D010", sentence, place_at(tree, "stack"), f"engines: {_engines(reader)}")
    practice = reader.document("practice", PRACTICE)
    assert isinstance(practice, Practice)
    if scenario.workload.users is not None and not scenario.workload.think_time:
        scenario = scenario.model_copy(update={"workload": _without_think_time(scenario.workload)})
    if scenario.workload.single_token:
        scenario = scenario.model_copy(update={"limits": without_gaps(scenario.limits)})
    case = ServingCase(scenario=scenario, practice=practice, draft=_draft_of_plan(scenario, reader, tree), **held)
    return _with_node_kinds(case, reader, tree)


def _with_node_kinds(case: ServingCase, reader: DocumentReader, tree: dict[str, Any]) -> ServingCase:
    """The scenario on each kind of nodes; with prefill and decode on two kinds, the scenario of the decode nodes."""
    cluster, plan = case.cluster, case.scenario.plan
    kinds = {str(getattr(group.node, "name", group.node)): group.node for group in cluster.groups or ()}
    stated = () if plan is None else plan.groups or ()
    parts = () if plan is None else (plan.prefill, plan.decode)
    halves = [half.node or "" for half in parts if half is not None]
    apart = any(halves)
    if len(kinds) < 2 or (stated and len(stated) != len(kinds)) or (apart and set(halves) != set(kinds)):
        if not stated and not apart:
            return case
        key = "plan.groups" if stated else "plan.prefill.node"
        held = f"cluster.groups has {len(kinds)} kinds of nodes" if kinds else "the cluster has no groups"
        wanted = f"plan.groups has {len(stated)} plans" if stated else f"plan names {' and '.join(halves)}"
        hint = f"cluster.groups: [{{node: {cluster.node}, nodes: 2}}, …], one entry for each kind"
        raise fail("D010", f"{wanted}, and {held}", place_at(tree, key, "plan"), hint)
    found = dict[str, ServingCase]()
    for place, (name, node) in enumerate(kinds.items()):
        count = sum(float(group.nodes) for group in cluster.groups or () if group.node == node)
        own = cluster.model_copy(update={"node": node, "nodes": count, "groups": None, "between": None})
        scenario = case.scenario.model_copy(
            update={"cluster": own, "plan": ServingPlan.of_kind(stated[place]) if stated else plan}
        )
        found[name] = replace(case, scenario=scenario, **named_documents(scenario, reader, tree))
    if apart:
        return replace(found[halves[1]], prompts=found[halves[0]])
    counted: Any = tuple((float(each.cluster.nodes), each) for each in found.values())
    return replace(case, groups=counted, by_kind=tuple(found.values()))


def _without_think_time(workload: Serving) -> Serving:
    """The workload if users have no think time: each answer triggers the next request, so all users are in flight."""
    return workload.model_copy(update={"users": None, "concurrency": workload.users, "think_time": None})


def _engines(reader: DocumentReader) -> str:
    """The names of all engines, for a hint."""
    return ", ".join(name for name in names("stack") if isinstance(reader.document("stack", name), Engine))


def _with_engines(error: CostModelError, scenario: ServingScenario, reader: DocumentReader) -> CostModelError:
    """The same faults, with the engines named in the hint for an unknown stack."""
    if not isinstance(scenario.stack, str):
        return error
    unknown = f"there is no stack named {quoted_value(scenario.stack)}"
    return CostModelError(
        *(
            replace(fault, hint=f"engines: {_engines(reader)}")
            if fault.sentence == unknown and not fault.hint.startswith("did you mean")
            else fault
            for fault in error.faults
        )
    )


def _draft_of_plan(scenario: ServingScenario, reader: DocumentReader, tree: dict[str, Any]) -> Model | None:
    """The draft model, if the plan names one."""
    plan = scenario.plan
    if plan is None or plan.speculation is None or plan.speculation.draft in DRAFTS:
        return None
    named = plan.speculation.draft
    place = place_at(tree, "plan.speculation.draft", "plan.speculation", "plan")
    try:
        draft = reader.document("model", named, place)
    except CostModelError as error:
        if {fault.code for fault in error.faults} != {"D009"}:
            raise
        (fault,) = error.faults
        close = nearest(named.lower(), DRAFTS)
        meant = f"did you mean '{close}'? " if close else ""
        if fault.hint.startswith("did you mean") and not close:
            raise
        hint = f"{meant}a draft is {', '.join(DRAFTS)} or a model; costmodel list models shows them"
        raise fail("D009", f"there is no draft named {quoted_value(named)}", place, hint) from None
    assert isinstance(draft, Model)
    return draft


def serving(loaded: LoadedScenario) -> ServingCase:
    """The serving scenario; a fault for any other workload."""
    if isinstance(loaded, ServingCase):
        return loaded
    sentence = f"this question is about serving, and the workload is {loaded.kind}"
    raise fail("C030", sentence, loaded.place("workload.kind") or Place(loaded.file), UNDERSTOOD)
