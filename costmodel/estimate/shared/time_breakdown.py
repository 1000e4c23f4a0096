"""Seconds of one micro-batch, forward and backward, by category."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from costmodel.equations.parallelism.recompute import mixed
from costmodel.ground.equation import Number, known_as, term
from costmodel.ground.record import record


@record
class TimeByCategory:
    """Seconds of one micro-batch in one direction, by category."""

    matmul: Number = 0.0
    attention: Number = 0.0
    memory_bound: Number = 0.0
    launch: Number = 0.0
    tp: Number = 0.0
    cp: Number = 0.0
    ep: Number = 0.0
    dp: Number = 0.0

    def __add__(self, other: TimeByCategory) -> TimeByCategory:
        return TimeByCategory(*(summed(getattr(self, name), getattr(other, name)) for name in PASS_TERMS))

    def each(self, change: Callable[[Number], Number]) -> TimeByCategory:
        """Apply a function to every category."""
        return TimeByCategory(*(_labelled(name, change, getattr(self, name)) for name in PASS_TERMS))

    def computing(self, slowdown: Number) -> TimeByCategory:
        """The times with compute multiplied by a slowdown."""
        names = ("matmul", "attention", "memory_bound")
        longer = {name: _labelled(name, lambda time: slowdown * time, getattr(self, name)) for name in names}
        return replace(self, **longer)

    @functools.cached_property
    def device(self) -> Number:
        """Time of compute on the device."""
        return summed(self.matmul, self.attention, self.memory_bound)

    @functools.cached_property
    def total(self) -> Number:
        """The sum of all categories."""
        return summed(self.device, self.launch, self.tp, self.cp, self.ep, self.dp)


def nothing(value: Number) -> bool:
    """Whether a category was never set; arithmetic on unset columns is skipped to save time."""
    return isinstance(value, float) and value == 0


def summed(first: Number, *others: Number) -> Number:
    """The sum of the categories that were set."""
    total = first
    for other in others:
        if not (isinstance(other, float) and other == 0):
            total = other if isinstance(total, float) and total == 0 else total + other
    return total


def largest(first: Number, *others: Number) -> Number:
    """The largest of several values."""
    for other in others:
        first = np.maximum(first, other)
    return first


def added(parts: Mapping[str, Number], names: Sequence[str]) -> Number:
    """The sum of the named parts; the trace shows each by its name."""
    return summed(*(known_as(name, parts[name]) for name in names))


def _labelled(label: str, change: Callable[[Number], Number], value: Number) -> Number:
    if nothing(value):
        return value
    with term(label):
        return change(value)


PASS_TERMS = tuple(field.name for field in fields(TimeByCategory))


@record
class ForwardBackward:
    """Times of the forward and the backward pass."""

    forward: TimeByCategory
    backward: TimeByCategory
    weight: TimeByCategory | None = None  # gradients of the weights, where a schedule defers them

    def __add__(self, other: ForwardBackward) -> ForwardBackward:
        weight = other.weight if self.weight is None else self.weight
        if self.weight is not None and other.weight is not None:
            weight = self.weight + other.weight
        return ForwardBackward(self.forward + other.forward, self.backward + other.backward, weight)

    @property
    def undeferred(self) -> ForwardBackward:
        """The times without separate weight gradients."""
        return ForwardBackward(self.forward, self.backward)

    @property
    def deferred(self) -> Number:
        """The part of backward that a schedule can defer."""
        return 0.0 if self.weight is None else self.weight.device

    def each(self, change: Callable[[Number], Number]) -> ForwardBackward:
        """Apply a function to every category of both passes."""
        with term("forward"):
            forward = self.forward.each(change)
        with term("backward"):
            backward = self.backward.each(change)
        with term("weight gradient"):
            weight = None if self.weight is None else self.weight.each(change)
        return ForwardBackward(forward, backward, weight)

    def computing(self, slowdown: Number) -> ForwardBackward:
        """The times with compute multiplied by a slowdown."""
        with term("forward"):
            forward = self.forward.computing(slowdown)
        with term("backward"):
            backward = self.backward.computing(slowdown)
        with term("weight gradient"):
            weight = None if self.weight is None else self.weight.computing(slowdown)
        return ForwardBackward(forward, backward, weight)

    def mixed(self, other: ForwardBackward, share: Number) -> ForwardBackward:
        """The mean of two layers, weighted by a share; the weight gradient is taken from this layer."""
        forward, backward = (
            TimeByCategory(*(mixed(share, getattr(one, name), getattr(rest, name)) for name in PASS_TERMS))
            for one, rest in ((self.forward, other.forward), (self.backward, other.backward))
        )
        return ForwardBackward(forward, backward, self.weight)

    @functools.cached_property
    def total(self) -> Number:
        """Time of forward and backward together."""
        return self.forward.total + self.backward.total
