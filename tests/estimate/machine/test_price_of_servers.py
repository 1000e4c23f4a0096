"""The price of machines that a parameter server adds."""

from __future__ import annotations

import pytest

from costmodel.documents.reader.load_scenario import load
from costmodel.estimate.training_answer.predict_training import predict

NAME = "ddp-llama-3.2-1b-32"
SETTINGS = ("plan.sync=parameter-server 4", "assume.price=2 USD/GPU/h", "workload.tokens=1 T")
SERVERS = "assume.server_price=1.50 USD/node/h"


@pytest.mark.parametrize("more", [(), ("run={}",), ("run.spares=1",)])
def test_servers_are_paid_for_as_long_as_the_run(more: tuple[str, ...]) -> None:
    without, paid = (predict(load(NAME, [*SETTINGS, *more, *each])) for each in ((), (SERVERS,)))
    one, other = without.evaluation.costs.row(), paid.evaluation.costs.row()
    assert other["run_cost"] - one["run_cost"] == pytest.approx(4 * 1.5 * other["run_time"] / 3600)
    assert other["cost_per_mtoken"] - one["cost_per_mtoken"] == pytest.approx(
        4 * 1.5 / 3600 * 1e6 / other["tokens_per_s"]
    )
    assert "assume.server_price" in {item.path for item in without.assumed}
    assert "assume.server_price" not in {item.path for item in paid.assumed}


def test_a_job_without_servers_pays_for_none() -> None:
    usual = [setting for setting in SETTINGS if "sync" not in setting]
    with_price, without = (predict(load(NAME, each)) for each in ([*usual, SERVERS], usual))
    assert with_price.evaluation.costs.row() == without.evaluation.costs.row()
    assert "N043" in with_price.remarked
    assert "N043" not in without.remarked
    assert "N043" not in predict(load(NAME, [*SETTINGS, SERVERS])).remarked
    assert "assume.server_price" not in {item.path for item in without.assumed}
