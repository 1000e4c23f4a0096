"""Answers of a search of a serving scenario: the ranking, where the scenario's own plan stands, why others fail."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.serving.plan_columns import RARE
from costmodel.estimate.serving.predict_serving import remarks
from costmodel.estimate.serving.reason_codes import REFUSALS
from costmodel.estimate.serving.service_limits import service_limits
from costmodel.estimate.serving.serving_band import OWN
from costmodel.estimate.shared.limits import Limit, stated_limits
from costmodel.explore.serving.best_layout import plan_settings
from costmodel.explore.serving.search_layouts import FoundPlans, RankedPlan, reasons, share_of
from costmodel.ground.counts import number_of
from costmodel.ground.units import counted, percent, show_time, significant
from costmodel.report.machine.answer_fields import notes
from costmodel.report.machine.serving_json import frame, plan
from costmodel.report.terminal.serving.serving_formatting import (
    counted_for,
    lengths_words,
    load_words,
    rate_words,
    result,
    unlimited,
)
from costmodel.report.terminal.style.head import origin_lines, price_lines, subject_words
from costmodel.report.terminal.style.layout import CellTable, Line, drawn
from costmodel.report.terminal.style.next_command import command
from costmodel.report.terminal.style.remark_lines import remarks as remark_lines
from costmodel.report.terminal.style.theme import BAD, DIM, HEAD, styled

_SIGNS = {"at_most": "≤", "at_least": "≥", "target": "≈"}


def search(found: FoundPlans, *, why_not: bool = False) -> list[Line]:
    """The best plans, how they stand under the load, and what refuses the others."""
    inputs, workload = found.inputs, found.inputs.case.scenario.workload
    subject = subject_of(inputs.case)
    priced = price_lines(subject.price) if subject.price.known else []
    counts = f"{number_of(found.candidates, 'plan')} · {found.valid:,} valid · {found.fit:,} fit"
    counts += f" · {found.kept:,} keep{'s' if found.kept == 1 else ''} all limits"
    lines: list[Line] = [
        styled(subject_words(subject), HEAD),
        styled(f"{inputs.engine.name} · {lengths_words(workload)} · {load_words(workload)}"),
        *priced,
        *origin_lines(inputs.case),
        styled(f"{counts} · {found.elapsed:.2f} s"),
        *remark_lines([tuple(remarks(inputs))]),
        Text(),
    ]
    if not found.best:
        return [*lines, styled("No plan fits.", BAD), *_why(found, every=True)]
    lines += [_table(found), *_key(found), Text(), *_yours(found), *_needs(found), *_why(found, every=why_not)]
    best = found.best[0]
    verb = "Best" if not best.broken else "Nearest"
    return [*lines, Text(), drawn(f"{verb}: {command(inputs.case, 'estimate', settings=plan_settings(found, best))}")]


def _table(found: FoundPlans) -> CellTable:
    mixture = found.inputs.model.has_experts
    copied = any("redundant_experts" in each.sizes for each in found.best)
    of_experts = ("ep", *(("redundant_experts",) if copied else ()), "dp_attention") if mixture else ()
    shared = ("dcp",) if any("dcp" in each.sizes for each in found.best) else ()
    degrees = ("tp", "pp", *of_experts, *shared, "replicas", "budget")
    heads = {"dp_attention": "dpa", "replicas": "repl", "redundant_experts": "copies"}
    priced = not math.isnan(found.best[0].costs["cost_within_limits"])
    names = ("#", *(heads.get(name, name) for name in degrees), "req/s", "tpot", "ttft p99", "chance", "tok/s/GPU")
    rows = [_row(position, ranked, degrees, priced=priced) for position, ranked in enumerate(found.best, 1)]
    names = (*names, *(("rent/M out",) if priced else ()), "binds", "")
    return CellTable(names, rows, "r" * (len(names) - 2) + "ll", drop=("budget", "binds", "chance"), indent="  ")


def _row(position: int, ranked: RankedPlan, degrees: Sequence[str], *, priced: bool) -> tuple[str, ...]:
    costs = ranked.costs
    money = (significant(costs["cost_within_limits"]),) if priced else ()
    over = "S003" in ranked.broken or "S004" in ranked.broken or "S005" in ranked.broken
    times = ("—", "—") if over else (show_time(costs["tpot"]), show_time(costs["ttft_p99"]))
    return (
        f"{position}",
        *(degree_words(ranked, name) for name in degrees),
        significant(costs["rate_within_slo_per_s"]),
        *times,
        f"{costs[OWN]:.0%}",
        significant(costs["tokens_per_gpu_within_limits"]),
        *money,
        ranked.binding,
        f"✗ {' '.join(ranked.broken)}" if ranked.broken else "",
    )


def degree_words(ranked: RankedPlan, name: str) -> str:
    """A degree of a plan; apart, of prefill and of decode."""
    none = RARE.get(name, 1.0)
    own = counted(ranked.sizes.get(name, none))
    if ranked.prefill is None or name in ("pp", "budget", "redundant_experts"):
        return own
    return f"{counted(ranked.prefill.get(name, none))} → {own}"


def _key(found: FoundPlans) -> Iterator[Text]:
    """What the columns mean."""
    if any(each.prefill is not None for each in found.best):
        yield styled("  →: from the instances for prompts to those that generate", DIM)
    limits = [_limit_words(limit) for limit in _limits(found)]
    kept = f"keeps {' and '.join(limits)}" if limits else "is answered"
    yield styled(f"  req/s: most that {kept}", DIM)
    yield styled("  tok/s/GPU and cost there; times and chance to keep all limits at the scenario's load", DIM)


def _limit_words(limit: Limit) -> str:
    bound = result(limit.column, limit.value)
    return f"all with a chance of {bound}" if limit.column == OWN else f"{limit.key} {_SIGNS[limit.kind]} {bound}"


def _limits(found: FoundPlans) -> list[Limit]:
    return service_limits(found.inputs)


def _yours(found: FoundPlans) -> Iterator[Text]:
    """Where the scenario's own plan stands."""
    own = found.yours
    if own is None:
        return
    layout = own.evaluation.layout
    sizes = (layout.tp[0], layout.pp[0], layout.replicas[0], layout.budget[0])
    words = "tp {:.0f} · pp {:.0f} · {:.0f} replicas · budget {:,.0f}".format(*sizes)
    stands = f"ranks {found.your_rank:,}" if found.your_rank else f"is not valid: {', '.join(own.refused)}"
    yield styled(f"  yours ({words}) {stands} of {found.valid:,}")


def _needs(found: FoundPlans) -> Iterator[Text]:
    """How many replicas of the best plan the load needs."""
    best, inputs = found.best[0], found.inputs
    needed, rate = best.costs["replicas_needed"], inputs.case.scenario.workload.rate
    if rate is None or math.isnan(needed) or math.isinf(needed):
        return
    taken = f"{number_of(needed, 'replica')} of {_replica_words(best.sizes)}"
    if best.prefill is not None:
        taken = f"{number_of(needed, 'set')} of these instances"
    gpus = number_of(best.costs["gpus_needed"], "GPU")
    yield styled(f"  {rate_words(rate, significant(rate))} need {taken}: {gpus}")
    yield from counted_for(inputs.case)
    yield from unlimited(inputs.case)


def _replica_words(sizes: Mapping[str, float]) -> str:
    """The degrees of one replica."""
    degrees = {name: sizes.get(name, 1.0) for name in ("tp", "pp", "ep", "dp_attention", "dcp")}
    return " · ".join(f"{name} {counted(size)}" for name, size in degrees.items() if size > 1 or name == "tp")


def _why(found: FoundPlans, *, every: bool) -> Iterator[Line]:
    """What refuses plans, with how many; each with an example where all is asked for."""
    shown = list(reasons(found))
    if not shown:
        return
    if not every:
        words = [f"{code} {REFUSALS[code].title} {percent(share_of(found, code))}" for code, _ in shown[:4]]
        yield styled(f"  why not   {' · '.join(words)}", DIM)
        return
    rows = [(code, f"{count:,}", REFUSALS[code].title, _example(found, code)) for code, count in shown]
    yield CellTable(("code", "plans", "why", "for example"), rows, "lrll")


def _example(found: FoundPlans, code: str) -> str:
    sizes = found.examples[code]
    return " · ".join(f"{name} {counted(sizes[name])}" for name in sizes if sizes[name] > 1)


def search_json(found: FoundPlans) -> dict[str, Any]:
    """The same as costmodel/result/v1."""
    inputs = found.inputs
    rows = [
        {
            **plan(each.sizes, each.costs),
            **({} if each.prefill is None else {"prefill": each.prefill}),
            "binds": each.binding,
            "broken": list(each.broken),
        }
        for each in found.best
    ]
    return {
        **frame(inputs),
        "assumed": [{"path": item.path, "value": item.value, "from": item.origin} for item in inputs.assumed],
        "notes": notes([tuple(remarks(inputs))]),
        "objective": inputs.case.scenario.objective,
        "limits": [limit.key for limit in stated_limits(inputs.case.scenario.limits)],
        "candidates": found.candidates,
        "valid": found.valid,
        "fit": found.fit,
        "kept": found.kept,
        "elapsed_s": found.elapsed,
        "plans": rows,
        "yours": {"rank": found.your_rank} if found.yours is not None else None,
        "refused": [
            {
                "code": code,
                "plans": count,
                "share": share_of(found, code),
                "text": REFUSALS[code].title,
                "meaning": REFUSALS[code].meaning,
                "example": found.examples[code],
            }
            for code, count in reasons(found)
        ],
    }
