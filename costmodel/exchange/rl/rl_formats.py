"""The formats of reinforcement learning, by the marks of their texts."""

from __future__ import annotations

from costmodel.exchange.rl import areal, nemo_rl, openrlhf, slime, trl, verl
from costmodel.exchange.rl.rl_format import RlFormat

RL_FORMATS: dict[str, RlFormat] = {
    module.TITLE: module.FORMAT for module in (verl, nemo_rl, openrlhf, slime, areal, trl)
}


def rl_format(text: str) -> str:
    """The format whose marks stand in a text; empty where none does."""
    return next((title for title, entry in RL_FORMATS.items() if entry.marks.search(text)), "")
