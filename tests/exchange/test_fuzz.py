"""Hostile configurations: a document or faults with places, soon, never a crash.

The suite tries a few; `pytest tests/exchange/test_fuzz.py --fuzz 10000` tries as many as asked.
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from verify.real.config_cases import families, named, small

from costmodel.ground.errors import CostModelError
from exchange.hostile import outcome
from exchange.published import FILE, configs, model, read

ENOUGH = 60  # cases when --fuzz does not say
CONFIGS = [*configs().values(), *({**named(family), **small(family)} for family in families())]
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 0.5, 4096.5, 1e18, 1e300, 10**400, math.nan, math.inf, -math.inf, "", "8",
    "auto", "x" * 5000, "\x1b[31m", "\ud800", "[bold]", "{0}", "MM*E", [], {}, [1], [None], [[]], ["full_attention"],
    {"a": 1}, ["mamba", {}], [[["global"], 10**9]], ["x"] * 40, [1] * 40, {"model_type": "llama"}, ["LlamaForCausalLM"],
    10**6, [{"attention": {}, "ffn": 3}] * 3, [1, 2, 3] * 20_000,
]  # fmt: skip
TEXTS = [
    "\ufeff",
    "\x00",
    "\x1b",
    "\t",
    "\r\n",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "\\",
    "-",
    "1e400",
    "NaN",
    "//",
    "☃",
]


def paths(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every key and item, those of long lists only at the start."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree[:3]) if isinstance(tree, list) else ()
    for key, value in entries:
        yield (*path, key)
        yield from paths(value, (*path, key))


@st.composite
def broken_trees(draw: st.DrawFn) -> str:
    """A configuration of which some values are dropped, renamed, or replaced by hostile ones."""
    tree = copy.deepcopy(draw(st.sampled_from(CONFIGS)))
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 4]))):
        *outer, last = draw(st.sampled_from(list(paths(tree)) or [("x",)]))
        here: Any = tree
        for part in outer:
            here = here[part]
        what = draw(st.integers(0, 9))
        if what == 0 and isinstance(here, dict):
            here.pop(last, None)
        elif what == 1 and isinstance(here, dict):
            here[f"{last}_"] = here.pop(last, None)
        else:
            here[last] = copy.deepcopy(draw(st.sampled_from(VALUES) | st.integers(-9, 10**6)))
    return json.dumps(tree)


@st.composite
def broken_texts(draw: st.DrawFn) -> str:
    """The text of a configuration: cut, doubled, or with something in between."""
    text = json.dumps(draw(st.sampled_from(CONFIGS)), indent=draw(st.sampled_from([None, 1])))
    at, end = sorted(draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=2)))
    between = draw(st.sampled_from([*TEXTS, text[at:end], text[at:end] * 2, "[" * 5000, " " * 10**6, '{"a":' * 5000]))
    return text[:at] + between + text[draw(st.sampled_from([at, end])) :]


def test_hostile_configurations_end_with_a_document_or_faults(request: pytest.FixtureRequest) -> None:
    asked, found = request.config.getoption("--fuzz"), {"read": 0, "refused": 0}

    @settings(
        max_examples=asked or ENOUGH,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate] if asked else [Phase.generate, Phase.shrink],
    )
    @given(text=broken_trees() | broken_texts())
    def trial(text: str) -> None:
        def whole() -> tuple[()]:
            model(read(text))
            return ()

        found[outcome(whole, FILE)] += 1

    trial()
    assert min(found.values()) > 0


def test_a_text_of_ten_mebibytes_is_refused_at_once() -> None:
    text = json.dumps(configs()["llama-3.1-8b"])[:-1] + ', "x": "' + "y" * 10 * 2**20 + '"}'
    started = time.process_time()
    with pytest.raises(CostModelError, match="X010"):
        read(text)
    assert time.process_time() - started < 0.5
