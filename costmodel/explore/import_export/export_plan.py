"""Exports a training or RL plan (the scenario's own, one of its search, or the best) as a launch file."""

from __future__ import annotations

import itertools
import json
import math
import shlex
from collections.abc import Callable, Iterator

from costmodel.documents.keys.paths import at
from costmodel.documents.reader.find_documents import folder_of
from costmodel.documents.reader.library import DocumentReader
from costmodel.documents.reader.load_scenario import any_from, vary_any
from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario, training
from costmodel.documents.reader.rl_scenario import RlCase, reinforced
from costmodel.documents.schemas.scenario import Plan
from costmodel.documents.text.yaml_tree import copied
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.rl.predict_rl import predict as predict_rl
from costmodel.estimate.shared.assumptions import WITHOUT_EFFECT, AssumptionLog
from costmodel.estimate.shared.plan_batch import plan_to_mapping
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.stack_in_use import gradient_types
from costmodel.estimate.training_answer.predict_training import Answer, predict
from costmodel.exchange.detect import RL_FORMATS
from costmodel.exchange.import_result import GivenSize
from costmodel.exchange.option_rows import Remarks
from costmodel.exchange.rl.rl_format import RlFormat, RlJob
from costmodel.exchange.training.formats import TARGETS, Exported, exported_training, read_back
from costmodel.exchange.training.job import Job, keys_of_program
from costmodel.exchange.write_yaml import checkpoint_name
from costmodel.explore.answer_summaries import rl_plan_text
from costmodel.explore.compare.select_plan import answer_of_own_or_best, answer_of_rank
from costmodel.explore.import_export.import_job import OpenedFile, rl_scenario_of
from costmodel.explore.rl import search as search_splits
from costmodel.explore.rl import with_own_or_best_plan
from costmodel.explore.workloads import check_exportable
from costmodel.ground.counts import SIZES, number_of
from costmodel.ground.errors import CostModelError, Fault, Place, fail
from costmodel.ground.record import record

_DEGREES = ("tp", "cp", "pp", "vpp", "ep", "dp")
_WITHOUT_MODEL = ("deepspeed", "accelerate", "hf")  # formats of files that state no model and no length


@record
class ExportedPlan:
    """The exported file of a plan, with the prediction for it."""

    answer: Answer
    job: Job
    file: Exported
    chosen: str
    run: Answer | None  # of what the file starts; None if that is not known

    @property
    def given(self) -> list[str]:
        """The options that `import` needs besides this file, apart from the machine."""
        job, target = self.job, self.file.target
        if target.name in _WITHOUT_MODEL:
            stated = [f"model={self._model}", f"workload.sequence={job.workload.sequence:g}"]
            stated += [
                *itertools.chain(*keys_of_program(target, job).values()),
                *([f"stack={job.stack}"] if target.calls else []),
            ]
            nodes = [f"--nodes {job.nodes}"] if isinstance(self.answer.inputs.case.scenario.cluster.node, str) else []
            return [*nodes, *(f"--set {each}" for each in stated)]
        named = target.name != "torchtitan" or "model_spec" in self.file.text
        return [] if named else [f"--set model={shlex.quote(self._model)}"]

    @property
    def _model(self) -> str:
        """The model as it was given, as a path from the working folder."""
        return model_reference(self.answer.inputs.case)

    def described(self, say: Callable[[str, float], str]) -> Iterator[str]:
        """Lines about the plan and its expected results; `say` formats a result."""
        evaluation = self.answer.evaluation
        degrees = ", ".join(f"{name} {float(getattr(evaluation.block, name)[0]):g}" for name in _DEGREES)
        step = say("step_time", evaluation.costs.row()["step_time"])
        own = f"{step} a step expected"
        if self.run is None:
            own = f"{step} a step expected with {self.job.stack}; what this file starts was not timed"
        elif self.run is not self.answer:
            started = self.run.inputs.stack.name
            run = say("step_time", self.run.evaluation.costs.row()["step_time"])
            own = f"{run} a step expected, as this file starts it with {started}; {step} as asked with {self.job.stack}"
        yield f"{degrees}: {number_of(self.job.accelerators, 'accelerator')}; {own}"
        yield self.chosen


def export_plan(case: ResolvedScenario, to: str, rank: int | None = None) -> ExportedPlan:
    """Exports the scenario's plan, or the plan at a rank of its search; without a plan, the best of the search."""
    answer = answer_of_own_or_best(case) if rank is None else answer_of_rank(case, rank)
    job = training_job_of(answer)
    check_exportable(answer, case, fitting=True)
    file = exported_training(TARGETS[to], job)
    return ExportedPlan(answer, job, file, plan_origin(case, rank), _answer_of_file(answer, job, file))


def plan_origin(case: LoadedScenario, rank: int | None) -> str:
    """A phrase on where an exported plan is from, and how to get the best one instead."""
    if rank is not None:
        return f"plan: rank {rank} of costmodel search"
    if case.scenario.plan is None:
        return "plan: the best of costmodel search"
    of_flags = case.asked.words and not case.name
    own = "as set, other keys by default of the software" if of_flags else "that of the scenario"
    return f"plan: {own}; --rank 1 writes the best of costmodel search"


def model_reference(case: LoadedScenario) -> str:
    """The model as the scenario names it: a name, or a path from the working folder; its own name if written out."""
    stated = case.tree.get("model")
    if not isinstance(stated, str):
        return str(case.model.name)
    path = folder_of(case.place("model")) / stated
    return str(path) if path.exists() else stated


def _answer_of_file(answer: Answer, job: Job, file: Exported) -> Answer | None:
    """The prediction for what a file starts, which is another plan if it cannot express all keys; None if unknown."""
    if not file.faults:
        return answer
    try:
        found = read_back(file.target, file.text, job).document
        keys = {"plan": found["plan"], "stack": found.get("stack", job.stack)}
        held = vary_any(answer.inputs.case, [f"{key}={json.dumps(value)}" for key, value in keys.items()])
        started = predict(training(held), bands=False)
    except CostModelError:
        return None
    return None if started.refused else started


def training_job_of(answer: Answer) -> Job:
    """The plan of an answer with everything that a launch file states, and no open choice."""
    inputs = answer.inputs
    case = inputs.case
    experts = inputs.experts
    return Job(
        file=case.file,
        plan=plan_without_open_choices(answer),
        model=case.model,
        workload=case.scenario.workload,
        stack=inputs.stack.name,
        gradients=gradient_types(AssumptionLog(), case)[0],
        optimizer=case.optimizer.name,
        assume=case.scenario.assume,
        deduplicated=experts is not None and experts.deduplicated,
        nodes=round(case.scenario.cluster.nodes),
        per_node=round(case.node.accelerators),
    )


def plan_without_open_choices(answer: Answer) -> Plan:
    """The plan with every open choice set to the value that the prediction used."""
    block = answer.evaluation.block
    made = plan_to_mapping(block.structure)
    if block.structure.split == "fitting":
        chosen = (item.value for item in answer.assumed if item.path == "plan.split" and item.value != WITHOUT_EFFECT)
        made["split"] = next(chosen, "even")
    return Plan.model_validate({**{name: number(getattr(block, name)) for name in SIZES}, **made})


# --- of reinforcement learning: both plans of an iteration, read back by what import makes of the text


@record
class ExportedIteration:
    """The exported configuration of an RL iteration, with the prediction for it."""

    answer: RlAnswer
    job: RlJob
    file: ExportedConfiguration
    chosen: str

    @property
    def given(self) -> list[str]:
        """The options that `import` needs besides this file, apart from the machine."""
        workload = self.job.workload
        lengths = [f"--prompt {workload.prompt:g} --answer {workload.response.mean:g}"]
        return [*lengths, *([f"--gpus {sum(self.job.ranks)}"] if self.file.target.name == "trl" else [])]

    def described(self, say: Callable[[str, float], str]) -> Iterator[str]:
        """Lines about the plan and its expected results; `say` formats a result."""
        time = say("iteration_time", self.answer.costs["iteration_time"])
        yield f"{rl_plan_text(self.answer)}; an iteration of {time} expected"
        yield self.chosen


@record
class ExportedConfiguration:
    """The text of a configuration, the keys that it cannot express, and values that the user must add."""

    target: RlFormat
    text: str
    faults: tuple[Fault, ...]
    notes: tuple[str, ...]


_GIVEN = ("prompt", "response.mean", "response.spread", "filtered", "environment.time", "environment.turns",
          "environment.parallel")  # of the workload, which no configuration states  # fmt: skip
_SAME = ("iteration_time", "generation", "update_time", "memory_peak", "training_ranks", "rollout_ranks")


def export_iteration(case: RlCase, to: str, rank: int | None = None) -> ExportedIteration:
    """Exports the scenario's RL plan as a configuration; without a plan, the best of its search."""
    answer = predict_rl(with_own_or_best_plan(case), bands=False) if rank is None else rl_answer_of_rank(case, rank)
    check_exportable(answer, case, fitting=True)
    job, target = rl_job_of(answer), next(entry for entry in RL_FORMATS.values() if entry.name == to)
    remarks = Remarks(case.file)
    if job.stack.name != to:
        hint = f"--to {job.stack.name}, or --set stack={to}"
        remarks.refuse("stack", f"{job.stack.name}: {target.title} starts {target.version.rpartition(' ')[0]}", hint)
    if case.parts:
        remarks.refuse("cluster.groups", "no configuration states nodes of two kinds")
    if not job.checkpoint:
        remarks.refuse("model", f"{job.model.name} has no checkpoint on the hub", "--set model=OWNER/NAME")
    if len(remarks.faults) == 0:
        text = target.write(job, remarks.refuse)
        _check_reimport(answer, text, target, remarks)
    else:
        text = ""
    notes = tuple(f"give --{flag} beside it: the data decide that" for flag in ("prompt", "answer"))
    file = ExportedConfiguration(target, text, tuple(remarks.faults), notes)
    return ExportedIteration(answer, job, file, plan_origin(case, rank))


def rl_answer_of_rank(case: RlCase, rank: int) -> RlAnswer:
    """The answer for the plan at a rank of the search over splits."""
    ranking = search_splits(case, rank)
    if len(ranking.best) < rank:
        sentence = f"the search finds {len(ranking.best)} splits, so none of rank {rank}"
        raise fail("C004", sentence, Place(case.file), "costmodel search SCENARIO --why-not shows why")
    return ranking.answer_of(ranking.best[rank - 1])


def rl_job_of(answer: RlAnswer) -> RlJob:
    """The plans of an RL answer with everything that a configuration states, and no open choice."""
    inputs, case = answer.inputs, answer.inputs.case
    trained = plan_without_open_choices(inputs.trainer).model_copy(update={"micro_batch": inputs.plan.micro_batch})
    shipped = next(iter(case.hub.values()), case.model.name)
    rollout, apart = inputs.plan.rollout, not inputs.split.colocated
    claimed = rollout.memory or (case.rollout.memory.share if apart else case.stack.sharing.memory)
    return RlJob(
        file=case.file,
        model=case.model,
        checkpoint=checkpoint_name(shipped, list(case.hub)),
        workload=case.scenario.workload,
        plan=trained,
        beside=inputs.plan.beside,
        rollout=rollout.model_copy(update={"memory": claimed, "offload": inputs.offload}),
        trainer=case.trainer.name,
        engine=case.rollout,
        stack=case.stack,
        ranks=(round(inputs.split.trainer.ranks), round(inputs.split.rollout.ranks) if apart else 0),
        per_node=round(case.node.accelerators),
        scored_by_trainer=inputs.scored_by_trainer,
        optimizer=case.optimizer.name,
    )


def _check_reimport(answer: RlAnswer, text: str, target: RlFormat, remarks: Remarks) -> None:
    """Imports the exported text again, and adds a remark for each key whose value differs."""
    case, ranks = answer.inputs.case, round(answer.inputs.split.ranks)
    workload = case.scenario.workload
    stated = {f"workload.{path}": at(workload.model_dump(exclude_none=True), path) for path in _GIVEN}
    given = [f"{path}={value}" for path, value in stated.items() if value is not None]
    file = OpenedFile("export.yaml" if target.kind == "YAML" else "export.sh", text, target.title)
    try:
        made = rl_scenario_of([file], GivenSize(gpus=ranks), given, {}).document
        tree = {**case.tree, **{name: copied(made[name]) for name in ("workload", "stack", "plan")}}
        back = reinforced(any_from(DocumentReader(), tree, case.file, ()))
        again = predict_rl(back, bands=False)
    except CostModelError as error:
        for fault in error.faults:
            remarks.refuse("plan", f"read back, the text is refused: {fault.sentence}", fault.hint)
        return
    if all(math.isclose(answer.costs[name], again.costs[name], rel_tol=1e-6) or answer.costs[name] != answer.costs[name]
           for name in _SAME):  # fmt: skip
        return
    ours, theirs = (_iteration_keys(side) for side in (answer, again))
    for key in ours:
        if ours[key] != theirs[key] and key not in ("plan.cp_type", "workload.iterations"):
            remarks.refuse(key, f"{ours[key]} comes back as {theirs[key]}")
    if not remarks.faults:
        before, after = (side.costs["iteration_time"] for side in (answer, again))
        sentence = f"an iteration of {before:.4g} s comes back as {after:.4g} s"
        remarks.refuse("plan", sentence)


def _iteration_keys(answer: RlAnswer) -> dict[str, object]:
    """The keys that determine an iteration, with their values."""
    job, case = rl_job_of(answer), answer.inputs.case
    parts = (("plan", job.plan), ("plan.rollout", job.rollout), ("workload", job.workload))
    keys = {f"{place}.{name}": getattr(part, name) for place, part in parts for name in type(part).model_fields}
    own = {"stack.trainer": case.trainer.name, "stack.rollout": case.rollout.name, "workload.optimizer": job.optimizer}
    return keys | own | {"workload.reference": job.value("workload.reference"), "workload.reward": job.value(
        "workload.reward"), "workload.old_log_probabilities": job.value("workload.old_log_probabilities")}  # fmt: skip
