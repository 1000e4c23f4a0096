"""Hardware facts: accelerator, fabric, node, cluster."""

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import (
    LEAST_FACTOR,
    Bytes,
    Capacity,
    Cores,
    Count,
    Document,
    EnergyPrice,
    FlopRate,
    Gpus,
    Interfaces,
    Measurements,
    Money,
    Multiple,
    Name,
    NodeCapacity,
    NodeRate,
    Nodes,
    PortRate,
    Positive,
    Quantity,
    Rate,
    Rent,
    Seconds,
    Share,
    Source,
    Sourced,
    Watts,
    as_written,
    keyed,
    listed,
    off,
    optional,
    rented,
)
from costmodel.ground.units import Figure, show

_NODES = Quantity("node", 1, whole=True)
Hertz = Annotated[float, Quantity("1/s", 1, 1e12)]
Sold = Literal["on demand", "capacity block", "reserved", "spot", "purchase"]


_ROUNDED = 0.01  # what is sold may be a rounded figure: a TPU v5p of 95 GiB has 95.74


class Memory(Sourced):
    """The accelerator's own memory."""

    capacity: Capacity = Field(description="As sold")
    usable: Capacity = Field(
        description="As nvidia-smi reports its total: 91 to 101 % of the capacity of shipped parts"
    )
    bandwidth: Rate = Field(description="Datasheet bandwidth, read and write together")
    kind: str | None = optional("Memory technology")

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if self.usable > self.capacity and not math.isclose(self.usable, self.capacity, rel_tol=_ROUNDED):
            raise PydanticCustomError("memory", "usable is more than the capacity", {"keys": ("usable", "capacity")})
        return self


class Peak(Sourced):
    """Dense datasheet rates, no sparsity, accumulating in fp32 where the part distinguishes."""

    fp32: FlopRate | None = optional("Vector fp32")
    tf32: FlopRate | None = optional("Tensor tf32")
    bf16: FlopRate | None = optional("Tensor bf16")
    fp16: FlopRate | None = optional("Tensor fp16")
    fp8: FlopRate | None = optional("Tensor fp8")
    fp4: FlopRate | None = optional("Tensor fp4")
    int8: FlopRate | None = optional("Tensor int8; for the reader alone")

    @property
    def wide(self) -> FlopRate | None:
        """The 16-bit peak rate: bf16, or fp16 if the part lacks bf16."""
        return self.fp16 if self.bf16 is None else self.bf16


class ChipLimits(Sourced):
    """Inside the part."""

    units: Cores | None = optional("SMs, CUs, cores or engines")
    clock: Hertz | None = optional("Clock the peak is computed at; for the reader alone")
    l2: Bytes | None = optional("Last-level cache on the die")


class GemmLayout(Sourced):
    """How matrix products take their operands."""

    transposed: bool = Field(
        description="Whether fp8 operands with one scale a tensor are kept transposed too, to be read the other way"
    )


class Power(Sourced):
    """Electrical power."""

    max: Watts = Field(description="Sustained maximum")


class HeldAgainst(Document):
    """Published training runs that predictions for a part were compared with."""

    runs: Measurements = Field(description="Runs of it that are modelled, whether they were fitted or not")
    median: Share = Field(description="Median of |predicted / measured − 1|")
    date: str = Field(description="Month of the comparison", examples=['"2026-11"'], pattern=r"^\d{4}-\d\d$")


class DefaultNode(Document):
    """A node that stands for an accelerator's own."""

    node: Name = Field(description="Node whose links and network it has")
    fabric: Name | None = optional("Links inside the node; those of the node if left out")


class UsualOffer(Document):
    """The lowest offer on demand, whose price is assumed for nodes without a price of their own."""

    node: Name = Field(description="Node of the cloud with the lowest price on demand for the accelerator")
    low: Rent | None = optional("Lowest price on demand of other nodes; left out, none has one")
    high: Rent | None = optional("Highest price on demand of other nodes")

    @property
    def others(self) -> tuple[float, float] | None:
        """The lowest and highest price of comparable nodes, if both are stated."""
        return None if self.low is None or self.high is None else (float(self.low), float(self.high))


class Accelerator(Document):
    """One GPU, TPU chip or other device, as its datasheet describes it."""

    schema_: Literal["costmodel/accelerator/v1"] = Field(
        alias="schema", description="Kind and version of this document"
    )
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="Full name")
    vendor: str = Field(description="Maker")
    family: Name = Field(description="Architecture, for example hopper")
    year: Count | None = optional("Year of introduction")
    memory: Memory = Field(description="Device memory")
    peak: Peak = Field(description="Dense peak rates")
    chip: ChipLimits | None = optional("Inside the part")
    operands: GemmLayout | None = optional("How matrix products take their operands")
    power: Power | None = optional("Electrical power")
    best_matmul: dict[str, FlopRate] = keyed("Best matmul rate measured over many shapes")
    efficiency: Name | None = optional("Efficiency document to use; the one of the same name if left out")
    held_against: HeldAgainst | None = optional("Runs of it; left out, none")
    found_in: DefaultNode | None = optional("Node that stands for its own where a table of measured runs names none")
    offer: UsualOffer | None = optional("Offer whose price is assumed where a node has none; left out, none is assumed")
    sources: dict[str, Source] = keyed("Sources by key")

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        """Checks that no measured matmul rate exceeds the peak rate of its type."""
        for name, best in self.best_matmul.items():
            if best > (peak := getattr(self.peak, name, None) or math.inf):
                keys = f"best_matmul.{name}", f"peak.{name}"
                words = {"name": name, "best": show(best, "FLOP/s"), "peak": show(peak, "FLOP/s"), "keys": keys}
                sentence = "best_matmul.{name}, {best}, is more than peak.{name}, {peak}"
                raise PydanticCustomError("best_above_peak", sentence, words)
        return self


class Fabric(Sourced):
    """A link technology: what one port or one accelerator's set of links carries, one way."""

    schema_: Literal["costmodel/fabric/v1"] = Field(alias="schema", description="Kind and version of this document")
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="Full name")
    kind: Literal["scale-up", "host", "scale-out"] = Field(
        description="Inside a node or domain, to the host, or between nodes"
    )
    bandwidth: PortRate = Field(description="One way: of a port between nodes, else of all links of an accelerator")
    copies: Rate | None = optional("What large copies to or from the host reach, measured")
    latency: Seconds | None = optional(
        "Of the wire and switch, one hop; a collective's is fitted; for the reader alone"
    )
    reduces: bool = off("Whether its switches can add up: NVLS in a domain, SHARP between nodes")
    efficiency: Name | None = optional("Efficiency document to use; the one of the same name if left out")
    sources: dict[str, Source] = keyed("Sources by key")


AcceleratorReference = Annotated[
    Annotated[str, Tag("name")] | Annotated[Accelerator, Tag("inline")], Discriminator(as_written)
]
FabricReference = Annotated[Annotated[str, Tag("name")] | Annotated[Fabric, Tag("inline")], Discriminator(as_written)]


class ScaleUp(Sourced):
    """How the accelerators of a node, or of a larger domain, reach each other."""

    fabric: FabricReference = Field(description="Link technology")
    domain: Gpus = Field(description="Accelerators that reach each other without leaving the fabric")
    accelerators: Gpus | None = optional(
        "Accelerators of a node that the domain counts; those it is built with if left out"
    )
    topology: Literal["switch", "mesh", "pairs", "torus", "none"] = Field(
        default="switch", description="switch: any pair has the full rate; otherwise a pair has one link"
    )
    pair_bandwidth: Rate | None = optional("What one pair gets where there is no switch, one way")


class ScaleOut(Sourced):
    """The network interfaces of one node that carry training traffic."""

    fabric: FabricReference = Field(description="Network technology")
    nics: Interfaces = Field(description="Interfaces in the node")
    accelerators: Gpus | None = optional("Accelerators that share them; those the node is built with if left out")
    on_chip: bool = off("Whether the interfaces are part of the accelerators, not behind their host links")


class Ownership(Document):
    """What a node costs that is bought: its price over the hours in which it works, and the energy of these."""

    capital: Money = Field(description="Of the whole node, with its share of the network")
    life: Annotated[float, Quantity("s", shown="1825 days")] = Field(description="Time for which it is used")
    resale: Money = Field(default=0.0, description="What the whole node is sold for after that time; default: nothing")
    utilisation: Annotated[float, Quantity("1", LEAST_FACTOR, 1)] = Field(
        description="Share of that time in which it works"
    )
    tariff: EnergyPrice = Field(description="Price of electricity")
    pue: Multiple = Field(description="Power of the data centre over that of its nodes")


class ListPrice(Sourced):
    """A price seen on a date; prices vary several times over for the same part."""

    per: Literal["node", "accelerator"] = Field(
        default="node",
        description="node: rented whole, however few of its accelerators a job uses; accelerator: rented one by one",
    )
    in_part: bool = off("Whether the seller rents part of a node; without that a whole node is billed")
    hourly: Rent | None = optional(
        "Of what is rented: 98.32 USD/h of the whole node, 6 USD/GPU/h of an accelerator; none if bought"
    )
    bought: Ownership | None = optional("What the node costs to own; then hourly is left out")
    sold: Sold = Field(
        default="on demand",
        description="By the hour at any time, reserved ahead for a stretch of days, under a contract for months or "
        "years, on spot, which can be interrupted, or bought",
    )
    term: Annotated[float, Quantity("s", shown="365 days")] | None = optional(
        "Shortest time for which it is rented or bought, e.g. 1095 days; default: 30 days reserved, a year bought"
    )
    region: str | None = optional("Region of the cloud that the price is of")
    date: str = Field(description="Date seen")

    @model_validator(mode="before")
    @classmethod
    def _of_what_is_rented(cls, given: Any) -> Any:
        """Checks that the unit of the price agrees with `per`."""
        per, hourly = (given.get("per", "node"), given.get("hourly")) if isinstance(given, dict) else ("", None)
        stated = rented(hourly) if isinstance(hourly, str) else ""
        if stated and stated != per:
            sentence = "a price for each {named} does not fit per: {per}; write per: {named}, or another unit"
            raise PydanticCustomError("price_per", sentence, {"named": stated, "per": per})
        return given

    @model_validator(mode="after")
    def _rented_or_bought(self) -> Self:
        """Checks that a price is either hourly or a purchase, and that its parts agree."""
        is_owned = self.bought is not None
        if is_owned == (self.hourly is not None) or is_owned != (self.sold == "purchase"):
            sentence = "a price is either hourly, or sold: purchase with what is bought"
            raise PydanticCustomError("limit", sentence, {"keys": ("hourly", "bought")})
        if is_owned and self.bought is not None and self.bought.resale > self.bought.capital:
            raise PydanticCustomError("limit", "a resale is below the capital", {"keys": ("bought",)})
        if is_owned and self.per != "node":
            raise PydanticCustomError("limit", "what is bought is the whole node; leave per out", {"keys": ("per",)})
        return self


class HostMemory(Sourced):
    """The memory of a node's processors."""

    capacity: NodeCapacity = Field(description="Of the whole node")
    bandwidth: NodeRate = Field(description="Datasheet bandwidth of all channels, read and write together")
    cores: Count | None = optional("Cores of all processors; left out, they bound no update")


class HostStorage(Sourced):
    """Local drives of a node that training may use as memory."""

    capacity: NodeCapacity = Field(description="Of the whole node")
    read: NodeRate = Field(description="Sequential reads of all drives together")
    write: NodeRate = Field(description="Sequential writes of all drives together")


class Node(Document):
    """One server, or one tray of a rack-scale domain."""

    schema_: Literal["costmodel/node/v1"] = Field(alias="schema", description="Kind and version of this document")
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="Full name")
    provider: str = Field(description="Maker or cloud")
    accelerator: AcceleratorReference = Field(description="What computes")
    accelerators: Gpus = Field(description="How many in the node; a job uses them all")
    built_with: Gpus | None = optional(
        "How many the node is built with, where a job uses fewer: domain and interfaces are of so many; "
        "those in use share the host's memory, its drives and the price of the node"
    )
    scale_up: ScaleUp = Field(description="Links inside the node or domain")
    scale_out: ScaleOut = Field(description="Links between nodes")
    host: FabricReference | None = optional("Link of an accelerator to its host")
    memory: HostMemory | None = optional("Memory of the processors; wanted by offload")
    drives: HostStorage | None = optional("Local drives; wanted by offload to nvme")
    power: Power | None = optional("Of the whole node; for the reader alone")
    price: ListPrice | None = optional("List price")
    sources: dict[str, Source] = keyed("Sources by key")

    @property
    def built(self) -> float:
        """The number of accelerators in the complete node."""
        return self.built_with or self.accelerators

    @property
    def list_price(self) -> ListPrice | None:
        """The list price; None if more accelerators are in use than the node has."""
        return None if self.accelerators > self.built else self.price


NodeReference = Annotated[Annotated[str, Tag("name")] | Annotated[Node, Tag("inline")], Discriminator(as_written)]


class NodeGroup(Document):
    """Nodes of one kind among others."""

    node: NodeReference = Field(description="Node, by name or written out")
    nodes: Nodes = Field(description="How many")


class Cluster(Document):
    """Equal nodes on one fabric, of full bisection bandwidth unless a pod is given."""

    node: NodeReference = Field(description="Node, by name or written out; of groups the first")
    nodes: Nodes = Field(description="How many; of groups all together")
    groups: list[NodeGroup] | None = listed("Nodes of several kinds, in the place of node and nodes")
    between: PortRate | None = optional(
        "Rate of an interface towards nodes of another group; left out, the slowest's own"
    )
    pod: Nodes | None = optional("Nodes that reach each other at full rate; absent: all")
    oversubscription: Positive = Field(
        default=1.0, description="Rate inside a pod, or of a rail, over the rate between them"
    )
    rails: Literal["none", "optimised", "forwarded"] = Field(
        default="none",
        description="optimised: interface i of each node on leaf i, other traffic over the spine; forwarded: that "
        "traffic goes through the domain to the right rail first",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_groups(cls, given: Any) -> Any:
        """Fills node and number of nodes from the groups: the first group's node and the total."""
        groups = given.get("groups") if isinstance(given, dict) else None
        if not isinstance(groups, list) or not groups or not all(isinstance(group, dict) for group in groups):
            return given
        if both := tuple(key for key in ("node", "nodes") if key in given):
            words = {"keys": (*both, "groups"), "both": " and ".join(both)}
            raise PydanticCustomError("limit", "groups stand in the place of node and nodes; leave {both} out", words)
        try:
            counts = [_NODES.validate(group.get("nodes")) for group in groups]
        except PydanticCustomError:
            counts = [Figure(1.0)]  # the group's own fault states what is wrong
        return {**given, "node": groups[0].get("node"), "nodes": float(sum(counts))}

    @model_validator(mode="after")
    def _between_groups(self) -> Self:
        if self.between is not None and self.groups is None:
            raise PydanticCustomError("limit", "between is of groups, and there are none", {"keys": ("between",)})
        return self
