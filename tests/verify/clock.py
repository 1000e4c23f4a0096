"""A clock for pipeline schedules: every rank runs its list in order and waits for what each entry needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Action = tuple[str, int, int]  # F, I (input gradient), W (weight gradient) or B (both); stage; micro-batch
Tables = Mapping[int, Sequence[Action]]


def makespan(tables: Tables, times: Mapping[str, float]) -> float:
    """When the last rank is done; a table that waits for itself is an error."""
    last = max(stage for actions in tables.values() for _, stage, _ in actions)
    done: dict[tuple[str, int, int], float] = {}
    clocks = dict.fromkeys(tables, 0.0)
    at = dict.fromkeys(tables, 0)
    while any(at[rank] < len(actions) for rank, actions in tables.items()):
        moved = False
        for rank, actions in tables.items():
            while at[rank] < len(actions) and all(need in done for need in _needs(actions[at[rank]], last)):
                action = actions[at[rank]]
                start = max([clocks[rank], *(done[need] for need in _needs(action, last))])
                clocks[rank] = start + times[action[0]]
                done["I" if action[0] == "B" else action[0], action[1], action[2]] = clocks[rank]
                at[rank] += 1
                moved = True
        if not moved:
            raise ValueError(f"no rank can continue: {at}")
    return max(clocks.values())


def _needs(action: Action, last: int) -> list[Action]:
    kind, stage, micro_batch = action
    if kind == "F":
        return [("F", stage - 1, micro_batch)] if stage else []
    if kind == "W":
        return [("I", stage, micro_batch)]
    return [("F", stage, micro_batch), *([("I", stage + 1, micro_batch)] if stage < last else [])]


def most_in_flight(actions: Sequence[Action]) -> int:
    """Chunks of activations a rank holds at its most loaded: from a forward to the weight gradient."""
    live = most = 0
    for kind, _, _ in actions:
        live += {"F": 1, "I": 0, "W": -1, "B": -1}[kind]
        most = max(most, live)
    return most
