"""estimate, memory, comm, run, pipeline: one plan."""

from __future__ import annotations

import functools
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from costmodel.commands import completion, replies
from costmodel.commands.answer_options import PAGE, answering_in, optional, optional_argument
from costmodel.commands.by_workload import commands_of
from costmodel.commands.scenario_options import Question, question_command
from costmodel.report.terminal.layout import Reply

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario
    from costmodel.explore.serving.best_fleets import ServedOn

# Everything heavy is imported by the command that needs it, so that --help is quick.


@answering_in(*PAGE)
@question_command
def estimate(question: Question) -> Reply:
    """How long a step takes, how much memory it needs, what it costs.

    Examples:
      costmodel estimate llama-3-70b-512
      costmodel estimate llama-3-70b-512 --set plan.tp=4 --set plan.pp=8
      costmodel estimate --model llama-3.1-8b --gpu h200 --gpus 16
      costmodel estimate --model llama-3.1-8b --gpu h100 --gpus 8 --set workload.tuning=qlora

    Exit code 1 when the plan is invalid, does not fit or breaks a limit.

    Next: costmodel search SCENARIO
    """
    from costmodel.report.answers import plan_answer as report

    case = question.of_one_plan()
    view = commands_of(case).view(case, "estimate")
    return replies.reply_of_view(view, partial(report.estimate_document, view), view.plain, "plans", "time")


_SCENARIO_OR_MODEL = Annotated[
    str | None,
    optional_argument(
        help="A scenario or a model, by name or path; or only flags", autocompletion=completion.scenarios_and_models
    ),
]


@answering_in(*PAGE)
@functools.partial(question_command, argument=_SCENARIO_OR_MODEL)
def memory(question: Question) -> Reply:
    """Where the bytes of the worst stage go, and whether they fit; for a model, its weights and states alone.

    Examples:
      costmodel memory llama-3-70b-512
      costmodel memory llama-3-70b
      costmodel memory --model llama-3.1-70b
      costmodel memory llama-3-70b --gpu h100 --gpus 64

    Without --gpu or --node, it also shows every accelerator that could serve the model: the GPUs needed, the longest
    context, requests in flight and tokens per second. Exit code 1 when the plan is invalid, does not fit or breaks a
    limit; in serving, only limits on memory count.

    Next: costmodel explain SCENARIO memory_peak
    """
    from costmodel.explore.explain.model_memory import is_model

    if question.scenario is not None and is_model(question.scenario):
        if question.is_plain:
            return _model_memory(question.scenario)
        question = question.with_model()
    from costmodel.report.answers import memory as report

    case = question.of_one_plan()
    view, served = commands_of(case).view(case, "memory"), _served_on_machines(question, case)
    document, result = partial(report.memory_document, view, served), partial(report.memory_json, view, served)
    return replies.reply_of_view(view, document, result, "ledger", "memory")


def _served_on_machines(question: Question, case: LoadedScenario) -> list[ServedOn]:
    """The model as a service on every machine on offer; empty if the user names a machine or another job."""
    from costmodel.documents.keys.overrides import path_of

    named = any(question.flags[name] is not None for name in ("gpu", "node", "gpus"))
    if (
        not question.is_alone
        or named
        or any(path_of(assignment).startswith("cluster") for assignment in question.assignments)
    ):
        return []
    from costmodel.documents.reader.serving_scenario import serving
    from costmodel.explore.purchase.buy import MOST
    from costmodel.explore.purchase.offers import offers_for
    from costmodel.explore.serving.best_fleets import served_on
    from costmodel.explore.workload_flags import FLAGS
    from costmodel.explore.workloads import workload_of

    if any(item.path == "workload.kind" for item in case.asked.assumed):
        question = replace(question, flags={**question.flags, "stack": FLAGS["serving"].engine})
    asked = workload_of(question.varied({"cluster.node": "", "cluster.nodes": ""}))
    offers = offers_for(case=asked.case).machines
    machines = {machine.accelerator: machine for machine in reversed(offers) if not machine.price}
    return [] if asked.request_tokens is None else [*served_on(serving(asked.case), machines.values(), MOST)]


def _model_memory(model: str) -> Reply:
    """The answer for a model without a machine: parameters, weights and optimizer states."""
    from costmodel.explore.explain.model_memory import model_memory
    from costmodel.report.data_formats import training_json
    from costmodel.report.terminal import training_memory

    facts, document = model_memory(model), training_memory.model_memory
    made = partial(document, facts)
    return replies.document_reply(made, lambda: training_json.model_memory_fields(facts), "recipes", found=facts)


@answering_in(*PAGE)
@question_command
def comm(question: Question) -> Reply:
    """Every collective of a step: its ranks, link, count, time, and exposed part.

    Examples:
      costmodel comm llama-3-70b-512
      costmodel comm llama-3-70b-512 --set plan.zero=3 --json

    Exit code 1 when the plan is invalid, does not fit or breaks a limit; in serving, only limits on transfers count.

    Next: costmodel explain SCENARIO tp_exposed
    """
    from costmodel.report.answers import communication as report

    case = question.of_one_plan()
    view = commands_of(case).view(case, "comm")
    document, result = partial(report.communication_document, view), partial(report.communication_json, view)
    return replies.reply_of_view(view, document, result, "transfers", "network")


@answering_in(*PAGE)
@question_command
def run(question: Question) -> Reply:
    """How long the whole run takes with failures, checkpoints and restarts; its cost, energy and CO2.

    Examples:
      costmodel run llama-3-70b-512
      costmodel run llama-3-70b-512 --set run.failures=rsc-1 --set run.checkpoint.mode=sync
      costmodel run --model llama-3.1-8b --gpu h100 --gpus 64

    Keys that the scenario omits under run get defaults, listed with their source. Exit code 1 when the plan is not
    valid, does not fit or breaks a limit.

    Next: costmodel explain SCENARIO goodput --set run={}
    """
    from costmodel.documents.reader.load_scenario import vary_any
    from costmodel.report.answers import run as report

    case = question.of_one_plan()
    commands = commands_of(case, "run")
    view = commands.view(case if case.scenario.run is not None else vary_any(case, ["run={}"]), "run")
    document, result = partial(report.run_document, view), partial(report.run_json, view)
    return replies.reply_of_view(view, document, result, "plans", "run")


@answering_in(*PAGE, "trace")
@question_command
def pipeline(
    question: Question,
    schedule: Annotated[
        str,
        optional(
            "--schedule",
            metavar="A,B",
            help="Schedules to compare, e.g. 1f1b,zb-v; default: those of the stack",
            autocompletion=completion.schedules,
        ),
    ] = "",
) -> Reply:
    """How a plan's stages wait for each other: bubble, micro-batches in flight, balance, and a timeline.

    Examples:
      costmodel pipeline llama-3-70b-512
      costmodel pipeline llama-3-70b-512 --schedule 1f1b,interleaved --set plan.pp=8

    Bubbles are shares of the whole step. Exit code 1 when the plan is invalid, does not fit or breaks a limit.

    Next: costmodel explain SCENARIO bubble
    """
    from costmodel.explore.explain.pipeline_schedules import compare_schedules, schedules_named
    from costmodel.report.answers import pipeline as report
    from costmodel.report.answers.training_view import TrainingView

    timelines = compare_schedules(question.case("pipeline"), schedules_named(schedule))
    yes = not (timelines.own.refused or timelines.own.broken)
    forms = {
        **replies.plan_forms(TrainingView(timelines.own), "pipeline"),
        "trace": lambda: report.trace_text(timelines),
    }
    document, result = partial(report.pipeline_document, timelines), partial(report.pipeline_json, timelines)
    return replies.document_reply(document, result, "schedules", yes=yes, others=forms, found=timelines)
