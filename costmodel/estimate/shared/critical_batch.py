"""The critical batch of a workload in tokens, as stated or from a published fit, and the spread of the fits."""

from __future__ import annotations

from costmodel.documents.schemas.scenario import Training, batch_fit
from costmodel.equations.data_parallel import critical_batch_of_loss, fitted_batch
from costmodel.ground.equation import Number
from costmodel.ground.units import significant

FITS_APART = 3.0  # by so much constants differ with data and tokenizer: two to three times
FITTED_FROM, FITTED_TO = 1e17, 2e19  # FLOP of the runs that DeepSeek fitted [bi-2024 eq. 1]


def critical_batch(workload: Training) -> Number | None:
    """Critical batch in tokens; None if the workload has none."""
    stated = workload.critical_batch
    if not isinstance(stated, str):
        return stated
    fit = batch_fit(str(stated))
    return critical_batch_of_loss(fit.at) if fit.fit == "kaplan" else fitted_batch(fit.at)


def is_fitted(workload: Training) -> bool:
    """Whether the critical batch is from a fit, so that it is only known to a factor."""
    return isinstance(workload.critical_batch, str)


def other_meaning(workload: Training) -> tuple[str, ...]:
    """Remarks on DeepSeek's fit: it is of the best batch, not the critical one, and may be extrapolated."""
    stated = workload.critical_batch
    if not isinstance(stated, str) or (fit := batch_fit(str(stated))).fit != "deepseek":
        return ()
    words = "the fit of DeepSeek is of the best batch of a run, which stands in for the critical one"
    over, under = fit.at / FITTED_TO, FITTED_FROM / fit.at
    if max(over, under) <= 1:
        return (words,)
    beyond = f"{significant(over)} times over" if over > 1 else f"{significant(under)} times under"
    return words, f"extrapolated: this work is {beyond} its runs of 1e17 to 2e19 FLOP"
