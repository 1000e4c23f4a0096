"""Parses any YAML to nodes with ruamel.yaml, for what plain_yaml does not support."""

from __future__ import annotations

import re
import warnings
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import YAMLError, YAMLWarning

from costmodel.documents.text.yaml_and_json import NotYaml

HOPELESS_DEPTH = 128
_BRACKETS = re.compile(rf"[\[{{]{{{HOPELESS_DEPTH}}}")
_LINE_END = re.compile(r"\r\n|\r|\n")


class _Shallow(Composer):
    """A composer that stops at deep nesting, because reading time grows with its square."""

    depth = 0

    def compose_node(self, parent: Any, index: int) -> Any:
        """Composes one node; an error if it is nested too deep."""
        if self.depth > HOPELESS_DEPTH:
            raise RecursionError
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def composed(text: str) -> Any:
    """The nodes of a YAML text; None where it is empty."""
    if _BRACKETS.search(text):  # the scanner's time grows with their square
        raise RecursionError
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _Shallow
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", YAMLWarning)  # an anchor that stands twice: anchors are refused later
        try:
            return yaml.compose(text)
        except YAMLError as error:
            raise _not_yaml(error, text) from None


def _not_yaml(error: YAMLError, text: str) -> NotYaml:
    """The problem that ruamel.yaml reports, in short, with its place."""
    lines = _LINE_END.split(text)
    opened, mark = getattr(error, "context_mark", None), getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).splitlines()[0])
    sentence = f"this is not YAML: {problem}"
    hint = ""
    if "\\t" in problem:
        hint = "YAML is indented with blanks, never with tabs"
    elif opened is not None and mark is not None and opened.line != mark.line:
        hint = f"{getattr(error, 'context', None) or 'it began'}, which starts on line {opened.line + 1}"
    if mark is None or (opened is not None and not "".join(lines[mark.line :]).strip()):
        mark = opened or mark
    if mark is not None:
        return NotYaml(sentence, hint, (mark.line, mark.column))
    if isinstance(getattr(error, "position", None), int):
        before = _LINE_END.split(text[: error.position])  # type: ignore[attr-defined]
        return NotYaml(sentence, hint, (len(before) - 1, len(before[-1])))
    return NotYaml(sentence, hint, None)
