"""Answers of buy."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from costmodel.documents.schemas.results import machine_name
from costmodel.equations.run.economics import share
from costmodel.estimate.model.shards import model_parameters
from costmodel.estimate.serving.predict_serving import OVERLOAD
from costmodel.estimate.shared.result_limits import stated_limits
from costmodel.explore.flags.flag_defaults import TOKENS_PER_PARAMETER
from costmodel.explore.purchase.buy import Bought, Day, Purchase, Rent
from costmodel.explore.purchase.offers import HostedOffer, source_url
from costmodel.explore.purchase.smallest_size import CHANCE
from costmodel.explore.workload_interface import SmallestPlan, Trial
from costmodel.ground.counts import number_of
from costmodel.ground.units import counted, percent, rounded_dollars, rounded_percent, show, show_time, significant
from costmodel.report.answers.buy_plot import TradeOff
from costmodel.report.document import (
    AnswerDocument,
    Cell,
    Column,
    Draw,
    Headline,
    Section,
    Table,
    Value,
    chance_verdict,
)
from costmodel.report.terminal.style.head import (
    command,
    hourly,
    origin_lines,
    price_source,
    prices,
    subject_words,
    written_off,
    years_of,
)
from costmodel.report.terminal.style.layout import BAD, HEAD, Abridged, Line, shorter, styled, typed
from costmodel.report.trials import codes_of, counts_of, remark_lines, result_cells, trial_settings
from costmodel.report.workload_words import MONTHLY, band_words, words_of

if TYPE_CHECKING:
    from costmodel.estimate.machine.price import Price

TOP, BRIEF = 12, 2  # machines in a terminal, and in a short answer
VARIED = ("cluster",)
_HEADS = {
    "cost_per_minput": "$/M prompt",
    "cost_per_mcached": "$/M cached",
    "cost_per_moutput": "$/M out",
    "cost_per_mtoken": "$/M tokens",
    "energy_per_token": "J/token",
    "run_time": "time",
    "iteration_cost": "$/iteration",
}
_OF_A_DAY = {
    "cost_per_minput": "each $/M is of all requests of the day, on the same GPUs all day",
    "energy_per_token": "in the fullest hour",
}
_NO_EFFECT = "N051"  # of keys of the plan, which is found and not written
_WORTH_SAYING = 0.05  # judged: of a budget, from which what is left has a sentence
_AS_DEAR = 0.995  # judged: of a rent, from which another one is no choice
_SIGNS = {"at_most": "≤", "at_least": "≥", "target": "≈"}


def buy(
    found: Bought, top: int | None, *, plot: bool = False, day: Day | None = None, again: str = ""
) -> AnswerDocument:
    """One row per machine: the smallest layout that meets every limit, its cost, and its chance to do so.

    again: the command that asks this question
    """
    asked, best = found.asked, found.best
    words = words_of(asked.case.kind)
    about: list[Line] = [*words.subject(asked.case, VARIED)]
    about += [styled(line) for line in (words.load(asked.case), _wanted(found)) if line]
    about += origin_lines(asked.case)
    about += [styled("Stopped before the last machine.", BAD)] if found.stopped else []
    trials = [row.trial for row in found.working if row.trial is not None]
    first, choices = _sentences(found), [] if best is None else _choices(found, best)
    verdict = "bad" if best is None or best.plans.safe is None else chance_verdict(best.plans.safe.chance)
    open_points = Section(
        "decide", "To decide", beneath=[styled(f"{each[0].upper()}{each[1:]}.") for each in choices], face="page"
    )
    return AnswerDocument(
        asked.case,
        f"Which GPUs for {_sized_for(found)}, and what do they cost?",
        about,
        " ".join([*first, *([] if best is None else [_looked_at(found)])]),
        verdict,
        [*([open_points] if choices else []), _machines(found, top, plot=plot), *([] if day is None else [_day(day)])],
        _remarks(found, trials),
        codes_of(trials, _NO_EFFECT),
        _closing(found, [*first, *([f"To decide: {'; '.join(choices)}."] if choices else [])], day, again),
        [*_headlines(found), *([] if day is None else _day_headlines(day))],
        lambda: {**found.trees(words.bought), **({} if day is None else day.trees(asked))},
        counted=counts_of(trials, _NO_EFFECT),
    )


def _sized_for(found: Bought) -> str:
    """The model, or the budget that decides it."""
    if _is_sized(found):
        return f"a model that {rounded_dollars(found.budget)} train best"
    return subject_words(found.asked.facts, VARIED)


def _remarks(found: Bought, trials: Sequence[Trial]) -> list[Line]:
    """Remarks on all machines; in a short answer those on the best one."""
    own = [row.trial for row in found.working if row is found.best and row.trial is not None]
    return shorter(remark_lines(own, _NO_EFFECT), remark_lines(trials, _NO_EFFECT), "what ▲ means")


def _closing(found: Bought, sentences: Sequence[str], day: Day | None, again: str) -> list[Line]:
    """The last lines in a terminal: what is best, what is to be decided, and the next commands."""
    asked, best = found.asked, found.best
    counts = Abridged(_looked_at(found), short="", added="offers that were looked at")
    lines: list[Line] = [*map(styled, sentences), *([] if best is None else [counts])]
    lines += [*([] if day is None else [styled(_day_words(day))]), *(styled(line) for line in _optimal(found))]
    if best is None or best.trial is None:
        return lines
    settings = trial_settings(best.trial, searched=False)
    own = [styled(f"This plan: {command(asked.case, 'estimate', settings=settings)}")]
    on_it = {path: value for path, value in settings.items() if path in ("cluster.node", "cluster.nodes")}
    priced = [] if best.price is None or not best.price.known else ["--price", _price_option(best.price)]
    plans = command(asked.case, "search", *priced, settings=on_it)
    lines += [typed("Next:", f"{again} -o page.html")] if again else []
    return lines + shorter([] if again else [typed("Next:", plans)], [typed("Plans:", plans), *own], "plans")


def _price_option(price: Price) -> str:
    """The price of an accelerator as --price takes it."""
    return f"{price.each * 3600:.6g}USD/GPU/h"


def _wanted(found: Bought) -> str:
    """The limits that must be met, in words, with the chance required of each plan."""
    say, limits = words_of(found.asked.case.kind).result, stated_limits(found.asked.case.scenario.limits)
    stated = [
        f"{limit.key} {_SIGNS[limit.kind]} {say(limit.column, limit.value)}"
        for limit in limits
        if limit.column != found.asked.chance
    ]
    sure = f"with a chance of {percent(found.safe, 2)}" if found.safe else "by expected figures"
    return f"{' · '.join(stated) or found.asked.aim} {sure}"


def _machines(found: Bought, top: int | None, *, plot: bool) -> Section:
    """The table of machines."""
    asked, words = found.asked, words_of(found.asked.case.kind)
    shown = [name for name in words.bought if any(_is_known(row, name) for row in found.working)]
    priced = any(row.price is not None and row.price.known for row in found.working)
    apart = any(rent.in_use < rent.whole for rent in map(found.rent, found.working))
    bought = any(row.capital == row.capital for row in found.working)
    offers = any(row.machine.sold not in ("", "on demand") for row in found.rows) or bool(found.hosted)
    best, columns = found.best, _machine_columns(found, offers=offers)
    ahead = len(columns)
    columns += [Column("GPUs"), Column("nodes", drop=3), Column("plan", "l", drop=5)]
    columns += [Column("chance", result=asked.chance), Column("expected", drop=2, legend=_EXPECTED)]
    columns += _money_columns(_job_words(found), apart=apart, bought=bought) if priced else []
    limited = math.isfinite(found.power)
    columns += [Column("site power", legend="rated, with cooling")] if limited else []
    legends = {} if found.traffic == 1 else _OF_A_DAY
    columns += [
        Column(_HEADS.get(name, name.replace("_", " ")), result=name, drop=6, legend=legends.get(name, ""))
        for name in shown
    ]
    columns += [
        Column("measured", "l", drop=7, legend=_MEASURED),
        Column("limited by", "l", drop=8),
        Column("", "l"),
    ]
    columns += [Column("price of", "l", face="page")] if priced else []
    rows = list[tuple[float, list[Cell], dict[str, str]]]()
    for row in found.rows:
        mark = " ◀" if row is best and len(found.rows) > 1 else ""
        cells: list[Cell] = [f"{row.machine.accelerator}{mark}", row.machine.node]
        cells += [f"{row.machine.terms}{'' if row.terms_fit else ' *'}"] if offers else []
        settings = {} if row.trial is None else trial_settings(row.trial, searched=False)
        if row.trial is None or not row.works:
            blank = [""] * (len(columns) - ahead - 1 - priced)
            rows.append((math.inf, [*cells, *blank, against(found, row), *([""] * priced)], settings))
            continue
        cells += _figures_of(found, row, shown, apart=apart, bought=bought, priced=priced)
        rows.append((-1.0 if row is best else found.weighed_cost(row), cells, settings))
    rows += [(found.hosted_cost(offer), _hosted(found, offer, columns), {}) for offer in found.hosted if priced]
    rows.sort(key=lambda row: math.inf if math.isnan(row[0]) else row[0])
    own = [row.price for row in found.working[: top or TOP] if row.price is not None]
    event = _event(found)
    lead = f"With a chance of {percent(found.safe, 2)} to {event}." if found.safe else "By expected figures."
    made, brief = [(cells, settings) for _, cells, settings in rows], None if top else BRIEF
    table = Table(
        columns, [each[0] for each in made], [each[1] for each in made], sortable=True, most=top or TOP, brief=brief,
        rest="offer",
    )  # fmt: skip
    known = any(all(_is_known(row, name) for name in words.traded) for row in found.working)
    traded = functools.cache(lambda: TradeOff.of(found))
    drawn: list[Callable[[], Draw]] = [lambda: traded().plot] if known else []
    cut = traded().lines() if known and plot else []
    below = [*prices(own), *map(_hosted_price, found.hosted)] if priced else []
    return Section("machines", "Machines", lead, drawn, table=table, beneath=below, cut=cut)


def _figures_of(
    found: Bought, row: Purchase, shown: Sequence[str], *, apart: bool, bought: bool, priced: bool
) -> list[Cell]:
    """The cells with the results of a machine on which a plan works."""
    safe, name = row.plans.safe, row.machine.name
    assert safe is not None
    assert row.trial is not None
    plan = "" if row.trial.kept is None else row.trial.kept.words
    nodes = opening(number_cell(row.nodes, "nodes"), f"nodes of {name}")
    cells = [opening(number_cell(row.gpus, "gpus"), f"GPUs of {name}"), nodes, plan]
    cells += [opening(_sure(safe.chance), f"chance of {name}"), _expected(row, safe)]
    cells += _money_cells(row, found.rent(row), apart=apart, bought=bought) if priced else []
    power = Value(show(row.power, "J/s"), row.power, "site_power_w")
    cells += [opening(power, f"site power of {name}")] if math.isfinite(found.power) else []
    results = zip(shown, result_cells(found.asked, row.trial, shown), strict=True)
    cells += [opening(cell, f"{result} of {name}") for result, cell in results]
    return [*cells, _measured(found, row), safe.binds, "", *([_sourced(row)] if priced else [])]


def _machine_columns(found: Bought, *, offers: bool) -> list[Column]:
    """Columns that name a machine, and how it is sold where several ways are looked at."""
    answer = "◀ the answer" if found.best is not None and len(found.rows) > 1 else ""
    short = sorted({_term_words(row) for row in found.working if not row.terms_fit})
    term = f"* not for a job as long as this: {' and '.join(short)}" if short else ""
    columns = [Column("GPU", "l", legend=answer), Column("node", "l", drop=4)]
    return columns + ([Column("offer", "l", legend=term)] if offers else [])


def _term_words(row: Purchase) -> str:
    """For how long a machine is rented or bought at least."""
    how = "bought" if row.machine.sold == "purchase" else row.machine.sold
    if row.time > row.life:
        return f"bought for {years_of(row.life)}"
    least = years_of(row.least_term)
    return f"{how} for {'a' if least[0] == '1' and least[1] == ' ' else least[0]}{least[1:]} or more"


def _money_columns(job: str, *, apart: bool, bought: bool) -> list[Column]:
    """Columns for the price, the costs and the capital."""
    columns = [Column("$/GPU/h"), Column("cost", legend=f"of GPUs in use, for {job}")]
    columns += (
        [Column("whole nodes", legend="the cost of all GPUs in these nodes, as bought ones always have it", drop=1)]
        if apart
        else []
    )
    return columns + ([Column("capital", legend="of the nodes that are bought", face="page")] if bought else [])


def _money_cells(row: Purchase, rent: Rent, *, apart: bool, bought: bool) -> list[Cell]:
    """Cells for the price, the costs and the capital of a machine."""
    cells = list[Cell]([_hourly(row.price, row.machine.name)])
    cells += [opening(money_cell(rent.in_use), f"rent of {row.machine.name}")]
    cells += [opening(money_cell(rent.whole), f"whole nodes of {row.machine.name}")] if apart else []
    return cells + ([_capital(row)] if bought else [])


def _hourly(price: Price | None, machine: str) -> Cell:
    """The price of an accelerator by the hour, which opens where it is from."""
    words = "" if price is None else hourly(price).removesuffix(" USD/GPU/h")
    if price is None or not price.known:
        return words
    return opening(Value(words, price.each * 3600, "price_usd_per_hour"), f"price of {machine}")


def _hosted(found: Bought, offer: HostedOffer, columns: Sequence[Column]) -> list[Cell]:
    """The table row of a hosted API: its cost and prices, in the columns for machines."""
    cost = found.hosted_cost(offer)
    figures: dict[str, Cell] = {
        "GPU": "hosted",
        "node": offer.source,
        "offer": "API",
        "cost": opening(money_cell(cost), f"rent of {offer.name}"),
        "price of": Value(hosted_source(offer), link=source_url(offer.source)),
    }
    figures |= {
        _HEADS[name]: as_stated(Value(f"${price * 1e6:.3g}", price * 1e6, machine_name(name)), hosted_source(offer))
        for name, price in (
            ("cost_per_minput", offer.prompt),
            ("cost_per_mcached", offer.cached),
            ("cost_per_moutput", offer.output),
        )
    }
    return [figures.get(column.head, "") for column in columns]


def as_stated(cell: Cell, source: str) -> Cell:
    """The cell, whose figure opens its source on a page, since no equation computes it."""
    if isinstance(cell, str):
        return cell
    return replace(cell, opens=lambda traces: traces.add(cell.name, cell.text, f"from: {source}"))


def hosted_source(offer: HostedOffer) -> str:
    """The origin of the prices of an API: its model, region, date and source."""
    where = f" in {offer.region}" if offer.region else ""
    return ", ".join(filter(None, (f"{offer.title}{where}", offer.date, offer.source)))


def _hosted_price(offer: HostedOffer) -> Line:
    """The prices of a hosted API per million tokens, as a line."""
    prompt, cached, output = (f"${price * 1e6:.3g}" for price in (offer.prompt, offer.cached, offer.output))
    words = f"{prompt} a million tokens of prompts, {cached} cached ones, {output} generated ones"
    return Abridged(f"  API: {words} ({hosted_source(offer)})", short="", added="origin of prices")


_EXPECTED = "the fewest GPUs by expected figures, and their chance to meet every limit"
_MEASURED = (
    "published runs of such jobs on this GPU, of any model and format, that predictions are compared with, and how "
    "much longer times may be (P90), which without runs is assumed"
)


def _is_known(row: Purchase, name: str) -> bool:
    """Whether a machine has a finite value of this result."""
    return row.trial is not None and math.isfinite(row.trial.costs.get(name, math.nan))


def number_cell(value: float, name: str) -> Cell:
    """A cell for a count."""
    return Value(counted(value), value, name)


def money_cell(value: float, name: str = "rent_usd") -> Cell:
    """A cell for an amount of money, which may be unknown."""
    return Value(rounded_dollars(value), value, name) if math.isfinite(value) else "unknown"


def opening(cell: Cell, trace: str) -> Cell:
    """A cell whose figure opens a trace on a page; text is unchanged."""
    return cell if isinstance(cell, str) else replace(cell, opens=lambda traces: traces.of(trace))


def _capital(row: Purchase) -> Cell:
    """The capital for a machine's nodes; empty if they are rented."""
    found = opening(money_cell(row.capital, "capital_usd"), f"capital of {row.machine.name}")
    return "" if math.isnan(row.capital) else found


def _sourced(row: Purchase) -> Cell:
    """The origin of a price, with a link to where it was seen."""
    if row.price is None or not row.price.known:
        return ""
    listed = row.price.listed
    key = "" if listed is None else listed.source or ""
    return Value(price_source(row.price), link=source_url(key, row.machine.node))


def _sure(chance: float) -> Cell:
    """The cell of a chance."""
    return Value(rounded_percent(chance).replace("%", " %"), chance, "chance")


def _expected(row: Purchase, safe: SmallestPlan) -> Cell:
    """The size by expected figures, which opens its chance."""
    words, expected = _size(row.plans.expected, safe), row.plans.expected
    if not words or expected is None:
        return words
    return opening(Value(words, expected.chance, "expected_chance"), f"expected of {row.machine.name}")


def _size(expected: SmallestPlan | None, safe: SmallestPlan) -> str:
    """The number of GPUs by expected figures, if it is smaller than the safe number."""
    if expected is None or expected.gpus >= safe.gpus:
        return ""
    return f"{counted(expected.gpus)} at {rounded_percent(expected.chance).replace('%', ' %')}"


def _measured(found: Bought, row: Purchase) -> Cell:
    """The number of runs behind a machine's predictions, and how far P90 lies above the prediction."""
    if row.trial is None:
        return ""
    runs, name = row.runs, found.asked.usual
    value, high = (row.trial.costs.get(each, math.nan) for each in (name, f"{name}_high"))
    count, say = number_of(runs, "run") if runs else "never", words_of(found.asked.case.kind).result
    if not (value > 0 and math.isfinite(high)):
        return count
    longer = float(share(high, value)) - 1
    assumed = "" if runs else " assumed"
    cell = Value(f"{count}, +{percent(longer, 2)}{assumed}", longer, f"{machine_name(name)}_over")
    return as_stated(cell, f"{name} at P90, {say(name, high)}, over its prediction, {say(name, value)}")


def against(found: Bought, row: Purchase) -> str:
    """A sentence on why no plan on a machine meets every limit."""
    plans = row.plans
    if plans.expected is not None:
        return f"✗ the surest plan has a chance of {rounded_percent(plans.surest).replace('%', ' %')}"
    if plans.fault is not None:
        return f"✗ {plans.fault.code} {plans.fault.with_near_word}"
    if plans.missed:
        return f"✗ {_missed(found, row)}"
    reasons = found.asked.reasons
    power = _powered(found, row) if OVERLOAD.intersection(plans.codes) else ""
    titles = (f"{code} {reasons[code].title}" if code in reasons else code for code in plans.codes)
    return f"✗ {', '.join(titles)}{power}"


def _missed(found: Bought, row: Purchase) -> str:
    """The limits that the nearest plan that fits misses."""
    words, parts = words_of(found.asked.case.kind), list[str]()
    for missed in row.plans.missed:
        pairs = ([words.result_to(missed.column, each, digits) for each in (missed.value, missed.limit)]
                 for digits in range(3, 7))  # fmt: skip
        value, limit = next((pair for pair in pairs if pair[0] != pair[1]), ("a little more", "it"))
        where = "" if math.isnan(missed.gpus) else f" on {number_of(missed.gpus, 'GPU')}"
        what, of = _MISSED.get(missed.column, (missed.column, "limit"))
        parts.append(f"{what} {value}{where} is over the {of} of {limit}")
    late = any(missed.column == "run_time" for missed in row.plans.missed)
    return f"{' and '.join(parts)}{_powered(found, row) if late else ''}"


def _powered(found: Bought, row: Purchase) -> str:
    """A note on how many nodes the site's power supplies; empty without a limit on power."""
    if math.isinf(found.power):
        return ""
    nodes = number_of(found.power // row.each, "node")
    return f": a node takes {show(row.each, 'J/s')}, and the site has {show(found.power, 'J/s')}, for {nodes}"


_MISSED = {"run_cost": ("rent", "budget"), "run_time": ("a time of", "deadline")}


def _looked_at(found: Bought) -> str:
    """A sentence on how many offers were compared."""
    works = len(found.working)
    return f"{number_of(found.count, 'offer')} looked at, {works} meet{'s' if works == 1 else ''} every limit."


def _sentences(found: Bought) -> list[str]:
    """Sentences on the best machine, on the next best, and on an API."""
    best = found.best
    if best is None and not found.count:
        return ["No offer is left: none in the table of prices is of the machines that are named."]
    if best is None:
        looked_at = number_of(found.count, "offer")
        return [f"No machine meets every limit with a chance of {percent(found.safe, 2)}: {looked_at} looked at."]
    over = (
        f" Its capital is above the budget of {rounded_dollars(found.budget)}." if best.capital > found.budget else ""
    )
    speed = "" if best.trial is None else words_of(found.asked.case.kind).speed(found.asked.case, best.trial.costs)
    further = found.next_best
    who = "" if further is None else machine_words(further)
    endless = found.asked.request_tokens is None and math.isinf(best.time)
    by = ", by the cost of its work" if endless else ""
    second = [] if further is None else [f"Next best{by}: {who}: {_costs_of(found, further)}."]
    first = [*_model_words(found), f"{_offer(found, best, speed)}.{over}"]
    return [*first, *_size_words(found), *_left_over(found, best), *second, *_hosted_words(found, best)]


def _left_over(found: Bought, best: Purchase) -> list[str]:
    """A sentence on why part of a budget is not spent: more GPUs would meet it only in the expected case."""
    high = math.nan if best.trial is None else best.trial.costs.get("run_cost_high", math.nan)
    left = found.budget - found.rent(best).in_use
    if not (math.isfinite(left + high) and left > _WORTH_SAYING * found.budget):
        return []
    dear = f"the cost may reach {rounded_dollars(high)} (P90), and with the next larger"
    timed = any(limit.column == "run_time" for limit in stated_limits(found.asked.case.scenario.limits))
    why = f"{dear} number of GPUs exceed it"
    if found.late:
        why = f"no larger model is trained within {_deadline(found)}; --deadline allows more"
    elif _is_sized(found):
        why = f"{dear} model exceed it"
    elif timed:
        why = "these GPUs end in time, and fewer GPU hours suffice"
    return [f"{rounded_dollars(left)} of {rounded_dollars(found.budget)} is left: {why}."]


def _size_words(found: Bought) -> list[str]:
    """A sentence on what decided the number of nodes, where no limit did."""
    most, nodes = found.nodes_at_most, 0.0 if found.best is None else found.best.nodes
    if math.isinf(most):
        return ["These are the fewest GPUs that fit: --deadline, --budget, --gpus or --power asks for more."]
    used = f"Of {number_of(most, 'node')}, {counted(nodes)} are used"
    return [f"{used}: no plan was found on more, as few numbers divide a batch."] if nodes < most else []


def _choices(found: Bought, best: Purchase) -> list[str]:
    """What the reader has to decide: other numbers of GPUs, defaults that cost money, and cheaper offers."""
    assert best.plans.safe is not None
    choices = []
    own, expected, surer = found.rent(best), best.plans.expected, best.plans.surer
    if expected is not None and _size(expected, best.plans.safe) and not found.smaller > _AS_DEAR * own.whole:
        cost = f", {rounded_dollars(found.smaller)} by whole nodes" if math.isfinite(found.smaller) else ""
        choices.append(f"{_odds(expected)}{cost}")
    if surer is not None and surer.gpus > best.gpus:
        choices.append(f"{_odds(surer)}{_priced(best, surer)}")
    if found.of_smaller_type is not None and found.of_smaller_type.gpus < best.gpus:
        smaller = found.of_smaller_type
        choices.append(f"--dtype {found.asked.smaller_type}: {number_of(smaller.gpus, 'GPU')}{_priced(best, smaller)}")
    return [*choices, *_defaults(found), *(_cheaper(found, row) for row in found.to_judge)]


def _odds(plan: SmallestPlan) -> str:
    """A number of GPUs with its chance to meet every limit."""
    return f"{number_of(plan.gpus, 'GPU')} with a chance of {rounded_percent(plan.chance).replace('%', ' %')}"


def _priced(best: Purchase, plan: SmallestPlan) -> str:
    """The monthly cost of another plan of a service on the best machine."""
    rent = best.rent(best.paid_time, plan.gpus)
    return f", {_both(rent)}" if math.isfinite(rent.whole) else ""


def _defaults(found: Bought) -> list[str]:
    """Flags whose default costs or saves much, where they are not stated."""
    case = found.asked.case
    stated = {limit.column for limit in stated_limits(case.scenario.limits)}
    batch = [item for item in case.asked.assumed if item.path == "workload.global_batch"]
    found_here = [
        f"a batch of {item.short or item.value} is assumed (--batch): a larger one may cost less" for item in batch
    ]
    if (
        found.asked.request_tokens is not None
        and found.asked.usual == "tpot"
        and not any("tpot" in name for name in stated)
    ):
        found_here.append("no limit on the time per token (--tpot)")
    return found_here


def _both(rent: Rent) -> str:
    """The rent of the GPUs in use, and of whole nodes if that differs."""
    in_use, whole = rounded_dollars(rent.in_use), rounded_dollars(rent.whole)
    return in_use if in_use == whole else f"{in_use} ({whole} by whole nodes)"


def _only_fits(found: Bought) -> bool:
    """Whether the chance is only that of fitting in memory, because no limit is set."""
    limits = {limit.column for limit in stated_limits(found.asked.case.scenario.limits)}
    return found.asked.request_tokens is None and not limits - {found.asked.chance}


def _event(found: Bought) -> str:
    """The verb for what a chance refers to, such as meeting all limits."""
    return "fit in memory" if _only_fits(found) else "meet every limit"


def _hosted_words(found: Bought, best: Purchase) -> list[str]:
    """A sentence on what the cheapest API asks, beside the cost of the best machine."""
    hosted, own = min(found.hosted, key=found.hosted_cost, default=None), found.rent(best)
    if hosted is None or not own.in_use > 0 or best.trial is None:
        return []
    cost = found.hosted_cost(hosted)
    beside = times_as_much(float(share(cost, own.in_use)))
    turn = found.turn(hosted, float(share(own.in_use, len(best.engines))))
    turns = f"{significant(turn, 2)} requests/s"
    if own.whole > own.in_use:
        of_whole = times_as_much(float(share(cost, own.whole)), "whole nodes")
        beside = f"{times_as_much(float(share(cost, own.in_use)), 'GPUs in use')}, {of_whole}"
        by_nodes = found.turn(hosted, float(share(own.whole, best.parts)))
        turns = f"{turns}, or {significant(by_nodes, 2)} by whole nodes"
    answered = float(share(best.trial.costs["saturation_per_s"], len(best.engines)))
    less = f"; cheaper below {turns}" if turn < answered else ""
    return [f"API ({hosted.source}): {rounded_dollars(cost)}, {beside}{less}."]


def times_as_much(ratio: float, of: str = "") -> str:
    """A cost beside another, that of something, in words.

    >>> times_as_much(19.2), times_as_much(0.4, "whole nodes"), times_as_much(1.01)
    ('19 times as much', '60 % less than whole nodes', 'about as much')
    """
    if ratio < 0.95:
        return f"{percent(1 - ratio, 2)} less{f' than {of}' if of else ''}"
    many = "about" if ratio < 1.05 else f"{significant(ratio, 2)} times"
    return f"{many} as much{f' as {of}' if of else ''}"


def _cheaper(found: Bought, row: Purchase) -> str:
    """A cheaper offer that is not comparable with lasting rent, such as a purchase or preemptible nodes."""
    cost, best = found.rent(row).in_use, math.nan if found.best is None else found.rent(found.best).in_use
    beside = f", {times_as_much(float(share(cost, best)))}" if best > 0 else ""
    if row.machine.term and not _bought(row):
        each = f"{rounded_dollars(cost)} {_every(found)}"
        return f"{row.machine.node} {row.machine.sold} for {years_of(row.machine.term)}, {each}{beside}"
    if not _bought(row):
        return f"{row.machine.node} on {row.machine.sold}, which may be taken away: {rounded_dollars(cost)}{beside}"
    months = float(share(row.capital, best)) if _job_words(found) == MONTHLY and best > 0 else math.nan
    repaid = f" ({significant(months, 2)} months of this rent)" if months > 0 else ""
    terms = _bought(row).replace(", ", f"{repaid}, ", 1)
    each = f"{rounded_dollars(cost)} {_every(found)} without building and staff"
    return f"{row.machine.node} {terms}: {each}{beside}"


def _every(found: Bought) -> str:
    """The phrase that follows an amount of money: "a month", or for the whole job."""
    return "a month" if _job_words(found) == MONTHLY else "for this job"


def _job_words(found: Bought) -> str:
    """What costs are of: the whole job, or a month of one without an end."""
    endless = all(math.isinf(row.time) for row in found.working)
    return MONTHLY if endless else words_of(found.asked.case.kind).job


def _bought(row: Purchase) -> str:
    """The capital of a purchase and its use in words; empty for rent."""
    listed = None if row.price is None else row.price.listed
    if listed is None or listed.bought is None:
        return ""
    return f"bought for {rounded_dollars(row.capital)}, {written_off(listed.bought)}"


def machine_words(row: Purchase, *, sourced: bool = False) -> str:
    """A machine, how it is sold, at which price and, where wanted, by whom, and how many."""
    rented = row.machine.terms.replace("spot", "on spot, which may be taken away")
    listed = None if row.price is None else row.price.listed
    named = sourced and listed is not None and listed.source and row.price is not None and not row.price.stated
    by = f" by {listed.source}" if named and listed is not None else ""
    price = f"{hourly(row.price)}{by}" if row.price is not None and row.price.known else ""
    sold = "".join(f", {words}" for words in ((_bought(row),) if _bought(row) else (rented, price)) if words)
    return f"{counted(row.gpus)} {row.machine.accelerator} ({row.machine.node}{sold})"


def _costs_of(found: Bought, row: Purchase) -> str:
    """The cost and the time of a machine, without bands."""
    rent = found.rent(row)
    if row.trial is None or found.asked.request_tokens is not None:
        time = ""
    else:
        speed = words_of(found.asked.case.kind).speed(found.asked.case, row.trial.costs)
        time = show_time(row.time) if math.isfinite(row.time) else speed
    return ", ".join(filter(None, (_both(rent) if math.isfinite(rent.whole) else "", time))) or "no price known"


def _offer(found: Bought, row: Purchase, speed: str = "") -> str:
    """A phrase on a machine, its cost, its time and its speed."""
    assert row.plans.safe is not None
    rent, costs = found.rent(row), {} if row.trial is None else row.trial.costs
    ends = band_words(costs, "run_cost", rounded_dollars)
    cost = f"{rounded_dollars(rent.in_use)}{ends} for {_job_words(found)}" if math.isfinite(rent.whole) else ""
    if rounded_dollars(rent.whole) != rounded_dollars(rent.in_use):
        used = f"{counted(row.gpus)} of {counted(row.gpus + row.idle)} GPUs in use"
        cost = f"{cost} ({rounded_dollars(rent.whole)} by whole nodes, {used})"
    lasts = f"{show_time(row.time)}{band_words(costs, 'run_time', show_time)}" if math.isfinite(row.time) else ""
    chance = rounded_percent(row.plans.safe.chance).replace("%", " %")
    sure = f"{'fits in memory ' if _only_fits(found) else ''}with a chance of {chance}"
    return f"{machine_words(row, sourced=True)}: {', '.join(filter(None, (cost, lasts, speed, sure)))}"


def _day(day: Day) -> Section:
    """A table of replicas by hour; equal hours share a row."""
    columns = [Column("hours", "l"), Column("requests/s"), Column("ready for"), Column("replicas"), Column("GPUs")]
    columns += [Column("chance")]
    rows, begin = list[list[Cell]](), 0
    for hour, group in itertools.groupby(day.hours):
        end = begin + len([*group])
        hours = f"{begin}" if end == begin + 1 else f"{begin} – {end - 1}"
        rate, ready = (Value(significant(value), value, "requests_per_s") for value in (hour.rate, hour.ready))
        figures = [as_stated(rate, "--day"), opening(ready, hour.named("ready"))]
        figures += [as_stated(number_cell(hour.replicas, "replicas"), "the fewest that meet every limit, by trial")]
        figures += [opening(number_cell(hour.gpus, "gpus"), hour.named("GPUs"))]
        sure = _sure(hour.chance)
        figures += [opening(sure, hour.named(CHANCE)) if hour.settings else as_stated(sure, "an hour without requests")]
        rows.append([hours, *figures])
        begin = end
    title = f"A day on {day.machine.node}"
    ahead = [styled(title, HEAD)]
    return Section("day", title, _day_words(day), ahead=ahead, table=Table(columns, rows), apart=True)


def _day_headlines(day: Day) -> list[Headline]:
    """The rent of a day by the hour and of a fixed fleet, at the head of the page."""
    by_hour = opening(money_cell(day.autoscaled.in_use), "by the hour")
    fixed = opening(money_cell(day.fixed.in_use), "a fixed fleet")
    return [Headline("Rent of a day by the hour", by_hour, day.machine.node), Headline("Of a fixed fleet", fixed)]


def _day_words(day: Day) -> str:
    """What autoscaling saves compared with a fixed fleet for the busiest hour."""
    starts = f"with starts of {show_time(day.start)}" if day.start else "if replicas start at once (--cold-start)"
    apart, hours = day.elastic != day.price, len(day.hours)
    often = "a day" if hours == 24 else f"for {hours} hours"
    scaled, fixed = day.autoscaled, day.fixed
    rents = f"{rounded_dollars(scaled.in_use)}{' on demand' if apart else ''} {often}"
    than = f"{_less(scaled.in_use, fixed.in_use)}{f' {day.machine.sold}' if apart else ''} for a fixed fleet"
    month = f" That saves {rounded_dollars(day.saved)} a month." if day.saved > 0 else " A fixed fleet costs less."
    lead = f"Replicas by the hour on {day.machine.node}, {starts}: {rents}, {than}"
    if (scaled.whole, fixed.whole) == (scaled.in_use, fixed.in_use):
        return f"{lead}.{month}"
    return f"{lead}; by whole nodes {rounded_dollars(scaled.whole)}, {_less(scaled.whole, fixed.whole)}.{month}"


def _less(rent: float, other: float) -> str:
    """A rent in percent more or less than another rent."""
    part = 1 - rent / other if other else 0.0
    if not part:
        return f"as much as {rounded_dollars(other)}"
    return f"{percent(abs(part), 2)} {'less' if part > 0 else 'more'} than {rounded_dollars(other)}"


def _optimal(found: Bought) -> list[str]:
    """The size of model that the budget trains best, with its caution."""
    if found.optimal is None or found.best is None:
        return []
    size, tokens = found.optimal
    if _is_sized(found):
        return [_CAUTION]
    at = f"at the money that this model's work costs on {found.best.machine.node}"
    caution = f"{TOKENS_PER_PARAMETER:g} tokens a parameter (hoffmann-2022), which differs between data sets"
    least = f"{_amount(size, 2)} parameters on {_amount(tokens, 2)} tokens"
    return [
        f"For this budget a dense model of {least} would have the lowest loss, {at}: {caution}. "
        "A model that is served much is smaller and trains on more."
    ]


_CAUTION = (
    f"{TOKENS_PER_PARAMETER:g} tokens a parameter are compute-optimal for dense models (hoffmann-2022); that differs "
    "between data sets, and a model that is served much is smaller and trains on more."
)


def _is_sized(found: Bought) -> bool:
    """Whether the model is the one that the budget trains best."""
    return any(item.path == "model" for item in found.asked.case.asked.assumed)


def _model_words(found: Bought) -> list[str]:
    """A sentence on the model that the budget trains best, if none is named."""
    case = found.asked.case
    if not _is_sized(found):
        return []
    size, tokens = float(model_parameters(case.model)), found.asked.tokens or math.nan
    what = f"{_amount(size)} parameters on {_amount(tokens)} tokens"
    lead = "The largest that ends in time," if found.late else "Compute-optimal"
    return [f"{lead} within {rounded_dollars(found.budget)} and {_deadline(found)}: {what}."]


def _deadline(found: Bought) -> str:
    """The deadline of the job in words; empty without one."""
    limits = stated_limits(found.asked.case.scenario.limits)
    return show_time(next(limit.value for limit in limits if limit.column == "run_time"))


def _amount(value: float, digits: int = 3) -> str:
    """Parameters or tokens in words.

    >>> _amount(84.5e9), _amount(1.69e12), _amount(3.84e8, 2)
    ('84.5 B', '1.69 T', '380 M')
    """
    factor, word = next((each for each in ((1e12, "T"), (1e9, "B")) if value >= each[0]), (1e6, "M"))
    return f"{significant(value / factor, digits)} {word}"


def _headlines(found: Bought) -> list[Headline]:
    """Figures at the head of the page, the rent first."""
    best = found.best
    if best is None or best.plans.safe is None:
        return []
    safe, rent = best.plans.safe, found.rent(best)
    assert safe is not None
    in_use = opening(money_cell(rent.in_use), f"rent of {best.machine.name}")
    cards = [Headline(f"Cost of {_job_words(found)}", in_use, f"whole nodes {rounded_dollars(rent.whole)}")]
    cards = cards if math.isfinite(rent.in_use) else []
    gpus = opening(number_cell(best.gpus, "gpus"), f"GPUs of {best.machine.name}")
    cards.append(Headline("GPUs", gpus, f"{best.machine.accelerator}, {best.machine.node}"))
    chance = opening(_sure(safe.chance), f"chance of {best.machine.name}")
    cards.append(Headline(f"Chance to {_event(found)}", chance, verdict=chance_verdict(safe.chance)))
    return cards
