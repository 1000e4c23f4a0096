"""Machines on offer, at list prices and at prices of a CSV table; and hosted APIs.

The shipped table of prices and a user's table have the same columns. An offer is a list of scenario settings: the
node, and its price with region, date and source.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import get_args

from costmodel.documents.keys.overrides import path_of
from costmodel.documents.keys.suggestions import nearest
from costmodel.documents.reader.folders import shipped_file
from costmodel.documents.reader.hub_names import shape_of
from costmodel.documents.reader.library import CachedReader, names, read
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.sources import bibliography, keys_of_bibliography
from costmodel.documents.schemas.hardware import Node, Sold
from costmodel.documents.text.files import LARGEST_TABLE, file_text
from costmodel.estimate.machine.price import hourly_price
from costmodel.exchange.logs.request_trace import is_trace, rates_of_trace
from costmodel.exchange.tables.csv_cells import (
    Column,
    CsvRow,
    Sheet,
    cell_at,
    read_sheet,
    repeated_column_faults,
    row_of,
)
from costmodel.explore.default_node import node_of_gpu
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Fault, Place, fail, quoted_value
from costmodel.ground.record import record

SHIPPED = "hardware/prices.csv"
NODE, PART = "cluster.node", "cluster.node.accelerator"
API = "api"
ON_DEMAND = "on demand"
STATED_API = "--api"  # the source of an API whose prices the user states
KINDS = (*get_args(Sold), API)
COLUMNS = {
    "kind": Column("text", f"{', '.join(KINDS[:-1])} or {API}"),
    "gpu": Column("text", "accelerator; its usual node where no node is named"),
    "node": Column("text", "node"),
    "region": Column("text", "region of the cloud"),
    "date": Column("text", "date seen: 2026, 2026-11 or 2026-11-30"),
    "source": Column("text", "where the price is from"),
    "usd_per_gpu_hour": Column("number", "rent of one accelerator"),
    "usd_per_node_hour": Column("number", "rent of a whole node"),
    "capital_usd": Column("number", "of a purchase: price of a node"),
    "years": Column(
        "number", "of a purchase: until it is sold or written off; of reserved: the lease, default: a month"
    ),
    "resale_usd": Column("number", "of a purchase: what a node is sold for then; default: nothing"),
    "utilisation": Column(
        "number", "of a purchase, which needs this cell: share of that time in which it works; 0.8 where none is known"
    ),
    "usd_per_kwh": Column(
        "number", "of a purchase: electricity; default: run.power.tariff of a training, else the usual grid"
    ),
    "pue": Column(
        "number",
        "of a purchase: power of the data centre over that of nodes; default: run.power.pue of a training, else 1.2",
    ),
    "model": Column("text", "of an api: the model"),
    "usd_per_mprompt": Column("number", "of an api: a million tokens of prompts"),
    "usd_per_mcached": Column("number", "of an api: a million of them that are cached; default: as others"),
    "usd_per_moutput": Column("number", "of an api: a million generated tokens"),
}
_OF_ALL = ("kind", "date", "source")
_RENT, _OWNED = ("usd_per_gpu_hour", "usd_per_node_hour"), ("capital_usd", "years", "utilisation")
_HOSTED = ("model", "usd_per_mprompt", "usd_per_moutput")
_LARGEST = 1_000_000  # bytes of a table
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d)?)?", re.ASCII)
_MILLION = 1e6
YEAR = 365 * 86400.0
NEWEST = "2026-11-09"  # of the shipped prices, by which the age of others is counted


@record
class Machine:
    """A kind of machine and how it is sold, as scenario settings.

    settings: of the machine. price: of an offer that is not the list price. own: from the user's table
    """

    accelerator: str
    node: str
    settings: tuple[str, ...]
    price: tuple[str, ...] = ()
    sold: str = ""
    region: str = ""
    term: float = 0.0  # shortest time for which it is sold so, s; 0 where none is stated
    own: bool = False

    @property
    def terms(self) -> str:
        """How it is sold, with the years of a lease."""
        years = f" {self.term / YEAR:.3g} y" if self.term and self.sold == "reserved" else ""
        return f"{self.sold}{years}"

    @property
    def is_bound(self) -> bool:
        """Whether it is rented for a term that the seller fixes."""
        return self.sold in ("reserved", "capacity block")

    @property
    def name(self) -> str:
        """The node and the terms of sale, in words."""
        return ", ".join(filter(None, (self.node, self.terms, self.region)))


@record
class HostedOffer:
    """What a hosted API charges per token of a model [USD].

    model: its library name, if it has one. title: its name in the table
    """

    model: str
    title: str
    prompt: float
    cached: float
    output: float
    region: str
    date: str
    source: str

    @property
    def name(self) -> str:
        """Provider and model of a hosted API, in words."""
        return f"the API of {self.title}, {self.source}"


def months_before(date: str, than: str) -> int:
    """The months by which a date, or a year, is earlier than another date.

    >>> months_before("2026-05-18", "2026-11-09"), months_before("2024", "2026-11-09")
    (6, 23)
    """
    (year, month), (other, last) = ((int(text[:4]), int(text[5:7] or 12)) for text in (date, than))
    return 12 * (other - year) + last - month


def source_url(key: str, node: str = "") -> str:
    """The web page of a price, from the node's sources or the bibliography; empty if none is stated."""
    own = read("node", node).sources.get(key) if node else None
    url = str((bibliography().get(key) or {}).get("url", "")) if own is None else own.url or ""
    return url if url.startswith(("https://", "http://")) else ""


@record
class Offers:
    """Machines, and APIs that serve the model."""

    machines: tuple[Machine, ...]
    hosted: tuple[HostedOffer, ...] = ()


def offers_for(
    gpus: Sequence[str] = (),
    nodes: Sequence[str] = (),
    prices: str = "",
    case: LoadedScenario | None = None,
    *,
    only: bool = False,
    api: Sequence[float] = (),
    years: float | None = None,
) -> Offers:
    """The named machines at each of their prices; without names, every accelerator that has a price.

    An accelerator without a named node is offered in the node with the lowest list price on demand, and in others that
    are cheaper on other terms.

    gpus: accelerators, each in every node that has a price, else in its usual node
    prices: a CSV file whose rows replace shipped offers of the same node and terms, or of the same API
    only: no offers but those of that file; a named machine without a row keeps its list price
    api: USD per million tokens of prompts and of answers; one number is both
    years: for which bought machines are used, in place of the years of each purchase
    case: selects APIs of its model, and states power costs of a purchase

    Raises:
        CostModelError: an accelerator or node is unknown, or the table has faults
    """
    shelf = CachedReader()
    is_priced = case is not None and "assume.price" in map(path_of, case.changes)
    if is_priced and prices:
        sentence = "one price for all machines is stated, and a table of prices too"
        raise fail("C004", sentence, None, "leave --price or --prices out")
    own_text = file_text(prices, largest=_LARGEST) if prices else ""
    own, own_hosted = _PriceTable(prices, shelf, case, years).read(own_text) if prices else ([], [])
    shipped, other_hosted = _PriceTable(SHIPPED, shelf, case, years).read(_shipped_text())
    if only and prices:
        shipped, other_hosted = [], []
    own = [replace(offer, own=True) for offer in own]
    replaced = {(offer.node, offer.sold) for offer in own}
    machines = [] if is_priced else [*own, *(offer for offer in shipped if (offer.node, offer.sold) not in replaced)]
    wanted = {_accelerator(shelf, gpu) for gpu in gpus}
    if wanted or nodes:
        machines = [machine for machine in machines if machine.node in nodes or machine.accelerator in wanted]
        named = [_machine(shelf.document("node", name)) for name in nodes]
        listed = [*dict.fromkeys([*named, *(offer for gpu in gpus for offer in _machines_with_gpu(shelf, gpu))])]
    else:
        listed = [] if only and prices else list(_default_machines(shelf))
    if prices:
        has_price, priced = {machine.node for machine in machines}, {machine.accelerator for machine in machines}
        listed = [offer for offer in listed if (offer.node, offer.sold) not in replaced]
        listed = [offer for offer in listed if offer.node not in has_price or not (only or offer.sold == "")]
        listed = [offer for offer in listed if offer.node in nodes or offer.accelerator not in priced or not only]
    if years is not None and not any(machine.sold == "purchase" for machine in machines):
        sentence = "--years is for how long bought machines are used, and no purchase of these machines has a price"
        raise fail("C004", sentence, None, "state one in --prices (costmodel explain D018), or leave --years out")
    names = {offer.name for offer in own_hosted}
    hosted = [*own_hosted, *(offer for offer in other_hosted if offer.name not in names)]
    listed = [replace(offer, sold="", region="") for offer in listed] if is_priced else listed
    model = None if case is None else case.model.name
    if api:
        prompt, output = api[0] / _MILLION, api[-1] / _MILLION
        hosted.append(HostedOffer(model or "", "the same model", prompt, prompt, output, "", "", STATED_API))
    return Offers((*listed, *machines), tuple(each for each in hosted if model in (None, each.model)))


def _shipped_text() -> str:
    return shipped_file(SHIPPED).read_text(encoding="utf-8")


def _default_machines(shelf: CachedReader) -> Iterator[Machine]:
    """Each accelerator in its node with the lowest list price on demand, and in nodes cheaper on other terms."""
    cheapest: dict[str, Node] = {}
    for node in sorted(_nodes_with_price(shelf), key=_list_price_order):
        other = cheapest.setdefault(_accelerator_name(node), node)
        if node is other or hourly_price(node) < hourly_price(other):
            yield _machine(node)


def _list_price_order(node: Node) -> tuple[bool, float]:
    """Sort key of a node: prices on demand first, the lowest first."""
    return node.list_price is None or node.list_price.sold != ON_DEMAND, hourly_price(node)


def _nodes_with_price(shelf: CachedReader) -> Iterator[Node]:
    """The nodes with a list price."""
    for name in sorted(names("node")):
        text, _ = shelf.text("node", name)
        if "\nprice:" in text:  # which saves reading the others
            yield shelf.document("node", name)


def dearest_on_demand(accelerator: str) -> Node | None:
    """The node with the highest list price on demand of an accelerator; None if it has no such price."""
    shelf = CachedReader()
    named = (name for name in names("node") if f"accelerator: {accelerator}\n" in shelf.text("node", name)[0])
    nodes = (shelf.document("node", name) for name in named)
    return max((node for node in nodes if not _list_price_order(node)[0]), key=hourly_price, default=None)


def _accelerator(shelf: CachedReader, spelling: str) -> str:
    """The accelerator that a spelling names."""
    usual = _usual_node_settings(spelling)
    return usual.get(PART) or _accelerator_name(shelf.document("node", usual[NODE]))


def _usual_node_settings(spelling: str) -> dict[str, str]:
    """The settings for the usual node of an accelerator."""
    changes, _ = node_of_gpu(spelling, None)
    return {change.path: str(change.value) for change in changes}


def _machines_with_gpu(shelf: CachedReader, spelling: str) -> Iterator[Machine]:
    """The offers of nodes with an accelerator and a price; if there is none, its usual node."""
    wanted = _accelerator(shelf, spelling)
    nodes = [node for node in _nodes_with_price(shelf) if _accelerator_name(node) == wanted]
    yield from map(_machine, sorted(nodes, key=hourly_price))
    if not nodes:
        yield _usual_machine(spelling, wanted)


def _usual_machine(spelling: str, accelerator: str) -> Machine:
    usual = _usual_node_settings(spelling)
    return Machine(accelerator, usual[NODE], tuple(f"{path}={value}" for path, value in usual.items()))


def _machine(node: Node) -> Machine:
    listed = node.list_price
    sold, region, term = ("", "", 0.0) if listed is None else (listed.sold, listed.region or "", listed.term or 0.0)
    return Machine(_accelerator_name(node), node.name, (f"{NODE}={node.name}",), sold=sold, region=region, term=term)


def _accelerator_name(node: Node) -> str:
    return node.accelerator if isinstance(node.accelerator, str) else node.accelerator.name


# --- Tables of prices.


class _PriceTable:
    """A reader of a price table, row by row, that collects all faults."""

    def __init__(self, file: str, shelf: CachedReader, case: LoadedScenario | None, years: float | None = None) -> None:
        self.file, self.shelf, self.case, self.years = file, shelf, case, years

    def read(self, text: str) -> tuple[list[Machine], list[HostedOffer]]:
        """The machines and the APIs of the table."""
        table = read_sheet(self.file, text, COLUMNS)
        faults = list(
            _semicolon_fault(table) or (*_header_faults(table), *repeated_column_faults(table.place, table.names))
        )
        machines, hosted = list[Machine](), list[HostedOffer]()
        for place, cells in table.records if not faults else ():
            beyond = cells[len(table.names) :]  # of a row with too many
            row = row_of(place, table.names, [*map(_as_number, table.names, cells), *beyond], COLUMNS)
            wrong = next(_row_problems(row), None) if row.written and not row.faults else None
            if wrong is not None:
                name, sentence, hint = wrong
                at = cell_at(row.place, table.names.index(name), name) if name in table.names else row.place
                faults.append(Fault("D018", sentence, at, hint or _column_meaning(name), ours=name))
            elif row.faults:
                faults += (_price_table_fault(fault) for fault in row.faults)
            elif row.text("kind") == API:
                hosted.append(_hosted_offer(row))
            else:
                named = "node" if row.text("node") else "gpu"
                try:
                    machines.append(self._machine(row))
                except CostModelError as error:
                    at = cell_at(row.place, table.names.index(named), named)
                    faults.append(replace(error.faults[0], place=at))
        faults = _first_comma_fault_only(faults)
        if not (machines or hosted or faults):
            faults.append(
                Fault("D018", "there is no price below the header", table.place, "write a row for each price")
            )
        if faults:
            raise CostModelError(*faults)
        return machines, hosted

    def _machine(self, row: CsvRow) -> Machine:
        """The machine of a row, with its price."""
        if row.text("node"):
            machine = _machine(self.shelf.document("node", row.text("node")))
        else:
            machine = _usual_machine(row.text("gpu"), _accelerator(self.shelf, row.text("gpu")))
        wanted = _accelerator(self.shelf, row.text("gpu")) if row.text("gpu") else machine.accelerator
        if machine.accelerator != wanted:
            sentence = f"{machine.node} has {machine.accelerator}, not {wanted}"
            raise fail("D018", sentence, hint="leave one of gpu and node out")
        kind = row.text("kind")
        term = (row.number("years") or 0.0) * YEAR if kind == "reserved" else 0.0
        price = self._settings(row, machine.node, term)
        return replace(machine, price=price, sold=kind, region=row.text("region"), term=term)

    def _settings(self, row: CsvRow, node: str, term: float) -> tuple[str, ...]:
        """Settings that give a node the price of a row."""
        title, key = row.text("source"), row.text("source")
        entry = list[str]()
        if key not in keys_of_bibliography() and key not in self.shelf.document("node", node).sources:
            key = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "source"
            entry = [f"{NODE}.sources.{key}={{title: {json.dumps(title, ensure_ascii=False)}}}"]
        price = {"sold": row.text("kind"), "date": json.dumps(row.text("date")), "source": key}
        if term:
            price["term"] = f"{term / 86400:g} days"
        if row.text("region"):
            price["region"] = json.dumps(row.text("region"), ensure_ascii=False)
        if row.text("usd_per_gpu_hour"):
            price |= {"per": "accelerator", "hourly": f"{row.text('usd_per_gpu_hour')} USD/GPU/h"}
        elif row.text("usd_per_node_hour"):
            price |= {"per": "node", "hourly": f"{row.text('usd_per_node_hour')} USD/h"}
        else:
            price["bought"] = self._owned(row)
        stated = () if self.case is None or self.case.stated_price is None else ("assume.price=null",)
        return *stated, *entry, f"{NODE}.price={{{', '.join(f'{name}: {value}' for name, value in price.items())}}}"

    def _owned(self, row: CsvRow) -> str:
        """The terms of a purchase; electricity from the row, else the scenario, else the usual values."""
        tariff, pue = site_terms(self.case)
        energy = f"{row.text('usd_per_kwh')} USD/kWh" if row.text("usd_per_kwh") else f"{tariff * 3.6e6:.6g} USD/kWh"
        years = self.years or row.number("years") or 0
        known = f"life: {years * 365:g} days, utilisation: {row.text('utilisation')}"
        resale = f"resale: {row.text('resale_usd') or 0} USD"
        power = f"tariff: {energy}, pue: {row.text('pue') or f'{pue:g}'}"
        return f"{{capital: {row.text('capital_usd')} USD, {resale}, {known}, {power}}}"


def _as_number(name: str, text: str) -> str:
    """The text of a cell as a plain number, where it is money or a percentage.

    >>> _as_number("capital_usd", "$250,000"), _as_number("utilisation", "80%"), _as_number("source", "$5")
    ('250000', '0.8', '$5')
    """
    if name not in COLUMNS or COLUMNS[name].kind != "number":
        return text
    if _MONEY.fullmatch(text):
        return text.removeprefix("$").replace(",", "")
    part = _PERCENT.fullmatch(text)
    return text if part is None else f"{float(part[1]) / 100:.12g}"


_MONEY = re.compile(r"\$\d+(,\d{3})*(\.\d+)?", re.ASCII)
_PERCENT = re.compile(r"(\d+(?:\.\d+)?) ?%", re.ASCII)


def _price_table_fault(fault: Fault) -> Fault:
    """A fault of a price table cell; for an empty required cell, with the meaning of its column."""
    name = "" if fault.place is None else fault.place.path
    hint = _column_meaning(name) if name in (*_OWNED, *_HOSTED) else fault.hint
    return replace(fault, code="D018" if fault.code == "D014" else fault.code, hint=hint)


def _semicolon_fault(table: Sheet) -> list[Fault]:
    """One fault for a table whose cells are separated by semicolons."""
    sentence = "cells are separated by semicolons here, not by commas"
    separated = any(";" in name for name in table.names)
    return [Fault("D018", sentence, table.place, f"save it with commas between cells; {_POINT}")] if separated else []


def _first_comma_fault_only(faults: list[Fault]) -> list[Fault]:
    """The faults, with only the first of those that decimal commas cause."""
    comma_faults = [fault for fault in faults if _is_decimal_comma_fault(fault)]
    others = [fault for fault in faults if fault not in comma_faults]
    return [*(replace(fault, hint=f"{_POINT}; {fault.hint}") for fault in comma_faults[:1]), *others]


def _is_decimal_comma_fault(fault: Fault) -> bool:
    """Whether a decimal comma caused a fault of a price table."""
    place = fault.place
    if place is None:
        return False
    many = re.fullmatch(r"this row has (\d+) cells and the header (\d+)", fault.sentence)
    if many is not None:
        return int(many[1]) > int(many[2])
    return COLUMNS.get(place.path, COLUMNS["kind"]).kind == "number" and _COMMA.search(fault.sentence) is not None


_POINT = "a number has a decimal point: 3.20"
_COMMA = re.compile(r"\d,\d", re.ASCII)


def _header_faults(table: Sheet) -> Iterator[Fault]:
    """Faults for unknown and missing columns."""
    for index, name in enumerate(table.names):
        if name not in COLUMNS:
            close = nearest(name, COLUMNS)
            hint = f"did you mean '{close}'?" if close else f"the columns: {', '.join(COLUMNS)}"
            yield Fault("D018", f"there is no column {quoted_value(name)}", cell_at(table.place, index), hint)
    for name in _OF_ALL:
        if name not in table.names:
            missing = f"the column '{name}' is missing"
            yield Fault("D018", missing, table.place, _column_meaning(name), ours=missing)


def _column_meaning(name: str) -> str:
    return f"{name}: {COLUMNS[name].meaning}"


def _row_problems(row: CsvRow) -> Iterator[tuple[str, str, str]]:
    """The problems of a row: column, sentence, and a hint if it is not the column's meaning."""
    kind, rents = row.text("kind"), [name for name in _RENT if row.text(name)]
    if kind not in KINDS:
        close = nearest(kind, KINDS)
        yield "kind", f"there is no kind {quoted_value(kind)}", f"did you mean '{close}'?" if close else ""
    for name in (*_OF_ALL, *(_HOSTED if kind == API else _OWNED if kind == "purchase" else ())):
        if not row.text(name):
            yield name, f"{kind} needs a cell under {name}", ""
    if not _DATE.fullmatch(row.text("date")):
        yield "date", f"{quoted_value(row.text('date'))} is no date", ""
    if kind != API and not (row.text("gpu") or row.text("node")):
        yield "node", "neither gpu nor node is named", ""
    if kind in (API, "purchase"):
        yield from ((name, f"{kind} has no {name}", "leave the cell empty") for name in rents)
    elif len(rents) != 1:
        given = "are both given" if rents else "are both empty"
        yield _RENT[0], f"{' and '.join(_RENT)} {given}", "fill one of them"
    for name, kinds in (("years", ("purchase", "reserved")), ("resale_usd", ("purchase",))):
        if row.text(name) and kind not in kinds:
            yield name, f"{kind} has no {name}", "leave the cell empty"
    if (row.number("resale_usd") or 0) > (row.number("capital_usd") or math.inf):
        yield "resale_usd", f"a resale of {row.text('resale_usd')} is above the capital", ""
    if (row.number("utilisation") or 0) > 1:
        yield "utilisation", f"a share of {row.text('utilisation')} is above 1", ""
    if (row.number("pue") or 1) < 1:
        yield "pue", f"a pue of {row.text('pue')} is below 1", ""


def site_terms(case: LoadedScenario | None) -> tuple[float, float]:
    """Price of electricity and PUE: of the scenario, else the usual grid and practice."""
    run = None if case is None else case.run
    tariff, pue = (None, None) if run is None else (run.power.tariff, run.power.pue)
    tariff = read("grid", "us-average").tariff.price if tariff is None else tariff
    return float(tariff), float(read("practice", "usual").cooling.pue if pue is None else pue)


def _hosted_offer(row: CsvRow) -> HostedOffer:
    """The hosted API of a row."""
    prompt, output = (row.number(name) or 0.0 for name in ("usd_per_mprompt", "usd_per_moutput"))
    cached = row.number("usd_per_mcached")
    stated = row.text("model")
    return HostedOffer(
        shape_of(stated, names("model")) or stated,
        stated,
        prompt / _MILLION,
        (prompt if cached is None else cached) / _MILLION,
        output / _MILLION,
        row.text("region"),
        row.text("date"),
        row.text("source"),
    )


# --- A day of traffic.

_MOST_HOURS = 24 * 7


def hourly_rates(text: str) -> list[float]:
    """Requests per second for each hour, from a list such as `2,2,5,9`, a CSV of hour and rate, or a request trace.

    A list whose length divides 24 covers one day in equal parts; a list of whole days has one rate per hour.

    >>> hourly_rates("2,5.5") == [2.0] * 12 + [5.5] * 12, len(hourly_rates("2,3,4"))
    (True, 24)

    Raises:
        CostModelError: it is none of these
    """
    if re.fullmatch(r"[-+\d.,;\s]+", text, re.ASCII):
        rates = _rates(text.split(","), Place(COMMAND_LINE))
        if 24 % len(rates) and len(rates) % 24:
            hint = "state 2, 3, 4, 6, 8, 12, 24 or whole days of rates; a CSV of hour and rate may be of fewer hours"
            raise fail("D018", f"a day of 24 hours has no {len(rates)} equal parts", Place(COMMAND_LINE), hint)
        hours = max(24 // len(rates), 1)
        return [rate for rate in rates for _ in range(hours)]
    columns = {"hour": Column("whole", "hour of the day, from 0"), "rate": Column("text", "requests a second")}
    content = file_text(text, largest=LARGEST_TABLE)
    if is_trace(content):
        return _rates([str(rate) for rate in rates_of_trace(content, text)], Place(text))
    table = read_sheet(text, content, columns)
    if separated := _semicolon_fault(table):
        raise CostModelError(*separated)
    if missing := [name for name in columns if name not in table.names]:
        raise fail("D018", f"the column '{missing[0]}' is missing", table.place, "the columns are hour and rate")
    rows = [row_of(place, table.names, cells, columns) for place, cells in table.records]
    if faults := [fault for row in rows for fault in row.faults]:
        raise CostModelError(*(replace(fault, code="D018") for fault in faults))
    for expected, row in enumerate(rows):
        if row.number("hour") != expected:
            sentence = f"hour {expected} is expected here"
            raise fail("D018", sentence, cell_at(row.place, table.names.index("hour"), "hour"), "a row an hour, from 0")
    return _rates([row.text("rate") for row in rows], table.place)


def _rates(texts: Sequence[str], place: Place) -> list[float]:
    """The hourly rates in texts; a fault if they cannot be rates of a day."""
    try:
        rates = [float(text) for text in texts]
    except ValueError:
        rates = []
    if below := next((text.strip() for text, rate in zip(texts, rates, strict=False) if rate < 0), ""):
        raise fail(
            "D018", f"a rate of {below} is below 0", place, "a rate is positive, or 0 in an hour without requests"
        )
    if not 2 <= len(rates) <= _MOST_HOURS or not max(rates) > 0 or not max(rates) < math.inf:
        sentence = f"from 2 to {_MOST_HOURS} rates of at least 0 are expected, one of them above 0"
        raise fail("D018", sentence, place, "for example --day 2,2,5,9,9,5")
    return rates
