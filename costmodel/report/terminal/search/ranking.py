"""Prints a search: the ranking, the rank of your own plan, the reasons for refused plans."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from rich.text import Text

from costmodel.documents.schemas.results import TRAINING_COLUMNS, is_money
from costmodel.estimate.evaluate.evaluate_plans import missing_input, verdict
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.shared.limits import stated_limits
from costmodel.estimate.shared.plan_batch import one_row
from costmodel.estimate.shared.reasons import REFUSALS
from costmodel.explore.compare.comparison_sides import advantage
from costmodel.explore.compare.input_paths import leaves
from costmodel.explore.compare.plan_figures import plan_in_words
from costmodel.explore.kept_answers import brief_words
from costmodel.explore.search.bands import SCORED, unsure
from costmodel.explore.search.rank import Front
from costmodel.explore.search.search import NO_PRECISION, TrainingSearch, lacking_precisions
from costmodel.explore.search.training_space import Ranked
from costmodel.explore.structure_words import CHOICES, choice_words, short_words, split_words
from costmodel.ground.counts import number_of
from costmodel.ground.plan_sizes import ALWAYS, HEADS, OF_ITSELF_ONE, WAYS
from costmodel.ground.units import counted, gib, percent, rounded_percent, show_time, significant
from costmodel.report.answers.compare import difference, figure_row
from costmodel.report.terminal.plan.plan_lines import searched
from costmodel.report.terminal.plan.plan_settings import plan_settings
from costmodel.report.terminal.plan.plan_words import plan_words
from costmodel.report.terminal.search.refusals import reason, reason_of, remedy_lines
from costmodel.report.terminal.search.varied_keys import few, headings
from costmodel.report.terminal.style.formatting import TIME_TERMS, result, spaced
from costmodel.report.terminal.style.head import head_of, price_varies, prices
from costmodel.report.terminal.style.layout import CellTable, Line, typed
from costmodel.report.terminal.style.next_command import command
from costmodel.report.terminal.style.remark_lines import remarks
from costmodel.report.terminal.style.scatter import ScatterPoint, scatter
from costmodel.report.terminal.style.theme import BAD, DIM, HEAD, WARN, styled

_BEHIND = ALWAYS[1:]  # of tp and the sizes over one
_NAMES = ("#", "tp", *(HEADS[name] for name in _BEHIND), "zero", "sp", "recompute")
_SHOWN_ANYWAY = frozenset(f"plan.{key}" for key in (*ALWAYS, "zero"))
_SIZED = frozenset({"cluster.nodes", "cluster.node", "cluster.node.accelerators"})  # where GPUs are counted
_RESULTS = ("step", "P90", "tok/s/GPU", "MFU", "GiB", "fits")
_COST = "cost"  # of a million tokens, where plans are ranked by it
_DROPPED = ("P90", "sp", "MFU", "tok/s/GPU")  # in this order, where the terminal is narrow
_COLUMN_OF = {"step_time": "step", "tokens_per_s_per_gpu": "tok/s/GPU"}  # of objectives that every table has


def search(found: TrainingSearch, shown: int, refused: Mapping[str, Ranked] | None = None) -> list[Line]:
    """The best plans, or the front of two results; the rank of your own plan; why others were refused."""
    tally, inputs = found.tally, found.inputs
    limited = any(stated_limits(inputs.case.scenario.limits))
    kept = f" · {tally.kept:,} keep{'s' if tally.kept == 1 else ''} the limits" if limited else ""
    counts = f"{number_of(tally.candidates, 'plan')} · {tally.evaluated:,} valid · {tally.fit:,} fit{kept}"
    counts += f"{safe_words(found)} · {found.elapsed:.2f} s"
    over = found.variants.over
    if _SIZED.isdisjoint(axis.path for axis in over):
        counts = f"{float(inputs.ranks):,.0f} GPU{'' if inputs.ranks == 1 else 's'} · {counts}"
    lines: list[Line] = [*head_of(inputs.case, [axis.path for axis in over], priced=shows_cost(found))]
    lines += [styled(f"over {axis.path}: {few(axis.values)}", HEAD) for axis in over]
    lines += [*searched(inputs.case, found.values(0)), styled(counts), Text()]
    if found.stopped:
        lines[-1:] = [styled(f"Stopped after {percent(tally.candidates / found.total)} of the plans.", BAD), Text()]
        if not found.best:
            return [*lines, Text("None of those seen so far fits.")]
    why = _refused(found) if refused is None else account(found, refused)
    if not found.best:
        return [*lines, *_nothing_fits(found), *_yours(found), *why, *_after_none(found)]
    lines += [styled(none, WARN)] if (none := none_is_safe(found)) else []
    if tally.front is not None:
        lines += front(found, tally.front, shown)
    else:
        lines += [table(found, found.best[:shown]), *prices_of(found, found.best[:shown]), *roomier(found)]
        lines += [*unsure_order(found, shown), *_remarks(found, found.best[:shown])]
    lines += [styled(f"  {other}", DIM)] if (other := without_safety(found)) else []
    lines += [Text(), *_yours(found), *why]
    winner = found.best[0]
    wanted = {**found.values(winner.variant), **plan_settings(found.inputs_of(winner.variant), winner)}
    best = command(inputs.case, "estimate", settings=wanted)
    named = "Surest:" if not found.is_safe else "Best of the search:" if beaten(found) else "Best:"
    return [*lines, Text(), typed(named, best)]


def safe_words(found: TrainingSearch) -> str:
    """How many plans have the chance to fit that the search prefers."""
    if found.safe is None or not found.tally.kept:
        return ""
    return f", {found.tally.safe:,} with a chance of {percent(found.safe, 2)}"


def _remarks(found: TrainingSearch, plans: Sequence[Ranked]) -> list[Line]:
    nodes = [found.inputs_of(plan.variant).case.node.name for plan in plans]
    return remarks([plan.remarked for plan in plans], [plan.costs for plan in plans], nodes)


def _after_none(found: TrainingSearch) -> list[Line]:
    """The search to ask next, where the first remedy is settings of it."""
    if not found.remedies:
        return []
    settings = dict(setting.split("=", 1) for setting in found.remedies[0].settings)
    return [Text(), typed("Next:", command(found.inputs.case, "search", settings=settings))]


def table(found: TrainingSearch, plans: Sequence[Ranked]) -> CellTable:
    """Plans in order; on a narrow terminal the P90 goes first, then sp, the MFU and the rate; never the objective."""
    cut = _cut(plans)
    varied = [_values(found, plan) for plan in plans]
    over = headings(_varied_paths(found))
    place, *names = _names(cut)
    rows = zip(search_rows(plans, cut), varied, plans, strict=True)
    objective = found.inputs.case.scenario.objective
    own = [] if objective in _COLUMN_OF else [_COST]
    cells = [
        (row[0], *values, *row[1:-2], *(result(objective, plan.costs[objective]) for _ in own), *row[-2:])
        for row, values, plan in rows
    ]
    align = f"r{'l' * len(over)}{_align(cut)}rrrr{'r' * len(own)}rl"
    drop = tuple(name for name in _DROPPED if name != _COLUMN_OF.get(objective))
    return CellTable((place, *over, *names, *_RESULTS[:-2], *own, *_RESULTS[-2:]), cells, align, drop=drop, gap=" ")


def _cut(plans: Sequence[Ranked]) -> tuple[str, ...]:
    """Columns that differ: sizes over 1, schedules that do not follow from vpp, other choices."""
    sizes = (name for name in OF_ITSELF_ONE if any(plan.sizes[name] > 1 for plan in plans))
    words = {name: {stated(plan.structure) for plan in plans} for name, stated in CHOICES.items()}
    return (
        *sizes,
        *(name for name, stated in words.items() if len(stated) > 1 or (name == "schedule" and stated != {""})),
    )


def _names(cut: Sequence[str]) -> tuple[str, ...]:
    sizes = (HEADS[name] for name in cut if name not in CHOICES)
    return ("#", "tp", *sizes, *_NAMES[2:-1], *(name for name in cut if name in CHOICES), _NAMES[-1])


def _align(cut: Sequence[str]) -> str:
    """Alignment of the columns that describe a plan, behind the first."""
    choices = sum(name in CHOICES for name in cut)
    return f"{'r' * (len(cut) - choices)}rrrrrrr{'k' * choices}l"


def search_rows(plans: Sequence[Ranked], cut: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """The cells of that table."""
    return [
        (
            *plan_cells(place, plan, cut),
            show_time(plan.costs["step_time"]),
            show_time(plan.costs["step_time_high"]),
            significant(plan.costs["tokens_per_s_per_gpu"], 4),
            percent(plan.costs["mfu"]),
            gib(plan.costs["memory_peak"]),
            _room_words(plan),
        )
        for place, plan in enumerate(plans, 1)
    ]


def _room_words(plan: Ranked) -> str:
    """Whether a row fits: its chance where it is at risk, as its P90 does not fit (N023)."""
    if "N023" in plan.remarked:
        return rounded_percent(plan.costs["fit_chance"])
    return "tight" if verdict(plan.costs["memory_share"]) == "tight" else "yes"


def plan_cells(place: int, plan: Ranked, cut: Sequence[str] = ()) -> tuple[str, ...]:
    """What a plan is, behind its place."""
    return (
        str(place),
        *(f"{plan.sizes[name]:.0f}" for name in ("tp", *cut, *_BEHIND) if name not in CHOICES),
        str(plan.structure.zero),
        "✓" if plan.structure.sequence_parallel and plan.sizes["tp"] > 1 else "·",
        *(CHOICES[name](plan.structure) for name in cut if name in CHOICES),
        short_words(plan.structure),
    )


def front(found: TrainingSearch, kept: Front[Ranked], shown: int) -> list[Line]:
    """The plans that none beats in both results: drawn, and listed best in the first result first."""
    axes = kept.axes
    if not kept.rows:
        wanted = dict.fromkeys(missing_input(found.inputs, name) for name in (axes.x, axes.y))
        return [styled(f"No plan has both results; {', '.join(filter(None, wanted))}.", BAD)]
    titles = [f"{name} ({TRAINING_COLUMNS[name].better} is better)" for name in (axes.x, axes.y)]
    text_of_x, text_of_y = (partial(result, name, bare=True) for name in (axes.x, axes.y))
    points, legend = _marked(found, kept)
    listed = list(_spread(kept.rows, shown))
    cut = _cut([plan for _, plan in listed])
    over = headings(_varied_paths(found))
    rows = []
    for number, plan in listed:
        place, *cells = plan_cells(number, plan, cut)
        both = text_of_x(plan.costs[axes.x]), text_of_y(plan.costs[axes.y])
        rows.append((place, *_values(found, plan), *cells, *both))
    place, *names = _names(cut)
    align = f"r{'l' * len(over)}{_align(cut)}rr"
    lines: list[Line] = [
        scatter(points, (titles[0], titles[1]), (text_of_x, text_of_y)),
        styled(f"  {legend}", DIM),
        Text(),
        CellTable((place, *over, *names, axes.x, axes.y), rows, align, drop=("sp",), gap=" "),
    ]
    if len(rows) < len(kept.rows):
        words = f"{len(rows)} of {len(kept.rows):,} on the front, spread evenly; --json has all"
        lines.append(styled(f"  {words}", DIM))
    return lines + prices_of(found, [plan for _, plan in listed]) + _remarks(found, [plan for _, plan in listed])


def _marked(found: TrainingSearch, kept: Front[Ranked]) -> tuple[list[ScatterPoint], str]:
    """The points of a front; your own and the best plan where both results are known; what the marks mean."""
    axes = kept.axes
    marks = [("●", "on the front", plan.costs) for plan in kept.rows]
    if found.yours is not None and found.your_rank is not None:
        marks.append(("○", "yours", found.yours.evaluation.costs.row()))
    marks.append(("◆", f"best by {axes.objective}", found.best[0].costs))
    known = [
        (ScatterPoint(costs[axes.x], costs[axes.y], mark), f"{mark} {title}")
        for mark, title, costs in marks
        if math.isfinite(costs[axes.x]) and math.isfinite(costs[axes.y])
    ]
    return [point for point, _ in known], " · ".join(dict.fromkeys(words for _, words in known))


def _varied_paths(found: TrainingSearch) -> list[str]:
    """The paths that vary and have no column of their own in every table of plans."""
    return [path for path in found.values(0) if path not in _SHOWN_ANYWAY]


def _values(found: TrainingSearch, plan: Ranked) -> tuple[str, ...]:
    """The values of these paths for a plan."""
    values = found.values(plan.variant)
    return tuple(spaced(values[path]) for path in _varied_paths(found))


def _spread(plans: Sequence[Ranked], count: int) -> Iterator[tuple[int, Ranked]]:
    """So many of the plans with their places: the first, and of more the last too."""
    last, steps = len(plans) - 1, min(count, len(plans)) - 1
    for step in range(steps + 1):
        place = round(step * last / max(1, steps))
        yield place + 1, plans[place]


def _yours(found: TrainingSearch) -> list[Line]:
    if found.yours is None:
        return []
    words = " · ".join([*_own_values(found), plan_words(found.yours)])
    if found.your_rank is None and not (found.yours.refused or found.yours.broken):
        chance = rounded_percent(found.yours.evaluation.costs.row()["fit_chance"])
        return [styled(f"  yours ({words}) fits with a chance of {chance}", WARN)]
    if found.your_rank is None:
        code = (*found.yours.refused, *found.yours.broken)[0]
        stated = f"{code} {REFUSALS[code].title}: {reason(found.yours, code)}"
        return [styled(f"  yours ({words}) is refused: {stated}", BAD)]
    if not found.best:
        return [styled(f"  yours ({words}) works, but is not in the search space")]
    costs = found.yours.evaluation.costs.row()
    ratio = costs["step_time"] / found.best[0].costs["step_time"]
    faster = ratio > 1.0005
    rest = f"; the best is {ratio:.2f} × faster" if faster else "; none is better" if found.your_rank == 1 else ""
    lines: list[Line] = [styled(f"  yours ({words}) ranks {ordinal(found.your_rank)}{rest}")]
    return [*lines, gain(found, costs["step_time"])] if faster else lines


def _own_values(found: TrainingSearch) -> list[str]:
    """What the leaves that vary are in the scenario as it is written."""
    paths, written = _varied_paths(found), leaves(found.inputs.case)
    named = zip(paths, headings(paths), strict=True)
    return [f"{name} {spaced(written[path].text)}" for path, name in named if path in written]


def _refused(found: TrainingSearch) -> list[Line]:
    """Reasons with the share of the plans that each refused, the most first."""
    total = found.tally.candidates
    counts = [(code, count) for code, count in found.tally.refused.most_common() if count]
    rows = [(percent(count / total, 2), f"{code} {REFUSALS[code].title}") for code, count in counts]
    if not rows:
        return []
    return [
        styled("  why not (--why-not explains)", DIM),
        CellTable(("", ""), rows, "rl", False, indent="    ", style=DIM),
    ]


def account(found: TrainingSearch, shown: Mapping[str, Ranked]) -> list[Line]:
    """Every reason with what it means, how many plans it refused, and one of them."""
    tally = found.tally
    lines: list[Line] = [
        Text(),
        styled(
            f"Why not: {tally.candidates - (tally.safe or tally.kept):,} of {tally.candidates:,} plans are refused",
            HEAD,
        ),
        styled("  each is counted under the first reason that applies", DIM),
    ]
    for code, count in tally.refused.most_common():
        if count:
            share = percent(count / tally.candidates, 2)
            lines.append(styled(f"  {code}  {REFUSALS[code].title}: {number_of(count, 'plan')}, {share}"))
            lines.append(styled(f"        {REFUSALS[code].meaning}"))
            if code in shown:
                lines.append(styled(f"        e.g. {_example_words(found, shown[code])}", DIM))
                lines.append(styled(f"             {_example_reason(found, shown[code], code)}", DIM))
            if code == NO_PRECISION:
                lines.append(styled(f"        {', '.join(lacking_precisions(found.inputs.case))}", DIM))
    return lines


def _example_reason(found: TrainingSearch, example: Ranked, code: str) -> str:
    block = one_row(example.structure, **example.sizes)
    return reason_of(found.inputs_of(example.variant), block, example.costs, code)


def _example_words(found: TrainingSearch, example: Ranked) -> str:
    values = found.values(example.variant)
    varied = [f"{name} {spaced(value)}" for name, value in zip(headings(list(values)), values.values(), strict=True)]
    sizes = [f"{name} {counted(example.sizes[name])}" for name in ALWAYS]
    sizes += [f"{name} {counted(example.sizes[name])}" for name in OF_ITSELF_ONE if example.sizes[name] > 1]
    structure = example.structure
    way = [f"{way} {getattr(structure, way)}" for name, way in WAYS.items() if example.sizes[name] > 1]
    choices = [*way, *split_words(structure), f"zero {structure.zero}", *choice_words(structure)]
    return " · ".join([*varied, *sizes, *choices, structure.schedule])


def _nothing_fits(found: TrainingSearch) -> list[Line]:
    if not found.tally.missed_by_least:
        valid = remedy_lines(found.remedies, indent="  ") or [styled("  no change of a single key makes a plan valid")]
        return [styled("No plan is valid.", BAD), *valid]
    plan, closest = found.tally.missed_by_least[0], bool(found.tally.closest.rows)
    inputs = found.inputs_of(plan.variant)
    sizes, structure, costs = plan.sizes, plan.structure, plan.costs
    need = f"needs {gib(costs['memory_peak'])} of {gib(inputs.usable)} GiB"
    if closest:
        need = f"{need}, takes {show_time(costs['step_time'])} at {percent(costs['mfu'])} MFU"
    what = "keeps the limits" if closest else "fits"
    lines: list[Line] = [
        styled(f"No plan {what}.", BAD),
        styled(f"  nearest   {_example_words(found, plan)}"),
        styled(f"            {need}"),
    ]
    missed = (reason_of(inputs, one_row(structure, **sizes), costs, code) for code in ("M002", "T001"))
    lines += [styled(f"  misses    {stated}") for stated in missed if stated and closest]
    return [*lines, *remedy_lines(found.remedies, indent="  ")]


def shows_cost(found: TrainingSearch) -> bool:
    """Whether plans are ranked by what they cost, or weighed by it."""
    front = found.tally.front
    weighed = () if front is None else (front.axes.x, front.axes.y)
    return any(map(is_money, (found.inputs.case.scenario.objective, *weighed)))


def prices_of(found: TrainingSearch, plans: Iterable[Ranked]) -> list[Text]:
    """The prices of plans whose scenarios have their own, each once, where costs are shown."""
    if not shows_cost(found) or not price_varies([axis.path for axis in found.variants.over]):
        return []
    return prices(price_of(found.inputs_of(variant).case) for variant in dict.fromkeys(plan.variant for plan in plans))


_TELLING = 0.005


def beaten(found: TrainingSearch) -> bool:
    """Whether the user's own plan, outside what was searched, is better than all in it."""
    own = found.yours
    return found.your_rank == 1 and own is not None and own.evaluation.costs.row() != found.best[0].costs


def gain(found: TrainingSearch, step_time: float) -> Line:
    """Where the best plan saves time over the user's own, and what it pays: terms that moved by half a percent."""
    named = {plan_in_words(move.name): move for move in advantage(found)}
    terms = [(named[key], f"  {title}") for title, key in TIME_TERMS if key in named]
    telling = [(move, title) for move, title in terms if abs(difference(move)) > _TELLING * step_time]
    telling.sort(key=lambda item: difference(item[0]))
    shown = [(named["step_time"], "step time"), *telling]
    shown += [(named["memory_peak"], "memory")] if "memory_peak" in named else []
    rows = [figure_row(move, title, share=not title.startswith(" "))[:4] for move, title in shown]
    return CellTable(("", "yours", "best", "change"), rows, "lrrr", indent="    ")


def ordinal(number: int) -> str:
    """A rank as people write it.

    >>> ordinal(1), ordinal(12), ordinal(1023)
    ('1st', '12th', '1,023rd')
    """
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{suffix}"


_ALIKE = 0.01  # share below which two plans count as equal


def unsure_order(found: TrainingSearch, shown: int) -> list[Line]:
    """How many of the plans shown may be the fastest, with the chances that the first one is."""
    chances = found.chances[:shown]
    count = unsure(chances)
    if count < 2:
        return []
    stated = f"these {count}" if count == len(chances) else f"the first {count}"
    last = f", than {count} with {chances[count - 1]:.0%}" if count > 2 else ""
    return [styled(f"any of {stated} may be fastest: 1 is faster than 2 with a chance of {chances[1]:.0%}{last}")]


def roomier(found: TrainingSearch) -> Iterator[Line]:
    """The first plan that surely fits behind one at risk, or behind one that is tight and hardly faster."""
    winner, *others = found.best
    alike = [plan for plan in others if plan.variant == winner.variant]
    if "N023" in winner.remarked:
        yield _behind_risk(found, winner, [plan for plan in alike if "N023" not in plan.remarked])
        return
    free = [plan for plan in alike if verdict(plan.costs["memory_share"]) == "fits"]
    if verdict(winner.costs["memory_share"]) != "tight" or not free:
        return
    slower = free[0].costs["step_time"] / winner.costs["step_time"] - 1
    if 0 <= slower < _ALIKE:
        room = gib(winner.costs["memory_peak"] - free[0].costs["memory_peak"])
        yield styled(
            f"  1 is tight: {found.best.index(free[0]) + 1} takes {percent(slower)} longer and {room} GiB less", DIM
        )


def _behind_risk(found: TrainingSearch, winner: Ranked, safe: Sequence[Ranked]) -> Line:
    """What surely fits costs over the first plan, which may not fit."""
    risk = f"  1 fits with a chance of {rounded_percent(winner.costs['fit_chance'])}"
    if not safe:
        return styled(f"{risk}; --safe 90% ranks only plans that fit with 90 %", DIM)
    slower = safe[0].costs["step_time"] / winner.costs["step_time"] - 1
    more = f"takes {percent(slower)} longer" if slower >= 0 else f"is {percent(-slower)} faster"
    return styled(f"{risk}; {found.best.index(safe[0]) + 1} fits at P90 and {more} (--safe 90%)", DIM)


def none_is_safe(found: TrainingSearch) -> str:
    """That no plan has the chance to fit that the search prefers, and which is the surest; empty where one has."""
    if found.is_safe or found.safe is None or not found.best:
        return ""
    surest = rounded_percent(found.best[0].costs["fit_chance"])
    return f"No plan fits with a chance of {percent(found.safe, 2)}. Plan 1 is the surest: {surest}; surest first."


def without_safety(found: TrainingSearch) -> str:
    """The best plan whatever its chance to fit, what that gains, and its chance; empty where it is the best one."""
    other = found.expected
    if found.safe is None or other is None:
        return ""
    best, objective = found.best[0], found.inputs.case.scenario.objective
    words = brief_words(one_row(other.structure, **other.sizes))
    timed = objective in SCORED
    ratio = best.costs["step_time" if timed else objective] / other.costs["step_time" if timed else objective]
    gained = f"{percent(abs(ratio - 1), 2)} {'faster' if timed else f'less {objective}'}"
    chance = rounded_percent(other.costs["fit_chance"])
    return f"Without --safe: {words}: {gained}, fits with a chance of {chance} (--safe off)"
