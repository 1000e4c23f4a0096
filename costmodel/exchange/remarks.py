"""What a format does not state of a scenario, found while it is written."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

from costmodel.ground.errors import Fault, Place

_WIDTH = 80  # of a line of a comment


@dataclass
class Remarks:
    """Faults and notes about a scenario, collected while a file is written.

    faults: keys that affect the cost and that the format cannot express. notes: what the reader of the file has to add
    or check.
    """

    file: str
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def refuse(self, key: str, sentence: str, hint: str = "") -> None:
        """Records a key of the scenario that the format cannot express."""
        fault = Fault("X009", f"{key}: {sentence}", Place(self.file, path=key), hint)
        if fault not in self.faults:
            self.faults.append(fault)

    def note(self, sentence: str) -> None:
        """Records a note on something that the reader of the file has to add or check."""
        if sentence not in self.notes:
            self.notes.append(sentence)


def comment_lines(mark: str, words: str) -> list[str]:
    """A comment wrapped to the width of a terminal; longer words are not split.

    >>> comment_lines("#", "the plan " * 10)[1]
    '#   plan the plan'
    """
    return textwrap.wrap(
        words,
        _WIDTH,
        initial_indent=f"{mark} ",
        subsequent_indent=f"{mark}   ",
        break_long_words=False,
        break_on_hyphens=False,
    )
