"""An engine step by step, and lines before servers: what closed forms of serving are set against.

The engine decodes every sequence in every step and fills the rest of the step's budget with prompts, first come first
served and in chunks; a step takes α + β b + γ m. Arrivals are at random, lengths equal or log-normal. Samples are
spread evenly over their law, so that what is compared is the algebra, not the luck of a draw.
"""

from __future__ import annotations

import functools
import heapq
import math
from collections import deque
from dataclasses import dataclass, field, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

LATER = 1e-9  # behind the begin of a step

Column = NDArray[np.float64]


@dataclass(frozen=True)
class Engine:
    """Constants of a step, mean lengths, the budget, the load."""

    base_time: float
    sequence_time: float
    prompt_token_time: float
    prompt: float
    output: float
    token_budget: float
    request_rate: float
    variation: float = 0.0  # of prompts; of answers too where their own is not stated
    answers: float | None = None
    gaps: float = 1.0  # variation of those between arrivals
    slots: float = math.inf  # requests that it holds at most
    samples: int = 1  # answers to each prompt
    launch_time: float = 0.0  # that the prompts of a step add to it at least
    poll: int = 1  # steps between two looks for requests
    chunked: bool = True  # whether a step takes a part of a prompt; else prompts wait for a step that holds all of them


@dataclass
class Observed:
    """What a run showed: means over its middle, or over its whole time."""

    ttft: float
    ttft_p99: float
    tpot: float
    in_flight: float
    longest_gap: float
    first_tokens: Column = field(repr=False, default_factory=lambda: np.zeros(0))
    answer: float = 0.0  # from the first token of a request to the last of its longest answer
    tokens: Column = field(repr=False, default_factory=lambda: np.zeros(0))  # time per token of each request


def evenly(random: np.random.Generator, count: int) -> Column:
    """Probabilities from 0 to 1, evenly apart, in any order: a sample whose moments are those of its law."""
    return random.permutation(_in_order(count))


def _in_order(count: int) -> Column:
    return (np.arange(count) + 0.5) / count


@functools.cache
def _normal_in_order(count: int) -> Column:
    """Standard normal numbers at those probabilities; the upper half mirrors the lower one."""
    lower = np.array([NormalDist().inv_cdf(share) for share in _in_order(count)[: (count + 1) // 2].tolist()])
    return np.concatenate([lower, -lower[: count // 2][::-1]])


def lognormal(random: np.random.Generator, mean: float, variation: float, count: int) -> Column:
    """Log-normal numbers with that mean and standard deviation over mean."""
    spread = math.sqrt(math.log1p(variation**2))
    drawn = np.exp(spread * random.permutation(_normal_in_order(count)))
    return drawn * mean / drawn.mean()


def lengths(random: np.random.Generator, mean: float, variation: float, count: int, least: int) -> list[int]:
    """Log-normal lengths of that mean, whole numbers."""
    whole: list[int] = np.maximum(np.rint(lognormal(random, mean, variation, count)), least).astype(int).tolist()
    return whole


def _within(prompts: list[int], most: int) -> list[int]:
    """The prompts with others in place of those that an engine refuses, because no step holds them."""
    fitting = [prompt for prompt in prompts if prompt <= most]
    return [prompt if prompt <= most else fitting[place % len(fitting)] for place, prompt in enumerate(prompts)]


def gaps_between(random: np.random.Generator, variation: float, count: int) -> Column:
    """Gaps between arrivals, 1 on average: all equal without variation, else by a gamma law."""
    if variation == 0:
        return np.ones(count)
    return -np.log(evenly(random, count)) if variation == 1 else random.gamma(variation**-2, variation**2, count)


def serve(engine: Engine, count: int, seed: int = 0) -> Observed:
    """Serve so many requests."""
    random = np.random.default_rng(seed)
    gaps = gaps_between(random, engine.gaps, count)
    arrivals = np.cumsum(gaps / (gaps.mean() * engine.request_rate))
    prompts = lengths(random, engine.prompt, engine.variation, count, 1)
    spread = engine.variation if engine.answers is None else engine.answers
    outputs = lengths(random, engine.output, spread, count * engine.samples, 2)
    return _Run(engine, arrivals.tolist(), prompts, outputs).observed()


def serve_after_loads(engine: Engine, part: float, turns: int, count: int, seed: int = 0) -> Observed:
    """Turn k of conversations first loads k − 1 parts of its cache over a link, first come first served."""
    random = np.random.default_rng(seed)
    gaps = -np.log(evenly(random, count))
    arrivals = np.cumsum(gaps / (gaps.mean() * engine.request_rate))
    loads, free, ready = part * random.permutation(np.arange(count) % turns), 0.0, arrivals.copy()
    for request in np.flatnonzero(loads):
        free = ready[request] = max(free, arrivals[request]) + loads[request]
    order = np.argsort(ready, kind="stable")
    late = (ready - arrivals)[order]
    run = _Run(engine, ready[order].tolist(), [round(engine.prompt)] * count, [round(engine.output)] * count)
    found, middle = run.observed(), slice(count // 10, 9 * count // 10)
    waited = found.first_tokens + late[middle]
    return replace(found, ttft=float(waited.mean()), ttft_p99=float(np.quantile(waited, 0.99)), first_tokens=waited)


def serve_prompts(engine: Engine, count: int, seed: int = 0) -> Column:
    """First tokens of so many requests that generate only that one."""
    random = np.random.default_rng(seed)
    gaps = -np.log(evenly(random, count))
    arrivals = np.cumsum(gaps / (gaps.mean() * engine.request_rate))
    prompts = lengths(random, engine.prompt, engine.variation, count, 1)
    with np.errstate(divide="ignore", invalid="ignore"):  # no second token
        return _Run(engine, arrivals.tolist(), prompts, [1] * count).observed().first_tokens


def serve_users(engine: Engine, users: int, count: int, seed: int = 0) -> Observed:
    """Serve so many requests of users who all start at once, and send the next when the last is answered."""
    random = np.random.default_rng(seed)
    prompts = lengths(random, engine.prompt, engine.variation, count, 1)
    outputs = lengths(random, engine.output, engine.variation, count, 2)
    return _Run(engine, [0.0] * users, prompts, outputs).observed()


def serve_loop(engine: Engine, users: int, count: int, seed: int = 0) -> Observed:
    """The same of users who do not start together, half of whose requests come after the next step has started."""
    random = np.random.default_rng(seed)
    prompts = lengths(random, engine.prompt, engine.variation, count, 1)
    spread = engine.variation if engine.answers is None else engine.answers
    outputs = lengths(random, engine.output, spread, count, 2)
    answer = engine.output * (engine.base_time + engine.sequence_time * users)
    starts = (answer * np.arange(users) / users).tolist()
    return _Run(engine, starts, prompts, outputs, (random.random(count) < 0.5).tolist()).observed()


def serve_capped(engine: Engine, most: int, count: int, seed: int = 0) -> Observed:
    """Requests at random at a rate, of which the client sends no more than so many before one is answered."""
    random = np.random.default_rng(seed)
    gaps = -np.log(evenly(random, count))
    planned = np.cumsum(gaps / (gaps.mean() * engine.request_rate)).tolist()
    prompts = lengths(random, engine.prompt, engine.variation, count, 1)
    spread = engine.variation if engine.answers is None else engine.answers
    outputs = lengths(random, engine.output, spread, count, 2)
    return _Run(engine, planned[:most], prompts, outputs, planned=planned).observed()


class _Run:
    def __init__(
        self,
        engine: Engine,
        arrivals: list[float],
        prompts: list[int],
        outputs: list[int],
        late: list[bool] | None = None,
        planned: list[float] | None = None,
    ) -> None:
        self.engine, self.arrivals, self.outputs = engine, arrivals, outputs
        self.left = prompts if engine.chunked else _within(prompts, int(engine.token_budget))
        self.late = late or [False] * len(outputs)
        self.planned = planned or [0.0] * len(outputs)  # before which no user sends a request
        self.first, self.last = [0.0] * len(outputs), [0.0] * len(outputs)
        self.waiting: deque[int] = deque()
        self.ends: list[tuple[int, int]] = []  # last step of each running sequence
        self.clock = self.longest = 0.0
        self.step = self.arrived = 0
        self.budget = int(engine.token_budget)
        self._serve()

    def _serve(self) -> None:
        waiting, ends, arrivals, slots = self.waiting, self.ends, self.arrivals, self.engine.slots
        while self.arrived < len(arrivals) or waiting or ends:
            while self.arrived < len(arrivals) and arrivals[self.arrived] <= self.clock:
                waiting.append(self.arrived)
                self.arrived += 1
            looks = not ends or self.step % self.engine.poll == 0
            if waiting and looks and len(ends) < slots:
                self._mixed_step()
            elif ends:
                self._decode_steps()
            else:
                self.clock = arrivals[self.arrived]

    def _advance(self, time: float, steps: int) -> None:
        self.clock += time * steps
        self.step += steps
        if self.ends:
            if time > self.longest:
                self.longest = time
            if self.ends[0][0] <= self.step:
                self._end()

    def _end(self) -> None:
        """The answers that are whole; of users each sends the next request."""
        ended, clock = [], self.clock
        while self.ends and self.ends[0][0] <= self.step:
            ended.append(heapq.heappop(self.ends)[1])
            self.last[ended[-1]] = clock
        more = len(self.outputs) // self.engine.samples - len(self.arrivals)
        if more:
            sent = sorted(clock + LATER * self.late[request] for request in ended)[:more]
            planned = self.planned[len(self.arrivals) : len(self.arrivals) + len(sent)]
            self.arrivals += map(max, sent, planned)

    def _decode_steps(self) -> None:
        """All steps alike up to the next arrival or the next end."""
        time = self.engine.base_time + self.engine.sequence_time * len(self.ends)
        steps = self.ends[0][0] - self.step
        if self.engine.poll > 1:
            steps = min(steps, self.engine.poll - self.step % self.engine.poll)
        if self.arrived < len(self.arrivals) and len(self.ends) < self.engine.slots:
            steps = min(steps, max(1, math.ceil((self.arrivals[self.arrived] - self.clock) / time)))
        self._advance(time, steps)

    def _mixed_step(self) -> None:
        engine, waiting, left, running = self.engine, self.waiting, self.left, len(self.ends)
        room, most, finished = self.budget - running, engine.slots - running, list[int]()
        carried = 0
        while waiting and room > 0 and len(finished) < most:
            request = waiting[0]
            chunk = left[request]
            if chunk > room:
                if not engine.chunked:
                    break
                chunk = room
            left[request] -= chunk
            room -= chunk
            carried += chunk
            if not left[request]:
                finished.append(waiting.popleft())
        added = max(engine.prompt_token_time * carried, engine.launch_time)
        time = engine.base_time + engine.sequence_time * running + added
        self._advance(time, 1)
        many = engine.samples
        for sequence in (request * many + own for request in finished for own in range(many)):
            self.first[sequence] = self.clock
            heapq.heappush(self.ends, (self.step + self.outputs[sequence] - 1, sequence))

    def observed(self) -> Observed:
        arrivals, outputs, first, last = map(np.array, (self.arrivals, self.outputs, self.first, self.last))
        many = self.engine.samples
        part = slice(len(arrivals) // 10, 9 * len(arrivals) // 10)
        middle = slice(part.start * many, part.stop * many)
        waited = (first[::many] - arrivals)[part]
        tpot = float(np.sum((last - first)[middle]) / np.sum((outputs - 1)[middle]))
        begin, end = arrivals[part][[0, -1]]
        decoding = float(np.sum(np.clip(last, begin, end) - np.clip(first, begin, end)))
        return Observed(
            float(waited.mean()),
            float(np.quantile(waited, 0.99)),
            tpot,
            decoding / float(end - begin),
            self.longest,
            waited,
            float(np.max((last - first).reshape(-1, many)[part], axis=1).mean()),
            ((last - first) / np.maximum(outputs - 1, 1))[middle],
        )


def single_line(utilisation: float, variation: float, count: int, seed: int = 1) -> Column:
    """Waits before one server whose service takes 1 on average."""
    random = np.random.default_rng(seed)
    gaps, services = random.exponential(1 / utilisation, count), lognormal(random, 1.0, variation, count)
    gaps *= 1 / utilisation / gaps.mean()
    ahead = np.concatenate([[0.0], np.cumsum(services[:-1] - gaps[1:])])
    return ahead - np.minimum.accumulate(ahead)


def shared_line(servers: int, utilisation: float, variation: float, count: int, seed: int = 1) -> Column:
    """Waits before several servers with one line."""
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(1 / (utilisation * servers), count)).tolist()
    services = lognormal(random, 1.0, variation, count).tolist()
    free, waits = [0.0] * servers, np.empty(count)
    for place, (arrival, service) in enumerate(zip(arrivals, services, strict=True)):
        start = max(arrival, heapq.heappop(free))
        waits[place] = start - arrival
        heapq.heappush(free, start + service)
    return waits


@dataclass
class _Held:
    """A request in a cache: tokens of its answer so far and in all, those in the cache, those given back but there."""

    output: int
    generated: int = 0
    cached: int = 0
    left: int = 0


class _FullCache:
    """A cache of single tokens. Those given back stay until others take their place, the longest free ones first."""

    def __init__(self, tokens: int) -> None:
        self.free, self.order = tokens, deque([_Held(0, left=tokens)])

    def take(self, held: _Held, tokens: int) -> None:
        self.free -= tokens
        held.cached += tokens
        while tokens:
            first = self.order[0]
            taken = min(first.left, tokens)
            first.left -= taken
            tokens -= taken
            if not first.left:
                self.order.popleft()

    def give(self, held: _Held) -> None:
        self.free += held.cached
        held.left, held.cached = held.cached, 0
        self.order.append(held)

    def again(self, held: _Held, need: int) -> int:
        """Takes the tokens of a request that begins, and returns those that nothing is left of."""
        kept = min(held.left, need - 1)
        if held.left:
            self.order.remove(held)
            self.free -= kept
            held.cached = kept
            if held.left > kept:
                self.order.append(_Held(0, left=held.left - kept))
            held.left = 0
        self.take(held, need - kept)
        return need - kept


def recomputed_in_full_cache(tokens: int, prompt: int, output: float, variation: float, count: int) -> float:
    """Tokens that a request computes again, on the mean of the middle ones: a cache of tokens, others always wait.

    Each step adds a token to all that run, oldest first; where none is free, the youngest gives its tokens back and
    waits before all others. A step without that begins requests while their prompt, or what they had, fits.
    """
    random, cache = np.random.default_rng(0), _FullCache(tokens)
    waiting = deque(_Held(length) for length in lengths(random, output, variation, count, 2))
    running: list[_Held] = []
    ended, again = 0, 0
    while ended < 3 * count // 4:
        full, place = False, 0
        while place < len(running):
            need = prompt + running[place].generated - running[place].cached
            while cache.free < need and place < len(running):
                full, youngest = True, running.pop()
                cache.give(youngest)
                waiting.appendleft(youngest)
            if place < len(running):
                cache.take(running[place], need)
            place += 1
        while waiting and not full and (need := prompt + waiting[0].generated) <= cache.free:
            running.append(waiting.popleft())
            computed = cache.again(running[-1], need)
            if running[-1].generated and ended >= count // 4:
                again += computed
        for held in running:
            held.generated += 1
        for held in (each for each in running if each.generated >= each.output):
            cache.give(held)
            ended += 1
        running = [held for held in running if held.generated < held.output]
    return again / (ended - count // 4)
