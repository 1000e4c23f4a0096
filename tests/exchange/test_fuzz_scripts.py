"""Hostile scripts: a part of a scenario or faults with places, soon, never a crash, and nothing runs.

The suite tries a few; `pytest tests/exchange/test_fuzz_scripts.py --fuzz 10000` tries as many as asked.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from costmodel.exchange.megatron.options import READ
from exchange.hostile import outcome
from exchange.megatron.test_megatron_arguments import REAL, printed

from .scripts import DEEPSEEK, FILE, LINE_70B, LLAMA_8B, MIXTRAL, PLAIN, read

ENOUGH = 60  # cases when --fuzz does not say
YAML = "MODEL_ARGS:\n" + "".join(
    f"  --{part.split()[0]}: {' '.join(part.split()[1:]) or 'true'}\n" for part in PLAIN.split("--") if part.strip()
)
SCRIPTS = [LLAMA_8B, MIXTRAL, DEEPSEEK, LINE_70B, PLAIN, YAML, printed(REAL["cases"][0])]
WORDS = [
    "0", "-1", "1", "3", "1e400", "NaN", "inf", "9" * 50, "x" * 5000, "None", "true", "''", '""', "$(id)", "`id`", "$X",
    "${X:-4}", "$((2**99))", "$((1/0))", "[0]*3", "[[0]*9999]*9999", "__import__('os')", "()", "(", ")", "{", "}", "[",
    ";", "&&", "|", "\\", "'", '"', "\x00", "\x1b[31m", "\ud800", "☃", "\ufeff", "\t", "\r\n", "\n", "<<EOF\n", "#",
    "torch.float32", "[1, 2, 3]", "(127, 0)", "E|t*9|L", "(t*9999)*9999", "M*-E/M", "...........", ": ", "&a *a", "=",
    "if", "then", "fi", "for x in y; do", "done", "A=(", "A+=(", "${A[@]}", "$@", "$#", "eval", "bash -c",
]  # fmt: skip


@st.composite
def broken(draw: st.DrawFn) -> str:
    """A script of which some words are replaced, dropped, doubled, or parted by hostile ones."""
    words = re.findall(r"\s+|\S+", draw(st.sampled_from(SCRIPTS)))
    options = st.sampled_from([f"--{name}" for name in READ])
    for _ in range(draw(st.sampled_from([1, 1, 2, 4, 8]))):
        at = draw(st.integers(0, len(words) - 1))
        what = draw(st.integers(0, 5))
        if what == 0:
            words[at : at + draw(st.integers(1, 9))] = []
        elif what == 1:
            words[at:at] = words[at : at + 20] * draw(st.sampled_from([1, 2, 50]))
        elif what == 2:
            words[at:at] = [" ", draw(options), " ", draw(st.sampled_from(WORDS)), " "]
        elif what == 3:
            words[at:at] = [draw(st.sampled_from(WORDS))]
        else:
            words[at] = draw(st.sampled_from(WORDS))
        words = words or [" "]
    return "".join(words)


def test_hostile_scripts_end_with_a_part_of_a_scenario_or_faults(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, found = request.config.getoption("--fuzz"), {"read": 0, "refused": 0}
    for name in ("os.system", "subprocess.Popen", "os.popen"):
        monkeypatch.setattr(name, _never)

    @settings(
        max_examples=asked or ENOUGH,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate] if asked else [Phase.generate, Phase.shrink],
    )
    @given(text=broken(), world=st.sampled_from([None, 8, 32, 4096]))
    def trial(text: str, world: int | None) -> None:
        found[outcome(lambda: read(text, world, 32_000).missing, FILE)] += 1

    trial()
    assert min(found.values()) > 0


def _never(*_: object, **__: object) -> None:
    raise AssertionError("something ran")
