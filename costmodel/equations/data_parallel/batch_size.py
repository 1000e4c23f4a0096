"""Batch size: how many steps and samples a loss takes, and the batch with the least wall time."""

from __future__ import annotations

from typing import Literal

import numpy as np

from costmodel.ground.equation import Number, equation

# Fits: Kaplan et al. 2020, eq. 1.4, for the critical batch in tokens; DeepSeek LLM 2024, eq. 1, for the best batch in
# tokens and the best learning rate, of the work in FLOP.
LOSS_BATCH, LOSS_EXPONENT = 2e8, 0.21
BATCH_FACTOR, BATCH_EXPONENT = 0.2920, 0.3271
RATE_FACTOR, RATE_EXPONENT = 0.3118, -0.1250
FITTED_FLOP = 1.0


@equation
def steps_for_batch(least_steps: Number, critical_batch: Number, batch: Number) -> Number:
    """Steps to a loss with a batch.

    S = S_min (1 + B_c/B), which with the samples E gives (S/S_min − 1)(E/E_min − 1) = 1

    least_steps S_min: steps that no batch, however large, can do without
    critical_batch B_c: batch with twice the least steps and twice the least samples
    batch B: of a step, in tokens or samples as the critical one
    → steps, S
    Source: mccandlish-2018
    Holds: learning rates set for each batch; one critical batch for the whole run, where it really grows as loss falls
    Monotone: increasing in least_steps, critical_batch; decreasing in batch
    >>> steps_for_batch(1000.0, 4e6, 1e6)
    5000.0
    """
    return least_steps * (1 + critical_batch / batch)


@equation
def samples_for_batch(least_samples: Number, critical_batch: Number, batch: Number) -> Number:
    """Samples to a loss with a batch.

    E = E_min (1 + B/B_c)

    least_samples E_min: samples that no batch, however small, can do without
    critical_batch B_c: batch with twice the least steps and twice the least samples
    batch B: of a step, in tokens or samples as the critical one
    → samples, E
    Source: mccandlish-2018
    Holds: as steps_for_batch
    Monotone: increasing in least_samples, batch; decreasing in critical_batch
    >>> samples_for_batch(1e12, 4e6, 1e6) / 1e12
    1.25
    """
    return least_samples * (1 + batch / critical_batch)


@equation
def best_batch(critical_batch: Number, fixed: Number, ranks: Number, token_time: Number) -> Number:
    """Batch with the least wall time to a loss.

    B* = √(B_c f n / t)

    critical_batch: batch with twice the least steps and twice the least samples, B_c, in tokens
    fixed f [s]: time of a step that the batch does not change · ranks n: accelerators that share the batch
    token_time t [s]: of a token on one rank
    → tokens of a step, B*
    Source: mccandlish-2018; composition
    Holds: steps as steps_for_batch, each of a time B t / n + f
    Pitfall: twice the batch always costs samples; it saves time only while the fixed part of a step counts
    Monotone: increasing in critical_batch, fixed, ranks; decreasing in token_time
    >>> round(float(best_batch(4e6, 0.4, 1024.0, 1e-3)))
    1280000
    """
    return np.sqrt(critical_batch * (fixed * ranks / token_time))


@equation
def critical_batch_of_loss(loss: Number) -> Number:
    """Critical batch of language models at a loss, as fitted in 2020.

    B_c = 2e8 / L^(1/0.21)

    loss: cross-entropy, L, in nats a token → tokens, B_c
    Source: kaplan-2020 eq. 1.4
    Holds: a fit on WebText2 with its tokenizer; with other data the constant is 2 to 3 times off, so that the answer is
        a band. Later fits find that it depends on the data seen, and not on the model
    Monotone: decreasing in loss
    >>> round(float(critical_batch_of_loss(2.0)) / 1e6, 1)
    7.4
    """
    return LOSS_BATCH / loss ** (1 / LOSS_EXPONENT)


@equation
def fitted_batch(flop: Number) -> Number:
    """Best batch of a training run, as DeepSeek fitted it.

    B = 0.292 C^0.3271

    flop C [FLOP]: work of the whole run → tokens of a step, B
    Source: bi-2024 eq. 1
    Holds: a fit of one team on its data from 1e17 to 2e19 FLOP, within 5 % of the batches of its 7B and 67B models
    Monotone: increasing in flop
    >>> round(float(fitted_batch(6 * 67e9 * 2e12)) / 1e6, 1)
    19.3
    """
    return BATCH_FACTOR * (flop / FITTED_FLOP) ** BATCH_EXPONENT


@equation
def carried_batch(batch: Number, tokens: Number, known_tokens: Number, growth_exponent: Number) -> Number:
    """Batch for more tokens from one that is known to be good for fewer.

    B (D/D₀)^α

    batch: known to be good, B, in tokens · tokens D: of the run to come · known_tokens D₀: of the run it was good for
    growth_exponent: α: 0.38 for the best, 0.46 for the critical batch
    → tokens of a step
    Source: bergsma-2025; zhang-2024
    Holds: the same data and tokenizer; fitted exponents are 0.383 for the best batch, 0.462 and 0.47 for the critical;
        no estimate calls it
    Monotone: increasing in batch, tokens; decreasing in known_tokens
    >>> float(carried_batch(1e6, 16e9, 1e9, 0.5)) / 1e6
    4.0
    """
    return batch * (tokens / known_tokens) ** growth_exponent


@equation
def carried_learning_rate(
    learning_rate: Number, batch: Number, known_batch: Number, *, rule: Literal["linear", "square root"]
) -> Number:
    """Learning rate for another batch from one that is known to be good.

    η B/B₀ for SGD with a warm-up; η √(B/B₀) for Adam

    learning_rate η: known to be good · batch B: of the run to come · known_batch B₀: of the run it was good for
    rule: how it grows
    → learning rate
    Source: goyal-2017; malladi-2022
    Holds: below the critical batch; the linear rule was seen to hold up to 8,192 images for ResNet-50
    Monotone: increasing in learning_rate, batch; decreasing in known_batch
    >>> float(carried_learning_rate(0.1, 8192.0, 256.0, rule="linear"))
    3.2
    """
    return learning_rate * (batch / known_batch) ** (1.0 if rule == "linear" else 0.5)
