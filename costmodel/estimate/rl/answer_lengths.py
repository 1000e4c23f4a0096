"""Lengths of answers: mean, spread, longest, and representative sequences."""

from __future__ import annotations

from costmodel.documents.schemas.rl.rl_workload import Rl
from costmodel.equations.run.reinforcement_learning import (
    DEVIATIONS,
    expected_longest,
    length_at,
    length_variation,
    log_spread,
    mean_square_length,
    token_weighted_length,
)
from costmodel.estimate.shared.assumptions import AssumptionLog
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

SPREAD = 0.95  # of reasoning answers, standard deviation over mean: 0.8 of the logarithm


@record
class AnswerLengths:
    """Tokens of a prompt and of answers: the mean as stated, the limit, and mean and mean square after the limit."""

    prompt: float
    written: float
    limit: float
    sigma: Number
    mean: Number
    square: Number

    @property
    def tokens(self) -> Number:
        """Mean tokens of a prompt and its answer."""
        return self.prompt + self.mean

    @property
    def sequence(self) -> Number:
        """Length of a sequence, averaged over tokens instead of sequences."""
        return token_weighted_length(self.prompt, self.mean, self.square)

    @property
    def variation(self) -> Number:
        """Standard deviation of prompt and answer over their mean."""
        return length_variation(self.prompt, self.mean, self.square)

    @property
    def output_variation(self) -> Number:
        """Standard deviation of answers over their mean."""
        return length_variation(0.0, self.mean, self.square)

    @property
    def grid(self) -> Number:
        """Answer lengths at which a generation is evaluated."""
        return length_at(self.written, self.sigma, DEVIATIONS, self.limit)

    def before(self, length: Number) -> Number:
        """Mean tokens of answers that are cut at a length: the tokens that a stream decodes before it."""
        return expected_longest(self.written, self.sigma, 1.0, length)

    def longest(self, answers: Number) -> Number:
        """Expected tokens of the longest of so many answers."""
        return expected_longest(self.written, self.sigma, answers, self.limit)


def answer_lengths(workload: Rl, log: AssumptionLog) -> AnswerLengths:
    """The answer lengths of a workload; the default spread is recorded as an assumption."""
    response = workload.response
    spread = log.choose("workload.response.spread", response.spread, SPREAD, "judged: none is published")
    with term("lengths"):
        sigma = log_spread(spread)
        mean = expected_longest(response.mean, sigma, 1.0, response.limit)
        square = mean_square_length(response.mean, sigma, response.limit)
    return AnswerLengths(workload.prompt, response.mean, response.limit, sigma, mean, square)
