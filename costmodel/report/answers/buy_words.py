"""What buy answers in sentences, whose figures open their equations on a page: the answer, and what to decide."""

from __future__ import annotations

import collections
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import replace

from costmodel.documents.reader.library import read
from costmodel.documents.reader.sources import bibliography
from costmodel.documents.schemas.results import machine_name
from costmodel.equations.run.economics import excess, share
from costmodel.equations.run.uncertainty import missed_chance
from costmodel.equations.serving.serving_economics import MONTH
from costmodel.estimate.model.shards import model_parameters
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.flag_defaults import TOKENS_PER_PARAMETER
from costmodel.explore.purchase.buy import MISS, Bought, Choice, Purchase, Rent, money_of
from costmodel.explore.purchase.buy_day import Day
from costmodel.explore.purchase.offers import HostedOffer, Machine
from costmodel.explore.purchase.smallest_size import CHANCE
from costmodel.explore.workload_interface import MissedLimit
from costmodel.ground.counts import number_of
from costmodel.ground.record import record
from costmodel.ground.units import chance_words, counted, percent, rounded_dollars, show_time, significant
from costmodel.report.document import Cell, Column, Headline, Section, Sentence, Table, Value, plain
from costmodel.report.terminal.head import hourly, price_source, written_off, years_of
from costmodel.report.terminal.layout import HEAD, styled
from costmodel.report.workload_words import MONTHLY, band_cells, words_of

_WORTH_SAYING = 0.05  # judged: of a budget, from which what is left has a sentence
_EARLY = 0.8  # judged: of a deadline, before which the next smaller size has a sentence
_ENOUGH = 1.05  # judged: times P90 of the cheapest size that was tried, as a larger budget tries others
_BRACKETS = re.compile(r" \([^)]*\)")
_SPOT = "on spot, which may be taken away"


# Cells whose figures open a trace on a page.


def number_cell(value: float, name: str) -> Cell:
    """A cell for a count."""
    return Value(counted(value), value, name)


def money_cell(value: float, name: str = "rent_usd") -> Cell:
    """A cell for an amount of money, which may be unknown."""
    return Value(rounded_dollars(value), value, name) if math.isfinite(value) else "unknown"


def difference_cell(value: float, trace: str) -> Cell:
    """A cell for how much more something costs, with its sign."""
    if not math.isfinite(value):
        return ""
    words = f"{'−' if value < 0 else '+'}{rounded_dollars(abs(value))}"
    return opening(Value(words, value, "difference_usd"), trace)


def chance_cell(chance: float, name: str = "chance") -> Cell:
    """A cell for a probability."""
    return Value(chance_words(chance), chance, name)


def in_cases(chance: float) -> str:
    """A chance as a number of cases.

    >>> in_cases(0.906), in_cases(0.9981), in_cases(0.0938), in_cases(0.0019), in_cases(1e-9), in_cases(1 - 1e-9)
    ('91 of 100', '998 of 1,000', '9 of 100', '2 of 1,000', 'under 1 of 1,000', 'over 999 of 1,000')
    """
    for of in (100, 1000):
        if 0 < round(chance * of) < of:
            return f"{chance * of:.0f} of {of:,}"
    return "under 1 of 1,000" if chance < 0.5 else "over 999 of 1,000"


def cases_cell(chance: float, trace: str, name: str = "chance") -> Cell:
    """A cell for a probability in cases, which opens a trace."""
    return opening(Value(in_cases(chance), chance, name), trace)


def opening(cell: Cell, trace: str) -> Cell:
    """A cell whose figure opens a trace on a page; text is unchanged."""
    return cell if isinstance(cell, str) else replace(cell, opens=lambda traces: traces.of(trace))


def as_stated(cell: Cell, source: str) -> Cell:
    """A cell whose figure opens where it is from, as no equation makes it."""
    if isinstance(cell, str):
        return cell
    return replace(cell, opens=lambda traces: traces.add(cell.name, cell.text, f"from: {source}"))


def of_machine(sentence: Sentence, row: Purchase) -> Sentence:
    """Words with results of a machine's plan, whose figures open the traces of that machine."""
    return [
        cell
        if isinstance(cell, str)
        else opening(replace(cell, name=machine_name(cell.name)), f"{cell.name} of {row.machine.name}")
        for cell in sentence
    ]


def billed_cell(rent: Rent, owner: str) -> Cell:
    """A cell for what is paid."""
    return opening(money_cell(rent.billed), f"{'rent' if rent.each else 'whole nodes'} of {owner}")


def in_brackets(rent: Rent, row: Purchase, owner: str) -> Sentence:
    """The cost that is not billed, where it is another: of GPUs in use, or of all of their nodes."""
    if rounded_dollars(rent.whole) == rounded_dollars(rent.in_use):
        return []
    other = opening(money_cell(rent.whole if rent.each else rent.in_use),
                    f"{'whole nodes' if rent.each else 'rent'} of {owner}")  # fmt: skip
    used, held = (
        as_stated(number_cell(each, "gpus"), "the table of machines") for each in (row.gpus, row.gpus + row.idle)
    )
    more: list[Cell] = []
    if not rent.each:
        idle = as_stated(number_cell(row.idle, "gpus"), "the table of machines")
        more = ["; all ", held, " are billed, so the other ", idle, " may be used too"]
    by = [" by whole nodes, "] if rent.each else [" for "]
    return [" (", other, *by, used, " of ", held, " GPUs in use", *more, ")"]


def seller_of(row: Purchase) -> str:
    """Who asks the price of an offer: the cloud of the node, or the authors of its source; empty if none is known."""
    listed = None if row.price is None else row.price.listed
    if listed is None or not listed.source or row.price is None or row.price.stated:
        return ""
    cloud = read("node", row.price.node).provider
    return cloud if not row.machine.price and cloud != "generic" else _authors(row.price.node, listed.source)


def _authors(node: str, source: str) -> str:
    """Who published a source of a price, or its key."""
    own = read("node", node).sources.get(source)
    authors = (bibliography().get(source) or {}).get("authors") if own is None else own.authors
    return str(authors or source)


def from_seller(row: Purchase) -> str:
    """From whom a machine is rented, and where; empty where no seller is known."""
    seller, region = seller_of(row), row.machine.region
    return f"from {seller}{f' in {region}' if region else ''}" if seller else ""


def times_as_much(ratio: float, of: str = "") -> str:
    """A cost beside another, that of something, in words.

    >>> times_as_much(19.2), times_as_much(0.4, "whole nodes"), times_as_much(1.01)
    ('19 times as much', '60 % less than whole nodes', 'about as much')
    """
    if ratio < 0.95:
        return f"{percent(-float(excess(ratio, 1.0)), 2)} less{f' than {of}' if of else ''}"
    many = "about" if ratio < 1.05 else f"{significant(ratio, 2)} times"
    return f"{many} as much{f' as {of}' if of else ''}"


def terms_words(machine: Machine) -> str:
    """How a machine is sold, and for how long; empty where its price is stated."""
    if machine.is_bound and machine.term:
        return f"{machine.sold} for {years_of(machine.term)}"
    how = {
        "on demand": "on demand, without a term",
        "reserved": "reserved, term not stated by the seller",
        "capacity block": "as a capacity block, of days that are fixed when it is booked",
        "spot": _SPOT,
    }
    return how.get(machine.sold, machine.sold)


def job_words(found: Bought) -> str:
    """What costs are of: the whole job, or a month of one without an end."""
    endless = all(math.isinf(row.time) for row in found.working)
    return MONTHLY if endless else words_of(found.asked.case.kind).job


def every(found: Bought) -> str:
    """What a cost is of, after an amount."""
    return "a month" if job_words(found) == MONTHLY else "for this job"


def only_fits(found: Bought) -> bool:
    """Whether the chance is that of fitting in memory, as nothing else is limited."""
    limits = {limit.column for limit in stated_limits(found.asked.case.scenario.limits)}
    return found.asked.request_tokens is None and not limits - {found.asked.chance}


def event_words(found: Bought) -> str:
    """What the chance is of, as a verb."""
    return "fit in memory" if only_fits(found) else "meet every limit"


def looked_at(found: Bought, *, short: bool = False) -> Sentence:
    """How many offers, machines and layouts were looked at, what was refused and why; and which is the answer."""
    best, works, of_sizes = found.best, len(found.working), found.asked.request_tokens is None
    layouts = sum({row.machine.settings: row.plans.count for row in found.rows}.values())
    counts = (found.count, len({row.machine.node for row in found.rows}), layouts, works, len(found.rows) - works)
    cells = [as_stated(number_cell(each, "offers"), "the table of machines") for each in counts]
    apis = f" and {number_of(len(found.hosted), 'API')}" if found.hosted else ""
    words: list[Cell] = ["Looked at: ", cells[0], f" offer{'' if counts[0] == 1 else 's'} of ", cells[1]]
    words += [f" machine{'' if counts[1] == 1 else 's'}{apis}"]
    words += [", ", cells[2], " sizes" if of_sizes else " layouts"] if layouts and not short else []
    words += ["; ", *([] if short else [cells[3], f" meet{'s' if works == 1 else ''} every limit, "])]
    refused = collections.Counter(_why_refused(found, row) for row in found.rows if not row.works).most_common()
    why = ", ".join(f"{count} {reason}" for reason, count in refused)
    words += [cells[4], f" refused{'' if short else f': {why}'}"] if refused else ["none refused"]
    rule = "" if best is None or works < 2 or short else f". The answer is the cheapest {_kind_of(best.machine)}"
    if rule and found.working[0] is not best:
        rule += ", as cheaper ones need a purchase or a term, or can be taken away"
    return [*words, f"{rule}."]


def _why_refused(found: Bought, row: Purchase) -> str:
    """Why no plan on a machine is an answer, in a few words."""
    plans, reasons = row.plans, found.asked.reasons
    if plans.expected is not None:
        return "not sure enough"
    if plans.fault is not None:
        return plans.fault.sentence.removeprefix(f"{row.machine.accelerator} ")
    if plans.missed:
        return "too dear" if all(each.column == "run_cost" for each in plans.missed) else "too slow"
    return ", ".join(reasons[code].title if code in reasons else code for code in plans.codes)


_LIMITS = {"ttft_p99": "first token (99 in 100)", "tpot": "each token", "run_time": "time", "run_cost": "cost"}


def limit_words(column: str) -> str:
    """The result that a limit is on, in plain words where there are any."""
    return _LIMITS.get(column, column)


def range_words(found: Bought, *, short: bool = False) -> Sentence:
    """The range of the money: by the error of predictions, and by the price; empty where neither is known."""
    best, dear = found.best, found.dearest
    if best is None or not math.isfinite(found.billed):
        return []
    name, costs = best.machine.name, {} if best.trial is None else best.trial.costs
    money: list[Cell] = [billed_cell(found.rent(best), name), " at this price"]
    band = of_machine(band_cells(costs, "run_cost", rounded_dollars), best)
    if found.asked.request_tokens is not None:
        money = _money_of_sizes(found, best, short=short)
    elif band:
        times = of_machine(band_cells(costs, "run_time", show_time), best)
        odds = " in 8 of 10 cases, more in 1 of 10, as the predicted time may be off"
        money = [*band[1:-1], odds, *([] if short else times)]
    elif dear is None:
        return []
    if dear is not None and dear.listed is not None:
        each = opening(Value(hourly(dear), dear.each * 3600, "price_usd_per_hour"), f"dear price of {name}")
        money += ["; up to ", opening(money_cell(found.dear_rent), f"dear rent of {name}")]
        node = f"{read('node', dear.node).provider}, {dear.node}"
        where = [f" at the highest price on demand of this GPU ({node}, ", each, f", {dear.listed.date})"]
        money += [" by price"] if short else where
    return ["How sure the money is: ", *money, "."]


def _money_of_sizes(found: Bought, best: Purchase, *, short: bool) -> list[Cell]:
    """The range of what sizes of a service cost, each with its chance: as expected, as asked for, and a surer one."""
    name, expected = best.machine.name, best.plans.expected
    surer = next((choice for choice in found.choices if choice.key == "surer"), None)
    sizes = list[tuple[Cell, Cell, Cell]]()
    if expected is not None and math.isfinite(found.smaller.billed):
        part = f"least {'' if best.rents_each else 'whole '}rent of {name}"
        gpus = opening(number_cell(expected.gpus, "expected_gpus"), f"least GPUs of {name}")
        odds = opening(chance_cell(expected.chance, "expected_chance"), f"expected of {name}")
        sizes.append((gpus, odds, opening(money_cell(found.smaller.billed), part)))
    for row, owner in ((best, name), *([] if surer is None else [(surer.row, surer.name)])):
        assert row.plans.safe is not None
        gpus = opening(number_cell(row.gpus, "gpus"), f"GPUs of {owner}")
        odds = opening(chance_cell(row.plans.safe.chance), f"chance of {owner}")
        sizes.append((gpus, odds, billed_cell(found.rent(row), owner)))
    low, high = sizes[0][-1], sizes[-1][-1]
    money = [low] if plain([low]) == plain([high]) else [low, " to ", high]
    likely = sizes[1:] if short and sizes[1:] and plain([sizes[1][-1]]) == plain([low]) else sizes
    words = [cell for gpus, odds, rent in likely for cell in (", ", gpus, " (", rent, ")", " with ", odds)]
    words[5] = " suffices with " if plain([words[1]]) == "1" else " suffice with "
    words.insert(2, " GPU" if plain([words[1]]) == "1" else " GPUs")
    last = best if surer is None else surer.row
    assert last.plans.safe is not None
    owner, missed = name if surer is None else surer.name, float(missed_chance(last.plans.safe.chance))
    beyond = cases_cell(missed, f"{MISS} of {owner}", MISS)
    off = "speed may be off" if short else "the predicted speed may be off"
    more: list[Cell] = [] if short else ["; more are needed in ", beyond, " cases"]
    return [*money, f" {every(found)}, as {off}: ", *words[1:], *more]


def left_out(found: Bought) -> Sentence:
    """What the chance and the ranges are of, and what they and the cost leave out."""
    of = "the job fits" if only_fits(found) else "the real speed keeps every limit"
    steady = found.asked.request_tokens is not None and found.traffic == 1
    load = " The load is taken as steady all day: size for your peak." if steady else ""
    return [f"The chance is that {of}, given the error on measured runs, and a range holds in 8 of 10 cases; neither "
            f"covers prices, peaks of load, outages and interruptions.{load} Costs are without storage, traffic, tax, "
            "staff and spare nodes."]  # fmt: skip


def _kind_of(machine: Machine) -> str:
    return {"": "", "purchase": "purchase", "spot": "on spot"}.get(machine.sold, machine.sold)


def bought_words(row: Purchase) -> str:
    """The capital of a purchase and its use in words; empty for rent."""
    listed = None if row.price is None else row.price.listed
    if listed is None or listed.bought is None:
        return ""
    return f"bought for {rounded_dollars(row.capital)}, {written_off(listed.bought)}"


def machine_words(row: Purchase) -> str:
    """A machine, how it is sold, at which price, and how many."""
    rented = row.machine.terms.replace("spot", _SPOT)
    price = hourly(row.price) if row.price is not None and row.price.known else ""
    sold = "".join(f", {words}" for words in ((bought_words(row),) if bought_words(row) else (rented, price)) if words)
    return f"{counted(row.gpus)} {row.machine.accelerator} ({row.machine.node}{sold})"


# The answer: how much, how sure, on which terms, how fast; what else was looked at.


def sentences(found: Bought, *, short: bool = False) -> list[Sentence]:
    """Sentences on the best machine: what it costs and how sure that is, on which terms, and how fast it is.

    short: without ranges of the speed and the source of the price
    """
    best = found.best
    if best is None and not found.count:
        return [["No offer is left: none in the table of prices is of the machines that are named."]]
    if best is None:
        tried = number_of(found.count, "offer")
        none = f"No machine meets every limit with a chance of {percent(found.safe, 2)}: {tried} looked at."
        return [[none], *_least_sum(found)]
    words, costs = words_of(found.asked.case.kind), {} if best.trial is None else best.trial.costs
    speed = [] if not costs else of_machine(words.speed(found.asked.case, costs), best)
    over = f"Its capital is above the budget of {rounded_dollars(found.budget)}."
    speed = [_BRACKETS.sub("", plain(speed))] if short else speed
    made: list[Sentence] = [_model_words(found), _cost_words(found, best), _rented_words(best, short=short)]
    made += [[over]] if best.capital > found.budget else []
    made += [[*speed, "."]] if costs else []
    return [each for each in (*made, _size_words(found), _left_over(found, best)) if each]


def _least_sum(found: Bought) -> list[Sentence]:
    """The least sum that would do where all rents are over the budget."""
    if found.least_missed is None:
        return []
    row, missed = found.least_missed
    where = f"{counted(missed.gpus)} {row.machine.accelerator} of {row.machine.node} {row.machine.terms}".strip()
    enough = (
        f"about {rounded_dollars(_ENOUGH * missed.likely)} would do (--budget), as rent of {where} is expected to be"
    )
    return [[f"A budget of {enough} {rounded_dollars(missed.value)}, {rounded_dollars(missed.likely)} at P90."]]


def beside(found: Bought) -> list[Sentence]:
    """Sentences on the next best machine, the cheapest API, and what the chance and the cost leave out."""
    best, further = found.best, found.next_best
    if best is None:
        return []
    made = [_next_words(found, best, further)] if further is not None else []
    hosted = found.api
    made += [_hosted_words(found, best, hosted)] if hosted is not None and found.rent(best).in_use > 0 else []
    return [*made, left_out(found)]


def _cost_words(found: Bought, best: Purchase) -> Sentence:
    """How many GPUs, what they cost, how long they take, and how sure that is: from the size by expected figures on."""
    assert best.plans.safe is not None
    name, rent, smaller, expected = best.machine.name, found.rent(best), found.smaller, best.plans.expected
    each = "GPU by GPU" if rent.each else f"{number_of(best.nodes, 'node')} of {counted(best.built)}"
    gpus = opening(number_cell(best.gpus, "gpus"), f"GPUs of {name}")
    chance = opening(chance_cell(best.plans.safe.chance), f"chance of {name}")
    costs, cost = {} if best.trial is None else best.trial.costs, list[Cell]()
    if math.isfinite(rent.whole):
        band = of_machine(band_cells(costs, "run_cost", rounded_dollars), best)
        apart = in_brackets(rent, best, name)
        cost = [billed_cell(rent, name), *([] if apart else band), f" for {job_words(found)}", *apart]
    if math.isfinite(best.time):
        time = Value(show_time(best.time), best.time, "run_time")
        cost += [*([", "] if cost else []), *of_machine([time, *band_cells(costs, "run_time", show_time)], best)]
    ranged = expected is not None and smaller.billed < rent.billed
    machine = f" {best.machine.accelerator} ({'up to ' if ranged else ''}{each})"
    if expected is None or not ranged:
        sure: Sentence = [", " if cost else "", "with a chance of ", chance, f" to {event_words(found)}."]
        return [gpus, f"{machine}: ", *cost, *sure]
    least = opening(number_cell(expected.gpus, "expected_gpus"), f"least GPUs of {name}")
    low = opening(money_cell(smaller.billed), f"least {'' if rent.each else 'whole '}rent of {name}")
    odds = opening(chance_cell(expected.chance, "expected_chance"), f"expected of {name}")
    sizes: list[Cell] = [least, " to ", gpus, machine, ", ", low, " to ", *cost]
    return [*sizes, ": ", gpus, f" {event_words(found)} with a chance of ", chance, ", ", least, " with ", odds, "."]


def _rented_words(row: Purchase, *, short: bool) -> Sentence:
    """The offer: who sells it, where, on which terms, at which price, and, unless short, where that is from."""
    price, listed, node = row.price, None if row.price is None else row.price.listed, row.machine.node
    if bought_words(row):
        seller = seller_of(row)
        return [f"{node}, {bought_words(row)}{f' (price of {seller})' if seller else ''}."]
    terms = terms_words(row.machine).partition(",")[0] if short else terms_words(row.machine)
    sold = f", {terms}" if row.machine.sold else ""
    if price is None or not price.known:
        return [f"Rent of {node}{sold}; no price is known."]
    each = opening(Value(hourly(price), price.each * 3600, "price_usd_per_hour"), f"price of {row.machine.name}")
    if listed is None and not price.stated:
        return ["At your price of ", each, f" ({price_source(price)}); {node} is only the shape of the machine."]
    if listed is None or price.assumed or not from_seller(row):
        return [f"Rent of {node}{sold}, at ", each, f" ({'assumed: ' if price.assumed else ''}{price_source(price)})."]
    reported = "" if _authors(price.node, listed.source or "") == seller_of(row) else f", {listed.source}"
    where = f" ({listed.date})." if short else f" (price of {listed.date}{reported}; node {node})."
    return [f"Rent {from_seller(row)}{sold}, at ", each, where]


def _next_words(found: Bought, best: Purchase, row: Purchase) -> Sentence:
    """The next best machine, by which rule it is that, and how much more it costs."""
    rent, name = found.rent(row), row.machine.name
    other = " on another GPU" if row.machine.accelerator != best.machine.accelerator else ""
    same = " and the same terms" if row.machine.terms == best.machine.terms and other else ""
    endless = found.asked.request_tokens is None and math.isinf(best.time)
    by = ", by the cost of its work" if endless else ""
    gpus = opening(number_cell(row.gpus, "gpus"), f"GPUs of {name}")
    where = f"{from_seller(row)}, {row.machine.node}".removeprefix(", ")
    words: list[Cell] = [f"Next best{other}{same}{by}: ", gpus, f" {row.machine.accelerator} ({where}"]
    words += [f", {row.machine.terms}" if row.machine.terms and not same else ""]
    if row.price is not None and row.price.known:
        each = Value(hourly(row.price), row.price.each * 3600, "price_usd_per_hour")
        words += [", ", opening(each, f"price of {name}")]
    words.append("): ")
    if math.isfinite(rent.whole):
        words += [billed_cell(rent, name), *in_brackets(rent, row, name)]
        apart = difference_cell(found.dearer(row), f"difference of {name}")
        words += [", ", apart] if not endless else []
    else:
        words.append("no price known")
    if row.trial is not None and found.asked.request_tokens is None:
        time = Value(show_time(row.time), row.time, "run_time")
        speed = [time] if math.isfinite(row.time) else words_of(found.asked.case.kind).speed(
            found.asked.case, row.trial.costs)  # fmt: skip
        words += [", ", *of_machine(speed, row)]
    return [*words, "."]


def _hosted_words(found: Bought, best: Purchase, hosted: HostedOffer) -> Sentence:
    """What the cheapest API asks beside the cost of the best machine, and the rate below which it is cheaper."""
    assert best.trial is not None
    own, cost, name = found.rent(best), found.hosted_cost(hosted), hosted.name
    origin = ", ".join(filter(None, (hosted.source, hosted.date)))
    words: list[Cell] = [
        f"API of {hosted.title} ({origin}): ",
        opening(money_cell(cost), f"rent of {name}"),
        ", ",
    ]
    words += [difference_cell(float(found.hosted_dearer(hosted)), f"difference of {name}"), ", "]
    words.append(times_as_much(float(share(cost, own.billed))))
    turn = found.turn(hosted, float(share(own.billed, best.parts)))
    if turn < float(share(best.trial.costs["saturation_per_s"], best.parts)):
        rate = Value(f"{significant(turn, 2)} requests/s", turn, "turn_per_s")
        words += ["; cheaper than the least that is rented below ", opening(rate, f"turn of {name}")]
    return [*words, f". {no_latency(found)}" if no_latency(found) else "."]


def no_latency(found: Bought) -> str:
    """That the price of an API is no promise of a limit on time that is asked for; empty without such a limit."""
    asked = [limit for limit in stated_limits(found.asked.case.scenario.limits) if limit.column.startswith(_TIMES)]
    return "Its latency is not promised by this price, and its document publishes none." if asked else ""


_TIMES = ("ttft", "tpot", "latency")


def _left_over(found: Bought, best: Purchase) -> Sentence:
    """Why a budget is not spent: the cost keeps it with the chance, not just as it is expected."""
    high = math.nan if best.trial is None else best.trial.costs.get("run_cost_high", math.nan)
    left = found.budget - found.rent(best).in_use
    if not (math.isfinite(left + high) and left > _WORTH_SAYING * found.budget):
        return []
    reach = of_machine([Value(rounded_dollars(high), high, "run_cost_high")], best)
    dear: list[Cell] = ["the cost may reach ", *reach, " (P90), and with the next larger"]
    timed = any(limit.column == "run_time" for limit in stated_limits(found.asked.case.scenario.limits))
    why: list[Cell] = [*dear, " number of GPUs exceed it"]
    if found.late:
        why = [f"no larger model is trained within {_deadline(found)}; --deadline allows more"]
    elif is_sized(found):
        why = [*dear, " model exceed it"]
    elif timed:
        why = ["these GPUs end in time, and fewer GPU hours suffice"]
    spare = opening(money_cell(left, "left_usd"), f"left of {best.machine.name}")
    return [spare, " of ", as_stated(money_cell(found.budget, "budget_usd"), "--budget"), " is left: ", *why, "."]


def _size_words(found: Bought) -> Sentence:
    """What decided the number of nodes, where no limit did, or where few numbers have a plan."""
    best, most = found.best, found.nodes_at_most
    if best is None:
        return []
    if best.plans.below is not None and best.time < _EARLY * best.plans.below.limit:
        return _smaller_size(best, best.plans.below)
    if math.isinf(most):
        return ["These are the fewest GPUs that fit: --deadline, --budget, --gpus or --power asks for more."]
    if not best.nodes < most:
        return []
    used = opening(number_cell(best.nodes, "nodes"), f"nodes of {best.machine.name}")
    all_of_them = as_stated(number_cell(most, "nodes"), "--power over that of a node with its cooling, or --gpus")
    nodes = f" node{'' if most == 1 else 's'}, "
    return ["Of ", all_of_them, nodes, used, " are used: no plan was found on more, as few numbers divide a batch."]


def _smaller_size(best: Purchase, less: MissedLimit) -> Sentence:
    """What the job takes on fewer GPUs, where it ends long before its deadline on those of the answer."""
    rent = best.rent(less.value, less.gpus).billed
    gpus = as_stated(number_cell(less.gpus, "gpus"), "its plan, which costmodel search repeats")
    late = f" (P90 {show_time(less.likely)})" if math.isfinite(less.likely) else ""
    cost = f" for {rounded_dollars(rent)}" if math.isfinite(rent) else ""
    takes = f", takes {show_time(less.value)}{late}{cost}: few numbers divide a batch."
    return ["The next smaller number of GPUs with a plan, ", gpus, takes]


def is_sized(found: Bought) -> bool:
    """Whether the model is the one that the budget trains best."""
    return any(item.path == "model" for item in found.asked.case.asked.assumed)


def _model_words(found: Bought) -> Sentence:
    """The model that the budget trains best, if none is named."""
    case = found.asked.case
    if not is_sized(found):
        return []
    size, tokens = float(model_parameters(case.model)), found.asked.tokens or math.nan
    law = f"{TOKENS_PER_PARAMETER:g} tokens a parameter (hoffmann-2022), the largest that the budget pays for"
    cells = [as_stated(Value(amount(each), each, name), law)
             for each, name in ((size, "parameters"), (tokens, "tokens"))]  # fmt: skip
    lead = "The largest that ends in time," if found.late else "Compute-optimal"
    within = f"{lead} within {rounded_dollars(found.budget)} and {_deadline(found)}: "
    return [within, cells[0], " parameters on ", cells[1], " tokens."]


def _deadline(found: Bought) -> str:
    limits = stated_limits(found.asked.case.scenario.limits)
    return show_time(next(limit.value for limit in limits if limit.column == "run_time"))


def amount(value: float, digits: int = 3) -> str:
    """Parameters or tokens in words.

    >>> amount(84.5e9), amount(1.69e12), amount(3.84e8, 2)
    ('84.5 B', '1.69 T', '380 M')
    """
    factor, word = next((each for each in ((1e12, "T"), (1e9, "B")) if value >= each[0]), (1e6, "M"))
    return f"{significant(value / factor, digits)} {word}"


# What is to be decided: each choice in a sentence, with what it changes in money and the command that leads there.


@record
class Decision:
    """A choice: by how much it changes the cost, what it is, what else to know of it, and the options for it.

    missed: how often a limit is missed. deal: of the same service
    """

    difference: Cell
    words: Sentence
    more: Sentence = ()
    missed: Cell = ""
    flags: tuple[str, ...] = ()
    deal: bool = False


def decisions(found: Bought) -> list[Decision]:
    """All choices; those whose difference in money is not known come last."""
    made = [_decision(found, choice) for choice in found.choices]
    batch = [item for item in found.asked.case.asked.assumed if item.path == "workload.global_batch"]
    made += [
        Decision("", [f"a batch of {item.short or item.value} is assumed (--batch): a larger one may cost less"])
        for item in batch
    ]
    return made


def _decision(found: Bought, choice: Choice) -> Decision:
    """A choice in words, with what it costs, how often it misses a limit, and what its risk is."""
    rent, row = found.rent(choice.row), choice.row
    difference = difference_cell(found.dearer(row), f"difference of {choice.name}")
    more = list[Cell](f", {words}" for words in bought_words(row).split(", ")[2:])  # what its years are like
    if math.isfinite(rent.whole):
        more += ["; ", billed_cell(rent, choice.name), f" {every(found)}", *in_brackets(rent, row, choice.name)]
    risks = _RISKS if found.asked.request_tokens is not None else _RISKS | _RISKS_OF_A_JOB
    risk = risks.get(row.machine.sold if choice.key == "offer" else choice.key, "")
    aside = [*more, *_choice_aside(found, choice), f". Risk: {risk}" if risk else ""]
    missed = missed_cell(row, choice.name)
    return Decision(difference, [*_choice_words(found, choice)], aside, missed, choice.flags, choice.key == "offer")


def missed_cell(row: Purchase, owner: str) -> Cell:
    """In how many cases a plan misses a limit."""
    chance = math.nan if row.plans.safe is None else row.plans.safe.chance
    return cases_cell(float(missed_chance(chance)), f"{MISS} of {owner}", MISS) if math.isfinite(chance) else ""


_RISKS = {
    "purchase": "the capital is bound, also if load or prices fall",
    "reserved": "it is paid to the end of its term, also if load falls",
    "capacity block": "it is paid whole, and ends on its last day",
    "spot": "nodes are taken away at short notice, and fewer GPUs answer until others start",
    "fewer": "as likely as not these are too few, and more have to be found at the price of that day",
    "surer": "most likely the answer's number would have sufficed",
    "tokens": "where it is missed, tokens come slower than that; people read slower still, so test whether it pays",
    "type": "answers may differ from those in 16 bits: compare both on your own prompts",
}
_RISKS_OF_A_JOB = {
    "purchase": "the capital is bound, also when the job is done or prices fall",
    "reserved": "it is paid to the end of its term, also if the job ends sooner or fails",
    "spot": "nodes are taken away at short notice, and work since the last checkpoint is done again",
}
_MEANINGS = {
    "ttft_p99": "more than 1 in 100 requests then wait longer than {} for their first token",
    "tpot": "a token then takes longer than {}",
    "run_time": "the job then takes longer than {}",
    "run_cost": "the job then costs more than {}",
}


def missing_words(found: Bought) -> str:
    """How often the answer itself misses a limit, and what that means."""
    best, say = found.best, words_of(found.asked.case.kind).result
    if best is None or best.plans.safe is None:
        return ""
    limits = [limit for limit in stated_limits(found.asked.case.scenario.limits) if limit.column in _MEANINGS]
    means = [_MEANINGS[limit.column].format(say(limit.column, limit.value)) for limit in limits]
    lead = f"Of the answer itself a limit is missed in {in_cases(float(missed_chance(best.plans.safe.chance)))} cases"
    return f"{lead}{': ' if means else ''}{', or '.join(means)}." if not only_fits(found) else ""


def _choice_words(found: Bought, choice: Choice) -> Iterator[Cell]:
    """A choice in a few words."""
    row, name = choice.row, choice.name
    gpus = opening(number_cell(row.gpus, "gpus"), f"GPUs of {name}")
    units = " GPU" if row.gpus == 1 else " GPUs"
    if choice.key in ("fewer", "surer"):
        yield from (gpus, f"{units}, {'less sure' if choice.key == 'fewer' else 'surer'}")
    elif choice.key == "type":
        yield from (f"8-bit numbers ({choice.flags[1]}), ", gpus, f"{units}: quality is not modelled, test it")
    elif choice.key == "tokens":
        limit = choice.flags[1].replace("ms", " ms")
        yield from (f"at most {limit} a token, for example: ", gpus, units)
    else:
        yield from _offer_words(found, row)


def _offer_words(found: Bought, row: Purchase) -> Iterator[Cell]:
    """An offer on other terms in a few words."""
    best, name = found.best, row.machine.name
    alike = best is not None and (row.machine.accelerator, row.gpus) == (best.machine.accelerator, best.gpus)
    gpus = opening(number_cell(row.gpus, "gpus"), f"GPUs of {name}")
    yield from () if alike else (gpus, f" {row.machine.accelerator}, ")
    if bought_words(row):
        capital = opening(money_cell(row.capital, "capital_usd"), f"capital of {name}")
        yield from (f"buy {row.machine.node} for ", capital, f", used for {years_of(row.life)}")
    else:
        same = best is not None and best.machine.node == row.machine.node
        seller = seller_of(row)
        sold = f"{f'from {seller} ' if seller else ''}{terms_words(row.machine)}"
        yield f"{sold}{'' if same else f' (node {row.machine.node})'}"


def _choice_aside(found: Bought, choice: Choice) -> Iterator[Cell]:
    """What else to know of a choice."""
    row, best, name = choice.row, found.best, choice.name
    if choice.key == "offer" and row.machine.sold == "spot":
        yield ", without interruptions"
    if row.price is not None and row.price.listed is not None and choice.key == "offer":
        where = f" in {row.machine.region}" if row.machine.region else ""
        yield f"; price of {row.price.listed.date}, {seller_of(row)}{where}, node {row.machine.node}"
        unstated = row.machine.is_bound and not row.machine.term
        yield f"; {years_of(row.least_term)} at least is assumed" if unstated else ""
    if choice.key == "tokens" and best is not None and best.trial is not None:
        costs = best.trial.costs
        speed = [Value(show_time(costs[each]), costs[each], each) for each in ("tpot", "tpot_high")]
        expected, late = of_machine(speed, best)
        yield from (". Without a limit ", expected, " is expected of each token, in 1 of 10 cases over ", late)
    elif bought_words(row):
        if best is not None and job_words(found) == MONTHLY and found.rent(best).billed > 0:
            money, months = money_of(row, row.paid_time), found.payback(row)
            for lead, part in ((": ", "write-off"), (" + ", "unused"), (" + ", "power")):
                word = "idle" if part == "unused" else part
                yield from (lead, opening(money_cell(float(money[part]), "part_usd"), f"{part} of {name}"), f" {word}")
            if math.isfinite(months):
                count = Value(significant(float(share(months, MONTH)), 2), months, "payback_s")
                yield from (
                    ". Against the rent above, less its power, the capital is back after ",
                    opening(count, f"payback of {name}"),
                    " months",
                )
        yield "; get a quote; without interest, building and staff"


# A day of traffic.


def day_section(day: Day) -> Section:
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
        sure = chance_cell(hour.chance)
        figures += [opening(sure, hour.named(CHANCE)) if hour.settings else as_stated(sure, "an hour without requests")]
        rows.append([hours, *figures])
        begin = end
    title = f"A day on {day.machine.node}"
    ahead = [styled(title, HEAD)]
    return Section("day", title, day_words(day), ahead=ahead, table=Table(columns, rows), apart=True)


def day_headlines(day: Day) -> list[Headline]:
    """The rent of a month of such days by the hour and of a fixed fleet, by whole nodes, at the head of the page."""
    by_hour = opening(money_cell(day.month(day.autoscaled).whole), "by the hour")
    fixed = opening(money_cell(day.month(day.fixed).whole), "a fixed fleet")
    return [Headline("A month by the hour", by_hour, day.machine.node), Headline("Of a fixed fleet", fixed)]


def day_words(day: Day) -> str:
    """What replicas by the hour cost a month, beside the answer: a fixed fleet for the busiest hour."""
    starts = f"with starts of {show_time(day.start)}" if day.start else "if replicas start at once (--cold-start)"
    scaled, fixed, other = map(day.month, (day.autoscaled, day.fixed, day.fixed_lasting))
    terms = " on demand" if day.elastic != day.price else ""
    often = "" if len(day.hours) == 24 else f" of such {len(day.hours)} hours"
    rents = f"{rounded_dollars(scaled.whole)} a month{often}{terms} by whole nodes"
    less = _less(scaled.whole, fixed.whole, "the answer's ")
    lead = f"Replicas by the hour on {day.machine.node}, {starts}: {rents}, {less}"
    if (scaled.whole, fixed.whole) != (scaled.in_use, fixed.in_use):
        lead += f"; of GPUs in use alone {rounded_dollars(scaled.in_use)}, {_less(scaled.in_use, fixed.in_use)}"
    least = min(fixed.whole, other.whole) if math.isfinite(other.whole) else fixed.whole
    cheaper = " A fixed fleet costs no more." if least <= scaled.whole else ""
    if day.lasting is not None:
        cheaper += f" {day.lasting.sold.capitalize()}, a fixed fleet costs {rounded_dollars(other.whole)} a month."
    return f"{lead}.{cheaper}"


def _less(rent: float, other: float, whose: str = "") -> str:
    """A rent in percent more or less than another rent."""
    part = float(excess(rent, other)) if other else 0.0
    if not part:
        return f"as much as {whose}{rounded_dollars(other)}"
    return f"{percent(abs(part), 2)} {'less' if part < 0 else 'more'} than {whose}{rounded_dollars(other)}"
