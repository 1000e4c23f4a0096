"""What all replicas cost together: nodes, the rent of a month, and of an offline batch."""

from __future__ import annotations

import numpy as np

from costmodel.documents.reader.resolved_scenario import counted_by_gpus
from costmodel.equations.run.economics import run_cost, share, whole_node_price
from costmodel.equations.serving.serving_economics import MONTH, accelerators_rented
from costmodel.estimate.machine.price import price_of_unit, price_per_accelerator
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


@record
class Fleet:
    """Accelerators that a load needs, and the nodes that hold them.

    whole: accelerators of all these nodes, those that the job may use
    month: rent of what is paid for, of 730 hours; not a number where no price is known
    month_whole: the same where nodes are rented whole
    by_node: whether the price is one of whole nodes
    """

    gpus: float
    nodes: float
    each: float  # in use of a node
    built: float  # in a node
    whole: float
    month: float
    month_whole: float
    by_node: bool

    @property
    def paid(self) -> float:
        """Accelerators that are paid for."""
        return self.whole if self.by_node else self.gpus


def by_whole_nodes(inputs: ServingInputs) -> bool:
    """Whether whole nodes are rented: the list price is per node, and the scenario states no price."""
    listed = inputs.case.node.list_price
    return inputs.case.stated_price is None and not inputs.case.groups and listed is not None and listed.per == "node"


def rent_needed(inputs: ServingInputs, gpus: Number) -> Number:
    """Rent per month of the accelerators that a load needs, counted as in `fleet_of`."""
    listed = inputs.case.node.list_price
    if not by_whole_nodes(inputs) or listed is None:
        return run_cost(MONTH, gpus, price_per_accelerator(inputs.case))
    each: Number = inputs.case.node.accelerators
    if counted_by_gpus(inputs.case):
        each = np.where(np.asarray(gpus) > inputs.ranks, max(each, inputs.case.node.built), each)
    with term("whole nodes"):
        whole = accelerators_rented(gpus, each)
    return run_cost(MONTH, share(whole, each), price_of_unit(listed, inputs.case.node, inputs.case.accelerator))


def rent_columns(inputs: ServingInputs, gpus: Number, makespan: Number) -> dict[str, Number]:
    """Nodes for so many accelerators, and their rent for a month and for an offline batch."""
    each = inputs.case.node.accelerators
    with term("whole nodes"):
        whole = accelerators_rented(gpus, each)
    paid, price = whole if by_whole_nodes(inputs) else gpus, price_per_accelerator(inputs.case)
    return {
        "nodes": share(whole, each),
        "rent_per_month": run_cost(MONTH, paid, price),
        "cost_of_batch": run_cost(makespan, paid, price),
    }


def fleet_of(inputs: ServingInputs, gpus: float) -> Fleet:
    """The nodes for so many accelerators, and their rent.

    Where --gpus asked for a part of a node and more are needed, every node is filled with replicas.
    """
    node, by_node = inputs.case.node, by_whole_nodes(inputs)
    each, built, price = float(node.accelerators), float(node.built), float(price_per_accelerator(inputs.case))
    if counted_by_gpus(inputs.case) and gpus > float(inputs.ranks):
        if by_node:
            price = float(whole_node_price(price, each, built))
        each = max(each, built)
    whole = float(accelerators_rented(gpus, each))
    month, month_whole = (float(run_cost(MONTH, count, price)) for count in (whole if by_node else gpus, whole))
    return Fleet(gpus, float(share(whole, each)), each, built, whole, month, month_whole, by_node)
