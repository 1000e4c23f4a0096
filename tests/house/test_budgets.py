"""Each room has a budget of lines, and the figures of files and imports have ceilings: all of them may only fall."""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .catalogue import PACKAGE, ROOT, python_files
from .figures import Figure, figures, groups, imports, longest_chain, modules, single_importers, size

# Lines of a room: a folder of costmodel/, without the folders in it that have their own budget.
BUDGETS = {
    "costmodel": 570,  # the modules beside the folders
    "commands": 6_000,  # with words of other tools, buy, its budget alone, logs, and what each workload answers
    "documents": 6_250,  # with counts in names, of checkpoints, shapes, types and software, traces, quick validation
    "documents/schemas": 5_800,  # with what software has and holds, and references to parts that few documents have
    "equations": 8_520,  # with what a measurement shows, and money of purchases and days
    "equations/serving": 3_620,  # launches of prompts, caps, bursts, what a cache keeps, several answers, a drain
    "estimate": 8_200,  # prices of nodes, rounds, feed-forward halves, models beside the policy, bounds of bands
    "estimate/serving": 9_670,  # launches of prompts, bands of what no run had, caches, kinds of nodes, tiers, a drain
    "estimate/training": 7_800,
    "evidence": 7_700,  # with a ring all-reduce that processes of this machine run
    "exchange": 6_590,  # with results of benchmark clients and of the Trainer, their keys, traces, Nsight
    "exchange/huggingface": 4_850,
    "exchange/megatron": 2_450,  # with options whose loss is explained
    "exchange/rl": 2_300,  # verl, NeMo RL, OpenRLHF, TRL, slime and AReaL: 1,200 options; five are written
    "exchange/serving": 3_400,  # with every key of manifests, which are written too, and trees of drafts
    "exchange/training": 3_840,  # with recipes of torchtitan and values that a format writes, shipped configurations
    "explore": 19_800,  # one search; what to buy and why not less, with equations; changes that fit, rings
    "explore/serving": 4_000,  # a model on every machine, points of benchmarks, the limit that binds
    "ground": 2_150,  # with durations in a given unit
    "report": 1_600,  # with the document that all faces draw, and pictures of time and money
    "report/answers": 11_660,  # all faces of a question, views of plans, patches of documents, what buy says, rings
    "report/page": 2_100,  # pages without traces, for the page that answers while sliders move
    "report/terminal": 5_900,  # with short answers that fit a screen whatever is asked
    "server": 1_250,
}
SLACK, STEP = 300, 50  # of budgets


class Ceiling(NamedTuple):
    """The most that a figure may be, a multiple of the step; too high if further above the figure than the slack."""

    most: float
    slack: float
    step: float = 1
    target: float = 0


CEILINGS = {
    "imports, % of code lines": Ceiling(11.1, slack=0.2, step=0.1, target=7),
    "files": Ceiling(509, slack=10, target=200),
    "files under 60 lines with one importer": Ceiling(6, slack=5),
    "imports in the longest chain": Ceiling(57, slack=2, target=25),
    "import circles": Ceiling(0, slack=0),
    "modules in import circles": Ceiling(0, slack=0),
}
RAISED = "Raise this limit only in a commit whose message gives the reason"


def room_of(path: Path) -> str:
    """The room of a module."""
    folders = path.relative_to(PACKAGE).parent.parts or (PACKAGE.name,)
    inner = "/".join(folders[:2])
    return inner if inner in BUDGETS else folders[0]


def faults(found: Mapping[str, Figure], ceilings: Mapping[str, Ceiling]) -> list[str]:
    """Figures over their ceiling, with what they count, and those far below it."""
    messages = []
    for name in sorted({*found, *ceilings}):
        value, names = found.get(name, Figure(0, []))
        most, slack, step, target = ceilings.get(name, Ceiling(0, 0))
        text, rounded = f"{name}: {round(value, 2):,}", round(math.ceil(round(value / step, 6)) * step, 6)
        if value > most:
            aim = f" (target {target:,})" if target else ""
            over = f"{text}, {round(value - most, 2):,} over {most:,}{aim}. {RAISED}."
            messages.append("\n  ".join([over, *names]))
        elif value < most - slack or (most and not value):
            messages.append(f"{text}, far below {most:,}: lower that to {rounded:,}")
    return messages


def test_every_room_is_within_its_budget() -> None:
    lines: dict[str, int] = collections.Counter()
    for path in python_files(PACKAGE):
        lines[room_of(path)] += size(path).lines
    found = {room: Figure(length, []) for room, length in lines.items()}
    over = faults(found, {room: Ceiling(most, SLACK, STEP) for room, most in BUDGETS.items()})
    assert not over, "Lines of rooms:\n" + "\n".join(over)


def test_every_figure_is_below_its_ceiling() -> None:
    over = faults(figures(ROOT), CEILINGS)
    assert not over, "\n".join(over)


def test_planted_breaches_are_caught() -> None:
    values = {"over": 1300, "within": 1000, "below": 1001, "new": 10, "share": 14.31, "less": 14.05}
    ceilings = {"over": 1000, "within": 1300, "below": 1350, "gone": 50}
    shares = {"share": Ceiling(14.3, 0.2, 0.1, 7), "less": Ceiling(14.3, 0.2, 0.1, 7)}
    rooms = {name: Ceiling(most, SLACK, STEP) for name, most in ceilings.items()}
    assert faults({name: Figure(value, ["a", "b"]) for name, value in values.items()}, {**rooms, **shares}) == [
        "below: 1,001, far below 1,350: lower that to 1,050",
        "gone: 0, far below 50: lower that to 0",
        "less: 14.05, far below 14.3: lower that to 14.1",
        f"new: 10, 10 over 0. {RAISED}.\n  a\n  b",
        f"over: 1,300, 300 over 1,000. {RAISED}.\n  a\n  b",
        f"share: 14.31, 0.01 over 14.3 (target 7). {RAISED}.\n  a\n  b",
    ]


def test_late_and_type_only_imports_count(tmp_path: Path) -> None:
    files = {
        "__init__": "import costmodel.a",
        "a": '"""A.\n\nMore."""\n\n# no code\nimport costmodel.room.b\nfrom costmodel import (\n    c,\n)\n\nX = 1\n',
        "c": "def f():\n    '''F.'''\n    from costmodel.room import b\n    return b\n",
        "d": "",
        "room/__init__": "from costmodel import d as e",
        "room/b": "if TYPE_CHECKING:\n    from ..a import A\n",
    }
    (tmp_path / "costmodel/room").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / f"costmodel/{name}.py").write_text(text)
    graph = imports(tmp_path)
    a, b, c, d, room = (f"costmodel.{name}" for name in ("a", "room.b", "c", "d", "room"))
    assert graph == {a: {b, c}, b: {a}, c: {b}, d: set(), room: {d}}
    assert sorted(map(sorted, groups(graph))) == [sorted([a, b, c]), [d], [room]]
    assert sorted(longest_chain(graph)) == sorted([a, b, c])
    assert single_importers(tmp_path, graph) == [f"{a} into {b}", f"{c} into {a}", f"{d} into {room}"]
    assert size(modules(tmp_path)[a]) == (11, 5, 4)
    assert size(modules(tmp_path)[c]) == (4, 3, 1)
