"""The plan of reinforcement learning as answers show it: the phases of an iteration, and its run."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.documents.schemas.results import RL_COLUMNS, ResultColumn, machine_name
from costmodel.documents.schemas.rl import PHASES
from costmodel.estimate.answer_facts import subject_of
from costmodel.estimate.machine.number_formats import cap_over_rating
from costmodel.estimate.machine.process_groups import Transfer
from costmodel.estimate.rl.iteration import WeightTransfer
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.run.whole_run import shares
from costmodel.estimate.serving.replica_capacity import transfers
from costmodel.estimate.shared.results import number
from costmodel.explore.transfer_bandwidth import is_sent
from costmodel.ground.record import record
from costmodel.ground.units import counted, gib, percent, show, show_time
from costmodel.report.answers.memory import room_words
from costmodel.report.answers.plan_answer import (
    PlanView,
    band_words,
    bands_section,
    parts_section,
    plan_json,
    result_cell,
)
from costmodel.report.answers.plan_parts import (
    LedgerLine,
    LedgerSum,
    MemoryLedger,
    PlanRun,
    PlanTraffic,
    RunFigure,
    SentMessage,
)
from costmodel.report.data_formats.answer_fields import finite
from costmodel.report.document import Cell, Column, Draw, Headline, Section, Table, chance_verdict, traced
from costmodel.report.terminal import rl_estimate
from costmodel.report.terminal.head import price_lines
from costmodel.report.terminal.layout import BAD, GOOD, HEAD, WARN, Abridged, Line, styled
from costmodel.report.terminal.rl_estimate import NAMES, fit_verdict, result

if TYPE_CHECKING:
    from costmodel.explore.page.rl_facts import RlFacts
    from costmodel.report.answers.plan_answer import PlanAnalyses

_ROLES = {
    "generation": "third",
    "update_time": "activations",
    "switch": "raw",
    "weight_sync": "network",
    "critic_time": "recomputed",
}


@record
class RlView(PlanView):
    """A plan of reinforcement learning with the parts of the answers about it."""

    answer: RlAnswer

    @property
    def case(self) -> RlCase:
        """The scenario with its documents."""
        return self.answer.inputs.case

    @property
    def columns(self) -> Mapping[str, ResultColumn]:
        """The columns of results of an iteration."""
        return RL_COLUMNS

    @functools.cached_property
    def facts(self) -> RlFacts:
        """Facts that a page computes about the plan."""
        from costmodel.explore.page.rl_facts import RlFacts

        return RlFacts(self.answer)

    @property
    def nexts(self) -> Mapping[str, Sequence[Sequence[str]]]:
        """The commands that follow each answer; `search` follows if the scenario has engines."""
        search = [("search",)] if self.answer.inputs.engines is not None else []
        return {
            "estimate": [("memory",), *search],
            "memory": [*(search if "M001" in self.answer.broken else []), ("explain", "memory_peak")],
            "comm": [("explain", "weight_sync")],
            "run": [("estimate",), ("explain", "goodput")],
        }

    def plain(self) -> dict[str, Any]:
        """The plan and its results as plain values for JSON."""
        from costmodel.report.answers.search_rl import rl_plan_fields

        return plan_json(self, partial(rl_plan_fields, self.answer), lambda code: {})

    def lines(self) -> list[Line]:
        """Times, memory and cost of an iteration."""
        return rl_estimate.estimate_lines(self.answer)

    def bound(self) -> Line:
        """A line on the longest part of the iteration."""
        return styled(f"Bound by {rl_estimate.bound_by(self.answer)}.")

    def headlines(self) -> list[Headline]:
        """The main figures, for the head of a page."""
        costs, cell = self.answer.costs, partial(result_cell, self)
        whole, share = costs["run_time"], result("generation_share", costs["generation_share"])
        run = f"{result('run_time', whole)} for all iterations" if math.isfinite(whole) else "of one iteration"
        fits = "bad" if "M001" in self.answer.broken else chance_verdict(costs["fit_chance"])
        return [
            Headline("Iteration", cell("iteration_time"), band_words(self, "iteration_time")),
            Headline("Answers", cell("answers_per_s"), f"{share} generating"),
            Headline("Memory", cell("memory_peak"), f"of {gib(self.answer.memory.usable)} GiB", fits),
            Headline("Cost of an iteration", cell("iteration_cost"), run),
        ]

    def time(self) -> list[Section]:
        """Sections on the phases of an iteration, and on the wait for the longest answers."""
        title = "Where the iteration goes", "where the iteration goes"
        lead, parts = f"Bound by {rl_estimate.bound_by(self.answer)}.", rl_estimate.phase_parts(self.answer)
        stated = [] if self.answer.inputs.engines is None else rl_estimate.generation_sentences(self.answer)
        beneath = [Abridged(f"    {words}", short="", added="waits of the generation") for words in stated]
        figures = [partial(_draw_phases, self.answer)]
        return [parts_section(title, lead, parts, "of all phases", figures, wide=28, beneath=beneath)]

    def ledger(self) -> MemoryLedger:
        """The memory breakdown while generating and while updating."""
        return rl_ledger(self.answer)

    def traffic(self) -> PlanTraffic:
        """The communication of the trainer and the engines."""
        return rl_traffic(self.answer)

    def whole_run(self) -> PlanRun | None:
        """The run of all iterations; None if the scenario asks about no run."""

        return None if self.answer.run is None else rl_run(self.answer)

    def beside(self, notify: Callable[[str], None]) -> PlanAnalyses:
        """Analyses next to the plan: splits of accelerators, sensitivity, and errors of published iterations."""
        from costmodel.report.answers.plan_neighbours import analyses_beside_plan
        from costmodel.report.answers.search_rl import RlWords

        notify("search")
        found = self.facts.found
        notify("sensitivity")
        spread = self.case.stack.spread
        generation, update = percent(float(spread.generation)), percent(float(spread.update))
        lead = f"Errors of iterations: {generation} of the generation, {update} of the update, as standard deviations"
        named = self.case.stack.sources.get(spread.source or "")
        source = spread.source if named is None else named.title
        lead += f" (source: {source})." if source else "."
        lead += " The lengths of answers decide: state those of your own log."
        words = None if found is None else RlWords(found)
        return analyses_beside_plan(self, words, self.facts.sensitive, bands_section(self, lead))


def _draw_phases(answer: RlAnswer) -> Draw:
    """A waterfall of the phases of an iteration, and their total."""
    from costmodel.report.page.figures import FigureEntry, waterfall_bars

    costs = answer.costs
    entries = [
        FigureEntry(NAMES[name], costs[name], _ROLES.get(name, "attention"), machine_name(name))
        for name in PHASES
        if costs[name]
    ]
    if costs["overlapped"]:
        entries.append(FigureEntry("hidden", -costs["overlapped"], "good", "hidden_s"))
    total = FigureEntry("iteration", costs["iteration_time"], "total", "iteration_time_s")
    words = f"An iteration takes {show_time(total.value)}, of which {show_time(costs['generation'])} is generation."
    return waterfall_bars("time", "Where the iteration goes", words, entries, total, show_time)


# --- collectives of an iteration


def transfers_within(answer: RlAnswer) -> list[tuple[str, Transfer]]:
    """The transfers of one optimizer step, and of one step of an engine."""
    found = [("update", item) for item in answer.inputs.trainer.evaluation.step.transfers if is_sent(item)]
    engines = answer.inputs.engines
    if engines is not None:
        sent = transfers(engines.inputs, engines.layout, engines.together)
        found += [(f"engine {item.moment}", item.transfer) for item in sent]
    return found


def rl_traffic(answer: RlAnswer) -> PlanTraffic:
    """The communication of an iteration: weights and answers, optimizer steps, and engine steps."""
    case, sync = answer.inputs.case, answer.iteration.sync
    sent = [
        SentMessage(of, item, case.scale_up.name if number(item.group.domains) == 1 else case.scale_out.name)
        for of, item in transfers_within(answer)
    ]
    where, whole = "Each optimizer step, and each step of an engine", answer.costs["iteration_time"]
    of_iteration = ("iteration_time", whole, "of the iteration")
    once = [] if sync is None else [_iteration_section(sync)]
    return PlanTraffic(where, sent, [], of_iteration, once, plain={} if sync is None else _sync_fields(sync))


def _iteration_section(sync: WeightTransfer) -> Section:
    """Table of what moves once an iteration: weights to the engines, answers to the trainer."""
    rate, nbytes = show(number(sync.rate), "B/s"), show(number(sync.nbytes), "B")
    bound = f"{sync.layout} weights, bound by {sync.link}"
    time = number(sync.time)
    rows: list[list[Cell]] = [
        ["weights to the engines", nbytes, rate, traced(show_time(time), time, "weight_sync_s", "weight_sync"), bound],
        ["answers to the trainer", show(float(sync.experience), "B"), "", "", "8 B a token"],
    ]
    columns = [Column("what", "k"), Column("size"), Column("rate"), Column("time"), Column("", "l")]
    lead = "What moves between trainer and engines."
    ahead = [styled("Once an iteration", HEAD)]
    return Section("sync", "Once an iteration", lead, ahead=ahead, table=Table(columns, rows, headed=False))


def _sync_fields(sync: WeightTransfer) -> dict[str, Any]:
    """Weight and answer transfers between trainer and engines, as plain values."""
    return {
        "weight_sync": {
            "bytes": number(sync.nbytes),
            "rate_bytes_per_s": number(sync.rate),
            "time_s": number(sync.time),
            "layout": sync.layout,
            "bound_by": sync.link,
            "experience_bytes": float(sync.experience),
        }
    }


# --- the memory of an iteration

_MEMORY_ROLES = {
    "policy weights": "weights",
    "policy gradients": "gradients",
    "policy optimizer": "optimizer",
    "activations and buffers": "activations",
    "critic states": "bad",
    "engine weights": "weights",
    "engine step": "activations",
    "cache": "ideal",
    "training runtime": "runtime",
    "engine runtime": "runtime",
}


def rl_ledger(answer: RlAnswer) -> MemoryLedger:
    """The memory of every part while generating answers and while updating the policy."""
    found, stated = answer.memory, fit_verdict(answer.costs)
    where = "Per GPU (colocated)" if found.colocated else "Per GPU that generates, and per GPU that trains"
    words = f"  {room_words(found.peak, found.usable)}   {stated}"
    return MemoryLedger(
        where,
        ["generating", "updating"],
        [
            LedgerLine(
                part.name.replace(" ", "_"),
                [part.generating, part.updating],
                "",
                _MEMORY_ROLES.get(part.name, "buffers"),
                part.name,
            )
            for part in found.parts
        ],
        [LedgerSum("peak", len(found.parts), total="memory_peak")],
        found.usable,
        "usable",
        styled(words, {"fits": GOOD, "does not fit": BAD}.get(stated, WARN)),
        [] if answer.inputs.engines is None or not found.colocated else _freed_memory_notes(answer),
        fits=stated != "does not fit",
    )


def _freed_memory_notes(answer: RlAnswer) -> list[Line]:
    """Lines on the memory that engines and trainer free for each other."""
    sharing = answer.inputs.case.stack.sharing
    engine = "free" if sharing.sleeps else "keep"
    states = "go to the host" if answer.inputs.offload else "stay in memory"
    words = f"engines {engine} weights and cache during updates", f"training states {states} while generating"
    return [Abridged(f"  {each}", short="", added="what each phase frees") for each in words]


# --- a whole run of training


def rl_run(answer: RlAnswer) -> PlanRun:
    """The run of all iterations: its results, the shares of its time, and its interruptions."""
    found, share, sync = answer.run, answer.costs["goodput"], answer.iteration.sync
    assert found is not None
    figures = [_run_figure(answer, *each) for each in (("run time", "run_time"), ("cost", "run_cost"))]
    figures.append(RunFigure("goodput", "goodput", "—" if math.isnan(share) else percent(share, 3), ""))
    plain = {
        "steps": finite(number(found.steps)),
        "interruptions": finite(number(found.interruptions)),
        "experience_bytes": None if sync is None else float(sync.experience),
    }
    price = price_lines(subject_of(answer.inputs.case).price, "  ", shown=False)
    return PlanRun(figures, run_shares(answer), "iterations", _run_facts(answer), price, plain=plain)


def _run_figure(answer: RlAnswer, words: str, name: str) -> RunFigure:
    """A result of the run with its band, or the setting that would make it known."""
    if math.isnan(answer.costs["goodput"]):
        return RunFigure(words, name, "—", "")
    if math.isnan(answer.costs[name]):
        wanted = "set workload.iterations" + ("" if name == "run_time" else ", and assume.price")
        return RunFigure(words, name, "unknown", wanted)
    return RunFigure(words, name, result(name, answer.costs[name]), rl_estimate.band_text(answer.costs, name))


def _run_facts(answer: RlAnswer) -> list[tuple[str, str]]:
    """Pairs of label and text on iterations, failures, checkpoints and restarts."""
    costs, found, workload = answer.costs, answer.run, answer.inputs.case.scenario.workload
    assert found is not None
    count = number(found.interruptions) if costs["goodput"] == costs["goodput"] else math.nan
    often = "" if math.isnan(count) else f", {counted(round(count))} in the run"
    steps = "unknown" if workload.iterations is None else counted(workload.iterations)
    models = "policy and critic" if answer.inputs.models["critic"] else "policy"
    rows = [
        (
            "iterations",
            f"{steps} × {show_time(costs['iteration_time'])} (workload.iterations; not predicted for a score)",
        ),
        ("failures", f"one every {show_time(costs['mtbf'])}{often}"),
        ("checkpoint", f"{show(costs['checkpoint_size'], 'B')}: weights and optimizer of {models}"),
    ]
    if answer.iteration.sync is not None:
        held = show(float(answer.iteration.sync.experience), "B")
        rows.append(("", f"and up to {held} of answers in flight"))
    rows.append(("interval", f"{show_time(costs['checkpoint_interval'])}, in whole iterations"))
    rows.append(("restart", show_time(costs["restart_time"])))
    if answer.inputs.engines is not None and cap_over_rating(answer.inputs.trainer.inputs.case) < 1:
        rows.append(("power cap", "slows only training; rates of engines are without the cap"))
    return rows


def run_shares(answer: RlAnswer) -> dict[str, float]:
    """The shares of the run time, of iterations and of every loss; empty if the scenario states no failures."""
    asked, found = answer.inputs.trainer.inputs.run, answer.run
    if asked is None or found is None:
        return {}
    lost = {name: number(value) for name, value in shares(asked, found).items()}
    return {"iterations": number(found.goodput), **lost}
