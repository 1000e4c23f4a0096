"""The critical batch of a workload in tokens, as stated or by a published fit, and how far fits lie apart."""

from __future__ import annotations

from costmodel.documents.schemas.critical_batch import batch_fit
from costmodel.documents.schemas.scenario import Training
from costmodel.equations.data_parallel.batch_size import critical_batch_of_loss, fitted_batch
from costmodel.ground.equation import Number

FITS_APART = 3.0  # by so much constants differ with data and tokenizer: two to three times


def critical_batch(workload: Training) -> Number | None:
    """Tokens; nothing where the workload has none."""
    stated = workload.critical_batch
    if not isinstance(stated, str):
        return stated
    fit = batch_fit(str(stated))
    return critical_batch_of_loss(fit.at) if fit.fit == "kaplan" else fitted_batch(fit.at)


def is_fitted(workload: Training) -> bool:
    """Whether it follows from a fit, so that it is known to a factor alone."""
    return isinstance(workload.critical_batch, str)
