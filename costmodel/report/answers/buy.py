"""The answer of `buy`: which machines to rent or buy, what they cost, and the chance that they meet every limit."""

from __future__ import annotations

import functools
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from costmodel.documents.schemas.results import machine_name
from costmodel.estimate.serving.predict_serving import OVERLOAD
from costmodel.estimate.shared.reasons import REMARKS
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.flag_defaults import TOKENS_PER_PARAMETER
from costmodel.explore.purchase.buy import RENT, PurchaseComparison
from costmodel.explore.purchase.buy_day import Day
from costmodel.explore.purchase.offers import ON_DEMAND, STATED_API, HostedOffer, source_url
from costmodel.explore.purchase.purchase import Purchase, Rent
from costmodel.explore.workload_interface import SmallestPlan, Trial
from costmodel.ground.counts import number_of
from costmodel.ground.units import chance_words, counted, percent, rounded_dollars, show
from costmodel.report.answers.buy_hours import day_headlines, day_section, day_sentence
from costmodel.report.answers.buy_plot import TradeOff
from costmodel.report.answers.buy_sentences import (
    Decision,
    alternative_sentences,
    amount_words,
    answer_sentences,
    api_sentence,
    billed_cell,
    chance_cell,
    cost_period,
    cost_range_sentence,
    decisions,
    event_words,
    gpus_cell,
    job_words,
    latency_caveat,
    limit_words,
    linked,
    missed_sentence,
    model_follows_from_budget,
    money_cell,
    number_cell,
    offers_sentence,
    only_memory_is_limited,
    price_doubt,
    purchase_sentence,
    sourced,
)
from costmodel.report.document import (
    AnswerDocument,
    Cell,
    Column,
    Draw,
    Headline,
    Point,
    Section,
    Sentence,
    Table,
    Value,
    chance_verdict,
    plain,
)
from costmodel.report.terminal.head import (
    command,
    hourly_price,
    origin_lines,
    price_lines_of_all,
    price_source,
    subject_words,
    term_words,
)
from costmodel.report.terminal.layout import BAD, Abridged, CellTable, Detail, Line, shell_line, short_or_full, styled
from costmodel.report.trials import remark_codes, remark_lines, result_cells, trial_remark_counts, trial_settings
from costmodel.report.workload_words import words_of

if TYPE_CHECKING:
    from costmodel.estimate.machine.price import AcceleratorPrice

TOP, BRIEF = 12, 2  # machines in a terminal, and in a short answer on several jobs
DECIDED = 3  # choices of a short answer
_RARE = 0.001  # a risk below which none is stated
VARIED = ("cluster",)
_HEADS = {
    "cost_per_minput": "$/M prompt",
    "cost_per_mcached": "$/M cached",
    "cost_per_moutput": "$/M out",
    "cost_per_mtoken": "$/M tokens",
    "energy_per_token": "J/token",
    "run_time": "time",
    "iteration_time": "iteration time",
    "iteration_cost": "$/iteration",
}
_MEANINGS = {
    "tpot": "time from one token of an answer to the next",
    "energy_per_token": "electricity for each generated token",
}
_OF_A_DAY = {
    "cost_per_minput": "each $/M is of all requests of the day, on the same GPUs all day",
    "energy_per_token": "in the fullest hour",
}
_NO_EFFECT = "N051"  # of keys of the plan, which is found and not written
_SIGNS = {"at_most": "≤", "at_least": "≥", "target": "≈"}


def buy_document(
    found: PurchaseComparison, top: int | None, *, plot: bool = False, day: Day | None = None, again: str = ""
) -> AnswerDocument:
    """A table with a row for each machine: its smallest plan that meets every limit, the cost, and the chance.

    again: the command that asks this question
    """
    asked, best = found.asked, found.best
    words = words_of(asked.case.kind)
    about: list[Line] = [*words.subject(asked.case, VARIED)]
    load = f"{words.load(asked.case)}{'' if day is None else ' at the peak of --day'}"
    about += [styled(line) for line in (load, _limits_words(found)) if line]
    about += origin_lines(asked.case)
    about += [styled("Stopped before the last machine.", BAD)] if found.stopped else []
    trials, own = (
        [row.trial for row in rows if row.trial is not None] for rows in (found.working, [best] if best else [])
    )
    first, choices = answer_sentences(found), decisions(found)
    verdict = "bad" if best is None or best.plans.safe is None else chance_verdict(best.plans.safe.chance)
    sections = list[Section]()
    for key, title, deal in (("decide", "another deal", True), ("change", "another service", False)):
        points = [Point(_sentence_of(found, each), _with_flags(again, each.flags) if again and each.flags else "")
                  for each in choices if each.deal == deal]  # fmt: skip
        lead = missed_sentence(found) if not sections else ""
        sections += [Section(key, f"To decide: {title}", lead, points=points, face="page")] if points else []
    sections += [_machines_section(found, top, plot=plot), *([] if day is None else [day_section(day)])]
    beginning = [
        *first,
        cost_range_sentence(found),
        purchase_sentence(found),
        api_sentence(found),
        *([] if best is None else [offers_sentence(found)]),
        *alternative_sentences(found),
    ]
    conclusion = [cell for place, each in enumerate(filter(None, beginning)) for cell in ("\n" * (place > 0), *each)]
    felt = [cell.name for cell in _speed_sentence(found) if not isinstance(cell, str)]
    felt += [f"{name}_{end}" for name in ("run_time", "run_cost") for end in ("low", "high")]
    return AnswerDocument(
        asked.case,
        f"Which GPUs for {_job_subject(found)}, and what do they cost?",
        about,
        conclusion,
        verdict,
        [*sections, *_remarks_on_others(found, trials, own)],
        short_or_full(remark_lines(own, _NO_EFFECT), remark_lines(trials, _NO_EFFECT), "what ▲ means"),
        remark_codes(own, _NO_EFFECT),
        _closing_lines(found, day, again),
        [*_headlines(found), *([] if day is None else day_headlines(day))],
        lambda: {**found.trees(_shown_results(found), felt), **({} if day is None else day.trees(asked))},
    )


def _speed_sentence(found: PurchaseComparison) -> Sentence:
    """The speed that a user or the job gets from the answer, as a sentence with figures; empty without an answer."""
    trial = None if found.best is None else found.best.trial
    return [] if trial is None else words_of(found.asked.case.kind).speed(found.asked.case, trial.costs)


def _sentence_of(found: PurchaseComparison, choice: Decision) -> Sentence:
    """A choice as one sentence that starts with the change in cost."""
    event = "does not fit" if only_memory_is_limited(found) else "a limit is missed"
    missed: list[Cell] = [f", {event} in ", choice.missed, " cases"] if choice.missed else []
    ahead: list[Cell] = [choice.difference, f" {cost_period(found)}", *missed, ": "] if choice.difference else []
    words = [*choice.words]
    if not ahead and isinstance(words[0], str):
        words[0] = f"{words[0][:1].upper()}{words[0][1:]}"
    return [*ahead, *words, *choice.more, "."]


def _with_flags(again: str, flags: Sequence[str]) -> str:
    """The command with further flags; a flag that names a machine replaces the machine of the command."""
    words = shlex.split(again)
    pairs = [place for place, word in enumerate(words) if word in ("--node", "--gpu") and "--node" in flags]
    dropped = {*pairs, *(place + 1 for place in pairs)}
    return shlex.join([*(word for place, word in enumerate(words) if place not in dropped), *flags])


def _remarks_on_others(found: PurchaseComparison, trials: Sequence[Trial], own: Sequence[Trial]) -> list[Section]:
    """A section of the page with remarks on machines that are not the answer; empty without remarks."""
    counts, known = trial_remark_counts(trials, _NO_EFFECT), remark_codes(own, _NO_EFFECT)
    codes = [code for code in remark_codes(trials, _NO_EFFECT) if code not in known]
    titles = ((code, REMARKS[code]) for code in codes)
    points = [Point([f"{remark.title[:1].upper()}{remark.title[1:]}{counts.get(code, '')}: {remark.meaning}"],
                    f"costmodel explain {code}") for code, remark in titles]  # fmt: skip
    return [Section("others", "Remarks on other machines", points=points, face="page")] if points else []


def _job_subject(found: PurchaseComparison) -> str:
    """The job in words: its model, or the budget from which the model's size follows."""
    if model_follows_from_budget(found):
        return f"a model that {rounded_dollars(found.budget)} train best"
    return subject_words(found.asked.facts, VARIED)


def _closing_lines(found: PurchaseComparison, day: Day | None, again: str) -> list[Line]:
    """The last lines in a terminal: the answer, the choices to decide, and the next commands."""
    asked, best = found.asked, found.best
    full, brief = (" ".join(map(plain, answer_sentences(found, short=short))) for short in (False, True))
    lines: list[Line] = []
    if day is not None:
        lines += [Abridged(day_sentence(day), short=day_sentence(day, short=True), added=_IN_USE)]
    lines += [Abridged(full, short=brief, added="source of its price, ranges of its speed")]
    money, api, offers = (
        Abridged(plain(words(found)), short=plain(words(found, short=True)), added=more)
        for words, more in ((cost_range_sentence, "its range in full"), (api_sentence, "its latency"),
                            (offers_sentence, "other offers"))
    )  # fmt: skip
    lines += [money, *(styled(plain(each)) for each in [purchase_sentence(found)] if each)]
    is_stated = found.api is not None and found.api.source == STATED_API
    lines += [api if is_stated else Detail([api], "the API", spare=1)] if api_sentence(found) else []
    lines += [] if best is None else [Detail([offers], "other offers", spare=2)]
    lines += [Abridged(plain(each), short="", added="other offers") for each in alternative_sentences(found)]
    lines += [styled(line) for line in _optimal_model(found)]
    if best is None or best.trial is None:
        return lines
    choices = decisions(found)
    short = [[plain([each.difference]), _risk_words(each), plain(each.words)] for each in choices]
    long = [[*cells[:2], f"{cells[2]}{plain(each.more)}"] for cells, each in zip(short, choices, strict=True)]
    heads = cost_period(found), "risk not to fit" if only_memory_is_limited(found) else "risk of a miss", "other deals"
    more = len(choices) - DECIDED
    lines += short_or_full(
        [CellTable(heads, short[:DECIDED], "rll", indent="", rest="choice")] if short else [],
        [CellTable(heads, long, "rll", indent="")] if short else [],
        f"{more} other deals" if more > 0 else "more on each deal",
    )
    settings = trial_settings(best.trial, searched=False)
    own: list[Line] = [shell_line("This plan:", plan_command(found))]
    own += [styled(each) for each in _token_budget_note(settings)]
    on_it = {path: value for path, value in settings.items() if path in ("cluster.node", "cluster.nodes")}
    priced = [] if best.price is None or not best.price.known else ["--price", _price_option(best.price)]
    plans = command(asked.case, "search", *priced, settings=on_it)
    lines += [shell_line("Next:", f"{again} -o page.html")] if again else []
    return lines + short_or_full(
        [] if again else [shell_line("Next:", plans)], [shell_line("Plans:", plans), *own], "plans"
    )


_IN_USE = "cost of GPUs in use by the hour"


def _risk_words(choice: Decision) -> str:
    """The chance that a choice misses a limit, in percent."""
    missed = choice.missed.value if isinstance(choice.missed, Value) else None
    if missed is None:
        return ""
    return f"{percent(missed, 2)}" if missed >= _RARE else f"<{percent(_RARE, 1)}"


def plan_command(found: PurchaseComparison) -> str:
    """The command that estimates the plan of the answer; empty without one."""
    trial = None if found.best is None else found.best.trial
    settings = {} if trial is None else trial_settings(trial, searched=False)
    return command(found.asked.case, "estimate", settings=settings) if settings else ""


def _token_budget_note(settings: Mapping[str, str]) -> list[str]:
    """A note on stack.budget, which is chosen with the plan and changes its chance; empty if it was not chosen."""
    budget = settings.get(_BUDGET, "")
    return [f"  --write saves the plan; another {_BUDGET} than {budget} changes its chance"] if budget else []


_BUDGET = "stack.budget"  # the tokens of a step, which are chosen with the plan of a service


def _price_option(price: AcceleratorPrice) -> str:
    """The price of an accelerator as --price takes it."""
    return f"{price.each * 3600:.6g}USD/GPU/h"


def _limits_words(found: PurchaseComparison) -> str:
    """The limits that a plan must meet, in words, with the chance that is required."""
    say, limits = words_of(found.asked.case.kind).result, stated_limits(found.asked.case.scenario.limits)
    stated = [
        f"{limit_words(limit.column)} {_SIGNS[limit.kind]} {say(limit.column, limit.value)}"
        for limit in limits
        if limit.column != found.asked.chance
    ]
    sure = f"with a chance of {percent(found.safe, 2)}" if found.safe else "on average"
    return f"{' · '.join(stated) or found.asked.chance_event} {sure}"


def _machines_section(found: PurchaseComparison, top: int | None, *, plot: bool) -> Section:
    """The section with the table of machines and the plot of their trade-off."""
    words, priced = words_of(found.asked.case.kind), _is_priced(found)
    columns, rows = _columns_and_rows(found)
    rows += [(found.hosted_cost(offer), _hosted_row(found, offer, columns), {}) for offer in found.hosted if priced]
    rows.sort(key=lambda row: math.inf if math.isnan(row[0]) else row[0])
    own = [row.price for row in found.working[: top or TOP] if row.price is not None]
    event = event_words(found)
    lead = f"With a chance of {percent(found.safe, 2)} to {event}." if found.safe else "By expected figures."
    made, short = (
        [cells for _, cells, _ in rows],
        None if top or found.best is None else _short_table(found, columns, rows),
    )
    rest = "offer" if short is None else number_of(len(made) - len(short.rows), "offer")
    table = Table(
        columns, made, [settings for _, _, settings in rows], sortable=True, most=top or TOP,
        brief=None if top else BRIEF, rest=rest,
    )  # fmt: skip
    known = any(all(_is_known(row, name) for name in words.traded) for row in found.working)
    traded = functools.cache(lambda: TradeOff.of(found))
    drawn: list[Callable[[], Draw]] = [lambda: traded().plot] if known else []
    cut = traded().lines() if known and plot else []
    below = [*price_lines_of_all(own), *map(_hosted_price_line, found.hosted)] if priced else []
    alone = short is not None and len(short.rows) == 1 and not cut  # all of which the conclusion has
    return Section(
        "machines", "Machines", lead, figures=drawn, table=table, beneath=below, cut=cut, short=short,
        detail="the machine" if alone else "", spare=int(alone), asked=bool(top),
    )  # fmt: skip


TableRows = list[tuple[float, list[Cell], dict[str, str]]]  # of the table: what they are sorted by, cells, settings


def _short_table(found: PurchaseComparison, columns: Sequence[Column], rows: TableRows) -> Table:
    """A table of the answer, the next best machine and the cheapest API, with few columns."""
    hosted = found.api
    shown = [row for row in (found.best, found.next_best) if row is not None]
    wanted = [(row.machine.node, row.machine.terms) for row in shown]
    wanted += [] if hosted is None else [(hosted.source, "API")]
    heads = [column.head for column in columns]
    named = [heads.index("node"), *([heads.index("offer")] if "offer" in heads else [])]
    kept = [place for place, head in enumerate(heads) if head in _SHORT_COLUMNS]
    found_here = [cells for _, cells, _ in rows if tuple(_unmarked_text(cells[place]) for place in named) in
                  {each[: len(named)] for each in wanted}]  # fmt: skip
    stars = {place for place in kept if any(plain([cells[place]]).endswith(" *") for cells in found_here)}
    bare = [replace(columns[place], legend=columns[place].legend if place in stars else "") for place in kept]
    return Table(bare, [[cells[place] for place in kept] for cells in found_here], rest="offer")


def _unmarked_text(cell: Cell) -> str:
    """The text of a cell without the mark ` *` of offers that end before the job does."""
    return plain([cell]).removesuffix(" *")


def _is_priced(found: PurchaseComparison) -> bool:
    """Whether the price of any machine on which a plan works is known."""
    return any(row.price is not None and row.price.known for row in found.working)


def _shown_results(found: PurchaseComparison) -> list[str]:
    """The names of the results that the table shows; the time is followed by the upper end of its band."""
    shown = list(words_of(found.asked.case.kind).bought)
    of_time = next((name for name in ("run_time", found.asked.usual_result) if _is_known_anywhere(found, name)), "")
    if of_time and of_time not in shown:
        shown.insert(0, of_time)
    if of_time:
        shown.insert(shown.index(of_time) + 1, f"{of_time}_high")
    return [name for name in shown if _is_known_anywhere(found, name)]


def _is_known_anywhere(found: PurchaseComparison, name: str) -> bool:
    """Whether any machine on which a plan works has a finite value of a result."""
    return any(_is_known(row, name) for row in found.working)


def _columns_and_rows(found: PurchaseComparison) -> tuple[list[Column], TableRows]:
    """The columns of the table of machines, and a row for each machine."""
    asked, shown, priced = found.asked, _shown_results(found), _is_priced(found)
    apart = any(rent.in_use < rent.whole for rent in map(found.rent, found.working))
    bought = any(row.capital == row.capital for row in found.working)
    offers = any(row.machine.sold not in ("", ON_DEMAND) for row in found.rows) or bool(found.hosted)
    best, columns = found.best, _machine_columns(found, offers=offers)
    ahead = len(columns)
    idle = any(row.idle and not row.rents_each for row in found.working)
    columns += [Column("GPUs"), *([_BILLED] if idle else []), Column("nodes", drop=3)]
    columns += [Column("plan", "l", drop=5, legend=_PLAN_LEGEND if asked.request_tokens is not None else "")]
    columns += [
        Column("chance", result=asked.chance, legend=f"to {event_words(found)}"),
        Column("expected", drop=2, legend=_EXPECTED_LEGEND),
    ]
    columns += _money_columns(job_words(found), apart=apart, bought=bought) if priced else []
    columns += [Column("site power", legend="rated, with cooling")] if math.isfinite(found.power) else []
    columns += [_result_column(found, name) for name in shown]
    columns += [
        Column("measured", "l", drop=7, legend=_RUNS_LEGEND),
        Column("limited by", "l", drop=8, legend=_BINDS_LEGEND),
    ]
    columns += [Column("", "l")]
    columns += [Column("price of", "l", face="page", legend=_PRICE_LEGEND)] if priced else []
    rows: TableRows = []
    for row in found.rows:
        mark = " ◀" if row is best and len(found.rows) > 1 else ""
        cells: list[Cell] = [f"{row.machine.accelerator}{mark}", row.machine.node]
        cells += [f"{row.machine.terms}{'' if row.terms_fit else ' *'}"] if offers else []
        settings = {} if row.trial is None else trial_settings(row.trial, searched=False)
        if row.trial is None or not row.works:
            blank = [""] * (len(columns) - ahead - 1 - priced)
            rows.append((math.inf, [*cells, *blank, rejection_words(found, row), *([""] * priced)], settings))
            continue
        cells += _plan_cells(found, row, shown, idle=idle, apart=apart, bought=bought, priced=priced)
        rows.append((-1.0 if row is best else found.weighed_cost(row), cells, settings))
    return columns, rows


def _result_column(found: PurchaseComparison, name: str) -> Column:
    """The column of a result of the plans."""
    of = name.removesuffix("_high")
    head = _HEADS.get(of, of.replace("_", " "))
    legend = "" if found.traffic == 1 else _OF_A_DAY.get(name, "")
    if of != name:
        head, legend = f"{head} P90", "the value that one in ten such predictions exceeds"
    return Column(head, result=name, drop=6, legend=legend or _MEANINGS.get(name, ""))


def _plan_cells(
    found: PurchaseComparison,
    row: Purchase,
    shown: Sequence[str],
    *,
    idle: bool,
    apart: bool,
    bought: bool,
    priced: bool,
) -> list[Cell]:
    """Table cells with the plan, chance, costs and results of a machine on which a plan works."""
    safe, name = row.plans.safe, row.machine.name
    assert safe is not None
    assert row.trial is not None
    kept = row.trial.kept
    budget = 0 if kept is None or found.asked.request_tokens is None else int(str(kept.keys.get("budget", 0)))
    plan = "" if kept is None else f"{kept.words}{f' · token budget {budget:,}' if budget else ''}"
    nodes = linked(number_cell(row.nodes, "nodes"), f"nodes of {name}")
    billed = row.gpus if row.rents_each else row.gpus + row.idle
    whole = [linked(number_cell(billed, "gpus"), f"billed of {name}")] if idle else []
    cells = [gpus_cell(row, name), *whole, nodes, plan]
    cells += [linked(chance_cell(safe.chance), f"chance of {name}"), _expected_size_cell(row, safe)]
    cells += _money_cells(row, found.rent(row), apart=apart, bought=bought) if priced else []
    power = Value(show(row.power, "J/s"), row.power, "site_power_w")
    cells += [linked(power, f"site power of {name}")] if math.isfinite(found.power) else []
    results = zip(shown, result_cells(found.asked, row.trial, shown), strict=True)
    cells += [linked(cell, f"{result} of {name}") for result, cell in results]
    return [*cells, _run_count_words(row), safe.binds, "", *([_price_source_cell(row)] if priced else [])]


def _machine_columns(found: PurchaseComparison, *, offers: bool) -> list[Column]:
    """Columns for the GPU and the node, and for the offer if machines are sold in several ways."""
    answer = "◀ the answer" if found.best is not None and len(found.rows) > 1 else ""
    short = sorted({_term_words(row) for row in found.working if not row.terms_fit})
    terms = [f"* not for a job as long as this: {' and '.join(short)}"] if short else []
    unbound = [row for row in found.working if row.machine.is_bound and not row.machine.term]
    terms += dict.fromkeys(f"{row.machine.sold}: {_UNSTATED[row.machine.sold]}" for row in unbound)
    columns = [Column("GPU", "l", legend=answer), Column("node", "l", drop=4)]
    return columns + ([Column("offer", "l", legend="; ".join(terms))] if offers else [])


_UNSTATED = {
    "reserved": "its seller states no term, of which a month is assumed at least",
    "capacity block": "booked ahead for fixed dates",
}


def _term_words(row: Purchase) -> str:
    """For how long a machine must be rented or bought at least, such as `reserved for a year or more`."""
    how = "bought" if row.machine.sold == "purchase" else row.machine.sold
    if row.time > row.life:
        return f"bought for {term_words(row.life)}"
    least = term_words(row.least_term)
    return f"{how} for {'a' if least[0] == '1' and least[1] == ' ' else least[0]}{least[1:]} or more"


def _money_columns(job: str, *, apart: bool, bought: bool) -> list[Column]:
    """Columns for the price, the costs and the capital."""
    columns = [Column("$/GPU/h"), Column("cost", legend=f"as billed, of whole nodes, for {job}")]
    columns += [Column("in use", legend="the cost of the GPUs in use alone", drop=1)] if apart else []
    return columns + ([Column("capital", legend="of the nodes that are bought", face="page")] if bought else [])


def _money_cells(row: Purchase, rent: Rent, *, apart: bool, bought: bool) -> list[Cell]:
    """Cells for the price, the costs and the capital of a machine."""
    cells = list[Cell]([_hourly_price_cell(row)])
    cells += [billed_cell(rent, row.machine.name)]
    cells += [linked(money_cell(rent.in_use), f"rent of {row.machine.name}")] if apart else []
    return cells + ([_capital_cell(row)] if bought else [])


def _hourly_price_cell(row: Purchase) -> Cell:
    """A cell with the price of an accelerator in USD per hour and any doubt about it, which opens its origin."""
    price = row.price
    words = "" if price is None else hourly_price(price).removesuffix(" USD/GPU/h")
    if price is None or not price.known:
        return words
    doubt = f"{price_doubt(row)}: " if price_doubt(row) else ""
    return linked(Value(f"{doubt}{words}", price.each * 3600, "price_usd_per_hour"), f"price of {row.machine.name}")


def _hosted_row(found: PurchaseComparison, offer: HostedOffer, columns: Sequence[Column]) -> list[Cell]:
    """The table row of a hosted API: its cost and its prices per million tokens, in the columns for machines."""
    cost = found.hosted_cost(offer)
    figures: dict[str, Cell] = {
        "GPU": "hosted",
        "node": offer.source,
        "offer": "API",
        "cost": linked(money_cell(cost), f"rent of {offer.name}"),
        "": latency_caveat(found),
        "price of": Value(hosted_source(offer), link=source_url(offer.source)),
    }
    figures |= {
        _HEADS[name]: sourced(Value(f"${price * 1e6:.3g}", price * 1e6, machine_name(name)), hosted_source(offer))
        for name, price in (
            ("cost_per_minput", offer.prompt),
            ("cost_per_mcached", offer.cached),
            ("cost_per_moutput", offer.output),
        )
    }
    return [figures.get(column.head, "") for column in columns]


def hosted_source(offer: HostedOffer) -> str:
    """The origin of the prices of an API: its name, region, date and source."""
    where = f" in {offer.region}" if offer.region else ""
    return ", ".join(filter(None, (f"{offer.title}{where}", offer.date, offer.source)))


def _hosted_price_line(offer: HostedOffer) -> Line:
    """The prices of a hosted API per million tokens, as a line."""
    prompt, cached, output = (f"${price * 1e6:.3g}" for price in (offer.prompt, offer.cached, offer.output))
    words = f"{prompt} a million tokens of prompts, {cached} cached ones, {output} generated ones"
    return Abridged(f"  API: {words} ({hosted_source(offer)})", short="", added="origin of prices")


_EXPECTED_LEGEND = "fewest GPUs for the average prediction, and their chance to meet every limit"
_PLAN_LEGEND = (
    "replicas: copies of the model that answer requests; tp: GPUs that share each layer of a copy; pp: groups of its "
    "layers on GPUs of their own; token budget: the most tokens of a step (stack.budget)"
)
_BINDS_LEGEND = (
    "what limits the requests of a replica: cache: memory for requests in flight; sequences: their number at a time; "
    "compute, budget: the work of a step"
)
_RUNS_LEGEND = (
    "published runs of such jobs on this GPU, of any model and format, that predictions are compared with; if there "
    "are none, the range is assumed"
)
_PRICE_LEGEND = (
    "the offer, the day on which its price was seen, and where; unverified: from general knowledge, that page was not "
    "read again"
)
_BILLED = Column("billed", legend="all GPUs of the nodes, where parts of a node are not rented")
_SHORT_COLUMNS = ("GPU", "node", "offer", "GPUs", "billed", "chance", "$/GPU/h", "cost", "site power", "time")


def _is_known(row: Purchase, name: str) -> bool:
    """Whether a machine has a finite value of this result."""
    return row.trial is not None and math.isfinite(row.trial.costs.get(name, math.nan))


def _capital_cell(row: Purchase) -> Cell:
    """A cell with the price of all nodes in USD if they are bought; empty if they are rented."""
    found = linked(money_cell(row.capital, "capital_usd"), f"capital of {row.machine.name}")
    return "" if math.isnan(row.capital) else found


def _price_source_cell(row: Purchase) -> Cell:
    """A cell with the origin of a price, linked to the page where it was seen."""
    if row.price is None or not row.price.known:
        return ""
    listed = row.price.listed
    key = "" if listed is None else listed.source or ""
    return Value(price_source(row.price), link=source_url(key, row.machine.node))


def _expected_size_cell(row: Purchase, safe: SmallestPlan) -> Cell:
    """A cell with the number of GPUs that the average prediction needs, and the chance of that number."""
    words, expected = _expected_size_words(row.plans.expected, safe), row.plans.expected
    if not words or expected is None:
        return words
    return linked(Value(words, expected.chance, "expected_chance"), f"expected of {row.machine.name}")


def _expected_size_words(expected: SmallestPlan | None, safe: SmallestPlan) -> str:
    """The number of GPUs by the average prediction with its chance; empty if it is not smaller than the answer's."""
    if expected is None or expected.gpus >= safe.gpus:
        return ""
    return f"{counted(expected.gpus)} at {chance_words(expected.chance)}"


def _run_count_words(row: Purchase) -> Cell:
    """The number of measured runs that support a machine's predictions, in words."""
    return number_of(row.runs, "run") if row.runs else "none"


def rejection_words(found: PurchaseComparison, row: Purchase) -> str:
    """The reason why no plan on a machine is an answer, as a short sentence."""
    plans = row.plans
    if plans.expected is not None:
        return f"✗ the surest plan has a chance of {chance_words(plans.surest)}"
    if plans.fault is not None:
        return f"✗ {plans.fault.code} {plans.fault.with_near_word}"
    if plans.missed:
        return f"✗ {_missed_limits_words(found, row)}"
    reasons = found.asked.reasons
    power = _site_power_words(found, row) if OVERLOAD.intersection(plans.codes) else ""
    titles = (f"{code} {reasons[code].title}" if code in reasons else code for code in plans.codes)
    return f"✗ {', '.join(titles)}{power}"


def _missed_limits_words(found: PurchaseComparison, row: Purchase) -> str:
    """The limits that the nearest plan misses, each with its value and bound."""
    words, parts = words_of(found.asked.case.kind), list[str]()
    for missed in row.plans.missed:
        pairs = ([words.result_to(missed.column, each, digits) for each in (missed.value, missed.limit)]
                 for digits in range(3, 7))  # fmt: skip
        value, limit = next((pair for pair in pairs if pair[0] != pair[1]), ("a little more", "it"))
        where = "" if math.isnan(missed.gpus) else f" on {number_of(missed.gpus, 'GPU')}"
        what, of = _MISSED.get(missed.column, (limit_words(missed.column), "limit"))
        parts.append(f"{what} {value}{where} is over the {of} of {limit}")
    late = any(missed.column == "run_time" for missed in row.plans.missed)
    return f"{' and '.join(parts)}{_site_power_words(found, row) if late else ''}"


def _site_power_words(found: PurchaseComparison, row: Purchase) -> str:
    """How many nodes the power of the site supplies, in words; empty without a limit on power."""
    if math.isinf(found.power):
        return ""
    nodes = number_of(found.power // row.each, "node")
    return f": a node takes {show(row.each, 'J/s')}, and the site has {show(found.power, 'J/s')}, for {nodes}"


_MISSED = {"run_cost": ("rent", "budget"), RENT: ("rent", "budget"), "run_time": ("a time of", "deadline")}


def _optimal_model(found: PurchaseComparison) -> list[str]:
    """Lines on the size of model that the budget trains to the lowest loss, and on how far to trust that."""
    if found.optimal is None or found.best is None:
        return []
    size, tokens = found.optimal
    if model_follows_from_budget(found):
        return [_CAUTION]
    at = f"at the money that this model's work costs on {found.best.machine.node}"
    caution = f"{TOKENS_PER_PARAMETER:g} tokens a parameter (hoffmann-2022), which differs between data sets"
    least = f"{amount_words(size, 2)} parameters on {amount_words(tokens, 2)} tokens"
    return [
        f"For this budget a dense model of {least} would have the lowest loss, {at}: {caution}. "
        "A model that is served much is smaller and trains on more."
    ]


_CAUTION = (
    f"{TOKENS_PER_PARAMETER:g} tokens a parameter are compute-optimal for dense models (hoffmann-2022); that differs "
    "between data sets, and a model that is served much is smaller and trains on more."
)


def _headlines(found: PurchaseComparison) -> list[Headline]:
    """Figures at the head of the page, the rent first."""
    best = found.best
    if best is None or best.plans.safe is None:
        return []
    safe, rent, smaller = best.plans.safe, found.rent(best), found.smaller
    least = f"{rounded_dollars(smaller.billed)} on average; " if smaller.billed < rent.billed else ""
    about = f"{least}{rounded_dollars(rent.in_use)} of GPUs in use"
    cards = [Headline(f"Cost of {job_words(found)}", billed_cell(rent, best.machine.name), about)]
    cards = cards if math.isfinite(rent.billed) else []
    gpus = gpus_cell(best, best.machine.name)
    cards.append(Headline("GPUs", gpus, f"{best.machine.accelerator}, {best.machine.node}"))
    chance = linked(chance_cell(safe.chance), f"chance of {best.machine.name}")
    cards.append(Headline(f"Chance to {event_words(found)}", chance, verdict=chance_verdict(safe.chance)))
    return cards
