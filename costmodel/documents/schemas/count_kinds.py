"""Counts of a document by kind: tokens, nodes and so on; a batch in tokens is converted to sequences."""

from typing import Annotated, Any

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema

from costmodel.documents.schemas.base import Quantity
from costmodel.ground.counts import kind_of
from costmodel.ground.parsing import counted_in
from costmodel.ground.units import Figure


def _count(kinds: str, low: float = 1) -> Quantity:
    return Quantity(kinds, low, whole=True)


class InTokens(Figure):
    """A number of tokens, written where sequences are expected; the sequence length converts it."""

    __slots__ = ()


class FromTokens(Figure):
    """A number of sequences that was written as a number of tokens."""

    __slots__ = ("sequence", "tokens")
    tokens: float
    sequence: float

    def __new__(cls, tokens: InTokens, sequence: float) -> "FromTokens":
        """The number of tokens, rounded to whole sequences."""
        number = float.__new__(cls, float(round(tokens / sequence)))
        number.place, number.tokens, number.sequence = tokens.place, float(tokens), float(sequence)
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        return FromTokens, (InTokens(self.tokens, self.place), self.sequence)


class _Sequences(Quantity):
    """A number of sequences, or of tokens."""

    def validate(self, value: Any) -> Figure:
        """The number, either of sequences or of tokens, as it was written."""
        if isinstance(value, FromTokens | InTokens):
            return value
        if isinstance(value, str) and counted_in(value) == "token":
            tokens = TOKENS.validate(value)
            return InTokens(tokens, tokens.place)
        return super().validate(value)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return Quantity("sequence token", self.low, self.high, whole=True).__get_pydantic_json_schema__(schema, handler)


class _Rent(Quantity):
    """The price of a node, or of an accelerator if its unit names accelerators."""

    def validate(self, value: Any) -> Figure:
        if isinstance(value, str) and rented(value) == "accelerator":
            return Quantity("USD/GPU/s", self.low, self.high).validate(value)
        return super().validate(value)


def rented(price: str) -> str:
    """Whether a price is for a node or an accelerator, judged by its unit; empty if the unit does not name one.

    >>> rented("6.00 USD/GPU/h"), rented("98.32 USD/node/h"), rented("98.32 USD/h")
    ('accelerator', 'node', '')
    """
    kinds = {kind_of(part.strip()) for part in price.split("/")[1:]}
    return "accelerator" if "GPU" in kinds else "node" if "node" in kinds else ""


TOKENS = _count("token")
Tokens = Annotated[float, TOKENS]
Sequences = Annotated[float, _Sequences("sequence", 1, whole=True)]
Gpus = Annotated[float, _count("GPU")]
Replicas = Annotated[float, _count("replica GPU")]
Stages = Annotated[float, _count("stage GPU")]
Chunks = Annotated[float, _count("chunk")]
Nodes = Annotated[float, _count("node")]
Interfaces = Annotated[float, _count("interface")]
Cores = Annotated[float, _count("core")]
LayerCount = Annotated[float, _count("layer")]
SomeLayers = Annotated[float, _count("layer", 0)]
Heads = Annotated[float, _count("head")]
Elements = Annotated[float, _count("element")]
ExpertCount = Annotated[float, _count("expert")]
Groups = Annotated[float, _count("group")]
Modules = Annotated[float, _count("module")]
Parameters = Annotated[float, _count("parameter")]
SomeParameters = Annotated[float, Quantity("parameter", 1e-3)]
Vocabulary = Annotated[float, _count("row token")]
Operations = Annotated[float, _count("operation")]
Communicators = Annotated[float, _count("communicator")]
Measurements = Annotated[float, _count("measurement")]
Rows = Annotated[float, Quantity("row")]
PortRate = Annotated[float, Quantity("B/GPU/interface/s", 1, 1e15)]
NodeRate = Annotated[float, Quantity("B/node/s", 1)]
NodeFlopRate = Annotated[float, Quantity("FLOP/node/s", 1)]
NodeCapacity = Annotated[float, Quantity("B/node", 1)]
Rent = Annotated[float, _Rent("USD/node/s", 0, 1e8 / 3600)]
