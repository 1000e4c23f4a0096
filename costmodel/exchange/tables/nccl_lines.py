"""Lines of nccl-tests as they were printed, out of logs and web pages: without tags, times and columns in front of
them, and with the '#' that a page took for a heading.
"""

from __future__ import annotations

import re

# Of lines that are cleaned.
HEADER = re.compile(r"#\s*size\s+count\s+type\b")
STARTS = re.compile(r"#\s*(nThread\s+\d+|nccl-tests version)")
RESULT = re.compile(r"\s*\d+\s+\d+\s+[a-z]\w*\s")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_COLUMNS = re.compile(r"\bsize\s+count\s+type\b")
_RUNS = re.compile(r"([\w.]+)|(\s+)|([^\w.\s]+)")
_COMMENTS = re.compile(
    r"(nThread\s+\d+|nccl-tests version|Using devices|Rank\s+\d+\s.*\bdevice\s+\d+|size\s+count\s+type\b"
    r"|\(B\)\s+\(elements\)|out-of-place\s+in-place|Out of bounds values|Avg bus bandwidth|Collective test concluded)"
)
_MOST_FRONTS = 16  # of one text


def is_header(line: str) -> bool:
    """Whether the columns are named in a line, whatever stands in front of them."""
    return bool(_COLUMNS.search(line))


def cleaned(lines: list[str]) -> list[str]:
    """As many lines, each as nccl-tests printed it."""
    plain = [_ESCAPES.sub("", line) for line in lines]
    fronts = dict.fromkeys(_alike(front) for line in plain if (front := _front(line)))
    patterns = [re.compile(front) for front in list(fronts)[:_MOST_FRONTS]]
    return [_commented(_behind(line, patterns)) for line in plain]


def _front(line: str) -> str:
    """What stands in front of the names of the columns, and of the '#' before them."""
    found = _COLUMNS.search(line)
    return line[: found.start()].rstrip().removesuffix("#").strip() if found else ""


def _alike(front: str) -> str:
    """A pattern of what stands in front of other lines: the same signs between any words and figures.

    >>> bool(re.match(_alike("[1,0]<stdout>:"), "[1,7]<stdout>:   1024")), bool(re.match(_alike("0:"), "1024  256"))
    (True, False)
    """
    runs = _RUNS.findall(front)
    return r"\s*" + "".join(r"[\w.]+" if word else r"\s+" if blank else re.escape(signs) for word, blank, signs in runs)


def _behind(line: str, patterns: list[re.Pattern[str]]) -> str:
    """A line without the longest of the fronts that it begins with."""
    ends = [found.end() for pattern in patterns if (found := pattern.match(line))]
    return line[max(ends, default=0) :]


def _commented(line: str) -> str:
    """A line that nccl-tests begins with '#', with it."""
    bare = line.lstrip()
    return bare if bare.startswith("#") else f"# {bare}" if _COMMENTS.match(bare) else line
