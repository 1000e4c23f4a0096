"""What a page shows of a scenario of reinforcement learning: its plan, its traces, its splits and what moves it."""

from __future__ import annotations

import functools

from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.estimate.machine.process_groups import Transfer
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.serving.replica_capacity import transfers
from costmodel.explore.explain.equation_trees import ExplainedFigure, traced_evaluation
from costmodel.explore.page.transfer_nodes import transfer_trees
from costmodel.explore.rl import RlSearch, explain_all, search
from costmodel.explore.transfer_bandwidth import is_sent
from costmodel.explore.vary.sensitivity import Sensitivity, sensitivity
from costmodel.explore.workloads import workload_of
from costmodel.ground.equation import trace
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record


@record
class RlFacts:
    """A plan of reinforcement learning with all that a page draws of it."""

    answer: RlAnswer

    @property
    def case(self) -> RlCase:
        """The scenario with everything it names."""
        return self.answer.inputs.case

    @functools.cached_property
    def nodes(self) -> dict[str, ExplainedFigure]:
        """The equation tree of every figure, by name."""
        return explain_all(self.answer) | transfer_trees(self.case.trees, self._sent())

    def _sent(self) -> list[Transfer]:
        """Traced transfers of an optimizer step and of the engines."""
        trainer, engines = self.answer.inputs.trainer, self.answer.inputs.engines
        sent = list(filter(is_sent, traced_evaluation(trainer.inputs, trainer.plan).step.transfers))
        if engines is not None:
            with trace():
                of_engines = transfers(engines.inputs, engines.layout, engines.together)
                sent += [of_engine.transfer for of_engine in of_engines]
        return sent

    @functools.cached_property
    def found(self) -> RlSearch | None:
        """The search over splits of the accelerators; None if nothing is valid or the objective is unknown."""
        try:
            found = search(self.case, 50)
        except CostModelError:
            return None
        return found if found.best else None

    @functools.cached_property
    def sensitive(self) -> Sensitivity | None:
        """The sensitivity of the iteration time; None where it cannot be computed."""
        try:
            return sensitivity(workload_of(self.case))
        except CostModelError:
            return None
