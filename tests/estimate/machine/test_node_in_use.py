"""Nodes of which a job uses some accelerators: domain, interfaces and host links are those of the part in use."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from each import each
from hypothesis import given
from hypothesis import strategies as st

from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.load_scenario import load
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.hardware import Fabric, Node
from costmodel.equations.network.topology import domain_in_use, interfaces_in_use
from costmodel.estimate.machine.process_groups import domain_of, interface_rate, outruns_host_link
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.estimate.training_answer.predict_training import predict
from estimate.cases import ask, document, inputs, line, model, one

USED = "cluster.node.accelerators"


def used(node: str, accelerators: int, *more: str, nodes: int = 4) -> ResolvedScenario:
    """A job on so many accelerators of each node."""
    return load("quickstart", (f"cluster.node={node}", f"cluster.nodes={nodes}", f"{USED}={accelerators}", *more))


def domain(case: ResolvedScenario) -> float:
    """Ranks of a job that reach each other without the network."""
    return one(domain_of(case, case.scenario.cluster.nodes * case.node.accelerators))


@each("name", names("node"))
def test_a_whole_node_has_what_its_document_says(name: str) -> None:
    """Every shipped node: the domain of the document, and its interfaces shared by its accelerators."""
    node: Node = read("node", name)
    fabric: Fabric = read("fabric", node.scale_out.fabric)
    racks = int(max(1, node.scale_up.domain / node.accelerators))
    asked = used(name, int(node.accelerators), nodes=racks)
    assert domain(asked) == node.scale_up.domain
    assert interface_rate(asked, 0.5) == 0.5 * node.scale_out.nics * fabric.bandwidth / node.accelerators


@pytest.mark.parametrize(
    ("node", "accelerators", "nodes", "reached"),
    [
        ("dgx-h100", 8, 4, 8),
        ("dgx-h100", 4, 4, 4),
        ("dgx-h100", 3, 4, 3),
        ("dgx-h100", 1, 4, 1),
        ("dgx-h100", 12, 4, 4),  # two islands of 8 and 4 in a node: parts that lie in one island
        ("dgx-1v", 4, 4, 4),
        ("rtx4090-8", 2, 4, 2),
        ("mi250x-frontier", 4, 4, 4),
        ("trn1", 4, 4, 4),
        ("gb200-nvl72", 4, 18, 72),
        ("gb200-nvl72", 2, 18, 36),
        ("gb200-nvl72", 1, 18, 18),
        ("gb200-nvl72", 2, 4, 8),
        ("tpu-v5p-slice", 4, 64, 256),
        ("tpu-v5p-slice", 2, 64, 128),
    ],
)
def test_a_domain_ends_with_the_accelerators_in_use(node: str, accelerators: int, nodes: int, reached: int) -> None:
    """Within a node those in use; a tray of a rack still reaches the other trays, with as many of each."""
    assert domain(used(node, accelerators, nodes=nodes)) == reached


@pytest.mark.parametrize("even", [True, False])
def test_a_domain_of_any_size_ends_with_the_job(even: bool) -> None:
    """It is worked out without counting through its accelerators."""
    case = used("gb200-nvl72", 4, "cluster.node.scale_up.domain=1e15", nodes=18)
    assert one(domain_of(case, 72, even=even)) == 72


@pytest.mark.parametrize(
    ("node", "accelerators", "interfaces"),
    [
        ("dgx-a100", 8, 8 / 8),
        ("dgx-a100", 4, 4 / 4),  # the four next to them; those of idle GPUs do not help
        ("dgx-a100", 1, 1),
        ("p5", 8, 32 / 8),
        ("p5", 1, 4),
        ("dgx-1v", 4, 2 / 4),  # an interface for two GPUs
        ("dgx-1v", 1, 1),
        ("dgx-1v", 3, 2 / 3),
        ("a2-highgpu-8g", 4, 1 / 4),  # one for all
        ("a2-highgpu-8g", 1, 1),
        ("gb200-nvl72", 2, 1),
        ("dgx-a100", 16, 8 / 16),  # more accelerators than the node has share what there is
    ],
)
def test_an_accelerator_sends_over_the_interfaces_next_to_it(node: str, accelerators: int, interfaces: float) -> None:
    port = read("fabric", read("node", node).scale_out.fabric).bandwidth
    assert interface_rate(used(node, accelerators), 0.75) == pytest.approx(0.75 * interfaces * port, rel=1e-12)


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 16))
def test_more_accelerators_in_use_reach_more(nics: int, whole: int, built: int) -> None:
    """Neither domain nor interfaces shrink with another accelerator in use, nor are they more than the whole node's."""
    found = [
        (domain_in_use(whole, item, built), interfaces_in_use(nics, item, built)) for item in range(1, 2 * built + 1)
    ]
    assert all(before <= after for pair in itertools.pairwise(found) for before, after in zip(*pair, strict=True))
    assert all(reached <= whole and sending <= nics for reached, sending in found)
    assert found[built - 1][1] == nics
    assert found[built - 1][0] == (whole if whole <= built else whole // built * built)


def four_of_eight(**scale_out: Any) -> dict[str, Any]:
    """A node of four A100 with eight interfaces, written out in a scenario of the user's own."""
    return {
        "schema": "costmodel/node/v1",
        "name": "mine",
        "title": "A node of four",
        "provider": "me",
        "accelerator": "a100-sxm-80",
        "accelerators": 4,
        "scale_up": {"fabric": "nvlink3", "domain": 4, "source": "mine"},
        "scale_out": {"fabric": "ib-hdr", "nics": 8, "source": "mine", **scale_out},
        "host": "pcie4x16",
        "sources": {"mine": {"title": "mine"}},
    }


def test_several_interfaces_carry_no_more_than_the_host_link() -> None:
    """Two of 25 GB/s behind PCIe 4 at 31.5: said where it holds; interfaces on the chip need no such link."""
    asked = inputs(model(), node=four_of_eight(), nodes=4)
    assert interface_rate(asked.case, 1.0) == 31.5e9
    assert "N014" in ask(asked).remarked
    on_chip = inputs(model(), node=four_of_eight(on_chip=True), nodes=4)
    assert interface_rate(on_chip.case, 1.0) == 50e9
    assert "N014" not in ask(on_chip).remarked


def test_one_interface_is_taken_at_its_own_rate() -> None:
    """What if the network were faster than the host link of today: one interface is what its document says."""
    faster = used("dgx-h100", 8, "cluster.fabric.bandwidth=400 GB/s")
    assert interface_rate(faster, 1.0) == 400e9
    assert outruns_host_link(faster)
    assert not outruns_host_link(used("dgx-h100", 8, "cluster.fabric.bandwidth=62 GB/s"))
    assert not outruns_host_link(used("dgx-h100", 8, "cluster.fabric.bandwidth=800 Gb/s", "cluster.node.host=pcie6x16"))


def test_what_is_set_of_a_node_beside_its_accelerators_is_of_those_in_use() -> None:
    """Four GPUs with four interfaces, or with a domain of two such nodes: as it is said, in whatever order."""
    port = read("fabric", "ib-ndr").bandwidth
    assert interface_rate(used("dgx-h100", 4, "cluster.node.scale_out.nics=4"), 1.0) == port
    assert interface_rate(used("dgx-h100", 4, "cluster.node.scale_out.nics=2"), 1.0) == port / 2
    assert interface_rate(load("quickstart", ("cluster.node.scale_out.nics=4", f"{USED}=4")), 1.0) == port
    assert domain(used("dgx-h100", 4, "cluster.node.scale_up.domain=8")) == 8
    assert domain(used("dgx-h100", 4, "cluster.node.scale_up.domain=2")) == 2
    assert domain(used("dgx-h100", 8, "cluster.node.scale_up.domain=4")) == 4
    halved = load("quickstart", ("cluster.node.scale_out.nics=4",))
    assert interface_rate(halved, 1.0) == port / 2


def test_tensor_parallelism_over_two_half_used_nodes_leaves_the_domain() -> None:
    """Nodes with 4 of their 8 GPUs are no NVLink domain of 8 together."""
    more = ("plan.tp=8", "cluster.nodes=8")
    half, whole = (
        predict(load("quickstart", (*more, f"{USED}={item}", f"cluster.nodes={32 // item}"))) for item in (4, 8)
    )
    assert "N001" in half.remarked
    assert "N001" not in whole.remarked
    groups = {item.group.name: one(item.group.domains) for item in half.evaluation.step.transfers}
    assert groups["tp"] == 2
    exposed = [one(item.evaluation.costs.columns["tp_exposed"]) for item in (half, whole)]
    assert exposed[0] > 2 * exposed[1]


def test_half_of_a_node_reaches_half_of_its_bus_bandwidth() -> None:
    """NVIDIA/nccl#1168: about 45 GB/s with 4 GPUs a node, about 90 with 8: a ratio near 2."""
    busbw = {}
    for item in (4, 8):
        asked = used("dgx-a100", item, "stack.buckets.size=268 MB", "workload.global_batch=96", "plan.tp=1")
        given = ask(training_inputs(asked), zero=0, recompute="full")
        (reduced,) = (item for item in given.evaluation.step.transfers if item.operation == "all_reduce")
        ranks = one(reduced.group.ranks)
        busbw[item] = 2 * (ranks - 1) / ranks * one(reduced.message) / one(reduced.time)
    assert 1.7 < busbw[8] / busbw[4] < 2.1


def test_a_node_in_use_shares_the_host_of_the_whole() -> None:
    """What is the node's, memory and drives, those in use share; the link to the host is an accelerator's own."""
    half, whole = (training_inputs(used("dgx-h100", item)).host for item in (4, 8))
    assert (half.capacity, half.bandwidth, half.drives, half.link) == (
        whole.capacity,
        whole.bandwidth,
        whole.drives,
        whole.link,
    )
    assert (half.ranks, whole.ranks) == (4, 8)


ALONE = ("cluster.nodes=1", f"{USED}=1", "model=llama-3.2-1b", "workload.sequence=2048", "plan.tp=1")


@pytest.mark.parametrize("stack", ["megatron-core", "fsdp2", "ddp", "deepspeed", "maxtext"])
def test_one_accelerator_has_no_communicator_and_sends_nothing(stack: str) -> None:
    """Beside another it has the communicators of its stack."""
    given = predict(load("quickstart", (*ALONE, f"stack={stack}")))
    runtime = given.inputs.stack.runtime
    assert line(given, "runtime") == runtime.context
    assert line(given, "buckets") == 0
    assert all(one(item.count) == 0 or one(item.group.ranks) == 1 for item in given.evaluation.step.transfers)
    two = predict(load("quickstart", (*ALONE, f"stack={stack}", f"{USED}=2")))
    assert line(two, "runtime") == runtime.context + runtime.communicators * runtime.communicator


def test_what_is_assumed_of_other_ranks_is_not_said_of_one() -> None:
    """Nor of axes that a plan does not have."""
    alone = {item.path for item in predict(load("quickstart", ALONE)).assumed}
    assert not [path for path in alone if "overlap" in path or "network" in path]
    assert not alone & {"plan.sequence_parallel", "plan.schedule"}
    several = {item.path for item in predict(load("quickstart", ("plan.tp=8", "plan.pp=2"))).assumed}
    assert several >= {"assume.overlap.tp", "assume.overlap.dp", "assume.overlap.pp", "assume.network_share"}
    assert several >= {"plan.sequence_parallel", "plan.schedule"}
    assert "assume.overlap.cp" not in several


def test_more_of_a_node_is_never_slower() -> None:
    """From one GPU to all of a node a step takes less, and a GPU keeps nearly all of its speed."""
    found = [predict(load("quickstart", (*ALONE, "cluster.nodes=4", f"{USED}={item}"))) for item in (1, 2, 4, 8)]
    rows = [item.evaluation.costs.row() for item in found]
    assert [row["step_time"] for row in rows] == sorted((row["step_time"] for row in rows), reverse=True)
    item = [row["tokens_per_s_per_gpu"] for row in rows]
    assert min(item) > 0.9 * max(item)


def test_a_case_of_a_part_says_of_what() -> None:
    """The document of a stored result keeps how many the node is built with."""
    case = load("quickstart", (f"{USED}=4",))
    assert (case.node.accelerators, case.node.built_with, case.node.built) == (4, 8, 8)
    written = document(node=four_of_eight())["cluster"]["node"]
    assert Node.model_validate(written).built == 4
    assert Node.model_validate({**written, "built_with": 8}).built == 8
