"""How a reader has to end on a hostile text: soon, with what it read or with faults that a user can act on."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from costmodel.ground.errors import FAULT_CODES, CostModelError, Fault

PATIENCE = 2.0  # seconds a case may work
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def outcome(read: Callable[[], Sequence[Fault]], file: str | None = None) -> str:
    """Whether a text is read, without returned faults, or refused; faults lie in that file where one is given."""
    started = time.process_time()
    faults: Sequence[Fault]
    try:
        faults = read()
    except CostModelError as error:
        faults = error.faults
        assert faults
    assert time.process_time() - started < PATIENCE
    for fault in faults:
        assert fault.code in FAULT_CODES
        assert fault.place is not None
        assert file in (None, fault.place.file)
        assert not UNPRINTABLE.search(fault.sentence + fault.hint)
    return "refused" if faults else "read"
