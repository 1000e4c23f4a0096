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

    Args:
        least_steps: steps that no batch, however large, can do without, S_min [1]
        critical_batch: batch with twice the least steps and twice the least samples, B_c [1]
        batch: of a step, in tokens or samples as the critical one, B [1]

    Returns:
        steps, S [1]

    Example:
        >>> steps_for_batch(1000.0, 4e6, 1e6)
        5000.0

    Holds: learning rates set for each batch; one critical batch for the whole run, where it really grows as loss falls

    Source:
        mccandlish-2018

    Monotone: increasing in least_steps, critical_batch; decreasing in batch
    """
    return least_steps * (1 + critical_batch / batch)


@equation
def samples_for_batch(least_samples: Number, critical_batch: Number, batch: Number) -> Number:
    """Samples to a loss with a batch.

    E = E_min (1 + B/B_c)

    Args:
        least_samples: samples that no batch, however small, can do without, E_min [1]
        critical_batch: batch with twice the least steps and twice the least samples, B_c [1]
        batch: of a step, in tokens or samples as the critical one, B [1]

    Returns:
        samples, E [1]

    Example:
        >>> samples_for_batch(1e12, 4e6, 1e6) / 1e12
        1.25

    Holds: as steps_for_batch

    Source:
        mccandlish-2018

    Monotone: increasing in least_samples, batch; decreasing in critical_batch
    """
    return least_samples * (1 + batch / critical_batch)


@equation
def batch_step_time(batch: Number, token_time: Number, ranks: Number, fixed: Number) -> Number:
    """Time of a step of which a part grows with the batch.

    T = B t/n + f

    Args:
        batch: tokens of a step, B [1]
        token_time: of a token on one rank, t [s]
        ranks: accelerators that share the batch, n [1]
        fixed: time of a step that the batch does not change, f [s]

    Returns:
        time, T [s]

    Example:
        >>> batch_step_time(4e6, 1e-3, 1000.0, 0.5)
        4.5

    Holds: no estimate calls it

    Source:
        composition

    Monotone: increasing in batch, token_time, fixed; decreasing in ranks
    """
    return batch * token_time / ranks + fixed


@equation
def best_batch(critical_batch: Number, fixed: Number, ranks: Number, token_time: Number) -> Number:
    """Batch with the least wall time to a loss.

    B* = √(B_c f n / t)

    Args:
        critical_batch: batch with twice the least steps and twice the least samples, B_c, in tokens [1]
        fixed: time of a step that the batch does not change, f [s]
        ranks: accelerators that share the batch, n [1]
        token_time: of a token on one rank, t [s]

    Returns:
        tokens of a step, B* [1]

    Example:
        >>> round(float(best_batch(4e6, 0.4, 1024.0, 1e-3)))
        1280000

    Holds: steps as steps_for_batch, each of a time as batch_step_time

    Source:
        mccandlish-2018; composition

    Pitfall:
        twice the batch always costs samples; it saves time only while the fixed part of a step counts

    Monotone: increasing in critical_batch, fixed, ranks; decreasing in token_time
    """
    return np.sqrt(critical_batch * (fixed * ranks / token_time))


@equation
def critical_batch_of_loss(loss: Number) -> Number:
    """Critical batch of language models at a loss, as fitted in 2020.

    B_c = 2e8 / L^(1/0.21)

    Args:
        loss: cross-entropy, L, in nats a token [1]

    Returns:
        tokens, B_c [1]

    Example:
        >>> round(float(critical_batch_of_loss(2.0)) / 1e6, 1)
        7.4

    Holds: a fit on WebText2 with its tokenizer; with other data the constant is 2 to 3 times off, so that the answer is
        a band. Later fits find that it depends on the data seen, and not on the model

    Source:
        kaplan-2020 eq. 1.4

    Monotone: decreasing in loss
    """
    return LOSS_BATCH / loss ** (1 / LOSS_EXPONENT)


@equation
def fitted_batch(flop: Number) -> Number:
    """Best batch of a training run, as DeepSeek fitted it.

    B = 0.292 C^0.3271

    Args:
        flop: work of the whole run, C [FLOP]

    Returns:
        tokens of a step, B [1]

    Example:
        >>> round(float(fitted_batch(6 * 67e9 * 2e12)) / 1e6, 1)
        19.3

    Holds: a fit of one team on its data from 1e17 to 2e19 FLOP, within 5 % of the batches of its 7B and 67B models

    Source:
        bi-2024 eq. 1

    Monotone: increasing in flop
    """
    return BATCH_FACTOR * (flop / FITTED_FLOP) ** BATCH_EXPONENT


@equation
def fitted_learning_rate(flop: Number) -> Number:
    """Best peak learning rate of a training run, as DeepSeek fitted it.

    η = 0.3118 C^−0.125

    Args:
        flop: work of the whole run, C [FLOP]

    Returns:
        learning rate, η [1]

    Example:
        >>> round(float(fitted_learning_rate(6 * 67e9 * 2e12)) * 1e4, 1)
        3.2

    Holds: as fitted_batch, with AdamW; no estimate calls it

    Source:
        bi-2024 eq. 1

    Monotone: decreasing in flop
    """
    return RATE_FACTOR * (flop / FITTED_FLOP) ** RATE_EXPONENT


@equation
def carried_batch(batch: Number, tokens: Number, known_tokens: Number, growth_exponent: Number) -> Number:
    """Batch for more tokens from one that is known to be good for fewer.

    B (D/D₀)^α

    Args:
        batch: known to be good, B, in tokens [1]
        tokens: of the run to come, D [1]
        known_tokens: of the run it was good for, D₀ [1]
        growth_exponent: α: 0.38 for the best, 0.46 for the critical batch [1]

    Returns:
        tokens of a step [1]

    Example:
        >>> float(carried_batch(1e6, 16e9, 1e9, 0.5)) / 1e6
        4.0

    Holds: the same data and tokenizer; fitted exponents are 0.383 for the best batch, 0.462 and 0.47 for the critical;
        no estimate calls it

    Source:
        bergsma-2025; zhang-2024

    Monotone: increasing in batch, tokens; decreasing in known_tokens
    """
    return batch * (tokens / known_tokens) ** growth_exponent


@equation
def carried_learning_rate(
    learning_rate: Number, batch: Number, known_batch: Number, *, rule: Literal["linear", "square root"]
) -> Number:
    """Learning rate for another batch from one that is known to be good.

    η B/B₀ for SGD with a warm-up; η √(B/B₀) for Adam

    Args:
        learning_rate: known to be good, η [1]
        batch: of the run to come, B [1]
        known_batch: of the run it was good for, B₀ [1]
        rule: how it grows

    Returns:
        learning rate [1]

    Example:
        >>> float(carried_learning_rate(0.1, 8192.0, 256.0, rule="linear"))
        3.2

    Holds: below the critical batch; the linear rule was seen to hold up to 8,192 images for ResNet-50

    Source:
        goyal-2017; malladi-2022

    Monotone: increasing in learning_rate, batch; decreasing in known_batch
    """
    return learning_rate * (batch / known_batch) ** (1.0 if rule == "linear" else 0.5)
