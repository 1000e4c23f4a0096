"""Price of an accelerator by the hour, from the scenario or the node's price list; and power where none is stated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from costmodel.documents.reader.library import read
from costmodel.documents.reader.resolved_scenario import ForeignPrice, LoadedScenario
from costmodel.documents.schemas.hardware import Accelerator, ListPrice, Node
from costmodel.documents.schemas.sync import sync_of
from costmodel.equations.run.economics import capped_rating, drawn_power, ownership_price, share
from costmodel.ground.equation import Number, term
from costmodel.ground.errors import Place
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.documents.schemas.practice import NodeDraw

# Ends of the list prices of shipped nodes, USD a second for an accelerator; a twentieth of one, ten times the other.
CHEAPEST, DEAREST = 0.97 / 3600, 17.80 / 3600
LEAST, MOST = CHEAPEST / 20, DEAREST * 10


def is_implausible_price(stated: float | None) -> bool:
    """Whether a price [USD/s per accelerator] is far from all list prices of shipped nodes.

    >>> [is_implausible_price(price) for price in (2.5 / 3600, 0.0025 / 3600, 2500 / 3600, None)]
    [False, True, True, False]
    """
    return stated is not None and not (stated == 0 or LEAST <= stated <= MOST)


@record
class AcceleratorPrice:
    """The rent of one accelerator in use [USD/s], and where it is stated.

    each: USD per second; NaN if no price is known
    listed: the node's price list, if its price is used; None if the scenario states the price
    place: where the price was written
    foreign: prices in the scenario that were ignored, since they are of another machine
    stated: the source of the price, as text from a stored result
    assumed: whether it is the price of an offer of the same accelerator, as the node has none
    job: the node of the job; differs from `node` if the price is assumed
    others: for an assumed price, the lowest and highest of other offers, USD per second
    nodes: number of nodes that are bought for the job
    """

    each: float
    node: str
    accelerators: float
    built: float
    listed: ListPrice | None = None
    place: Place | None = None
    foreign: tuple[ForeignPrice, ...] = ()
    stated: str = ""
    assumed: bool = False
    job: str = ""
    others: tuple[float, float] | None = None
    nodes: float | None = None

    @property
    def known(self) -> bool:
        """Whether there is a price."""
        return not math.isnan(self.each)


def price_of(case: LoadedScenario) -> AcceleratorPrice:
    """The price used for a case: stated, listed, or of the accelerator's usual offer."""
    node, written = case.node, case.stated_price
    if case.kinds and written is None:
        mean = float(_mean_price(case))
        said = "mean of the groups' lists"
        assumed = any(group.offer is not None for _, group in case.kinds)
        return AcceleratorPrice(
            mean, "the groups", float(node.accelerators), float(node.built), stated=said, assumed=assumed
        )
    offer, usual = case.offer if written is None else None, case.accelerator.offer
    node = case.node if offer is None else offer
    listed = node.list_price if written is None else None
    return AcceleratorPrice(
        float(price_per_accelerator(case)),
        node.name,
        float(node.accelerators),
        float(node.built),
        listed,
        place=getattr(written if listed is None else listed.hourly or listed.date, "place", None),
        foreign=case.foreign_prices if written is None else (),
        assumed=offer is not None,
        job=case.node.name,
        others=None if offer is None or usual is None else usual.others,
    )


def price_per_accelerator(case: LoadedScenario) -> Number:
    """Rent of one accelerator in use, stated or listed; NaN when neither is known.

    A node that is rented whole is paid for whole, however few of its accelerators the job uses. A node without a price
    is assumed to cost as the usual offer of its accelerator does, for each one in use.
    """
    written = case.stated_price
    if written is not None:
        return written
    if case.groups:
        return _mean_price(case)
    return listed_or_offered(case)


def _mean_price(case: LoadedScenario) -> Number:
    """Price of one accelerator [USD/s], averaged over all accelerators of a cluster with several kinds of nodes."""
    every = sum(nodes * kind.node.accelerators for nodes, kind in case.kinds)
    with term("mean of the groups"):
        shares = [(nodes * kind.node.accelerators / every, listed_or_offered(kind)) for nodes, kind in case.kinds]
        return sum((part * price for part, price in shares), start=0.0)


def listed_or_offered(case: LoadedScenario) -> Number:
    """The list price of the nodes of a case, or of the usual offer of its accelerator."""
    node = case.node if case.node.list_price is not None or case.offer is None else case.offer
    return listed_price(node, case.accelerator)


def listed_price(node: Node, part: Accelerator) -> Number:
    """List price of a node for each accelerator in use; NaN without one."""
    listed = node.list_price
    if listed is None:
        return math.nan
    price = price_of_rented_unit(listed, node, part)
    if listed.per == "accelerator":
        return price
    with term("list price"):
        return price / node.accelerators


def price_of_rented_unit(listed: ListPrice, node: Node, part: Accelerator) -> Number:
    """Price per second of the rented or bought unit: a node, or one of its accelerators."""
    bought = listed.bought
    if bought is None:
        return math.nan if listed.hourly is None else listed.hourly
    draw = read("practice", "usual").draw
    with term("whole node"):
        power = usual_power(node, part, draw.rated, draw.part, None) * node.built
    energy = power, bought.pue, bought.tariff
    return ownership_price(bought.capital, bought.resale, bought.life, bought.utilisation, *energy)


class NodePrice(NamedTuple):
    """A list price of one accelerator, in USD an hour, and the date it was seen."""

    hourly: float
    date: str


def node_prices(names: Sequence[str]) -> dict[str, NodePrice | None]:
    """List price of each node; None for a node without one."""
    nodes = {name: read("node", name) for name in names}
    return {
        name: None if node.list_price is None else NodePrice(hourly_price(node), node.list_price.date)
        for name, node in nodes.items()
    }


def hourly_price(node: Node) -> float:
    """List price of one accelerator, in USD an hour; infinite for a node without one."""
    part = node.accelerator
    price = float(listed_price(node, read("accelerator", part) if isinstance(part, str) else part)) * 3600
    return math.inf if math.isnan(price) else price


def parameter_servers_of(sync: str) -> float:
    """Number of parameter servers that a way to synchronise weights needs.

    >>> parameter_servers_of("parameter-server 16"), parameter_servers_of("first 60")
    (16.0, 0.0)
    """
    stated = sync_of(sync)
    return stated.number if stated.way == "parameter-server" else 0.0


def price_per_server(case: LoadedScenario) -> Number:
    """Rent of one parameter server; 0 if the scenario states no price."""
    stated = case.scenario.assume.server_price
    return 0.0 if stated is None else stated


def rated_power(node: Node, part: Accelerator, draw: NodeDraw) -> Number:
    """Rated power of a whole node; if none is stated, its usual draw over the usual share of the rating."""
    if node.power is not None:
        return node.power.max
    with term("whole node"):
        drawn = usual_power(node, part, draw.rated, draw.part, None) * node.built
    return share(drawn, draw.rated)


def usual_power(node: Node, part: Accelerator, rated_share: Number, over_part: Number, cap: Number | None) -> Number:
    """Usual power of an accelerator: a share of the node's rating, or a multiple of its own; NaN without both."""
    if part.power is None:
        return math.nan if node.power is None else drawn_power(node.power.max, rated_share, node.built)
    limit = part.power.max if cap is None else np.minimum(cap, part.power.max)
    if node.power is None:
        return over_part * limit
    if cap is None:
        return drawn_power(node.power.max, rated_share, node.built)
    with term("capped"):
        rated = capped_rating(node.power.max, part.power.max, limit, node.built)
    return drawn_power(rated, rated_share, node.built)
