"""What is offered for a serving plan that does not fit: what is printed is typed to the letter."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest

JOB = ("--rate", "1", "--prompt", "2000", "--answer", "300")


def typed(asked: tuple[str, ...], options: str) -> tuple[str, ...]:
    """The words of a command with options added, which take the place of the same flags."""
    flags = [word for word in shlex.split(options) if word in ("--gpu", "--gpus", "--prompt")]
    kept = list(asked)
    for flag in flags:
        if flag in kept:
            place = kept.index(flag)
            del kept[place : place + 2]
    return (*kept, *shlex.split(options))


@pytest.mark.parametrize(
    ("asked", "tries"),
    [
        (("--model", "llama-3.1-405b", "--gpu", "h100", "--gpus", "8", "--set", "plan.tp=8"),
         ("--set workload.weights=fp8", "--gpus 16 --set plan.pp=2")),
        (("--model", "mixtral-8x7b", "--gpu", "l40s", "--gpus", "8", "--set", "plan={tp: 2, ep: 2, replicas: 4}"),
         ("--set plan.tp=4 --set plan.ep=4 --set plan.replicas=2",)),
    ],
)  # fmt: skip
def test_a_plan_that_does_not_fit_has_remedies_that_fit_to_the_letter(
    asked: tuple[str, ...], tries: tuple[str, ...], run: Any
) -> None:
    out = run("estimate", *asked, *JOB).out
    for each in tries:
        assert each in out
        assert "M001" not in run("estimate", *typed((*asked, *JOB), each)).out


DEEPSEEK = ("--model", "deepseek-v3", "--prompt", "2000", "--answer", "500")


@pytest.mark.share(3)
@pytest.mark.parametrize("verb", ["memory", "estimate"])
@pytest.mark.parametrize(
    "asked",
    [
        ("--gpu", "l40s", "--gpus", "8", "--rate", "30"),  # a larger GPU alone has room, and saturates at half the load
        ("--gpu", "h100", "--gpus", "8", "--rate", "20", "--set", "plan.tp=4"),
        ("--gpu", "h100", "--gpus", "8", "--concurrency", "64"),
    ],
)
def test_what_makes_room_answers_the_load_too(verb: str, asked: tuple[str, ...], run: Any) -> None:
    """A share of commands with loads, unless --whole asks for all."""
    asked = (*DEEPSEEK, *asked)
    out = run(verb, *asked).out
    offered = re.findall(r"^    (?:try|   )  (--.*?)(?: \(or .*)?$", out, re.MULTILINE)
    assert "M001" in out
    assert offered
    for options in offered:
        assert run(verb, *typed(asked, options)).code == 0


def test_the_plan_of_a_remedy_is_the_one_that_its_command_finds(run: Any) -> None:
    """Fewer GPUs than are offered do not answer the load with the chance of a remedy, whatever the plan."""
    asked = (*DEEPSEEK, "--gpu", "h100", "--gpus", "8", "--rate", "20")
    (gpus,) = re.findall(r"try  --gpus (\d+)", run("estimate", *asked).out)
    fewer = (*asked[:-3], str(int(gpus) - 8), *asked[-2:])
    assert run("search", *fewer, "--safe", "90%").code == 1


def test_remedies_that_leave_a_limit_broken_say_so(run: Any) -> None:
    """A third of the context fits; prompts that long break the limit on the first token."""
    out = run("estimate", "serve-llama-3.1-70b", "--prompt", "1e7").out
    assert re.search(r"with these it fits, but would not meet all limits:\n +try  --prompt \d+\n", out)


def what_ifs(out: str) -> list[str]:
    """The rows of changes that were tried."""
    return out.partition("  what if   ")[2].partition("\n\n")[0].splitlines()


def test_changes_that_make_no_room_are_named_in_one_line(run: Any) -> None:
    """Half the ranks hold twice the weights each, which needs no row."""
    out = run("memory", *DEEPSEEK, "--gpu", "h100", "--gpus", "8", "--rate", "2").out
    assert what_ifs(out) == ["it does not fit with workload.cache=fp8 either"]
    helped = run("memory", "serve-llama-3.1-70b", "--set", "plan.tp=1").out
    assert [row.split(":")[0].split("--set ")[1] for row in what_ifs(helped)] == ["workload.weights=fp8", "plan.tp=2"]
    assert "plan.tp=4:" in run("memory", "serve-llama-3.1-70b").out
