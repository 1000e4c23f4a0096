"""Nodes of parsed JSON and plain YAML, like those of ruamel.yaml, without importing it."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple


class Mark(NamedTuple):
    """A place in the text, counted from zero."""

    line: int
    column: int


class _Node:
    """The value between two places in the text."""

    __slots__ = ("end_mark", "flow_style", "start_mark", "tag", "value")
    id: ClassVar[str]
    anchor: ClassVar[None] = None  # a text with anchors is left to ruamel.yaml

    def __init__(self, tag: str, value: Any, start: Mark, end: Mark, *, flow_style: bool = False) -> None:
        self.tag, self.value, self.start_mark, self.end_mark, self.flow_style = tag, value, start, end, flow_style


class ScalarNode(_Node):
    """One value, as text."""

    __slots__ = ()
    id = "scalar"


class SequenceNode(_Node):
    """A list of nodes."""

    __slots__ = ()
    id = "sequence"


class MappingNode(_Node):
    """A list of pairs of nodes."""

    __slots__ = ()
    id = "mapping"


Node = ScalarNode | SequenceNode | MappingNode


class NotYaml(Exception):
    """A text is not YAML: the problem, a remedy, and the line and column where they are known."""

    def __init__(self, problem: str, hint: str, at: tuple[int, int] | None) -> None:
        super().__init__(problem)
        self.problem, self.hint, self.at = problem, hint, at
