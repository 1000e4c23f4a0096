"""What people type leads somewhere: to an answer, or to one error that names the command or the key to type."""

from __future__ import annotations

import re
import shlex

import pytest
from conftest import Run

from costmodel.commands.command_table import COMMANDS
from costmodel.commands.help_text import _OTHER_NAMES

TRAINING, SERVICE = "llama-3-70b-512", "serve-llama-3.1-70b"
ANSWERS = {
    "help": "Usage: costmodel",
    "help search": "Usage: costmodel search",
    "list prices": "USD/GPU/h",
    "list offers": "USD/GPU/h",
    f"export {SERVICE} --to k8s": "kind: Deployment",
    f"estimate {SERVICE} --set plan.speculation={{draft:ngram,tokens:2,chance:70%}}": "drafts",
}
ERRORS = {
    "serve": "costmodel search --model llama-3.1-70b --rate 5",
    "train": "costmodel search --model",
    "allreduce": "costmodel collective all-reduce",
    "all-to-all": "costmodel collective all-to-all",
    "cost": "costmodel buy --model",
    "compare": "costmodel diff",
    f"export {TRAINING} --to k8s": "kubernetes serves; the workload of this scenario is training",
    f"estimate {TRAINING} tuning=lora": "--set workload.tuning=lora",
    f"estimate {TRAINING} tp=4 micro_batch=2": "--set plan.tp=4 --set plan.micro_batch=2",
    f"estimate {TRAINING} --set tuning=lora": "write workload.tuning",
    f"estimate {TRAINING} --price 2.5": "write '2.5 USD/GPU/h'",
    f"estimate {TRAINING} --set workload.global_batch=*0.9": "costmodel sensitivity",
    f"estimate {TRAINING} --set workload.tokens=-10%": "costmodel sensitivity",
    f"sweep {TRAINING} --over assume.price=+10%": "costmodel sensitivity",
    f"estimate {TRAINING} --set workload.global_batch={{tokens:2}}": "a number is expected here, not a mapping",
}


@pytest.mark.parametrize("line", ANSWERS)
def test_it_answers(line: str, run: Run) -> None:
    ran = run(*shlex.split(line))
    assert (ran.code, ran.err) == (0, ""), ran.err
    assert ANSWERS[line] in ran.out


@pytest.mark.parametrize("line", ERRORS)
def test_one_error_names_what_to_type(line: str, run: Run) -> None:
    ran = run(*shlex.split(line))
    assert (ran.code, ran.out) == (2, "")
    assert len(re.findall(r"(?m)^error", ran.err)) == 1
    assert ERRORS[line] in ran.err
    assert "Did you mean" not in ran.err


def test_other_names_are_no_commands_and_lead_to_one() -> None:
    names = [name for names in _OTHER_NAMES for name in names.split()]
    assert len(names) == len(set(names))
    assert not set(names) & set(COMMANDS)
    assert {line.split()[0] for line in _OTHER_NAMES.values()} <= set(COMMANDS)


def test_the_collectives_that_are_named_run(run: Run) -> None:
    for line in _OTHER_NAMES.values():
        if line.startswith("collective"):
            assert run(*shlex.split(line)).code == 0
