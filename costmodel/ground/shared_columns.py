"""Columns that store a shared figure once for all plans that have it in common.

Most figures of a plan depend on only a few of its sizes. Parameters depend on the sharding of a layer, process groups
also on the stages, the time of a layer on the sharding and the micro-batch. A `Factored` column stores one value for
each distinct combination. Where two columns meet, both are expanded to the sizes that they depend on together.
Equations do not notice: they read the column like an array with one value per plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

# What a figure depends on, so that of two figures together it is `one | other`: tp, cp, ep and etp cut a layer; dp and
# pp with them place its stages; vpp with those makes a layout; and each of them may come with a micro-batch.
CUT, STAGE, LAYOUT, BATCH = 0, 1, 3, 4

Places = NDArray[np.intp]
Values = NDArray[Any]
Operator = Callable[[Any, Any], Any]


class Plans:
    """The plans of a batch, and for each level the distinct combination of sizes that every plan has.

    The levels are sharding, stages and layout, each also with the micro-batch. At `finest` every plan has a separate
    value.
    """

    def __init__(self, of_plan: dict[int, Places], finest: int) -> None:
        self.finest = finest
        self._of_plan = of_plan
        self._places: dict[tuple[int, int], Places] = {}

    def __len__(self) -> int:
        return len(self._of_plan[CUT])

    def places(self, level: int, finer: int) -> Places:
        """For each combination at a finer level, the index of its combination at a coarser level."""
        known = self._places.get((level, finer))
        if known is None:
            known = self._of_plan[level] if finer == self.finest else self._of_plan[level][self.examples(finer)]
            self._places[level, finer] = known
        return known

    def examples(self, level: int) -> Places:
        """One example plan for each combination at a level."""
        if level == self.finest:
            return np.arange(len(self))
        which = self._of_plan[level]
        plans = np.empty(which.max() + 1, dtype=np.intp)
        plans[which] = np.arange(len(which))
        return plans


def _operator(ufunc: np.ufunc) -> tuple[Operator, Operator]:
    """A binary operator and its reflection, which avoid the slower array protocol."""

    def forward(self: Factored, other: Any) -> Factored:
        """The result of the operator on the shared values alone, or on whole columns if they share nothing."""
        if type(other) is Factored:
            level = self.level | other.level
            return Factored(ufunc(self.at(level), other.at(level)), level, self.plans)
        if isinstance(other, float):  # as NumPy's own loops take it at once, which figures are not
            return Factored(ufunc(self.values, float(other)), self.level, self.plans)
        return _joined_by(ufunc, self, other)

    def backward(self: Factored, other: Any) -> Factored:
        if isinstance(other, float):
            return Factored(ufunc(float(other), self.values), self.level, self.plans)
        return _joined_by(ufunc, other, self)

    return forward, backward


class Factored(np.lib.mixins.NDArrayOperatorsMixin):
    """One figure of every plan, stored once for plans that share it; usable as an array with one value per plan.

    Example: 1,000 plans have 4 distinct shardings. The parameters of a layer are `Factored(values, CUT, plans)` with 4
    values. The time of a layer also depends on the micro-batch, so it is stored at the level `CUT | BATCH`, perhaps
    with 24 values. `parameters * time` expands the 4 values to 24, multiplies, and gives a `Factored` of 24 values.
    `np.asarray(...)` gives all 1,000.
    """

    __slots__ = ("_finer", "level", "plans", "values")

    def __init__(self, values: Values, level: int, plans: Plans) -> None:
        self.values, self.level, self.plans = values, level, plans
        self._finer: dict[int, Values] | None = None

    def at(self, level: int) -> Values:
        """The values at a finer level."""
        if level == self.level:
            return self.values
        if self._finer is None:
            self._finer = {}
        values = self._finer.get(level)
        if values is None:
            values = self._finer[level] = self.values.take(self.plans.places(self.level, level))
        return values

    __add__, __radd__ = _operator(np.add)
    __sub__, __rsub__ = _operator(np.subtract)
    __mul__, __rmul__ = _operator(np.multiply)
    __truediv__, __rtruediv__ = _operator(np.divide)
    __lt__, __gt__ = _operator(np.less)[0], _operator(np.greater)[0]
    __le__, __ge__ = _operator(np.less_equal)[0], _operator(np.greater_equal)[0]

    def __pow__(self, power: Any) -> Factored:
        """Squares and roots are taken as arrays do, in half the time of `np.power`."""
        if isinstance(power, int | float):
            return Factored(self.values**power, self.level, self.plans)
        return _joined_by(np.power, self, power)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            return getattr(ufunc, method)(*map(_one_per_plan, inputs), **kwargs)
        return _joined_by(ufunc, *inputs) if len(inputs) == 2 else Factored(ufunc(self.values), self.level, self.plans)

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.where and len(args) == 3:
            return _choose_where(*args)
        if function in (np.all, np.any):
            return function(self.values)
        return function(*_unshared(args), **_unshared(kwargs))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        return np.array(_one_per_plan(self), dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.plans)

    def __bool__(self) -> bool:
        return bool(_one_per_plan(self))

    def __getitem__(self, places: Any) -> Any:
        finest = self.plans.finest
        return self.values[places if self.level == finest else self.plans.places(self.level, finest)[places]]


def _joined_by(ufunc: np.ufunc, one: Any, other: Any) -> Factored:
    """Applies a function to two figures at the level on which both depend."""
    if type(other) is not Factored:
        level = _level(other, one.plans) | one.level
        return Factored(ufunc(one.at(level), other), level, one.plans)
    if type(one) is not Factored:
        level = _level(one, other.plans) | other.level
        return Factored(ufunc(one, other.at(level)), level, other.plans)
    level = one.level | other.level
    return Factored(ufunc(one.at(level), other.at(level)), level, one.plans)


def _choose_where(condition: Any, one: Any, other: Any) -> Factored:
    """`np.where` at the level on which all three arguments depend."""
    items = (condition, one, other)
    plans = next(item.plans for item in items if type(item) is Factored)
    level = _level(condition, plans) | _level(one, plans) | _level(other, plans)
    values = [item.at(level) if type(item) is Factored else item for item in items]
    return Factored(np.where(*values), level, plans)


def _level(item: Any, plans: Plans) -> int:
    """The level of a figure; a plain array has one value per plan."""
    if type(item) is Factored:
        return item.level
    return plans.finest if isinstance(item, np.ndarray) and item.size > 1 else CUT


def _one_per_plan(item: Any) -> Any:
    return item.at(item.plans.finest) if type(item) is Factored else item


def _unshared(item: Any) -> Any:
    """Replaces shared columns in a list, tuple or mapping by plain arrays."""
    if isinstance(item, list | tuple):
        return type(item)(map(_unshared, item))
    return {name: _unshared(inner) for name, inner in item.items()} if isinstance(item, dict) else _one_per_plan(item)
