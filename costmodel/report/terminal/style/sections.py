"""One answer of several: the first in full, each further one under a title of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from rich.text import Text

from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.theme import HEAD, styled


def with_sections(first: Sequence[Line], others: Iterable[tuple[str, Sequence[Line]]]) -> list[Line]:
    """An answer, and further ones about the same question under their titles.

    A further answer has no line of its head that the first has.
    """
    known = {line.plain for line in first if isinstance(line, Text)}
    lines = [*first]
    for title, other in others:
        rest = [*itertools.dropwhile(lambda line: isinstance(line, Text) and line.plain in known, other)]
        if rest:
            lines += [Text(), styled(title, HEAD), *rest]
    return lines
