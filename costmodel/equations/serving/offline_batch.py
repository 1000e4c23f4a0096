"""Offline batches and rollouts: how the batch shrinks, and when first tokens come."""

from __future__ import annotations

import numpy as np

from costmodel.equations.run.uncertainty import normal_share
from costmodel.equations.serving.service_level import normal_quantile
from costmodel.ground.counts import LengthLaw
from costmodel.ground.equation import Number, equation

EULER_MASCHERONI = 0.5772156649
ROUNDED = 1e-9  # by which a quotient of whole numbers may lie above a whole one

# --- Lengths of answers: log-normal, or those of chats.

# Answers over their mean, the mean of each twentieth: 10,000 first answers of ShareGPT (sharegpt), in tokens of tekken,
# of those that vLLM's benchmark keeps: 4 tokens or more, prompts to 1,024, both to 2,048. Mean 205, spread 1.05.
CHAT_LENGTHS = np.array(
    [
        0.028,
        0.046,
        0.063,
        0.084,
        0.112,
        0.152,
        0.209,
        0.303,
        0.432,
        0.582,
        0.762,
        0.944,
        1.109,
        1.282,
        1.461,
        1.650,
        1.879,
        2.218,
        2.758,
        3.926,
    ]
)
CHAT_SPREAD = 1.05
# Lengths that so large shares of chats exceed, as standard deviations of a normal variable, and their logarithms
_CHAT_FAR = np.flip(normal_quantile(np.concatenate([[0.0005, 0.001, 0.01], np.linspace(0.025, 0.975, 20)])))
_CHAT_LOGS = np.log(np.concatenate([CHAT_LENGTHS, [4.04, 6.76, 7.72]]))


def _chat_length(tail_share: Number) -> Number:
    """Length over the mean that a share of the answers of chats exceeds."""
    length: Number = np.exp(np.interp(normal_quantile(tail_share), _CHAT_FAR, _CHAT_LOGS))
    return length


# --- Offline batches and rollouts: all requests are there at the start, and the batch shrinks as they end.


@equation
def offline_time(
    base_time: Number,
    steps: Number,
    sequence_time: Number,
    output_tokens: Number,
    prompt_token_time: Number,
    prompt_tokens: Number,
) -> Number:
    """Time of a batch of requests, from the first step to the last: each token and each step counts once.

    α n + β T_o + γ T_s

    base_time α [s]: fixed time of a step
    steps: steps, n: the longest answer where all run together, refilled_steps where they take turns
    sequence_time β [s] · output_tokens T_o · prompt_token_time γ [s]: time each prompt token adds
    prompt_tokens T_s: prompt tokens that are computed, those of several samples of one prompt once
    → time [s]
    Source: exact
    Pitfall: the throughput of a full batch is not that of a rollout: here the fixed part of steps is 61 % of the time,
        and most steps run with a small rest of the batch
    Monotone: increasing in base_time, steps, sequence_time, output_tokens, prompt_token_time, prompt_tokens
    >>> round(offline_time(10e-3, 32000.0, 50e-6, 512 * 8000.0, 0.0, 0.0), 1)
    524.8
    """
    return base_time * steps + sequence_time * output_tokens + prompt_token_time * prompt_tokens


@equation
def refilled_steps(requests: Number, concurrency: Number, output: Number, longest: Number, shortest: Number) -> Number:
    """Steps of a batch larger than what runs at once, where each answer that ends makes room for the next.

    max(max(N − c, 0) o / c + L, ⌈N / c⌉ l): all that waits passes at full width, then the longest runs out; some place
    has ⌈N / c⌉ answers, none of which is shorter than l

    requests N: requests · concurrency c: sequences that run at once · output o: tokens of an answer, on average
    longest L: tokens of the longest of c answers · shortest l: tokens of the shortest answer
    → steps
    Source: exact; composition
    Holds: exact for answers of one length; for exponential ones by their lack of memory; a sixth too few where lengths
        differ by a tenth and the last wave is not full
    Monotone: increasing in requests, output, longest, shortest
    >>> float(refilled_steps(2048.0, 512.0, 8000.0, 32000.0, 100.0))
    56000.0
    """
    waves = np.ceil(requests / concurrency - ROUNDED)
    return np.maximum(np.maximum(requests - concurrency, 0.0) * output / concurrency + longest, waves * shortest)


@equation
def shortest_output(output: Number, variation: Number, requests: Number, *, law: LengthLaw = "log-normal") -> Number:
    """Tokens of the shortest of many answers whose lengths follow a law, as a typical batch has it.

    o e^(−σ z − σ²/2), σ² = ln(1 + v²), z what e^(−0.577) / N of a normal variable exceed; at most o; of chats the
    shortest length

    output o: tokens of an answer, on average · variation v: of the answers, standard deviation over mean
    requests N: answers · law: of the lengths
    → tokens
    Source: gumbel-1958; limpert-2001; sharegpt
    Monotone: increasing in output; decreasing in requests
    >>> round(float(shortest_output(8000.0, 0.1, 512.0)))
    5865
    """
    if law == "chat":
        return output * float(CHAT_LENGTHS[0])
    spread = np.sqrt(np.log1p(variation**2))
    far = normal_quantile(np.exp(-EULER_MASCHERONI) / requests)
    return output * np.minimum(np.exp(-spread * far - spread**2 / 2), 1.0)


@equation
def longest_output(output: Number, variation: Number, requests: Number, *, law: LengthLaw = "log-normal") -> Number:
    """Tokens of the longest of many answers whose lengths follow a law, as a typical batch has it.

    o e^(σ z − σ²/2), σ² = ln(1 + v²), z what e^(−0.577) / N of a normal variable exceed; at least o; of chats the
    length that so few exceed

    output o: tokens of an answer, on average · variation v: of the answers, standard deviation over mean
    requests N: answers · law: of the lengths
    → tokens, not cut at a limit
    Source: gumbel-1958; limpert-2001; sharegpt
    Holds: the mean of the largest logarithm; the mean of the longest itself is up to a fifth more
    Monotone: increasing in output, requests
    >>> [round(float(longest_output(8000.0, 1.0, 512.0, law=law))) for law in ("log-normal", "chat")]
    [72459, 53087]
    """
    if law == "chat":
        return output * np.maximum(_chat_length(np.exp(-EULER_MASCHERONI) / requests), 1.0)
    spread = np.sqrt(np.log1p(variation**2))
    far = normal_quantile(np.exp(-EULER_MASCHERONI) / requests)
    return output * np.maximum(np.exp(spread * far - spread**2 / 2), 1.0)


@equation
def answer_of_share(output: Number, variation: Number, tail_share: Number, *, law: LengthLaw = "log-normal") -> Number:
    """Tokens that so large a share of answers exceeds, whose lengths follow a law.

    o e^(σ z − σ²/2), σ² = ln(1 + v²), z what a share p of a normal variable exceeds; of chats between twentieths

    output o: tokens of an answer, on average · variation v: of the answers, standard deviation over mean
    tail_share p: of the answers, that are longer · law: of the lengths
    → tokens
    Source: limpert-2001; sharegpt
    Monotone: increasing in output; decreasing in tail_share
    >>> [round(float(answer_of_share(200.0, 1.0, share))) for share in (0.5, 0.1, 0.001)]
    [141, 411, 1853]
    >>> [round(float(answer_of_share(200.0, 1.0, share, law="chat"))) for share in (0.5, 0.1, 0.001)]
    [133, 490, 1352]
    """
    if law == "chat":
        return output * _chat_length(tail_share)
    spread = np.sqrt(np.log1p(variation**2))
    return output * np.exp(spread * normal_quantile(tail_share) - spread**2 / 2)


@equation
def tokens_until(output: Number, variation: Number, longest: Number, *, law: LengthLaw = "log-normal") -> Number:
    """Mean tokens of answers that are cut at a length, where their lengths follow a law.

    o Φ(a − σ/2) + L (1 − Φ(a + σ/2)), a = ln(L / o) / σ, σ² = ln(1 + v²); min(o, L) where all are equal; of chats the
    mean of min(l, L) over twentieths

    output o: tokens of an answer, on average · variation v: of the answers, standard deviation over mean
    longest L: tokens at which answers are cut · law: of the lengths
    → tokens
    Source: limpert-2001; sharegpt
    Monotone: increasing in output, longest
    >>> [round(float(tokens_until(200.0, 1.0, length)), 1) for length in (20.0, 200.0, 2000.0)]
    [20.0, 135.4, 199.6]
    >>> [round(float(tokens_until(200.0, 1.0, length, law="chat")), 1) for length in (20.0, 200.0, 2000.0)]
    [18.2, 117.2, 200.0]
    """
    if law == "chat":
        shorter = np.minimum(np.asarray(output)[..., None] * CHAT_LENGTHS, np.asarray(longest)[..., None])
        return np.asarray(np.mean(shorter, axis=-1))
    spread = np.maximum(np.sqrt(np.log1p(variation**2)), 1e-9)
    over = np.log(np.maximum(longest, 1e-300) / output) / spread
    cut: Number = output * normal_share(over - spread / 2) + longest * (1 - normal_share(over + spread / 2))
    return np.where(variation > 0, cut, np.minimum(output, longest))


@equation
def slow_token_share(steps: Number, output: Number, variation: Number, *, law: LengthLaw = "log-normal") -> Number:
    """Share of an answer's tokens that its first steps generate, as the mean over answers of unlike lengths.

    E[min(n / l, 1)] = Φ(a + σ/2) + n (1 + v²) / o · Φ(−a − 3σ/2), a = ln(n / o) / σ, σ² = ln(1 + v²); min(n / o, 1)
    where all are equal; of chats the mean of min(n / (l − 1), 1) over twentieths

    steps n: steps that are slow, behind the first token · output o: tokens of an answer, on average
    variation v: of the answers, standard deviation over mean · law: of the lengths
    → share
    Source: limpert-2001; sharegpt
    Pitfall: a benchmark prints the mean of each answer's time per token, in which short answers count as long ones do:
        with v = 1 twice the share of all tokens, of chats up to seven times
    Monotone: increasing in steps; decreasing in output
    >>> [round(float(slow_token_share(20.0, 200.0, v)), 3) for v in (0.0, 1.0)]
    [0.1, 0.196]
    >>> [round(float(slow_token_share(steps, 200.0, 1.0, law="chat")), 3) for steps in (1.0, 20.0)]
    [0.033, 0.377]
    """
    if law == "chat":
        later = np.maximum(np.asarray(output)[..., None] * CHAT_LENGTHS - 1.0, 1.0)
        return np.asarray(np.mean(np.minimum(np.asarray(steps)[..., None] / later, 1.0), axis=-1))
    spread = np.maximum(np.sqrt(np.log1p(variation**2)), 1e-9)
    over = np.log(np.maximum(steps, 1e-300) / output) / spread
    some: Number = normal_share(over + spread / 2)
    some = some + steps * (1 + variation**2) / output * normal_share(-over - 1.5 * spread)
    return np.where(variation > 0, some, np.minimum(steps / output, 1.0))


@equation
def ended_answer_tokens(
    shortest: Number,
    longest: Number,
    cut_shortest: Number,
    cut_longest: Number,
    longer_share: Number,
    tail_share: Number,
) -> Number:
    """Mean tokens of the answers of a batch that end between two lengths.

    (g₂ − q l₂ − g₁ + p l₁) / (p − q), between l₁ and l₂; l₂ where none ends

    shortest l₁: lesser length · longest l₂: greater length
    cut_shortest g₁: mean tokens of all answers, cut at the lesser length · cut_longest g₂: cut at the greater
    longer_share p: of the answers, that are longer than the lesser · tail_share q: longer than the greater
    → tokens
    Source: exact
    >>> float(ended_answer_tokens(100.0, 300.0, 60.0, 110.0, 0.5, 0.1))
    175.0
    """
    ended = longer_share - tail_share
    own = cut_longest - tail_share * longest - cut_shortest + longer_share * shortest
    return np.where(ended > 0, np.clip(own / np.where(ended > 0, ended, 1.0), shortest, longest), longest)


@equation
def drain_excess(steps: Number, step: Number, base_time: Number, sequence_time: Number, sequences: Number) -> Number:
    """Time of the steps of a shrinking batch beyond the line on which its full steps lie.

    n (D − α − β b)

    steps n: of a stage · step D [s]: one of them · base_time α [s]: fixed time of a step on the line
    sequence_time β [s] · sequences b: sequences that are left, on average
    → time [s]
    Source: exact
    Pitfall: it is negative where such steps are faster than the line
    >>> round(drain_excess(100.0, 0.012, 0.008, 50e-6, 20.0), 3)
    0.3
    """
    return steps * (step - base_time - sequence_time * sequences)


@equation
def answer_end(time: Number, shortest: Number, longest: Number, step: Number) -> Number:
    """Time at which the answers of a batch end that have so many tokens, by the steps since shorter ones ended.

    t + (l − l₁) D

    time t [s]: when those of the lesser length end · shortest l₁: that length · longest l: of these answers
    step D [s]: a step of the sequences that are left
    → time [s]
    Source: exact
    Monotone: increasing in time
    >>> answer_end(1.0, 100.0, 175.0, 0.02)
    2.5
    """
    return time + (longest - shortest) * step


@equation
def longest_of_several(output: Number, variation: Number, answers: Number) -> Number:
    """Mean tokens of the longest of a few answers whose lengths are log-normal.

    o n E[Φ(Z + σ)^(n − 1)], σ² = ln(1 + v²), with Z normal: five points of Gauss and Hermite; o where all are equal

    output o: tokens of an answer, on average · variation v: of the answers, standard deviation over mean
    answers n: to one prompt
    → tokens
    Source: limpert-2001; abramowitz-1964 table 25.10
    Holds: exact for two; of up to eight it is 3 % off at most, of sixteen 13 %
    Monotone: increasing in output
    >>> [round(float(longest_of_several(512.0, v, 4.0))) for v in (0.0, 0.5, 1.0)]
    [512, 782, 1025]
    """
    spread, others = np.sqrt(np.log1p(variation**2)), np.maximum(answers - 1, 0.0)
    middle = 0.533333 * normal_share(spread) ** others
    near = normal_share(spread + 1.355626) ** others + normal_share(spread - 1.355626) ** others
    far = normal_share(spread + 2.856970) ** others + normal_share(spread - 2.856970) ** others
    mean: Number = output * np.maximum(answers * (middle + 0.222076 * near + 0.011257 * far), 1.0)
    return np.where((variation > 0) & (answers > 1), mean, output)


@equation
def static_batch_use(sequences: Number) -> Number:
    """Share of a static batch's places that still work, on average, when it runs until its longest answer ends.

    1 / H_b, H_b = 1 + 1/2 + … + 1/b ≈ ln b + 0.577 + 1/(2 b) − 1/(12 b²)

    sequences b: sequences of the batch → share
    Source: exact; yu-2022
    Holds: answers whose lengths are exponential; the series to 1 % from b = 1 on; no estimate calls it
    Pitfall: this, and reserved caches, are most of what the first numbers of paged engines were set against; every
        engine of today refills its batch
    Monotone: decreasing in sequences
    >>> round(float(static_batch_use(8.0)), 3)
    0.368
    """
    harmonic = np.log(sequences) + EULER_MASCHERONI + 1 / (2 * sequences) - 1 / (12 * sequences**2)
    return 1 / harmonic


@equation
def wave_time(concurrency: Number, prompt_time: Number, output: Number, steps: Number, step: Number) -> Number:
    """Time from the start of a wave of equal answers to that of the next, which takes over their places in their order.

    b t_p + max(o − k, 0) D: a wave of prompts, in which the first answers get k tokens, then the rest

    concurrency b: answers of a wave · prompt_time t_p [s]: of one prompt among steps that are full
    output o: tokens of each answer · steps k: steps that the prompts of a wave take
    step D [s]: a step without prompts
    → time [s]
    Source: composition; exact
    Monotone: increasing in concurrency, prompt_time, output, step; decreasing in steps
    >>> round(float(wave_time(600.0, 0.1, 512.0, 150.0, 0.045)), 2)
    76.29
    """
    return concurrency * prompt_time + np.maximum(output - steps, 0.0) * step


# --- First tokens of an offline batch: of those who run from the start, of those in line, and of waves.


@equation
def batch_first_token_steps(tokens: Number, room: Number, prompt: Number) -> Number:
    """Steps of a batch until one of its prompts has its first token: until the end of that in which it ends.

    1 + (m − 1) (1 + s / 2n) − r m (m − 1) / 2n, m = ⌈n / r⌉: in j full steps j r / s prompts end, less a half

    tokens n: of all prompts of the batch · room r: tokens of prompts in a step
    prompt: tokens of a prompt of which a step takes a part, s; 0 where steps take whole ones
    → steps, on average
    Source: count
    Holds: as a mean over prompts that end anywhere in a step; off by (m − 1) s / 2n at most
    >>> [float(batch_first_token_steps(many * 2048.0, 8192.0, 2048.0)) for many in (1.0, 4.0, 8.0)]
    [1.0, 1.0, 1.5625]
    """
    steps = np.ceil(tokens / room)
    later: Number = (steps - 1) * (1 + prompt / (2 * tokens)) - room * steps * (steps - 1) / (2 * tokens)
    return 1 + later


@equation
def batch_first_tokens(tokens: Number, room: Number, prompt: Number) -> Number:
    """Tokens of a batch's prompts that are computed when one of them has its first token, at the end of a step.

    r a − (m r − n) q, a as in batch_first_token_steps, m = ⌈n / r⌉, q = 1 − (m − 1) r / n + s / 2n: the last step, in
    which so many end, is not full

    tokens n: of all prompts of the batch · room r: tokens of prompts in a step
    prompt: tokens of a prompt of which a step takes a part, s; 0 where steps take whole ones
    → tokens, on average
    Source: count
    Pitfall: half of all prompts is a third too little where a step holds several, and where a prompt takes several
        steps
    >>> [float(batch_first_tokens(many * 2048.0, 8192.0, 2048.0)) for many in (1.0, 4.0, 8.0)]
    [2048.0, 8192.0, 12800.0]
    """
    steps = np.ceil(tokens / room)
    last = np.clip(1 - (steps - 1) * room / tokens + prompt / (2 * tokens), 0.0, 1.0)
    ended = batch_first_token_steps(tokens, room, prompt)
    return room * ended - (steps * room - tokens) * last


@equation
def batch_first_tokens_of_share(tokens: Number, room: Number, share: Number) -> Number:
    """Tokens of a batch's prompts that are computed when so large a share of them has its first token.

    min(n, r ⌈q n / r⌉)

    tokens n: of all prompts of the batch · room r: tokens of prompts in a step · share q: of the prompts → tokens
    Source: count
    Monotone: increasing in tokens, share
    >>> [float(batch_first_tokens_of_share(20_000.0, 8192.0, share)) for share in (0.1, 0.5, 0.99)]
    [8192.0, 16384.0, 20000.0]
    """
    return np.minimum(tokens, room * np.ceil(share * tokens / room - ROUNDED))


@equation
def batch_line_first_token(
    requests: Number, concurrency: Number, ttft: Number, last_ttft: Number, wait: Number
) -> Number:
    """Mean time to the first token in a batch of which some wait in line for a place.

    (c f + (N − c) (l + L / 2)) / N: those who run from the start, and the others, evenly behind the last of these

    requests N: requests of the batch · concurrency: sequences that run at once, c, at most N
    ttft f [s]: mean time to the first token of those who run from the start
    last_ttft l [s]: that of the last of these · wait L [s]: for a place, of the last one who gets one
    → time to the first token [s]
    Source: count
    Pitfall: half of the line on top of the mean of the first is a tenth too late, for those had no line
    Monotone: increasing in ttft, last_ttft, wait
    >>> round(float(batch_line_first_token(1000.0, 535.0, 27.0, 54.0, 62.0)), 2)
    53.97
    """
    waiting = np.maximum(requests - concurrency, 0.0)
    return (concurrency * ttft + waiting * (last_ttft + wait / 2)) / np.maximum(requests, concurrency)


@equation
def wave_first_token(
    requests: Number,
    concurrency: Number,
    first_wave: Number,
    later_wave: Number,
    first_prompt: Number,
    prompt_time: Number,
) -> Number:
    """Time at which so many requests of a batch of equal answers have their first token.

    r t₁ in the first wave; T₁ + (w − 1) T + (r − w b) t_p behind w whole waves, w = ⌈r / b⌉ − 1

    requests r: requests that have their first token by then · concurrency b: answers of a wave
    first_wave T₁ [s]: time from the start of the first wave to the second · later_wave T [s]: the same of every other
    first_prompt t₁ [s]: to compute one prompt of the first wave, while on average half of the wave's answers decode too
    prompt_time t_p [s]: to compute one prompt of a later wave, while all b answers decode too
    → time [s]
    Source: composition; exact
    Holds: answers alike, so that places become free as they were taken
    Pitfall: as a flow, 700 requests on 595 places have their last first token a quarter too early
    Monotone: increasing in first_wave, later_wave, first_prompt, prompt_time
    >>> [float(wave_first_token(r, 600.0, 76.0, 77.0, 0.1, 0.105)) for r in (300.0, 600.0, 700.0, 1300.0)]
    [30.0, 60.0, 86.5, 163.5]
    """
    waves = np.maximum(np.ceil(requests / concurrency) - 1.0, 0.0)
    later = first_wave + (waves - 1.0) * later_wave + (requests - waves * concurrency) * prompt_time
    return np.where(waves > 0, later, requests * first_prompt)


@equation
def wave_first_token_mean(
    requests: Number,
    concurrency: Number,
    first_wave: Number,
    later_wave: Number,
    first_prompt: Number,
    prompt_time: Number,
) -> Number:
    """Mean time to the first token in a batch of equal answers.

    (b² t₁ / 2 + Σ_w m_w (T₁ + (w − 1) T + m_w t_p / 2)) / n: m_w requests of wave w, b but of the last

    requests n: requests of the batch · concurrency b: answers of a wave
    first_wave T₁ [s]: time from the start of the first wave to the second · later_wave T [s]: the same of every other
    first_prompt t₁ [s]: of one prompt of the first wave · prompt_time t_p [s]: of one of a later wave
    → time [s]
    Source: composition; exact
    Monotone: increasing in first_wave, later_wave, first_prompt, prompt_time
    >>> round(float(wave_first_token_mean(700.0, 600.0, 76.0, 77.0, 0.1, 0.105)), 2)
    37.32
    """
    whole, first = np.maximum(np.floor(requests / concurrency), 1.0), np.minimum(requests, concurrency)
    between, rest = whole - 1.0, np.maximum(requests - whole * concurrency, 0.0)
    full = between * (first_wave + concurrency * prompt_time / 2.0) + between * (between - 1.0) / 2.0 * later_wave
    last = rest * (first_wave + between * later_wave + rest * prompt_time / 2.0)
    return (first * first * first_prompt / 2.0 + concurrency * full + last) / requests
