"""The action for pull requests, as a runner starts its script, and the image, where there is Docker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("scenarios", "code"), [("quickstart", 0), ("quickstart nowhere", 2)])
def test_the_script_writes_a_summary_and_ends_as_check_does(scenarios: str, code: int, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    action = YAML(typ="safe").load((ROOT / ".github/actions/check/action.yml").read_text("utf-8"))
    (script,) = (step["run"] for step in action["runs"]["steps"] if step.get("id") == "check")
    assert {*action["inputs"]} == {"scenarios", "against"}
    command = tmp_path / "costmodel"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m costmodel "$@"\n')
    command.chmod(0o755)
    files = {name: str(tmp_path / name) for name in ("SUMMARY", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    stated = {"SCENARIOS": scenarios, "AGAINST": "", "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", **files}
    ran = subprocess.run(
        [bash, "-e", "-c", script], env={**os.environ, **stated}, cwd=tmp_path, timeout=1800, check=False
    )
    assert ran.returncode == code
    assert (tmp_path / "GITHUB_OUTPUT").read_text() == f"summary={files['SUMMARY']}\n"
    assert (tmp_path / "SUMMARY").read_text("utf-8").startswith("**costmodel: 1 scenario") == (code == 0)


@pytest.mark.whole
def test_the_image_needs_no_network_and_no_rights() -> None:
    docker = shutil.which("docker") or "docker"

    def ran(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([docker, *words], cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False)

    if shutil.which("docker") is None or ran("info").returncode:
        pytest.skip("Docker does not run here")
    image = ran("build", "--quiet", "--file", ".github/container/Dockerfile", ".")
    assert image.returncode == 0, image.stderr
    alone = ("run", "--rm", "--network", "none")
    assert "Next: " in ran(*alone, image.stdout.strip(), "search", "quickstart").stdout
    assert ran(*alone, "--entrypoint", "id", image.stdout.strip(), "-un").stdout.strip() == "costmodel"
