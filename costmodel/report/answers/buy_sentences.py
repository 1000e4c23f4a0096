"""Sentences and cells of the answer of `buy`; their figures open their equations on a page."""

from __future__ import annotations

import collections
import math
import re
from collections.abc import Iterator
from dataclasses import replace

from costmodel.documents.reader.library import read
from costmodel.documents.reader.sources import bibliography
from costmodel.documents.schemas.results import machine_name
from costmodel.equations.run.economics import excess, share
from costmodel.equations.run.uncertainty import missed_chance
from costmodel.equations.serving.serving_economics import MONTH, accelerators_rented
from costmodel.estimate.machine.price import AcceleratorPrice
from costmodel.estimate.model.shards import model_parameters
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.flag_defaults import TOKENS_PER_PARAMETER
from costmodel.explore.purchase.buy import MISS, RENT, Choice, PurchaseComparison
from costmodel.explore.purchase.offers import NEWEST, Machine, months_before
from costmodel.explore.purchase.purchase import Purchase, Rent, money_figures
from costmodel.explore.purchase.smallest_size import states_nodes, takes_fewest
from costmodel.explore.workload_interface import MissedLimit
from costmodel.ground.counts import number_of
from costmodel.ground.record import record
from costmodel.ground.units import chance_words, counted, percent, rounded_dollars, show_time, significant
from costmodel.report.document import Cell, Sentence, Value, plain
from costmodel.report.terminal.head import hourly_price, price_source, term_words, write_off_words
from costmodel.report.workload_words import MONTHLY, band_cells, words_of

_WORTH_SAYING = 0.05  # judged: of a budget, from which what is left has a sentence
_UNKNOWN = 2.0  # judged: times the GPUs by expected figures, from which a size is a guess
_OLD = 6  # months, from which the age of a price is stated
_EARLY = 0.8  # judged: of a deadline, before which the next smaller size has a sentence
_ENOUGH = 1.05  # judged: times P90 of the cheapest size that was tried, as a larger budget tries others
_ROUNDED_UP = 1.005  # times an amount, of which three digits are enough
_BRACKETS = re.compile(r" \([^)]*\)")


# Cells whose figures open a trace on a page.


def number_cell(value: float, name: str) -> Cell:
    """A cell for a count; name: the result that it is a value of."""
    return Value(counted(value), value, name)


def money_cell(value: float, name: str = "rent_usd") -> Cell:
    """A cell for an amount in USD; the text `unknown` for NaN."""
    return Value(rounded_dollars(value), value, name) if math.isfinite(value) else "unknown"


def difference_cell(value: float, trace: str) -> Cell:
    """A cell for a difference of cost in USD with its sign; empty if it is not known."""
    if not math.isfinite(value):
        return ""
    words = f"{'−' if value < 0 else '+'}{rounded_dollars(abs(value))}"
    return linked(Value(words, value, "difference_usd"), trace)


def chance_cell(chance: float, name: str = "chance") -> Cell:
    """A cell for a probability in percent."""
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
    return linked(Value(in_cases(chance), chance, name), trace)


def linked(cell: Cell, trace: str) -> Cell:
    """The cell, its figure linked to a trace on a page; a text is returned as it is."""
    return cell if isinstance(cell, str) else replace(cell, opens=lambda traces: traces.of(trace))


def sourced(cell: Cell, source: str) -> Cell:
    """The cell, its figure linked to the name of its source, for figures that no equation gives."""
    if isinstance(cell, str):
        return cell
    return replace(cell, opens=lambda traces: traces.add(cell.name, cell.text, f"from: {source}"))


def linked_to_machine(sentence: Sentence, row: Purchase) -> Sentence:
    """The sentence, each of its results linked to the trace of a machine's plan."""
    return [
        cell
        if isinstance(cell, str)
        else linked(replace(cell, name=machine_name(cell.name)), f"{cell.name} of {row.machine.name}")
        for cell in sentence
    ]


def gpus_cell(row: Purchase, owner: str) -> Cell:
    """A cell with the number of GPUs that a machine needs; owner: the machine or choice in the name of its trace."""
    return linked(number_cell(row.gpus, "gpus"), f"GPUs of {owner}")


def price_cell(price: AcceleratorPrice, trace: str) -> Cell:
    """A cell with the price of an accelerator in USD per hour, which opens a trace."""
    return linked(Value(hourly_price(price), price.each * 3600, "price_usd_per_hour"), trace)


def billed_cell(rent: Rent, owner: str) -> Cell:
    """A cell with the rent that is billed, in USD; owner: the machine or choice in the name of its trace."""
    return linked(money_cell(rent.billed), f"{'rent' if rent.each else 'whole nodes'} of {owner}")


def other_rent(rent: Rent, row: Purchase, owner: str) -> Sentence:
    """The rent that is not billed, in brackets: of the GPUs in use or of whole nodes; empty if both are equal."""
    if rounded_dollars(rent.whole) == rounded_dollars(rent.in_use):
        return []
    other = linked(money_cell(rent.whole if rent.each else rent.in_use),
                    f"{'whole nodes' if rent.each else 'rent'} of {owner}")  # fmt: skip
    used, held = (
        sourced(number_cell(each, "gpus"), "the table of machines") for each in (row.gpus, row.gpus + row.idle)
    )
    more: list[Cell] = []
    if not rent.each:
        idle = sourced(number_cell(row.idle, "gpus"), "the table of machines")
        more = ["; all ", held, " are billed, so the other ", idle, " may be used too"]
    by = [" by whole nodes, "] if rent.each else [" for "]
    return [" (", other, *by, used, " of ", held, " GPUs in use", *more, ")"]


def seller_of(row: Purchase) -> str:
    """The cloud or the publisher that asks the price of an offer; empty if none is known."""
    listed = None if row.price is None else row.price.listed
    if listed is None or not listed.source or row.price is None or row.price.stated:
        return ""
    cloud = read("node", row.price.node).provider
    return cloud if not row.machine.price and cloud != "generic" else _source_authors(row.price.node, listed.source)


def _source_authors(node: str, source: str) -> str:
    """The authors of a source of prices; its key if they are not known."""
    own = read("node", node).sources.get(source)
    authors = (bibliography().get(source) or {}).get("authors") if own is None else own.authors
    return str(authors or source)


def from_seller(row: Purchase) -> str:
    """The words `from SELLER in REGION` for a machine; empty if no seller is known."""
    seller, region = seller_of(row), row.machine.region
    return f"from {seller}{f' in {region}' if region else ''}" if seller else ""


def times_as_much(ratio: float, of: str = "") -> str:
    """The ratio of two costs in words; of: the name of the second cost.

    >>> times_as_much(19.2), times_as_much(0.4, "whole nodes"), times_as_much(1.01)
    ('19 times as much', '60 % less than whole nodes', 'about as much')
    """
    if ratio < 0.95:
        return f"{percent(-float(excess(ratio, 1.0)), 2)} less{f' than {of}' if of else ''}"
    many = "about" if ratio < 1.05 else f"{significant(ratio, 2)} times"
    return f"{many} as much{f' as {of}' if of else ''}"


def terms_words(machine: Machine) -> str:
    """The way in which a machine is sold, and for how long; empty if the user stated its price."""
    if machine.is_bound and machine.term:
        return f"{machine.sold} for {term_words(machine.term)}"
    how = {
        "on demand": "on demand, without a term",
        "reserved": "reserved (the seller states no term)",
        "capacity block": "as a capacity block, booked ahead for fixed dates",
        "spot": "on spot, which can be interrupted",
    }
    return how.get(machine.sold, machine.sold)


def job_words(found: PurchaseComparison) -> str:
    """The period that a cost is for: the whole job, or a month if the job has no end."""
    endless = all(math.isinf(row.time) for row in found.working)
    return MONTHLY if endless else words_of(found.asked.case.kind).job


def cost_period(found: PurchaseComparison) -> str:
    """The words after an amount: `a month` for a service, else `for this job`."""
    return "a month" if job_words(found) == MONTHLY else "for this job"


def only_memory_is_limited(found: PurchaseComparison) -> bool:
    """Whether memory is the only limit, so that the chance is the chance to fit."""
    return found.asked.request_tokens is None and states_no_limit(found)


def states_no_limit(found: PurchaseComparison) -> bool:
    """Whether the chance is the only limit."""
    limits = {limit.column for limit in stated_limits(found.asked.case.scenario.limits)}
    return not limits - {found.asked.chance}


def event_words(found: PurchaseComparison) -> str:
    """What the chance refers to, as a verb: to fit in memory, to answer all requests, or to meet every limit."""
    if only_memory_is_limited(found):
        return "fit in memory"
    return "answer all requests" if states_no_limit(found) else "meet every limit"


def offers_sentence(found: PurchaseComparison, *, short: bool = False) -> Sentence:
    """A sentence on how many offers were compared, how many were rejected and why, and the rule of choice."""
    best, works, of_sizes = found.best, len(found.working), found.asked.request_tokens is None
    layouts = sum({row.machine.settings: row.plans.count for row in found.rows}.values())
    counts = (found.count, len({row.machine.node for row in found.rows}), layouts, works, len(found.rows) - works)
    cells = [sourced(number_cell(each, "offers"), "the table of machines") for each in counts]
    apis = f" and {number_of(len(found.hosted), 'API')}" if found.hosted else ""
    words: list[Cell] = ["Compared: ", cells[0], f" offer{'' if counts[0] == 1 else 's'} of ", cells[1]]
    words += [f" machine{'' if counts[1] == 1 else 's'}{apis}"]
    words += [", ", cells[2], " sizes" if of_sizes else " layouts"] if layouts and not short else []
    words += ["; ", cells[3], f" {event_words(found) if works != 1 else _of_one(event_words(found))}"]
    refused = collections.Counter(_rejection_in_brief(found, row) for row in found.rows if not row.works).most_common()
    why = ", ".join(f"{count} {reason}" for reason, count in refused)
    does = "does" if counts[4] == 1 else "do"
    words += [", ", cells[4], f" {does} not{'' if short else f': {why}'}"] if refused else []
    rule = "" if best is None or works < 2 or short else f". The answer is the cheapest {_sold_words(best.machine)}"
    if rule and found.working[0] is not best:
        rule += ", as cheaper ones need a purchase or a term, or can be taken away"
    return [*words, f"{rule}."]


def _of_one(event: str) -> str:
    """The words for one machine.

    >>> _of_one("meet every limit")
    'meets every limit'
    """
    verb, _, rest = event.partition(" ")
    return f"{verb}s {rest}"


def _rejection_in_brief(found: PurchaseComparison, row: Purchase) -> str:
    """The reason why no plan on a machine is an answer, in a few words."""
    plans, reasons = row.plans, found.asked.reasons
    if plans.expected is not None:
        return "not sure enough"
    if plans.fault is not None:
        return plans.fault.sentence.removeprefix(f"{row.machine.accelerator} ")
    if plans.missed:
        return "too dear" if all(each.column in ("run_cost", RENT) for each in plans.missed) else "too slow"
    return ", ".join(reasons[code].title if code in reasons else code for code in plans.codes)


_LIMITS = {
    "ttft_p99": "first token (p99)",
    "tpot": "time per token",
    "run_time": "time",
    "run_cost": "cost",
    RENT: "billed a month",
}


def limit_words(column: str) -> str:
    """The name of a limited result in plain words, such as `time per token` for tpot."""
    return _LIMITS.get(column, column)


def cost_range_sentence(found: PurchaseComparison, *, short: bool = False) -> Sentence:
    """A sentence on the range of the cost, from prediction errors and from prices; empty if neither is known."""
    best, dear = found.best, found.dearest
    if best is None or not math.isfinite(found.billed):
        return []
    name, costs, money = best.machine.name, {} if best.trial is None else best.trial.costs, list[Cell]()
    band = linked_to_machine(band_cells(costs, "run_cost", rounded_dollars), best)
    if found.asked.request_tokens is not None:
        money = _sizes_by_chance(found, best, short=short)
    elif band:
        times = linked_to_machine(band_cells(costs, "run_time", show_time), best)
        odds = " in 8 of 10 cases, more in 1 of 10, as the predicted time may be off"
        money = [*band[1:-1], odds, *([] if short else times)]
    elif dear is None:
        return []
    if dear is not None and dear.listed is not None:
        node = f"{read('node', dear.node).provider}, {dear.node}"
        price: list[Cell] = [f" ({node}, ", price_cell(dear, f"dear price of {name}"), f", {dear.listed.date})"]
        money += ["; " if money else "", "the dearest seller", *([] if short else [" on demand", *price]), " asks "]
        money.append(linked(money_cell(found.dear_rent), f"dear rent of {name}"))
        money.append(" for these GPUs")
    return ["Cost range: ", *money, "."]


def _sizes_by_chance(found: PurchaseComparison, best: Purchase, *, short: bool) -> list[Cell]:
    """Fleet sizes, each with its bill and its chance: the average prediction, the answer, and a surer size."""
    name, expected = best.machine.name, best.plans.expected
    surer = next((choice for choice in found.choices if choice.key == "surer"), None)
    sizes = list[tuple[Cell, Cell, Cell]]()
    if expected is not None and math.isfinite(found.smaller.billed):
        part = f"least {'' if best.rents_each else 'whole '}rent of {name}"
        gpus = linked(number_cell(expected.gpus, "expected_gpus"), f"least GPUs of {name}")
        odds = linked(chance_cell(expected.chance, "expected_chance"), f"expected of {name}")
        sizes.append((gpus, odds, linked(money_cell(found.smaller.billed), part)))
    for row, owner in ((best, name), *([] if surer is None else [(surer.row, surer.name)])):
        assert row.plans.safe is not None
        gpus = gpus_cell(row, owner)
        odds = linked(chance_cell(row.plans.safe.chance), f"chance of {owner}")
        sizes.append((gpus, odds, billed_cell(found.rent(row), owner)))
    as_dear = sizes[1:] and plain([sizes[0][-1]]) == plain([sizes[1][-1]])
    words = list[Cell]()
    for gpus, odds, rent in sizes[1:] if short and as_dear else sizes:
        unit, chance = (" GPU" if plain([gpus]) == "1" else " GPUs", " a chance of") if not words else ("", "")
        does = f"{' is' if plain([gpus]) == '1' else ' are'} enough" if not words else ""
        words += [", " if words else "", gpus, unit, *_billed_note(best, gpus, rent), f"{does} with{chance} ", odds]
    last = best if surer is None else surer.row
    assert last.plans.safe is not None
    owner, missed = name if surer is None else surer.name, float(missed_chance(last.plans.safe.chance))
    beyond = cases_cell(missed, f"{MISS} of {owner}", MISS)
    more: list[Cell] = [] if short else ["; more are needed in ", beyond, " cases"]
    unknown = expected is not None and best.gpus > _UNKNOWN * expected.gpus
    test = ". This GPU is not known well enough to size: test it before you sign" if unknown else ""
    return [*words[1:], "" if short else ", as the predicted speed may be off", *more, test]


def _billed_note(best: Purchase, gpus: Cell, rent: Cell) -> list[Cell]:
    """The bill of a size in brackets, with the GPUs that are billed where they are more."""
    count = math.nan if isinstance(gpus, str) or gpus.value is None else gpus.value
    whole = float(accelerators_rented(count, best.built))
    billed = "" if best.rents_each or whole == count else f"{counted(whole)} billed, "
    return [f" ({billed}", rent, ")"]


def caveats(found: PurchaseComparison) -> Sentence:
    """A sentence on what the chance, the ranges and the cost do not include."""
    kept = "is enough" if states_no_limit(found) else "meets every limit"
    of = "the job fits" if only_memory_is_limited(found) else f"the real speed {kept}"
    steady = found.asked.request_tokens is not None and found.traffic == 1
    load = " The load is taken as steady all day: size for your peak." if steady else ""
    return [f"The chance that {of}, and the ranges (8 of 10 cases), come from errors on measured runs. They do not "
            f"cover prices, load peaks, outages or interruptions.{load} Costs are without storage, traffic, tax, "
            "staff and spare nodes."]  # fmt: skip


def _sold_words(machine: Machine) -> str:
    """The way in which a machine is sold, as words after `the cheapest`."""
    return {"": "", "purchase": "purchase", "spot": "on spot"}.get(machine.sold, machine.sold)


def bought_words(row: Purchase) -> str:
    """The price of a purchase and the years of its use, in words; empty for rent."""
    listed = None if row.price is None else row.price.listed
    if listed is None or listed.bought is None:
        return ""
    return f"bought for {rounded_dollars(row.capital)}, {write_off_words(listed.bought)}"


def machine_words(row: Purchase) -> str:
    """A machine in words: the number of GPUs, the node, how it is sold, and at which price."""
    rented = row.machine.terms.replace("spot", "on spot, which can be interrupted")
    price = hourly_price(row.price) if row.price is not None and row.price.known else ""
    sold = "".join(f", {words}" for words in ((bought_words(row),) if bought_words(row) else (rented, price)) if words)
    return f"{counted(row.gpus)} {row.machine.accelerator} ({row.machine.node}{sold})"


def price_doubt(row: Purchase) -> str:
    """The date of a list price of over six months ago, or that its page was not read again; empty if neither is so."""
    listed = None if row.price is None else row.price.listed
    if listed is None or row.machine.own or row.price is None or row.price.stated:
        return ""
    if months_before(listed.date, NEWEST) > _OLD:
        return listed.date[:7]
    return "unverified" if listed.check == "known" else ""


def purchase_sentence(found: PurchaseComparison) -> Sentence:
    """For a job with an end: what it costs to buy the answer's GPUs, when that pays, and whether for this job alone."""
    best = found.best
    if best is None or math.isinf(best.time):
        return []
    own = [row for row in found.working if bought_words(row)]
    row = next((row for row in own if row.machine.accelerator == best.machine.accelerator), None)
    rent, pays = (math.nan, math.nan) if row is None else found.rent_alike(row)
    if row is None or math.isnan(pays):
        return []
    name, months = row.machine.name, float(share(pays, MONTH))
    money: list[Cell] = [linked(money_cell(row.capital, "capital_usd"), f"capital of {name}"), "; renting as many "]
    money += [f"{row.machine.accelerator} on demand costs "]
    money += [linked(money_cell(rent), f"rent alike of {name}"), " a month, so buying pays after "]
    count = Value(significant(months, 2), pays, "payback_s")
    money += [linked(count, f"pays after of {name}"), " months of use"]
    verdict = "rent" if float(share(best.time, MONTH)) < months else "buy"
    return ["Buying ", gpus_cell(row, name), " GPUs costs ", *money, f". For this job alone: {verdict}."]


# The answer: how much, how sure, on which terms, how fast; what else was looked at.


def answer_sentences(found: PurchaseComparison, *, short: bool = False) -> list[Sentence]:
    """Sentences on the best machine: its cost, how sure that is, the terms of the offer, and the speed.

    short: without ranges of the speed and the source of the price
    """
    best = found.best
    if best is None and not found.count:
        return [["No offer is left: none in the table of prices is of the machines that are named."]]
    if best is None:
        tried = number_of(found.count, "offer")
        none = f"No machine meets every limit with a chance of {percent(found.safe, 2)}: {tried} looked at."
        return [[none], *_sufficient_budget(found)]
    words, costs = words_of(found.asked.case.kind), {} if best.trial is None else best.trial.costs
    speed = [] if not costs else linked_to_machine(words.speed(found.asked.case, costs), best)
    over = f"Its capital is above the budget of {rounded_dollars(found.budget)}."
    speed = [_BRACKETS.sub("", plain(speed))] if short else speed
    made: list[Sentence] = [
        _model_sentence(found),
        _rate_sentence(found),
        _cost_sentence(found, best, short=short),
        _offer_sentence(best, short=short),
    ]
    made += [[over]] if best.capital > found.budget else []
    made += [[*speed, "."]] if plain(speed) else []
    return [each for each in (*made, _size_reason_sentence(found), _unspent_budget_sentence(found, best)) if each]


def _sufficient_budget(found: PurchaseComparison) -> list[Sentence]:
    """A sentence with the budget that would suffice, if all machines cost more than the budget."""
    if found.least_missed is None:
        return []
    row, missed = found.least_missed
    where = f"{counted(missed.gpus)} {row.machine.accelerator} of {row.machine.node} {row.machine.terms}".strip()
    if missed.column == RENT:
        enough = rounded_dollars(_ROUNDED_UP * missed.value)
        return [[f"A budget of {enough} a month would do (--budget): the bill for {where}."]]
    least, rent, likely = map(rounded_dollars, (_ENOUGH * missed.likely, missed.value, missed.likely))
    enough = f"about {least} would do (--budget), as rent of {where} is expected to be"
    return [[f"A budget of {enough} {rent}, {likely} at P90."]]


def alternative_sentences(found: PurchaseComparison) -> list[Sentence]:
    """Sentences on the next best machine, and on what costs and chances do not include."""
    best, further = found.best, found.next_best
    if best is None:
        return []
    made = [_next_best_sentence(found, best, further)] if further is not None else []
    return [*made, caveats(found)]


def _cost_sentence(found: PurchaseComparison, best: Purchase, *, short: bool) -> Sentence:
    """A sentence on the number of GPUs, the cost, the time and the chance."""
    assert best.plans.safe is not None
    name, rent = best.machine.name, found.rent(best)
    each = "GPU by GPU" if rent.each else f"{number_of(best.nodes, 'node')} of {counted(best.built)}"
    each += f", all {counted(best.gpus + best.idle)} billed" if best.idle and not rent.each else ""
    costs, cost = {} if best.trial is None else best.trial.costs, list[Cell]()
    if math.isfinite(rent.whole):
        period = cost_period(found) if short else f"for {job_words(found)}"
        cost = [billed_cell(rent, name), f" {period}", *([] if short else other_rent(rent, best, name))]
    if math.isfinite(best.time):
        time = Value(show_time(best.time), best.time, "run_time")
        cost += [
            *([", "] if cost else []),
            *linked_to_machine([time, *band_cells(costs, "run_time", show_time)], best),
        ]
    chance = linked(chance_cell(best.plans.safe.chance), f"chance of {name}")
    sure: Sentence = [", " if cost else "", "with a chance of ", chance, f" to {event_words(found)}."]
    return [gpus_cell(best, name), f" {best.machine.accelerator} ({each}): ", *cost, *sure]


def _offer_sentence(row: Purchase, *, short: bool) -> Sentence:
    """A sentence on the offer: seller, region, terms, price and, unless short, the source of the price."""
    price, listed, node = row.price, None if row.price is None else row.price.listed, row.machine.node
    if bought_words(row):
        seller = seller_of(row)
        return [f"{node}, {bought_words(row)}{f' (price of {seller})' if seller else ''}."]
    terms = terms_words(row.machine).partition(",")[0] if short else terms_words(row.machine)
    sold = f", {terms}" if row.machine.sold else ""
    if price is None or not price.known:
        return [f"Rent of {node}{sold}; no price is known: --price '3 USD/GPU/h' states yours."]
    each = price_cell(price, f"price of {row.machine.name}")
    if listed is None and not price.stated:
        return ["At your price of ", each, f" ({price_source(price)}); {node} is only the shape of the machine."]
    if listed is None or price.assumed or not from_seller(row):
        return [f"Rent of {node}{sold}, at ", each, f" ({'assumed: ' if price.assumed else ''}{price_source(price)})."]
    reported = "" if _source_authors(price.node, listed.source or "") == seller_of(row) else f", {listed.source}"
    where = f" ({listed.date})." if short else f" (price of {listed.date}{reported}; node {node})."
    return [f"Rent {from_seller(row)}{sold}, at ", each, where]


def _next_best_sentence(found: PurchaseComparison, best: Purchase, row: Purchase) -> Sentence:
    """A sentence on the next best machine and how much more it costs."""
    rent, name = found.rent(row), row.machine.name
    other = " on another GPU" if row.machine.accelerator != best.machine.accelerator else ""
    same = " and the same terms" if row.machine.terms == best.machine.terms and other else ""
    endless = found.asked.request_tokens is None and math.isinf(best.time)
    by = ", by the cost of its work" if endless else ""
    gpus = gpus_cell(row, name)
    where = f"{from_seller(row)}, {row.machine.node}".removeprefix(", ")
    words: list[Cell] = [f"Next best{other}{same}{by}: ", gpus, f" {row.machine.accelerator} ({where}"]
    words += [f", {row.machine.terms}" if row.machine.terms and not same else ""]
    if row.price is not None and row.price.known:
        words += [", ", price_cell(row.price, f"price of {name}")]
    words.append("): ")
    if math.isfinite(rent.whole):
        words += [billed_cell(rent, name), *other_rent(rent, row, name)]
        apart = difference_cell(found.dearer(row), f"difference of {name}")
        words += [", ", apart] if not endless else []
    else:
        words.append("no price known")
    if row.trial is not None and found.asked.request_tokens is None:
        time = Value(show_time(row.time), row.time, "run_time")
        speed = [time] if math.isfinite(row.time) else words_of(found.asked.case.kind).speed(
            found.asked.case, row.trial.costs)  # fmt: skip
        words += [", ", *linked_to_machine(speed, row)]
    return [*words, "."]


def api_sentence(found: PurchaseComparison, *, short: bool = False) -> Sentence:
    """A sentence on the cost of the API to compare with, and the request rate below which it is cheaper than GPUs."""
    best, hosted = found.best, found.api
    if best is None or best.trial is None or hosted is None or not found.rent(best).in_use > 0:
        return []
    own, cost, name = found.rent(best), found.hosted_cost(hosted), hosted.name
    apart = difference_cell(float(found.hosted_dearer(hosted)), f"difference of {name}")
    money, ratio = linked(money_cell(cost), f"rent of {name}"), float(share(cost, own.billed))
    turn = found.turn(hosted, float(share(own.billed, best.parts)))
    below: list[Cell] = []
    if turn < float(share(best.trial.costs["saturation_per_s"], best.parts)):
        rate = linked(Value(f"{significant(turn, 2)} requests/s", turn, "turn_per_s"), f"turn of {name}")
        below = ["; cheaper than the smallest rental below ", rate]
    if short:
        steady = (" at this rate all day (--day states yours)", "")
        load, when = steady if found.traffic == 1 else (" a month of such days", " at the peak of such days")
        below = [", and is cheaper than their smallest number below ", *below[1:], when] if below else []
        return ["The API costs ", money, load, ", ", apart, " against these GPUs", *below, "."]
    origin = ", ".join(filter(None, (hosted.source, hosted.date)))
    words: list[Cell] = [f"API of {hosted.title} ({origin}): ", money, ", ", apart, ", ", times_as_much(ratio), *below]
    return [*words, f". {latency_caveat(found)}" if latency_caveat(found) else "."]


def latency_caveat(found: PurchaseComparison) -> str:
    """A sentence that the price of an API promises no latency; empty if no limit is on a time."""
    timed = ("ttft", "tpot", "latency")
    asked = any(limit.column.startswith(timed) for limit in stated_limits(found.asked.case.scenario.limits))
    return "The seller promises no latency." if asked else ""


def _unspent_budget_sentence(found: PurchaseComparison, best: Purchase) -> Sentence:
    """A sentence on why part of the budget is not spent; empty if little is left."""
    high = math.nan if best.trial is None else best.trial.costs.get("run_cost_high", math.nan)
    left = found.budget - found.rent(best).in_use
    if not (math.isfinite(left + high) and left > _WORTH_SAYING * found.budget):
        return []
    reach = linked_to_machine([Value(rounded_dollars(high), high, "run_cost_high")], best)
    dear: list[Cell] = ["the cost may reach ", *reach, " (P90), and with the next larger"]
    timed = any(limit.column == "run_time" for limit in stated_limits(found.asked.case.scenario.limits))
    why: list[Cell] = [*dear, " number of GPUs exceed it"]
    if found.late:
        why = [f"no larger model is trained within {_deadline_words(found)}; --deadline allows more"]
    elif model_follows_from_budget(found):
        why = [*dear, " model exceed it"]
    elif timed:
        why = ["these GPUs end in time, and fewer GPU hours suffice"]
    spare = linked(money_cell(left, "left_usd"), f"left of {best.machine.name}")
    return [spare, " of ", sourced(money_cell(found.budget, "budget_usd"), "--budget"), " is left: ", *why, "."]


def _size_reason_sentence(found: PurchaseComparison) -> Sentence:
    """A sentence on what decided the number of nodes; empty if a limit did."""
    best, most = found.best, found.nodes_at_most
    if best is None:
        return []
    if best.plans.below is not None and best.time < _EARLY * best.plans.below.limit:
        return _smaller_size_sentence(best, best.plans.below)
    if math.isinf(most):
        more = "--deadline, --budget, --gpus or --power asks for more"
        if takes_fewest(found.asked):
            return [f"These are the fewest GPUs that fit: {more}."]
        if states_nodes(found.asked.case):
            return [f"The number of GPUs is the scenario's: {more}."]
        return [f"No limit decides the number of GPUs: it has room for twice the training states; {more}."]
    if not best.nodes < most:
        return []
    used = linked(number_cell(best.nodes, "nodes"), f"nodes of {best.machine.name}")
    all_of_them = sourced(number_cell(most, "nodes"), "--power over that of a node with its cooling, or --gpus")
    nodes = f" node{'' if most == 1 else 's'}, "
    return ["Of ", all_of_them, nodes, used, " are used: larger numbers do not divide the batch."]


def _smaller_size_sentence(best: Purchase, less: MissedLimit) -> Sentence:
    """A sentence on the next smaller number of GPUs, for a job that ends long before its deadline."""
    rent = best.rent(less.value, less.gpus).billed
    gpus = sourced(number_cell(less.gpus, "gpus"), "its plan, which costmodel search repeats")
    late = f" (P90 {show_time(less.likely)})" if math.isfinite(less.likely) else ""
    cost = f" for {rounded_dollars(rent)}" if math.isfinite(rent) else ""
    takes = f", takes {show_time(less.value)}{late}{cost}: sizes between do not divide the batch."
    return ["The next smaller number of GPUs with a plan, ", gpus, takes]


def model_follows_from_budget(found: PurchaseComparison) -> bool:
    """Whether the model is the one that the budget trains best."""
    return any(item.path == "model" for item in found.asked.case.asked.assumed)


def _model_sentence(found: PurchaseComparison) -> Sentence:
    """A sentence on the model that the budget trains to the lowest loss; empty if the user names a model."""
    case = found.asked.case
    if not model_follows_from_budget(found):
        return []
    size, tokens = float(model_parameters(case.model)), found.asked.tokens or math.nan
    law = f"{TOKENS_PER_PARAMETER:g} tokens a parameter (hoffmann-2022), the largest that the budget pays for"
    cells = [sourced(Value(amount_words(each), each, name), law)
             for each, name in ((size, "parameters"), (tokens, "tokens"))]  # fmt: skip
    lead = "The largest that ends in time," if found.late else "Compute-optimal"
    within = f"{lead} within {rounded_dollars(found.budget)} and {_deadline_words(found)}: "
    return [within, cells[0], " parameters on ", cells[1], " tokens."]


def _rate_sentence(found: PurchaseComparison) -> Sentence:
    """A sentence on the highest rate that the budget pays for; empty if the user states the load."""
    rate = next((item for item in found.asked.case.asked.assumed if item.path == "workload.rate"), None)
    if rate is None:
        return []
    value, why = found.answered, "the highest rate whose cheapest machine is within --budget, to 2 %"
    answered = sourced(Value(f"{significant(value)} requests/s", value, "requests_per_s"), why)
    return ["At most ", answered, f" for {rounded_dollars(found.plans.budget)} a month, on the terms of this answer."]


def _deadline_words(found: PurchaseComparison) -> str:
    """The limit on the time of the job, as text."""
    limits = stated_limits(found.asked.case.scenario.limits)
    return show_time(next(limit.value for limit in limits if limit.column == "run_time"))


def amount_words(value: float, digits: int = 3) -> str:
    """A number of parameters or tokens in words.

    >>> amount_words(84.5e9), amount_words(1.69e12), amount_words(3.84e8)
    ('84.5 B', '1.69 T', '384 M')
    """
    factor, word = next((each for each in ((1e12, "T"), (1e9, "B")) if value >= each[0]), (1e6, "M"))
    return f"{significant(value / factor, digits)} {word}"


# What is to be decided: each choice in a sentence, with what it changes in money and the command that leads there.


@record
class Decision:
    """A choice in words: the change in cost, what it is, more about it, and the flags that choose it.

    missed: how often a limit is missed. deal: whether it is another offer for the same service
    """

    difference: Cell
    words: Sentence
    more: Sentence = ()
    missed: Cell = ""
    flags: tuple[str, ...] = ()
    deal: bool = False


def decisions(found: PurchaseComparison) -> list[Decision]:
    """All choices in words, the last ones without a known change in cost."""
    return [_decision_on(found, choice) for choice in found.choices]


def _decision_on(found: PurchaseComparison, choice: Choice) -> Decision:
    """One choice in words, with its change in cost, its chance to miss a limit, and its risk."""
    rent, row = found.rent(choice.row), choice.row
    difference = difference_cell(found.dearer(row), f"difference of {choice.name}")
    more = list[Cell](f", {words}" for words in bought_words(row).split(", ")[2:])  # what its years are like
    if math.isfinite(rent.whole):
        more += [
            "; ",
            billed_cell(rent, choice.name),
            f" {cost_period(found)}",
            *other_rent(rent, row, choice.name),
        ]
    risks = _RISKS if found.asked.request_tokens is not None else _RISKS | _RISKS_OF_A_JOB
    risk = risks.get(row.machine.sold if choice.key == "offer" else choice.key, "")
    aside = [*more, *_choice_details(found, choice), f". Risk: {risk}" if risk else ""]
    missed = missed_limit_cell(row, choice.name)
    return Decision(difference, [*_choice_words(found, choice)], aside, missed, choice.flags, choice.key == "offer")


def missed_limit_cell(row: Purchase, owner: str) -> Cell:
    """A cell with the chance that a plan misses a limit, as a number of cases."""
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


def missed_sentence(found: PurchaseComparison) -> str:
    """A sentence on the chance that the answer misses a limit, and on what that means for users."""
    best, say = found.best, words_of(found.asked.case.kind).result
    if best is None or best.plans.safe is None:
        return ""
    limits = [limit for limit in stated_limits(found.asked.case.scenario.limits) if limit.column in _MEANINGS]
    means = [_MEANINGS[limit.column].format(say(limit.column, limit.value)) for limit in limits]
    lead = f"Of the answer itself a limit is missed in {in_cases(float(missed_chance(best.plans.safe.chance)))} cases"
    return f"{lead}{': ' if means else ''}{', or '.join(means)}." if not only_memory_is_limited(found) else ""


def _choice_words(found: PurchaseComparison, choice: Choice) -> Iterator[Cell]:
    """The cells that name a choice, such as `12 GPUs, surer`."""
    row, name = choice.row, choice.name
    gpus = gpus_cell(row, name)
    units = " GPU" if row.gpus == 1 else " GPUs"
    if choice.key in ("fewer", "surer"):
        yield from (gpus, f"{units}, {'less sure' if choice.key == 'fewer' else 'surer'}")
    elif choice.key == "type":
        same = found.best is not None and row.machine.accelerator == found.best.machine.accelerator
        what = units if same else f" {row.machine.accelerator}"
        yield from (gpus, f"{what} in 8-bit numbers (--dtype {choice.flags[1]}): test quality")
    elif choice.key == "tokens":
        limit = choice.flags[1].replace("ms", " ms")
        yield from (f"at most {limit} a token, for example: ", gpus, units)
    else:
        yield from _offer_words(found, row)


def _offer_words(found: PurchaseComparison, row: Purchase) -> Iterator[Cell]:
    """The cells that name an offer on other terms."""
    best, name = found.best, row.machine.name
    alike = best is not None and (row.machine.accelerator, row.gpus) == (best.machine.accelerator, best.gpus)
    gpus = gpus_cell(row, name)
    yield from () if alike else (gpus, f" {row.machine.accelerator}, ")
    if bought_words(row):
        capital = linked(money_cell(row.capital, "capital_usd"), f"capital of {name}")
        yield from (f"buy {row.machine.node} for ", capital)
        months = found.payback(row)
        if job_words(found) == MONTHLY and math.isfinite(months):
            count = Value(significant(float(share(months, MONTH)), 2), months, "payback_s")
            yield from (", back after ", linked(count, f"payback of {name}"), " months")
        yield _priced_words(row)
    else:
        same = best is not None and best.machine.node == row.machine.node
        seller = seller_of(row)
        sold = f"{f'from {seller} ' if seller else ''}{terms_words(row.machine)}"
        yield f"{sold}{'' if same else f' (node {row.machine.node})'}{_priced_words(row)}"


def _priced_words(row: Purchase) -> str:
    """A doubt about the price in brackets; empty without one."""
    doubt = price_doubt(row)
    return f" ({doubt if doubt == 'unverified' else f'price of {doubt}'})" if doubt else ""


def _choice_details(found: PurchaseComparison, choice: Choice) -> Iterator[Cell]:
    """Further cells about a choice: date of the price, expected times, write-off and payback of a purchase."""
    row, best, name = choice.row, found.best, choice.name
    if choice.key == "offer" and row.machine.sold == "spot":
        yield ", without interruptions"
    if row.price is not None and row.price.listed is not None and choice.key == "offer":
        where = f" in {row.machine.region}" if row.machine.region else ""
        yield f"; price of {row.price.listed.date}, {seller_of(row)}{where}, node {row.machine.node}"
        unstated = row.machine.is_bound and not row.machine.term
        yield f"; {term_words(row.least_term)} at least is assumed" if unstated else ""
    if choice.key == "tokens" and best is not None and best.trial is not None:
        costs = best.trial.costs
        speed = [Value(show_time(costs[each]), costs[each], each) for each in ("tpot", "tpot_high")]
        expected, late = linked_to_machine(speed, best)
        yield from (". Without a limit ", expected, " is expected of each token, in 1 of 10 cases over ", late)
    elif bought_words(row):
        if best is not None and job_words(found) == MONTHLY and found.rent(best).billed > 0:
            money, months = money_figures(row, row.paid_time), found.payback(row)
            for lead, part in ((": ", "write-off"), (" + ", "unused"), (" + ", "power")):
                word = "idle" if part == "unused" else part
                yield from (
                    lead,
                    linked(money_cell(float(money[part]), "part_usd"), f"{part} of {name}"),
                    f" {word}",
                )
            yield ", against the rent above" if math.isfinite(months) else ""
        yield "; get a quote; without interest, building and staff"
