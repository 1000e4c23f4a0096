"""The generated pages of docs/reference are those that the program would write now."""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel.estimate.rl.rl_reason_codes import OWN as RL_REFUSALS
from costmodel.estimate.serving.predict_serving import REFUSALS as SERVING_REFUSALS
from costmodel.estimate.shared.reasons import REFUSALS, REMARKS
from costmodel.ground.equation import EQUATIONS
from costmodel.ground.errors import FAULT_CODES

from .reference import pages, write

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/reference").iterdir())


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    return pages()


@pytest.mark.parametrize("name", NAMES)
def test_page_is_fresh(name: str, written: dict[str, str]) -> None:
    assert (ROOT / name).read_text("utf-8") == written.get(name), "python -m tests.generated.reference writes it again"


def test_no_page_is_left_over(written: dict[str, str]) -> None:
    assert set(NAMES) == set(written)


def test_pages_name_what_is_asked_for(written: dict[str, str]) -> None:
    assert "| L002 | layers not divisible by pp × vpp |" in written["docs/reference/codes.md"]
    named = {**REFUSALS, **SERVING_REFUSALS, **RL_REFUSALS, **REMARKS, **FAULT_CODES}
    assert [code for code in named if f"| {code} | " not in written["docs/reference/codes.md"]] == []
    assert "\n## search\n" in written["docs/reference/commands.md"]
    assert "`h100-sxm`" in written["docs/reference/hardware.md"]
    headings = written["docs/reference/equations.md"].splitlines()
    ours = [item.name for item in EQUATIONS.values() if item.function.__module__.startswith("costmodel.equations.")]
    assert [name for name in ours if f"### {name}" not in headings] == []


def test_pages_are_written_beneath_a_folder(tmp_path: Path, written: dict[str, str]) -> None:
    write(tmp_path)
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md")} == set(written)
