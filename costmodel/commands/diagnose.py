"""diagnose: why a measured step is slower than predicted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.commands.answer_options import PAGE, answering_in, optional
from costmodel.commands.scenario_options import Question, question_command
from costmodel.report.terminal.layout import Reply

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import ResolvedScenario

StepOption = Annotated[str, optional("--step", metavar="TIME", help="Measured time of a step, e.g. 18.9s")]
MfuOption = Annotated[str, optional("--mfu", metavar="SHARE", help="Measured MFU, e.g. 38%, instead of --step")]
TokensOption = Annotated[
    str, optional("--tokens-per-s", metavar="RATE", help="Measured tokens per second, instead of --step")
]
TermOption = Annotated[
    list[str] | None, optional("--term", metavar="NAME=TIME", help="A term of a profile, e.g. dp_exposed=0.5s; repeat")
]
FromOption = Annotated[
    str, optional("--from", metavar="FILE", help="A log of training, a table of one run, or lines of name,value")
]

TraceOption = Annotated[
    str, optional("--trace", metavar="FILE", help="A trace of PyTorch's profiler, or Nsight's summary of kernels")
]
StepsOption = Annotated[
    int, typer.Option("--steps", min=0, help="Steps that an Nsight summary is over, times its GPUs")
]

BusyOption = Annotated[str, optional("--busy", metavar="SHARE", help="Share of a step in which kernels run")]
AlsoOption = Annotated[
    list[str] | None,
    optional("--also", metavar="KEY=VALUE:TIME", help="Another run with one key changed, and its step; repeat"),
]


@answering_in(*PAGE)
@question_command
def diagnose(
    question: Question,
    step: StepOption = "",
    mfu: MfuOption = "",
    tokens: TokensOption = "",
    terms: TermOption = None,
    table: FromOption = "",
    trace: TraceOption = "",
    steps: StepsOption = 0,
    busy: BusyOption = "",
    also: AlsoOption = None,
) -> Reply:
    """List the causes that alone would explain a measured step, each with the needed and the expected value.

    Examples:
      costmodel diagnose llama-3-70b-512 --step 18.9s
      costmodel diagnose llama-3-70b-512 --mfu 39% --term dp_exposed=0.5s
      costmodel diagnose llama-3-70b-512 --step 18.9s --also global_batch=2048:34.2s

    Terms have the names that estimate prints, such as 'dp exposed'; dp=0.9s is communication, hidden or not.
    --trace reads them from a trace of torch.profiler, with prof.step() at the end of each step, or from the CSV of nsys
    stats --report cuda_gpu_kern_sum --format csv, with --steps and --step.

    Exit code 1 when the step is outside the band of the prediction, is hardly of the same job, or the plan is invalid
    or does not fit.

    Next: costmodel sensitivity SCENARIO
    """
    from costmodel.commands.replies import document_reply, reply_with_reasons_only
    from costmodel.exchange.logs.profiler_trace import profiled_step
    from costmodel.explore.diagnose.diagnose import diagnose as explained
    from costmodel.explore.diagnose.diagnose import jobs_that_fit, ranked_by_second_runs, second_runs
    from costmodel.explore.diagnose.measured_step import MeasuredStep, measured_step, terms_of_evaluation
    from costmodel.explore.explain.plan_choice_effects import explained_plan
    from costmodel.ground.counts import EXCHANGING
    from costmodel.report.answers import diagnose as report
    from costmodel.report.answers.training_view import TrainingView

    def with_setting(setting: str) -> ResolvedScenario:
        return replace(question, assignments=(*question.assignments, setting)).case("diagnose")

    asked = explained_plan(question.case("diagnose"))
    if asked.refused:
        return reply_with_reasons_only(TrainingView(asked), rows="refused")
    base = terms_of_evaluation(asked.evaluation)
    figures = {"step_time": step, "mfu": mfu, "tokens_per_s": tokens}
    profile = None
    if trace:
        degrees = {axis: float(getattr(base.block, axis)[0]) for axis in EXCHANGING}
        read = profiled_step(trace, degrees, steps)
        stated = {} if read.step is None else {"step_time": read.step}
        profile = MeasuredStep(read.step or 0.0, stated, read.terms, read.notes)
    given = measured_step(asked.inputs, base, figures, terms or [], table, profile, busy)
    runs = second_runs(question.case("diagnose"), with_setting, also or [])
    found = jobs_that_fit(ranked_by_second_runs(explained(asked, base, given), runs), with_setting)
    return document_reply(
        lambda: report.diagnose_document(found),
        lambda: report.diagnose_json(found),
        "causes",
        yes=found.inside and not found.doubts,
    )
