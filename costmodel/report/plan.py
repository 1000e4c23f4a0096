"""Answers about one plan, or one model: conclusion first, figures with units, at home in 80 columns."""

from __future__ import annotations

from rich.text import Text

from costmodel.equations.collectives import algorithm_bandwidth, bus_bandwidth
from costmodel.estimate.communication import Transfer
from costmodel.estimate.costs import number
from costmodel.estimate.evaluate import verdict
from costmodel.estimate.legality import REFUSALS, REMARKS
from costmodel.estimate.memory import ALLOCATED, LINES, RESERVED, STAGES
from costmodel.estimate.plan import Answer
from costmodel.estimate.setting import Assumed, Setting
from costmodel.explore.alone import Alone
from costmodel.report.theme import BAD, DIM, HEAD, VERDICT_STYLE, WARN, bar, columns, styled
from costmodel.units import gib, show, show_time, significant

TIME_TERMS = (
    ("matrix multiply", "matmul"),
    ("attention", "attention"),
    ("memory-bound ops", "memory_bound"),
    ("launch", "launch"),
    ("tp exposed", "tp_exposed"),
    ("pp exposed", "pp_exposed"),
    ("dp exposed", "dp_exposed"),
    ("pipeline bubble", "bubble"),
    ("optimizer", "optimizer"),
)


def percent(value: float, digits: int = 3) -> str:
    """A fraction as people read it."""
    return f"{significant(value * 100, digits)} %"


def plan_words(answer: Answer) -> str:
    """The plan in one line."""
    block, structure = answer.evaluation.block, answer.evaluation.block.structure
    sizes = [f"{name} {float(getattr(block, name)[0]):.0f}" for name in ("tp", "pp", "dp")]
    if block.vpp[0] > 1:
        sizes.append(f"vpp {float(block.vpp[0]):.0f}")
    sizes += [f"mb {float(block.micro_batch[0]):.0f}", f"zero {structure.zero}", f"recompute {structure.recompute}"]
    return " · ".join(sizes)


def head(setting: Setting) -> str:
    """What is asked about, in one line."""
    case = setting.case
    ranks = case.scenario.cluster.nodes * case.node.accelerators
    return f"{case.model.title} on {ranks:,.0f} × {case.accelerator.name}, {case.scenario.cluster.nodes:,.0f} nodes"


def estimate(answer: Answer, *, verbose: bool = False) -> list[Text]:
    """Time, memory, cost of one plan and where the step goes."""
    setting, costs = answer.setting, answer.evaluation.costs.row()
    said = verdict(costs["memory_share"])
    usable = setting.usable
    lines = [styled(f"{head(setting)}", HEAD), styled(plan_words(answer)), Text()]
    facts = [
        (
            "step time",
            show_time(costs["step_time"]),
            "memory",
            f"{gib(costs['memory_peak'])} of {gib(usable)} GiB   {said}",
        ),
        (
            "throughput",
            f"{show(costs['tokens_per_s'], 'token/s')}",
            "per GPU",
            f"{significant(costs['tokens_per_s_per_gpu'], 4)} token/s, {show(costs['flop_rate'], 'FLOP/s')}",
        ),
        ("MFU", percent(costs["mfu"]), "HFU", percent(costs["hfu"])),
        (
            "scaling",
            percent(costs["scaling_efficiency"]),
            "communication",
            f"{percent(costs['communication_efficiency'])} efficient",
        ),
    ]
    lines += map(styled, columns(facts, right=[False] * 4))
    lines.append(styled(f"  cost        {_cost_words(setting, costs)}"))
    lines += [*_where_it_goes(costs), Text(), *assumed_lines(answer.assumed, verbose=verbose), *problems(answer)]
    longest = max(TIME_TERMS, key=lambda item: costs[item[1]])[0]
    lines += [Text(), styled(f"Bound by {longest}. Next: costmodel search, costmodel explain SCENARIO step_time")]
    return lines


def _where_it_goes(costs: dict[str, float]) -> list[Text]:
    """The terms of the step, longest first."""
    terms = [(name, costs[key]) for name, key in TIME_TERMS]
    longest = max(value for _, value in terms)
    rows = [
        (name, show_time(value), bar(value / longest, 32), _of_step(value / costs["step_time"]))
        for name, value in sorted(terms, key=lambda item: -item[1])
    ]
    lines = map(styled, columns(rows, right=[False, True, False, True], indent="    "))
    return [Text(), styled("  where the step goes", HEAD), *lines]


def _of_step(value: float) -> str:
    return f"{value * 100:.1f} %"


def _cost_words(setting: Setting, costs: dict[str, float]) -> str:
    if costs["cost_per_mtoken"] != costs["cost_per_mtoken"]:
        return "no price known; set assume.price"
    words = f"{show(costs['cost_per_mtoken'], 'USD')} per Mtoken"
    budget = setting.case.scenario.workload.tokens
    if budget is None:
        return words
    return f"{words}, {show(costs['run_cost'], 'USD')} and {show_time(costs['run_time'])} for {show(budget, '')} tokens"


def assumed_lines(assumed: tuple[Assumed, ...], *, verbose: bool, few: int = 5) -> list[Text]:
    """What nobody wrote, and where it came from."""
    shown = assumed if verbose else assumed[:few]
    rows = [(("assumed" if index == 0 else ""), item.path, item.value, item.origin) for index, item in enumerate(shown)]
    lines = [styled(line, DIM) for line in columns(rows, right=[False] * 4)] if rows else []
    if len(shown) < len(assumed):
        lines.append(styled(f"  {len(assumed) - len(shown)} more with -v", DIM))
    return lines


def problems(answer: Answer) -> list[Text]:
    """Refusals and remarks of one plan, with their codes."""
    lines: list[Text] = []
    for code in answer.refused:
        lines.append(styled(f"  ✗ {code} {REFUSALS[code].title}: {REFUSALS[code].meaning}", BAD))
    for code in answer.remarked:
        lines.append(styled(f"  ▲ {code} {REMARKS[code].title}: {REMARKS[code].meaning}", WARN))
    return [Text(), *lines] if lines else []


_LEDGER_NOTES = {
    "gathered": "unsharded units in flight",
    "buckets": "reduce buckets",
    "recompute": "one layer recomputed whole",
    "logits": "logits, loss, last norm",
    "fragmentation": "held back by the caching allocator (assumed)",
    "runtime": "context and communicators (assumed)",
}


def memory(answer: Answer, *, verbose: bool = False) -> list[Text]:
    """The ledger of the worst stage, and which lines sum to which total."""
    setting, ledger = answer.setting, answer.evaluation.ledger
    peaks = [number(peak) for peak in ledger.peaks]
    worst = peaks.index(max(peaks))
    costs = answer.evaluation.costs.row()
    stages = int(answer.evaluation.block.pp[0])
    where = f"stage {[0, min(1, stages - 1), stages - 1][worst]} of {stages}"
    lines = [
        styled(f"Per GPU, worst pipeline stage ({where}, {STAGES[worst]})   {setting.case.accelerator.name}", HEAD),
        styled(plan_words(answer)),
        Text(),
    ]
    lines += map(styled, columns(_ledger_rows(answer, worst, peaks[worst]), right=[False, True, False, False]))
    said = verdict(costs["memory_share"])
    free = costs["memory_free"]
    margin = f"{gib(free)} GiB free" if free >= 0 else f"{gib(-free)} GiB too much"
    share = f"  of {gib(setting.usable)} GiB usable: {percent(costs['memory_share'])}, {margin}   {said}"
    lines.append(styled(share, VERDICT_STYLE[said]))
    others = " · ".join(f"{name} {gib(peak)}" for name, peak in zip(STAGES, peaks, strict=True))
    lines += [Text(), styled(f"  by stage    {others} GiB"), *problems(answer)]
    if verbose:
        lines += [Text(), *assumed_lines(answer.assumed, verbose=True)]
    lines += [Text(), styled("Next: costmodel explain SCENARIO memory_peak")]
    return lines


def _ledger_rows(answer: Answer, stage: int, peak: float) -> list[tuple[str, str, str, str]]:
    """The lines that are not empty, and the totals a tool would show."""
    values = {name: number(answer.evaluation.ledger.line(name, stage)) for name in LINES}
    largest = max(values.values())
    rows = [
        (name, gib(value), bar(value / largest, 20), _ledger_note(answer, name))
        for name, value in values.items()
        if value
    ]
    allocated = sum(values[name] for name in ALLOCATED)
    reserved = sum(values[name] for name in RESERVED)
    return [
        *rows,
        ("─" * 13, "─" * 6, "", ""),
        ("allocated", gib(allocated), "", "what torch.cuda.max_memory_allocated shows"),
        ("reserved", gib(reserved), "", "+ fragmentation: max_memory_reserved"),
        ("peak", gib(peak), "", "+ runtime: nvidia-smi"),
    ]


def _ledger_note(answer: Answer, name: str) -> str:
    states = answer.setting.stack.states
    zero = answer.evaluation.block.structure.zero
    gradients = answer.setting.gradient
    notes = {
        "weights": f"{states.weights:.0f} B a parameter" + (", sharded over dp" if zero == 3 else ""),
        "gradients": f"{gradients:.0f} B a parameter" + (", sharded over dp" if zero >= 2 else ""),
        "optimizer": f"{float(answer.setting.optimizer_state):.0f} B a parameter"
        + (", sharded over dp" if zero >= 1 else ""),
        "activations": f"recompute {answer.evaluation.block.structure.recompute}",
    }
    return notes.get(name, _LEDGER_NOTES.get(name, ""))


def communication(answer: Answer) -> list[Text]:
    """Who talks over what, in nccl-tests' columns."""
    rows = [("group", "ranks", "link", "op", "size", "count", "time", "algbw", "busbw")]
    for transfer in answer.evaluation.step.transfers:
        count, time, ranks = number(transfer.count), number(transfer.time), number(transfer.group.ranks)
        if count == 0 or ranks < 2 or time == 0:
            continue
        size = number(transfer.message)
        busbw = bus_bandwidth(size, ranks, time, operation=transfer.operation)
        rows.append(
            (
                transfer.group.name,
                f"{ranks:.0f}",
                _link(answer, transfer),
                transfer.operation.replace("_", "-"),
                show(size, "B"),
                f"{count:,.0f}",
                show_time(time),
                significant(number(algorithm_bandwidth(size, time)) / 1e9),
                significant(number(busbw) / 1e9),
            )
        )
    costs = answer.evaluation.costs.row()
    lines = [styled("Per GPU and step                                  columns as nccl-tests", HEAD)]
    lines += map(styled, columns(rows, right=[False, True, False, False, True, True, True, True, True]))
    lines.append(styled("  algbw, busbw in GB/s", DIM))
    for name in ("tp", "pp", "dp"):
        total = sum(number(item.total_time) for item in answer.evaluation.step.transfers if item.axis == name)
        volume = costs[f"{name}_volume"]
        if volume:
            exposed = show_time(costs[f"{name}_exposed"])
            lines.append(styled(f"  {name}  {show(volume, 'B')} sent, {show_time(total)} in all, {exposed} exposed"))
    if len(rows) == 1:
        lines.append(styled("  nothing: one rank in every group"))
    return [*lines, *problems(answer), Text(), styled("Next: costmodel explain SCENARIO tp_exposed")]


def _link(answer: Answer, transfer: Transfer) -> str:
    case = answer.setting.case
    return case.scale_up.name if number(transfer.group.domains) == 1 else case.scale_out.name


def model_memory(facts: Alone) -> list[Text]:
    """A model alone: parameters, weights, and states by zero stage."""
    lines = [
        styled(
            f"{facts.model.title}: {float(facts.parameters):,.0f} parameters, weights and training states alone", HEAD
        ),
        Text(),
    ]
    rows = [("GiB a rank", "weights", *(f"zero {stage}, dp {dp:.0f}" for dp, stage in facts.recipes[0].kept if stage))]
    for recipe in facts.recipes:
        kept = [gib(float(value)) for (_, stage), value in recipe.kept.items() if stage]
        rows.append((recipe.title, gib(float(recipe.weights)), *kept))
    lines += map(styled, columns(list(zip(*rows, strict=True)), right=[False, True, True, True]))
    whole = " · ".join(gib(float(recipe.kept[8.0, 0])) for recipe in facts.recipes)
    lines.append(styled(f"  all states unsharded: {whole} GiB; activations and buffers come on top"))
    return [*lines, Text(), styled("Next: costmodel memory SCENARIO, with a plan; costmodel list scenarios")]
