"""Causes of a slow step planted in random scenarios, and which place `diagnose` gives them.

    python tests/explore/diagnose/planted.py 200

prints a table by cause. Plans are drawn from the best of a search; a planted figure is turned until the step leaves the
band; every term of the profile is known to 3 % (one standard deviation), the step to 0.5 %.
"""

from __future__ import annotations

import functools
import random
import sys
from collections import Counter
from dataclasses import dataclass, replace

from costmodel.documents.reader.load_scenario import load
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.scenario import Plan
from costmodel.estimate.shared.plan_batch import plan_to_mapping
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.estimate.training_answer.predict_training import Answer, answer
from costmodel.explore.diagnose.diagnose import Cause, Diagnosis, _value_after_change, diagnose, possible_causes
from costmodel.explore.diagnose.measured_step import (
    TERMS,
    MeasuredStep,
    PredictedTerms,
    predicted_with_value,
    terms_of_evaluation,
)
from costmodel.explore.search.search import search
from costmodel.ground.counts import SIZES

SCENARIOS: dict[str, tuple[str, ...]] = {
    "llama-3-70b-512": (),
    "gpt-3-175b-1024": (),
    "megatron-7.5b-512": (),
    "quickstart": (),
    "deepseek-v3-2048": (),
    "llama-3-70b-512 on A100": ("cluster.node=dgx-a100",),
    "llama-3-70b-512 by FSDP": ("stack=fsdp2", "cluster.nodes=32"),
    "quickstart on MI300X": ("cluster.node=hgx-mi300x",),
}
TERM_NOISE, STEP_NOISE = 0.03, 0.005


@dataclass(frozen=True)
class Trial:
    """A planted cause, and the place it got; none where nothing explains the step."""

    scenario: str
    planted: str
    place: int | None
    first: str


@functools.cache
def plans(name: str) -> tuple[ResolvedScenario, tuple[Plan, ...]]:
    """A scenario with plans that fit."""
    case = load(name.split()[0], SCENARIOS[name])
    best = search(case, 60, workers=1).best
    made = (
        Plan.model_validate({name: row.sizes[name] for name in SIZES} | plan_to_mapping(row.structure)) for row in best
    )
    return case, tuple(made)


def planted(
    draw: random.Random, case: ResolvedScenario, plan: Plan, base: PredictedTerms, cause: Cause
) -> PredictedTerms | None:
    """The step with a figure turned by a random amount."""
    if cause.way == "added":
        return base.with_added(cause.term, base.step * draw.uniform(0.05, 0.8))
    turned = draw.uniform(0.3, 1) if cause.way == "share" else draw.uniform(0.2, 4)
    return predicted_with_value(case, plan, cause.path, _value_after_change(cause, turned))


def noisy(draw: random.Random, found: PredictedTerms) -> MeasuredStep:
    """A profile of the step."""
    terms = {name: found.terms[name] * draw.lognormvariate(0, TERM_NOISE) for name in TERMS}
    return MeasuredStep(found.step * draw.lognormvariate(0, STEP_NOISE), {}, terms)


def trial(seed: int) -> tuple[Trial, Diagnosis]:
    """One random scenario with one random cause that takes its step out of the band."""
    draw = random.Random(seed)
    while True:
        name = draw.choice(list(SCENARIOS))
        case, known = plans(name)
        plan = draw.choice(known)
        asked = answer(training_inputs(replace(case, scenario=case.scenario.model_copy(update={"plan": plan}))), plan)
        base, row = terms_of_evaluation(asked.evaluation), asked.evaluation.costs.row()
        cause = draw.choice(list(possible_causes(asked, base)))
        for _ in range(4):
            found = planted(draw, case, plan, base, cause)
            if found is not None and found.step > 1.02 * row["step_time_high"]:
                given = diagnose(asked, base, noisy(draw, found))
                names = [one.cause.name for one in given.explained]
                place = names.index(cause.name) + 1 if cause.name in names else None
                return Trial(name, cause.name, place, names[0] if names else ""), given


def own(name: str) -> tuple[Answer, PredictedTerms]:
    """The first plan of a scenario and its prediction."""
    case, known = plans(name)
    asked = answer(
        training_inputs(replace(case, scenario=case.scenario.model_copy(update={"plan": known[0]}))), known[0]
    )
    return asked, terms_of_evaluation(asked.evaluation)


def main(count: int) -> None:
    """The table of so many trials."""
    trials = [trial(seed)[0] for seed in range(count)]
    total, placed = Counter(one.planted for one in trials), Counter[tuple[str, int]]()
    for one in trials:
        placed[one.planted, one.place or 0] += 1
    print(f"{'planted':<14} trials  first  second  later  not found   taken for")
    for name, all_of in sorted(total.items()):
        later = sum(count for (cause, place), count in placed.items() if cause == name and place > 2)
        others = Counter(one.first for one in trials if one.planted == name and one.place != 1)
        words = ", ".join(f"{cause} {count}" for cause, count in others.most_common(3))
        cells = placed[name, 1], placed[name, 2], later, placed[name, 0]
        print(f"{name:<14} {all_of:>6} {cells[0]:>6} {cells[1]:>7} {cells[2]:>6} {cells[3]:>10}   {words}")
    found = sum(one.place in (1, 2) for one in trials)
    print(f"{found} of {count} first or second")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
