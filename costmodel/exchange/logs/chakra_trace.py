"""Execution traces of Chakra: what the kernels of a rank take, from its protobuf files or from their JSON.

A file holds metadata and a node for each operation. Converters leave out when an operation began, so that such a trace
has the time of kernels and of communication, but neither the step nor what compute hides. With start times it has both.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from costmodel.exchange.logs.protobuf_fields import WireError, fields, messages
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record

COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7  # types of nodes in et_def.proto
_TYPES = {"COMP_NODE": COMPUTE, "COMM_SEND_NODE": SEND, "COMM_RECV_NODE": RECEIVE, "COMM_COLL_NODE": COLLECTIVE}
_ID, _NAME, _TYPE, _START, _LENGTH, _ATTRIBUTE = 1, 2, 3, 6, 7, 10  # fields of a node
_ATTRIBUTE_NAME, _BOOL, _STRING = 1, 27, 29
_MOST = 1e12  # microseconds


@record
class ChakraNode:
    """An operation: its name and type, microseconds, and whether the host runs it."""

    name: str
    type: int
    start: float
    length: float
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def on_host(self) -> bool:
        """Whether it is no kernel of a device; what does not state it is."""
        return self.attributes.get("is_cpu_op", True) not in (False, 0)

    @property
    def communicates(self) -> bool:
        """Whether it is a collective, or one side of a message."""
        return self.type in (SEND, RECEIVE, COLLECTIVE)

    @property
    def group(self) -> str:
        """The process group that communicates, by name."""
        return str(self.attributes.get("pg_name", ""))


def chakra_nodes(path: str, data: bytes) -> list[ChakraNode] | None:
    """The nodes of a trace; nothing where the bytes are no trace of Chakra.

    Raises:
        CostModelError: X001 where they begin as one and are damaged
    """
    if data.lstrip()[:1] in (b"{", b"["):
        return _of_json(data)
    try:
        metadata, *rest = messages(data)
        if not any(number == 1 or number == 2 for number, _ in fields(metadata)):
            return None
    except (WireError, ValueError):
        return None
    try:
        return [_of_message(message) for message in rest]
    except WireError as error:
        raise fail("X001", f"this trace of Chakra is damaged: {error}", Place(path), "write it again") from None


def _of_message(message: memoryview) -> ChakraNode:
    name, kind, start, length = "", 0, 0, 0
    attributes: dict[str, Any] = {}
    for number, value in fields(message):
        if isinstance(value, memoryview):
            if number == _NAME:
                name = _text(value)
            elif number == _ATTRIBUTE:
                key, found = _attribute(value)
                attributes[key] = found
        elif number == _TYPE:
            kind = value
        elif number == _START:
            start = value
        elif number == _LENGTH:
            length = value
    return ChakraNode(name, kind, _time(start), _time(length), attributes)


def _attribute(message: memoryview) -> tuple[str, Any]:
    """Name and value of an attribute; of values other than text and truth the number as it is written."""
    name = ""
    found: str | int | None = None
    for number, value in fields(message):
        if number == _ATTRIBUTE_NAME and isinstance(value, memoryview):
            name = _text(value)
        elif number == _STRING and isinstance(value, memoryview):
            found = _text(value)
        elif number == _BOOL:
            found = value != 0
        elif isinstance(value, int):
            found = value
    return name, found


def _text(value: memoryview) -> str:
    return bytes(value).decode("utf-8", "replace")


def _of_json(data: bytes) -> list[ChakraNode] | None:
    """The nodes of a text that Chakra's jsonizer wrote, or of a workload graph."""
    try:
        trees = list(_trees(data.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return None
    graph = trees[0].get("workload_graph") if len(trees) == 1 and isinstance(trees[0], dict) else None
    rows = graph if isinstance(graph, list) else trees[1:]
    found = [_of_tree(row) for row in rows if isinstance(row, dict)]
    nodes = [node for node in found if node.type]
    return nodes or None


def _trees(text: str) -> Iterator[Any]:
    """Values that stand one after the other."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        tree, at = decoder.raw_decode(text, at)
        yield tree


def _of_tree(row: Mapping[str, Any]) -> ChakraNode:
    kind = row.get("type", row.get("NodeType", 0))
    attributes = {"is_cpu_op": row["is_cpu_op"]} if "is_cpu_op" in row else {}
    listed = row.get("attr")
    for each in listed if isinstance(listed, list) else []:
        if isinstance(each, dict):
            values = [value for key, value in each.items() if key.endswith("Val")]
            attributes[str(each.get("name"))] = values[0] if values else False
    return ChakraNode(
        str(row.get("name", row.get("Name", ""))),
        _TYPES.get(kind, 0) if isinstance(kind, str) else kind if isinstance(kind, int) else 0,
        _time(row.get("startTimeMicros", 0)),
        _time(row.get("durationMicros", row.get("runtime", 0))),
        attributes,
    )


def _time(value: object) -> float:
    """A number of microseconds, as 64-bit integers stand in JSON too; zero for what is none."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if math.isfinite(value) and 0 <= value < 1e19 else 0.0
