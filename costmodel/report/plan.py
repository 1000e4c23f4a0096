"""Answers about one plan, or one model: conclusion first, figures with units, at home in 80 columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from costmodel.equations.collectives import algorithm_bandwidth, bus_bandwidth
from costmodel.estimate.assumed import Assumed
from costmodel.estimate.costs import number
from costmodel.estimate.evaluate import verdict
from costmodel.estimate.legality.rules import REFUSALS, REMARKS
from costmodel.estimate.plan import Answer
from costmodel.estimate.setting import Setting
from costmodel.estimate.shapes.split import stage_layers
from costmodel.estimate.traffic.groups import Transfer
from costmodel.explore.explain.alone import Alone
from costmodel.report.choices import choice_words, tuning_words
from costmodel.report.layout import Grid, Line, drawn
from costmodel.report.suggest import command
from costmodel.report.theme import BAD, DIM, HEAD, WARN, bar, styled
from costmodel.units import gib, show, show_time, significant

TIME_TERMS = (
    ("matrix multiply", "matmul"),
    ("attention", "attention"),
    ("memory-bound ops", "memory_bound"),
    ("launch", "launch"),
    ("tp exposed", "tp_exposed"),
    ("cp exposed", "cp_exposed"),
    ("ep exposed", "ep_exposed"),
    ("pp exposed", "pp_exposed"),
    ("dp exposed", "dp_exposed"),
    ("pipeline bubble", "bubble"),
    ("offload exposed", "offload_exposed"),
    ("optimizer", "optimizer"),
)
BAND, ENDS = "P10 – P90", ("low", "high")

OF_SOME = ("cp_exposed", "ep_exposed", "offload_exposed")  # said only where there is any
_DUST = 1e-8  # share of a step below which a term is none


def percent(value: float, digits: int = 3) -> str:
    """A fraction as people read it."""
    return f"{significant(value * 100, digits)} %"


def plan_words(answer: Answer) -> str:
    """The plan in one line."""
    block, structure = answer.evaluation.block, answer.evaluation.block.structure
    sizes = [f"{name} {float(getattr(block, name)[0]):.4g}" for name in ("tp", "pp", "dp")]
    sizes += [f"{name} {degree:.0f}" for name in ("ep", "etp") if (degree := float(getattr(block, name)[0])) > 1]
    if block.cp[0] > 1:
        sizes.append(f"cp {float(block.cp[0]):.0f} {structure.cp_type}")
    if block.dp_replicate[0] > 1:
        sizes.append(f"dp_replicate {float(block.dp_replicate[0]):.0f}")
    if block.vpp[0] > 1:
        sizes.append(f"vpp {float(block.vpp[0]):.0f}")
    layers = stage_layers(answer.setting.model, block)
    if not layers.equal:
        sizes.append("layers " + " ".join(f"{number(held):g}" for held in layers.stages(float(block.pp[0]))))
    if structure.schedule not in ("1f1b", "interleaved"):
        sizes.append(structure.schedule)
    sizes += [f"mb {float(block.micro_batch[0]):.0f}", f"zero {structure.zero}"]
    sizes += choice_words(structure)
    return " · ".join(sizes)


def head(setting: Setting) -> str:
    """What is asked about, in one line."""
    case = setting.case
    nodes = case.scenario.cluster.nodes
    where = f"{nodes:,.0f} {'node' if nodes == 1 else 'nodes'}"
    return (
        f"{case.model.title}{tuning_words(setting)} on {number(setting.ranks):,.0f} × {case.accelerator.name}, {where}"
    )


def titled(answer: Answer) -> list[Line]:
    """What is asked about, and the plan."""
    return [styled(head(answer.setting), HEAD), styled(plan_words(answer))]


def refusal(answer: Answer) -> list[Line]:
    """Of a plan that is not legal: why, and nothing else."""
    said = styled("Not a legal plan; nothing was computed.", BAD)
    return [*titled(answer), *problems(answer), Text(), said, following(answer, "search")]


def following(answer: Answer, verb: str, *words: str, before: str = "Next:") -> Text:
    """The command to type next."""
    return drawn(f"{before} {command(answer.setting.case, verb, *words)}")


def estimate(answer: Answer, *, verbose: bool = False) -> list[Line]:
    """Time, memory, cost of one plan and where the step goes."""
    if answer.refused:
        return refusal(answer)
    costs = answer.evaluation.costs.row()
    longest = max(TIME_TERMS, key=lambda item: costs[item[1]])[0]
    return [
        *titled(answer),
        *problems(answer),
        Text(),
        Grid([""] * 4, _facts(answer, costs), "llll", headed=False),
        styled(f"  cost        {_cost_words(answer.setting, costs)}"),
        *_where_it_goes(costs),
        Text(),
        *assumed_lines(answer.assumed, verbose=verbose),
        Text(),
        styled(f"Bound by {longest}."),
        following(answer, "search"),
        following(answer, "explain", "step_time", before="     "),
    ]


def between(low: str, high: str) -> str:
    """A band as people write it: the unit once."""
    number, _, unit = low.partition(" ")
    return f"{number} – {high}" if unit == high.partition(" ")[2] else f"{low} – {high}"


def memory_band(costs: dict[str, float]) -> str:
    """Both ends of the band of the peak."""
    return between(f"{gib(costs['memory_peak_low'])} GiB", f"{gib(costs['memory_peak_high'])} GiB")


def _facts(answer: Answer, costs: dict[str, float]) -> list[tuple[str, str, str, str]]:
    """The figures one asks for first, two to a line."""
    peak = f"{gib(costs['memory_peak'])} of {gib(answer.setting.usable)} GiB   {verdict(costs['memory_share'])}"
    each = f"{significant(costs['tokens_per_s_per_gpu'], 4)} token/s, {show(costs['flop_rate'], 'FLOP/s')}"
    efficient = f"{percent(costs['communication_efficiency'])} efficient"
    return [
        ("step time", show_time(costs["step_time"]), "memory", peak),
        (BAND, between(*(show_time(costs[f"step_time_{end}"]) for end in ENDS)), BAND, memory_band(costs)),
        ("throughput", show(costs["tokens_per_s"], "token/s"), "per GPU", each),
        ("MFU", percent(costs["mfu"]), "HFU", percent(costs["hfu"])),
        ("scaling", percent(costs["scaling_efficiency"]), "communication", efficient),
    ]


def _where_it_goes(costs: dict[str, float]) -> list[Line]:
    """The terms of the step, longest first."""
    terms = [(name, costs[key]) for name, key in TIME_TERMS if key not in OF_SOME or costs[key]]
    longest = max(value for _, value in terms)
    rows = [
        (name, _term(value, costs["step_time"]), bar(value / longest, 32), _of_step(value / costs["step_time"]))
        for name, value in sorted(terms, key=lambda item: -item[1])
    ]
    shares = Grid(("term", "time", "", "of the step"), rows, "lrlr", headed=False, drop=("",), indent="    ")
    return [Text(), styled("  where the step goes", HEAD), shares]


def _term(value: float, step: float) -> str:
    """A term of the step; 0 where only the soft corner of two regimes is left of it."""
    return show_time(value if value > _DUST * step else 0.0)


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


def assumed_lines(assumed: tuple[Assumed, ...], *, verbose: bool, few: int = 5) -> list[Line]:
    """What nobody wrote, and where it came from."""
    shown = assumed if verbose else assumed[:few]
    rows = [(("assumed" if index == 0 else ""), item.path, item.value, item.origin) for index, item in enumerate(shown)]
    lines: list[Line] = [Grid(("", "path", "value", "from"), rows, "llll", headed=False, style=DIM)] if rows else []
    if len(shown) < len(assumed):
        lines.append(styled(f"  {len(assumed) - len(shown)} more with -v", DIM))
    return lines


def problems(answer: Answer) -> list[Line]:
    """What speaks against one plan, and what there is to remark, with their codes."""
    lines: list[Line] = [
        styled(f"  ✗ {code} {REFUSALS[code].title}: {_reason(answer, code)}", BAD)
        for code in answer.refused or answer.broken
    ]
    lines += [] if answer.refused else remarks([answer.remarked])
    return [Text(), *lines] if lines else []


def remarks(plans: Sequence[Sequence[str]]) -> list[Line]:
    """Every remark on one of the plans once, and on how many where not on all."""
    counts = Counter(code for codes in plans for code in codes)
    lines: list[Line] = []
    for code, count in counts.items():
        some = f" ({count:,} of {len(plans):,})" if count < len(plans) else ""
        lines.append(styled(f"  ▲ {code} {REMARKS[code].title}{some}: {REMARKS[code].meaning}", WARN))
    return lines


def _reason(answer: Answer, code: str) -> str:
    """What a code means, with the figures where it is about memory."""
    if code == "M003":
        taken = f"{gib(answer.evaluation.costs.row()['host_memory'])} GiB of a node"
        return f"{taken}; {REFUSALS[code].meaning}"
    if code not in ("M001", "M002"):
        return REFUSALS[code].meaning
    peak = f"{gib(answer.evaluation.costs.row()['memory_peak'])} of {gib(answer.setting.usable)} GiB usable"
    return f"{peak} on the worst stage" if code == "M001" else f"{peak}; {REFUSALS[code].meaning}"


def communication(answer: Answer) -> list[Line]:
    """Who talks over what, in nccl-tests' columns; where the terminal is narrow, algbw goes first, then the link."""
    if answer.refused:
        return refusal(answer)
    rows = [_transfer(answer, item) for item in answer.evaluation.step.transfers if _talks(item)]
    names = ("group", "ranks", "link", "op", "size", "count", "time", "algbw", "busbw")
    lines: list[Line] = [
        styled("Per GPU and step                                  columns as nccl-tests", HEAD),
        Grid(names, rows, "lrllrrrrr", drop=("algbw", "link")),
        styled("  algbw, busbw in GB/s", DIM),
        *_totals(answer),
    ]
    if not rows:
        lines.append(styled("  nothing: one rank in every group"))
    costs = answer.evaluation.costs.row()
    most = max(("tp_exposed", "dp_exposed", "cp_exposed", "ep_exposed", "pp_exposed"), key=lambda name: costs[name])
    return [*lines, *problems(answer), Text(), following(answer, "explain", most)]


def _talks(transfer: Transfer) -> bool:
    return number(transfer.count) > 0 and number(transfer.group.ranks) >= 2 and number(transfer.time) > 0


def _transfer(answer: Answer, transfer: Transfer) -> tuple[str, ...]:
    ranks, time, size = number(transfer.group.ranks), number(transfer.time), number(transfer.message)
    busbw = bus_bandwidth(size, ranks, time, operation=transfer.operation)
    return (
        transfer.group.name,
        f"{ranks:.0f}",
        _link(answer, transfer),
        transfer.operation.replace("_", "-"),
        show(size, "B"),
        f"{number(transfer.count):,.0f}",
        show_time(time),
        significant(number(algorithm_bandwidth(size, time)) / 1e9),
        significant(number(busbw) / 1e9),
    )


def _totals(answer: Answer) -> Iterator[Text]:
    """What each axis sends in all, and what of it is exposed."""
    costs = answer.evaluation.costs.row()
    for name in ("tp", "cp", "ep", "pp", "dp"):
        total = sum(number(item.total_time) for item in answer.evaluation.step.transfers if item.axis == name)
        volume = costs[f"{name}_volume"]
        if volume:
            exposed = show_time(costs[f"{name}_exposed"])
            yield styled(f"  {name}  {show(volume, 'B')} sent, {show_time(total)} in all, {exposed} exposed")


def _link(answer: Answer, transfer: Transfer) -> str:
    case = answer.setting.case
    return case.scale_up.name if number(transfer.group.domains) == 1 else case.scale_out.name


def _active(facts: Alone) -> Iterator[Text]:
    """What one token meets of a model with experts."""
    if facts.active is not None:
        yield styled(f"  {float(facts.active):,.0f} active: met by one token, embedding and head included")


def model_memory(facts: Alone) -> list[Line]:
    """A model alone: parameters, weights, and states by zero stage."""
    lines: list[Line] = [
        styled(f"{facts.model.title}: {float(facts.parameters):,.0f} parameters; weights and AdamW states alone", HEAD),
        *_active(facts),
        Text(),
    ]
    rows: list[tuple[str, ...]] = [
        ("GiB a rank", "weights", *(f"zero {stage}, dp {dp:.0f}" for dp, stage in facts.recipes[0].kept if stage))
    ]
    for recipe in facts.recipes:
        kept = [gib(float(value)) for (_, stage), value in recipe.kept.items() if stage]
        rows.append((recipe.title, gib(float(recipe.weights)), *kept))
    names, *kept_rows = zip(*rows, strict=True)
    lines.append(Grid(names, kept_rows, "lrrr"))
    whole = " · ".join(gib(float(recipe.kept[8.0, 0])) for recipe in facts.recipes)
    lines.append(styled(f"  all states unsharded: {whole} GiB; activations and buffers come on top"))
    return [*lines, Text(), drawn("Next: costmodel list scenarios")]
