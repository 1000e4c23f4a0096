"""The meaning of the labels that answers print: column heads, row names, and compound labels.

A label has a meaning and, where a page explains more, the word of that page.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from costmodel.documents.reader.sources import labels
from costmodel.ground.counts import SIZES

if TYPE_CHECKING:
    from collections.abc import Iterator


_GROUPS = (*SIZES, "edp", "ends")
_TRANSFER = re.compile(rf"({'|'.join(_GROUPS)}) ([a-z][a-z-]*) (time|volume)")
_STATES = re.compile(r"zero (\d), dp (\d+)")
_OUTSIDE = re.compile(r"(.+) outside its fit")
_WITH_CHANCE = re.compile(r"(.+) with a chance of [\d.]+ %")
_LEFT_OUT = re.compile(r"(\w+) left out")
_ERROR = re.compile(r"(in_sample|held_out|in_use)(?:_(median|p90|bias))?")
_SIDE = re.compile(r"(before|after)_(name|model|cluster|nodes|gpus|sequence|global_batch)")
_HIDDEN = re.compile(rf"({'|'.join(_GROUPS)}) communication that hides behind compute")
_QUALIFIED = re.compile(r"(.+?)(?: of \d+)?(?: \(.+|: .+)")  # a cause, with the part or the examples behind it
_UNIT = re.compile(r"(.+)_(?:bytes|s|usd|us)")


def meaning_of(label: str) -> tuple[str, str] | None:
    """The meaning of a label, and the word of its page."""
    label = label.casefold().strip()
    if label in labels():
        return labels()[label]
    return next(_meanings_of_compound_label(label), None)


def _meanings_of_compound_label(label: str) -> Iterator[tuple[str, str]]:
    """The meaning of a label that consists of other labels, or ends with a number."""
    if match := _TRANSFER.fullmatch(label):
        group, operation, what = match.groups()
        whole = "seconds" if what == "time" else "bytes a rank sends"
        yield f"{whole} of the {operation}s of the {group} group in a step", group
    if match := _STATES.fullmatch(label):
        yield f"all states of a rank under ZeRO stage {match[1]} over {match[2]} data-parallel ranks, in GiB", "zero"
    if match := _OUTSIDE.fullmatch(label):
        yield f"a size of {match[1]} for which its fit has no measurement, and the range that it was made on", "N054"
    if (match := _WITH_CHANCE.fullmatch(label)) and (meant := labels().get(match[1])):
        yield f"{meant[0]}; by the bands, with at least that chance", meant[1]
    if match := _HIDDEN.fullmatch(label):
        yield "of a diagnosis: the share of this communication that costs no time", f"{match[1]}_exposed"
    if (match := _QUALIFIED.fullmatch(label)) and match[1] in labels():
        yield labels()[match[1]]
    if match := _LEFT_OUT.fullmatch(label):
        yield f"errors on the runs of each {match[1]} with constants fitted without it", match[1]
    if (bare := label.rstrip("0123456789,").strip()) in labels() and label[-1:].isdigit():
        yield labels()[bare]
    if match := _SIDE.fullmatch(label):
        yield f"the {match[2]} of {'A' if match[1] == 'before' else 'B'}, the two that are compared", match[2]
    if match := _ERROR.fullmatch(label):
        meaning, see = labels()[match[2] or match[1].replace("_", " ")]
        yield f"{labels()[match[1].replace('_', ' ')][0]}: {meaning}" if match[2] else meaning, see
    if (match := _UNIT.fullmatch(label)) and (meant := labels().get(match[1])):
        yield meant
    first, _, rest = label.partition(", ")
    if rest and first in ("sustained", "network", "launch"):
        meaning, see = labels()[first]
        yield f"{meaning or 'launch overhead: host time to issue an operation'}; of {rest}", see


_PARTS = {
    "collectives": "collectives inside a scale-up domain",
    "network": "collectives between nodes",
    "matmul": "matrix products",
    "attention": "attention cores",
    "memory": "kernels bound by memory bandwidth",
    "decode": "attention of one new token",
    "experts": "fused layers of experts",
}


def fit_page(title: str) -> str:
    """The meaning of a fit's title, such as "collectives all_reduce"; empty for other words.

    >>> fit_page("collectives all_reduce")
    'times of collectives inside a scale-up domain, of all_reduce'
    """
    part, _, rest = title.partition(" ")
    return f"times of {_PARTS[part]}, of {rest}" if part in _PARTS and rest and " " not in rest else ""
