"""What a step takes at so many sequences in flight: the three constants that the steady state is made of.

Everything follows from the sequences in flight b: by Little's law a step carries b s / o tokens of prompts, so that its
mean time is D(b) + γ b s / o and the rate b over o times that. A given rate is found by halving.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.equation import Number, known_as, term
from costmodel.equations.counting import divided, repeated
from costmodel.equations.economics import share
from costmodel.equations.serving.engine_collectives import pipelined_prompt_share
from costmodel.equations.serving.first_token import prompt_room
from costmodel.equations.serving.kv_cache import mean_context
from costmodel.equations.serving.steady_state import request_work, step_intercept, time_slope
from costmodel.estimate.serving.inputs import ServingInputs
from costmodel.estimate.serving.layout import Layout
from costmodel.estimate.serving.step import Batch, StepTime, step_time

FEWEST = 2.0  # sequences that the slope between one and so many is taken at, where fewer are in flight


@dataclass(frozen=True)
class OperatingPoint:
    """Steps of a replica with so many sequences in flight."""

    concurrency: Number
    decode: StepTime  # at these sequences, two at least
    mixed: StepTime  # the same with tokens of prompts beside them
    carried: Number  # tokens of prompts that the mixed step has
    room: Number  # tokens of prompts that a step has room for; of all micro-batches of a pipeline
    alpha: Number
    beta: Number
    gamma: Number  # by which a prompt token delays each user
    whole: Number  # what it takes in all stages
    work: Number

    @property
    def step(self) -> Number:
        """A step without prompts, of a linear engine: α + β b."""
        return self.alpha + repeated(self.beta, self.concurrency)


def alone(inputs: ServingInputs, layout: Layout) -> StepTime:
    """A step of one sequence, which every operating point starts from."""
    with term("one sequence"):
        return step_time(inputs, layout, _batch(inputs, np.ones(len(layout))))


def operating_point(inputs: ServingInputs, layout: Layout, concurrency: Number, one: StepTime) -> OperatingPoint:
    """Steps at so many sequences in flight."""
    load = inputs.load
    many = np.maximum(concurrency, FEWEST)
    with term("decode"):
        micro = divided(many, layout.pp)
        decode = step_time(inputs, layout, _batch(inputs, micro))
    room = repeated(layout.pp, prompt_room(layout.budget, divided(concurrency, layout.pp)))
    with term("with prompts"):
        prompts = np.maximum(divided(concurrency, load.output), 1.0)
        carried = np.maximum(np.minimum(repeated(prompts, load.computed), divided(room, layout.pp)), 1.0)
        batch = _batch(inputs, micro)
        mixed = step_time(inputs, layout, Batch(batch.decodes, batch.context, carried, share(carried, load.computed)))
    beta = time_slope(decode.total, one.total, many, 1.0)
    alpha = known_as("alpha", step_intercept(decode.total, beta, many))
    whole = divided(mixed.total - decode.total, carried)
    gamma = known_as("gamma", _of_a_token(inputs, layout, concurrency, carried, whole))
    work = request_work(known_as("beta", beta), load.output, gamma, load.computed)
    return OperatingPoint(concurrency, decode, mixed, carried, room, alpha, beta, gamma, whole, work)


def _of_a_token(inputs: ServingInputs, layout: Layout, concurrency: Number, carried: Number, whole: Number) -> Number:
    """Time by which a prompt token delays each user: all of it, but where prompts fill a pipeline's stages."""
    if np.all(layout.pp == 1):
        return whole
    with term("micro-batches with prompts"):
        tokens = divided(repeated(concurrency, inputs.load.computed), inputs.load.output)
        each = divided(divided(tokens, layout.pp), carried)
        mixed = 1.0 - np.exp(-each)  # arrivals at random
    return repeated(pipelined_prompt_share(layout.pp, mixed), whole)


def _batch(inputs: ServingInputs, decodes: Number) -> Batch:
    load = inputs.load
    return Batch(decodes, mean_context(load.prompt, load.output, load.output_spread))
