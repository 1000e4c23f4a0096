"""Records values that no document states."""

from costmodel.ground.record import record

SAFE = 0.9  # chance that a search prefers by default
USUAL_LOAD: dict[str, tuple[int, str]] = {  # of a service, with the reason and the flag of each
    "workload.prompt": (2048, "default; --prompt sets it"),
    "workload.output": (512, "default; --answer sets it"),
    "workload.concurrency": (1, "one request at a time; --rate or --concurrency sets the load"),
}


@record
class Assumption:
    """A value that the scenario does not state: its path, the value in words, and its origin.

    short: the value in a short answer, if it differs
    """

    path: str
    value: str
    origin: str
    short: str = ""


@record
class FlagQuestion:
    """A question asked by command-line flags: the words of the command, and the values assumed for it."""

    words: tuple[str, ...] = ()
    assumed: tuple[Assumption, ...] = ()
    remarks: tuple[str, ...] = ()  # what flags replace in a scenario, and which have no effect
    safe: float | None = None  # chance to fit, or to meet all limits, that searches prefer; None: they do not ask
