"""Throughput, utilisation, efficiency, power, energy and money."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation

# --- Throughput, utilisation, efficiency, money.


@equation
def flop_utilisation(flop: Number, time: Number, ranks: Number, peak: Number) -> Number:
    """Share of the peak a job reaches: MFU with model FLOP, HFU with executed FLOP.

    F / (t N P)

    flop F [FLOP]: work of a step · time t [s]: of a step · ranks N: accelerators
    peak P [FLOP/s]: datasheet rate of one
    → utilisation
    Source: chowdhery-2022 appendix B
    Monotone: increasing in flop; decreasing in time, ranks, peak
    >>> flop_utilisation(4e18, 10.0, 1000.0, 1e15)
    0.4
    """
    return flop / (time * ranks * peak)


@equation
def tokens_per_step(global_batch: Number, sequence: Number) -> Number:
    """Tokens an optimizer step consumes.

    B s

    global_batch B · sequence s → tokens
    Source: composition
    Monotone: increasing in global_batch, sequence
    >>> tokens_per_step(1024.0, 8192.0)
    8388608.0
    """
    return global_batch * sequence


@equation
def data_read_time(tokens: Number, per_token: Number, storage: Number) -> Number:
    """Time to read the data of a step from their store.

    T b / B

    tokens T: tokens that are read · per_token b [B]: bytes of a token as stored · storage B [B/s]: rate of the store
    → time [s]
    Source: composition
    Monotone: increasing in tokens, per_token; decreasing in storage
    >>> data_read_time(4e6, 4.0, 100e6)
    0.16
    """
    return tokens * per_token / storage


@equation
def rate(amount: Number, time: Number) -> Number:
    """So much in a time.

    x / t

    amount x: how much · time t [s]: in which it happens → per second [1/s]
    Source: composition
    Monotone: increasing in amount; decreasing in time
    >>> rate(8388608.0, 16.0)
    524288.0
    """
    return amount / time


@equation
def compute_rate(flop: Number, time: Number, ranks: Number) -> Number:
    """Model FLOP a second on each accelerator, the figure papers print in TFLOP/s.

    F / (t N)

    flop F [FLOP]: work of a step · time t [s]: of a step · ranks N: accelerators → rate of one accelerator [FLOP/s]
    Source: narayanan-2021 §5.1
    Monotone: increasing in flop; decreasing in time, ranks
    >>> compute_rate(4e18, 10.0, 1000.0)
    400000000000000.0
    """
    return flop / (time * ranks)


@equation
def work_time(flop: Number, rate: Number, ranks: Number) -> Number:
    """Time of work at a known rate of each accelerator, as papers state it.

    F / (R N)

    flop F [FLOP] · rate R [FLOP/s]: reached by one accelerator · ranks N: accelerators → time [s]
    Source: narayanan-2021 §5.1
    Monotone: increasing in flop; decreasing in rate, ranks
    >>> work_time(4e18, 4e14, 1000.0)
    10.0
    """
    return flop / (rate * ranks)


@equation
def share(part: Number, whole: Number) -> Number:
    """A part over the whole.

    x / y

    part [u]: x · whole [u]: y → fraction
    Source: composition
    Monotone: increasing in part; decreasing in whole
    >>> share(1.0, 4.0)
    0.25
    """
    return part / whole


@equation
def communication_efficiency(compute: Number, exposed: Number) -> Number:
    """Share of compute in compute and exposed communication.

    1 / (1 + E / C)

    compute C [s]: time of compute · exposed E [s]: exposed communication → efficiency
    Source: amdahl-1967; composition
    Monotone: increasing in compute; decreasing in exposed
    >>> communication_efficiency(9.0, 1.0)
    0.9
    """
    return compute / (compute + exposed)


@equation
def run_time(tokens: Number, tokens_per_second: Number) -> Number:
    """Wall-clock time of a token budget at a steady rate, without failures.

    T / rate

    tokens T: tokens to train on · tokens_per_second [1/s]: of the whole job → time [s]
    Source: narayanan-2021 eq. 4
    Monotone: increasing in tokens; decreasing in tokens_per_second
    >>> run_time(1e12, 1e6)
    1000000.0
    """
    return tokens / tokens_per_second


@equation
def run_cost(time: Number, ranks: Number, price: Number) -> Number:
    """Rent of all accelerators for a time.

    t N price

    time t [s]: rented · ranks N: accelerators · price [USD/s] → cost [USD]
    Source: composition
    Monotone: increasing in time, ranks, price
    >>> round(run_cost(3600.0, 512.0, 2.5 / 3600))
    1280
    """
    return time * ranks * price


@equation
def whole_node_price(price: Number, accelerators: Number, built: Number) -> Number:
    """Price of one accelerator of a node that is paid for whole, over all that it has.

    p n / m

    price p [USD/s]: of one in use, where n share the rent of the node · accelerators n: that are in use
    built m: that the node has
    → price [USD/s]
    Source: exact
    Monotone: increasing in price, accelerators; decreasing in built
    >>> whole_node_price(4.0, 6.0, 8.0)
    3.0
    """
    return price * accelerators / built


@equation
def token_cost(tokens: Number, ranks: Number, price: Number, tokens_per_second: Number) -> Number:
    """Rent for so many tokens.

    T N price / rate

    tokens T: tokens to pay for · ranks N: accelerators · price [USD/s] · tokens_per_second [1/s]: of the whole job
    → cost [USD]
    Source: composition
    Monotone: increasing in tokens, ranks, price; decreasing in tokens_per_second
    >>> round(token_cost(1e6, 1.0, 2 / 3600, 2500.0), 3)
    0.222
    """
    return tokens * ranks * price / tokens_per_second


# --- Power under a cap, energy of a run, what it costs and what it emits.


@equation
def capped_clock(cap: Number, power: Number, static_share: Number) -> Number:
    """Clock under a cap on power over the clock without it.

    f = ((cap/P − s) / (1 − s))^(1/3), from 0 to 1

    cap [W] · power P [W]: of the part without a limit · static_share s: share of it that does not depend on the clock
    → clock over clock, f
    Source: hennessy-2017 §1.5; llmgarage-2026; composition
    Holds: caps above about 70 % of the power: power grows with the cube of the clock only while the voltage falls with
        it. Six RTX 3090 at 300, 250, 200 and 150 of 350 W keep 0.94, 0.85, 0.60 and 0.26 of their prefill rate, where
        the cube has 0.94, 0.87, 0.78 and 0.68. Estimates take s = 0, as part_slowdown does
    Monotone: increasing in cap; decreasing in power, static_share
    >>> round(float(capped_clock(500.0, 700.0, 2 / 7)), 3)
    0.843
    """
    return np.clip((cap / power - static_share) / (1 - static_share), 0.0, 1.0) ** (1 / 3)


@equation
def drawn_power(rated_power: Number, draw_share: Number, accelerators: Number) -> Number:
    """Power that a busy node draws, for each of its accelerators.

    u P / g

    rated_power P [W]: of the node · draw_share u: share of it drawn · accelerators g: accelerators in the node
    → power [W]
    Source: newkirk-2025; oviedo-2025
    Holds: 0.76 was measured in training on nodes of eight H100; 0.7 is a middle of services, of 0.4 to 0.9
    Pitfall: model cards print rated power of the accelerators times hours: host, network and fans draw 0.4 times as
        much again
    Monotone: increasing in rated_power, draw_share; decreasing in accelerators
    >>> round(drawn_power(10200.0, 0.76, 8.0))
    969
    """
    return draw_share * rated_power / accelerators


@equation
def capped_rating(rated_power: Number, power: Number, cap: Number, accelerators: Number) -> Number:
    """Rated power of a node whose accelerators are capped.

    P − g max(p − c, 0)

    rated_power P [W]: of the node · power p [W]: rated power of an accelerator · cap c [W]: limit on it
    accelerators g: accelerators in the node
    → power [W]
    Source: newkirk-2025; composition
    Holds: the share of its rating that a node draws in training does not change with the cap
    Monotone: increasing in rated_power, cap; decreasing in power, accelerators
    >>> float(capped_rating(10200.0, 700.0, 500.0, 8.0))
    8600.0
    """
    return rated_power - accelerators * np.maximum(power - cap, 0.0)


@equation
def mean_power(power: Number, busy_share: Number, idle_share: Number) -> Number:
    """Power drawn in the mean by a part that is busy for a share of the time.

    P (b + (1 − b) i)

    power P [W]: drawn when busy · busy_share: share of the time in which it is, b: all but restarts
    idle_share i: share of that power drawn otherwise
    → power [W]
    Source: composition
    Monotone: increasing in power, busy_share, idle_share
    >>> mean_power(1000.0, 0.9, 0.5)
    950.0
    """
    return power * (busy_share + (1 - busy_share) * idle_share)


@equation
def site_power(nodes: Number, rated_power: Number, pue: Number) -> Number:
    """Power that a site has to supply for nodes and their cooling.

    n P PUE

    nodes n · rated_power P [W]: of a node · pue: power of the data centre over that of its nodes → power [W]
    Source: composition
    Holds: what is built for; nodes draw about three quarters of their rating while they work
    Monotone: increasing in nodes, rated_power, pue
    >>> round(site_power(64.0, 10200.0, 1.2) / 1e3, 1)
    783.4
    """
    return nodes * rated_power * pue


@equation
def run_energy(time: Number, ranks: Number, power: Number, pue: Number) -> Number:
    """Energy of a run at the meter of the data centre.

    t N P PUE

    time t [s]: wall time · ranks N: accelerators · power P [W]: drawn for each of them in the mean
    pue: power of the data centre over that of its nodes
    → energy [J]
    Source: touvron-2023 §6; luccioni-2023
    Monotone: increasing in time, ranks, power, pue
    >>> round(run_energy(3600.0, 1720320.0, 400.0, 1.1) / 3.6e9, 1)
    756.9
    """
    return time * ranks * power * pue


@equation
def energy_cost(energy: Number, tariff: Number) -> Number:
    """Price of energy.

    E p

    energy E [J]: used · tariff p [USD/J] → cost [USD]
    Source: composition
    Monotone: increasing in energy, tariff
    >>> round(energy_cost(3.6e9, 0.08 / 3.6e6), 6)
    80.0
    """
    return energy * tariff


@equation
def ownership_price(
    capital: Number, resale: Number, life: Number, utilisation: Number, power: Number, pue: Number, tariff: Number
) -> Number:
    """What each second costs in which a node that was bought works: its share of the capital, and the energy.

    (C − R) / (L u) + P PUE p

    capital C [USD]: price of the node · resale R [USD]: what it is sold for at the end
    life L [s]: until it is sold or written off · utilisation u: share of that time in which it works
    power P [W]: drawn by the whole node while it works · pue: power of the data centre over that of its nodes
    tariff p [USD/J]
    → price [USD/s]
    Source: composition
    Holds: without interest, staff, rent of the hall and what an idle node draws
    Monotone: increasing in capital, power, pue, tariff; decreasing in resale
    >>> round(ownership_price(515e3, 0.0, 5 * 365 * 86400.0, 0.8, 10868.0, 1.2, 0.0806 / 3.6e6) * 3600, 2)
    15.75
    """
    return (capital - resale) / (life * utilisation) + power * pue * tariff


@equation
def written_off(capital: Number, resale: Number, life: Number, time: Number) -> Number:
    """The part of what was bought that is written off in some time.

    (C − R) t / L

    capital C [USD] · resale R [USD]: what it is sold for at the end · life L [s]: until it is sold or written off
    time t [s]
    → cost [USD]
    Source: composition
    Holds: written off evenly, without interest
    Monotone: increasing in capital; decreasing in resale
    >>> written_off(1.5e6, 0.0, 60.0, 1.0)
    25000.0
    """
    return (capital - resale) * time / life


@equation
def unused_write_off(cost: Number, utilisation: Number) -> Number:
    """What a job pays for the time in which what was bought stands idle.

    c (1 − u) / u

    cost c [USD]: written off while the job works · utilisation u: share of its life in which it works → cost [USD]
    Source: composition
    Holds: jobs alone pay for idle time
    Monotone: increasing in cost; decreasing in utilisation
    >>> unused_write_off(24000.0, 0.75)
    8000.0
    """
    return cost * (1 - utilisation) / utilisation


@equation
def purchase_capital(nodes: Number, capital: Number) -> Number:
    """Price of all nodes that are bought.

    n C

    nodes n: that are bought · capital C [USD]: price of one node → capital [USD]
    Source: exact
    Monotone: increasing in nodes, capital
    >>> purchase_capital(4.0, 515e3)
    2060000.0
    """
    return nodes * capital


@equation
def cost_difference(cost: Number, spending: Number) -> Number:
    """How much more one thing costs than another.

    c − o

    cost c [USD]: of the one · spending o [USD]: on what it is compared with → difference [USD]
    Source: exact
    Monotone: increasing in cost; decreasing in spending
    >>> cost_difference(90e3, 105e3)
    -15000.0
    """
    return cost - spending


@equation
def excess(amount: Number, other_amount: Number) -> Number:
    """How much larger a value is than another, as a share of the other.

    v / b − 1

    amount v [u]: of the one · other_amount b [u]: of what it is compared with → share
    Source: exact
    Monotone: increasing in amount; decreasing in other_amount
    >>> excess(150.0, 100.0)
    0.5
    """
    return amount / other_amount - 1


@equation
def break_even_rate(request_rate: Number, spending: Number, cost: Number) -> Number:
    """Rate of requests at which an API asks as much as machines cost, whose rent does not depend on it.

    λ R / C

    request_rate λ [1/s]: for which the API asks C · spending R [USD]: rent of the machines · cost C [USD]: of the API
    → requests a second [1/s]
    Source: composition
    Holds: up to the rate that these machines answer
    Monotone: increasing in request_rate, spending; decreasing in cost
    >>> break_even_rate(50.0, 90e3, 300e3)
    15.0
    """
    return request_rate * spending / cost


@equation
def payback_time(capital: Number, time: Number, cost: Number) -> Number:
    """Time in which a rent adds up to the price of what is bought.

    C t / R

    capital C [USD]: of what is bought · time t [s]: that the rent is of
    cost R [USD]: the rent, less the electricity of what is bought
    → time [s]
    Source: composition
    Holds: without interest, staff and the hall of what is bought
    Monotone: increasing in capital, time; decreasing in cost
    >>> payback_time(1.5e6, 2628000.0, 1e5) / 2628000.0
    15.0
    """
    return capital * time / cost


@equation
def affordable_flop(flop: Number, cost: Number, spending: Number) -> Number:
    """Work that so much money pays for, where work costs what that of a known job does.

    F B / c

    flop F [FLOP]: work of the job · cost c [USD]: of the job · spending B [USD]: what may be spent → flop [FLOP]
    Source: composition
    Monotone: increasing in flop, spending; decreasing in cost
    >>> f"{affordable_flop(6e23, 1e6, 2e6):.3g}"
    '1.2e+24'
    """
    return flop * spending / cost


@equation
def autoscaled_cost(time: Number, rented: Number, startup: Number, started: Number, price: Number) -> Number:
    """Rent of accelerators whose number changes: those of each equal part of a time, and those that start before one.

    (t Σ N + t₀ Σ s) p

    time t [s]: of a part · rented N: accelerators of all parts together · startup t₀ [s]: of a replica
    started s: accelerators that start, of all parts together · price p [USD/s]: of one
    → cost [USD]
    Source: composition
    Holds: what starts is paid for from the decision on, and what stops until its part ends
    Monotone: increasing in time, rented, startup, started, price
    >>> round(autoscaled_cost(3600.0, 24.0, 300.0, 6.0, 2.5 / 3600), 2)
    61.25
    """
    return (time * rented + startup * started) * price


@equation
def hosted_cost(
    request_rate: Number,
    traffic: Number,
    time: Number,
    prompt: Number,
    cached_tokens: Number,
    output: Number,
    prompt_token_price: Number,
    cached_token_price: Number,
    output_token_price: Number,
) -> Number:
    """What an API asks for the requests of a time.

    λ b t (s p_s + c p_c + o p_o)

    request_rate λ [1/s]: requests a second at the peak · traffic b: requests over those of as much time at the peak
    time t [s] · prompt s: tokens of a prompt that are computed, on average
    cached_tokens c: tokens of a prompt that are in the cache, on average
    output o: tokens that are generated, on average · prompt_token_price p_s [USD] · cached_token_price p_c [USD]
    output_token_price p_o [USD]
    → cost [USD]
    Source: composition
    Monotone: increasing in request_rate, traffic, time, prompt, cached_tokens, output, prompt_token_price,
        cached_token_price, output_token_price
    >>> round(hosted_cost(10.0, 0.5, 2e5, 1500.0, 500.0, 500.0, 0.56e-6, 0.07e-6, 1.68e-6))
    1715
    """
    one = prompt * prompt_token_price + cached_tokens * cached_token_price + output * output_token_price
    return request_rate * traffic * time * one


@equation
def emissions(energy: Number, carbon_intensity: Number) -> Number:
    """Greenhouse gases of energy from a grid, as mass of carbon dioxide with the same effect.

    E i

    energy E [J]: used · carbon_intensity i [kg/J]: of the grid at the place → mass of carbon dioxide [kg]
    Source: touvron-2023 §6; luccioni-2023
    Holds: by location; what contracts attribute to a buyer is another number, and making the hardware is not in it
    Monotone: increasing in energy, carbon_intensity
    >>> round(emissions(1720320 * 400 * 1.1 * 3600.0, 0.385 / 3.6e6) / 1000, 2)
    291.42
    """
    return energy * carbon_intensity
