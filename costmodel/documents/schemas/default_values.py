"""Records values that no document states."""

from costmodel.ground.record import record

SAFE = 0.9  # chance that a search prefers by default


@record
class Assumption:
    """A value that is not in the scenario: its path there, the value in words, and where it is from."""

    path: str
    value: str
    origin: str


@record
class FlagQuestion:
    """What flags of the command line ask for: the words themselves, and what they leave to defaults."""

    words: tuple[str, ...] = ()
    assumed: tuple[Assumption, ...] = ()
    remarks: tuple[str, ...] = ()  # what flags replace in a scenario, and which have no effect
    safe: float | None = None  # chance to fit, or to meet all limits, that searches prefer; None: they do not ask
