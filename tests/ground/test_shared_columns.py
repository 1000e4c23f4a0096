"""Factored columns: what is done with them is what is done with the arrays they stand for."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
import pytest
from each import each

from costmodel.ground.shared_columns import BATCH, CUT, LAYOUT, STAGE, Factored, Plans
from costmodel.ground.units import Figure

# of a dozen plans, two cuts with one and two stages, these with one and two chunks, and two micro-batches each
OF_PLAN = {
    CUT: [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1],
    STAGE: [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2],
    LAYOUT: [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5],
    BATCH: [0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3],
    STAGE | BATCH: [0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5],
}
PLAN = LAYOUT | BATCH
LEVELS = (CUT, STAGE, LAYOUT, BATCH, STAGE | BATCH, PLAN)
ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow)
pairs = each("one, other", itertools.product(LEVELS, repeat=2))


def plans() -> Plans:
    return Plans({level: np.array(which) for level, which in OF_PLAN.items()}, PLAN)


def column(level: int, of: Plans, start: float = 1.0) -> Any:
    count = 12 if level == PLAN else max(OF_PLAN[level]) + 1
    return Factored(np.arange(count) * 1.5 + start, level, of)


@pytest.mark.parametrize("level", LEVELS)
def test_it_is_an_array_as_long_as_the_plans(level: int) -> None:
    held = column(level, plans())
    whole = np.asarray(held)
    assert len(held) == len(whole) == 12
    assert list(whole) == [held.values[which] for which in OF_PLAN.get(level, range(12))]
    assert held[3] == whole[3]
    assert (held[whole > 2] == whole[whole > 2]).all()


@pairs
@pytest.mark.parametrize("does", [*ARITHMETIC, np.maximum, np.less, operator.lt, operator.ge])
def test_two_meet_at_what_they_depend_on_together(does: Any, one: int, other: int) -> None:
    of = plans()
    left, right = column(one, of), column(other, of, 0.5)
    met = does(left, right)
    assert met.level == one | other
    assert (np.asarray(met) == does(np.asarray(left), np.asarray(right))).all()


@pairs
def test_a_choice_depends_on_all_three(one: int, other: int) -> None:
    of = plans()
    left, right = column(one, of), column(other, of, 3.0)
    chosen = np.where(left > 2, right, 0.0)
    assert chosen.level == one | other
    assert (np.asarray(chosen) == np.where(np.asarray(left) > 2, np.asarray(right), 0.0)).all()


@pytest.mark.parametrize("level", LEVELS)
def test_numbers_and_plain_arrays_go_with_it(level: int) -> None:
    held, plain = column(level, plans()), np.linspace(1.0, 2.0, 12)
    whole = np.asarray(held)
    for met, expected in (
        (held + 2.0, whole + 2.0),
        (2.0 - held, 2.0 - whole),
        (np.float64(3.0) * held, 3.0 * whole),
        (1 / held, 1 / whole),
        (Figure(3.0) / held, 3.0 / whole),
        (held - Figure(0.5), whole - 0.5),
        (held**0.5, np.sqrt(whole)),
        (held**2, whole * whole),
        (Figure(2.0) <= held, whole >= 2.0),
        (-held, -whole),
        (np.sqrt(held), np.sqrt(whole)),
        (np.minimum(2.0, held), np.minimum(2.0, whole)),
        (held * np.array([2.0]), whole * 2.0),
    ):
        assert met.level == level
        assert (np.asarray(met) == expected).all()
    for met, expected in ((held + plain, whole + plain), (plain / held, plain / whole)):
        assert met.level == PLAN
        assert (np.asarray(met) == expected).all()


def test_questions_about_all_of_it_and_what_is_not_known_to_it() -> None:
    held = column(STAGE, plans())
    assert np.all(held > 0)
    assert not np.any(held > 9)
    assert (np.cumsum(held) == np.cumsum(np.asarray(held))).all()
    assert np.maximum.reduce(held) == 4.0


def test_columns_among_others_in_a_list() -> None:
    held, plain = column(STAGE, plans()), np.linspace(1.0, 2.0, 12)
    whole = np.asarray(held)
    assert (np.concatenate([held, plain]) == np.concatenate([whole, plain])).all()
    assert (np.stack((held, plain), axis=1) == np.stack((whole, plain), axis=1)).all()
    assert (
        np.select([held > 2, held > 1], [held, plain], default=0.0) == np.select([whole > 2, whole > 1], [whole, plain])
    ).all()
    assert (np.sum(a=held, axis=(0,)) == np.sum(whole)).all()


def test_many_figures_are_neither_true_nor_false() -> None:
    with pytest.raises(ValueError, match="ambiguous"):
        bool(column(CUT, plans()) > 1)
