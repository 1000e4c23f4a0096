"""Colours of the page and its figures: those of Okabe and Ito, which people with any colour vision can distinguish.

No colour carries a meaning alone: every mark has its label beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

# name: on white, on black
COLOURS = {
    "blue": ("#0072b2", "#4aa8e0"),
    "sky": ("#56b4e9", "#8fd0f5"),
    "green": ("#009e73", "#35c49c"),
    "orange": ("#d98200", "#f0b24a"),
    "red": ("#d55e00", "#f5874f"),
    "pink": ("#b8578f", "#e29cc6"),
    "grey": ("#8b929b", "#7d848d"),
    "pale": ("#c9ced6", "#4a5058"),
    "sand": ("#a89000", "#e6d84a"),
    "rust": ("#b34e00", "#f5874f"),
    "moss": ("#00765a", "#35c49c"),
}
ROLES = {
    "ideal": "green",
    "total": "blue",
    "matmul": "blue",
    "attention": "sky",
    "kernels": "blue",
    "recomputed": "pink",
    "memory_bound": "orange",
    "launch": "sand",
    "network": "red",
    "raw": "pale",
    "bubble": "grey",
    "optimizer": "pink",
    "offload": "sand",
    "forward": "blue",
    "backward": "rust",
    "weight": "moss",
    "weights": "blue",
    "gradients": "sky",
    "activations": "orange",
    "buffers": "sand",
    "runtime": "grey",
    "other": "pink",
    "first": "blue",
    "second": "orange",
    "third": "green",
    "fourth": "pink",
    "quiet": "pale",
    "lower": "blue",
    "higher": "orange",
    "bad": "red",
    "good": "green",
}
INK = {"ink": ("#1b1f24", "#e8eaed"), "soft": ("#59616b", "#a3abb5"), "line": ("#d9dde2", "#3a4048")}
_PAPER = ("#ffffff", "#16191d")


def figure_rules(side: int, scope: str = "") -> str:
    """Rules of style for figures, for the light side or the dark one."""
    return "".join(f"{scope}{rule}\n" for rule in _rules(side))


def _rules(side: int) -> Iterator[str]:
    ink, soft, line = (INK[name][side] for name in ("ink", "soft", "line"))
    yield f".label{{fill:{ink}}}"
    yield f".soft{{fill:{soft}}}"
    yield f".strong{{fill:{ink};font-weight:600}}"
    yield f".grid{{stroke:{line};stroke-width:1}}"
    yield f".axis{{stroke:{soft};stroke-width:1}}"
    yield f".in{{fill:{('#ffffff', '#111111')[side]}}}"
    yield f".limit{{stroke:{COLOURS['red'][side]};stroke-width:2;stroke-dasharray:5 3}}"
    for role, name in ROLES.items():
        colour = COLOURS[name][side]
        yield f".f-{role}{{fill:{colour}}}"
        yield f".s-{role}{{stroke:{colour};fill:none;stroke-width:2}}"
        yield f".a-{role}{{fill:{colour};fill-opacity:.22}}"


def page_colours(side: int) -> str:
    """Variables of style of the page."""
    named = {name: pair[side] for name, pair in (*INK.items(), *COLOURS.items())} | {"paper": _PAPER[side]}
    return "".join(f"--{name}:{colour};" for name, colour in named.items())
