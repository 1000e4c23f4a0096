"""The machine that the page on accelerators describes is read and answered for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs/guide/accelerators.md"
FILES = dict(re.findall(r"```yaml\n# (hardware/\S+)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))
MACHINE = ("--node", "my-node", "--gpus", "8")
NEEDED = [(name, key) for name, text in FILES.items() for key in re.findall(r"^(\w+):", text, re.MULTILINE)]


def written(folder: Path, leaving_out: tuple[str, str] = ("", "")) -> None:
    """Writes the files of the page, one of them without one of its keys."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        kept = re.sub(rf"(?m)^{leaving_out[1]}:.*\n", "", text) if name == leaving_out[0] else text
        (folder / name).write_text(kept, "utf-8")


def test_the_three_files_of_the_page_are_a_machine(run: Any, tmp_path: Path) -> None:
    written(tmp_path)
    found = run("estimate", "--model", "llama-3.1-8b", *MACHINE, "--json", cwd=tmp_path)
    answer = json.loads(found.out)
    assert answer["plans"][0]["fits"]
    assert "N005" in str(answer["notes"])
    shown = run("collective", "all-reduce", "1GB", *MACHINE, cwd=tmp_path).out
    assert "no collective was measured on my-link" in shown


@pytest.mark.parametrize(("name", "key"), [each for each in NEEDED if each[1] not in ("power", "source")])
def test_every_key_of_the_three_files_is_required(run: Any, tmp_path: Path, name: str, key: str) -> None:
    written(tmp_path, (name, key))
    assert run("collective", "all-reduce", "1GB", *MACHINE, cwd=tmp_path).code == 2
