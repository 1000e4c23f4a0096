"""Columns of sweep and scale about serving: their heads, the ends of bands beside them, which a narrow table drops."""

from collections.abc import Collection, Mapping
from typing import Any

from costmodel.documents.schemas.results import SERVING_COLUMNS, machine_name
from costmodel.report.terminal.style.formatting import ENDS

WORSE = {"tpot": ("tpot_high",), "ttft_p99": ("ttft_p99_high",)}  # ends of bands that are shown beside a result
SCALE = (
    "requests_per_s",
    "replicas",
    "gpus",
    "nodes",
    "tpot",
    "tpot_high",
    "ttft_p99",
    "ttft_p99_high",
    "limits_chance",
    "cost_per_mtoken",
    "rent_per_month",
)
NARROW = ("nodes", "p99 P90", "P90")  # columns that a narrow terminal has no room for
HEADS = {
    "rate_within_slo_per_s": "within limits",
    "ttft": "first token",
    "ttft_p99": "p99",
    "tpot": "per token",
    "worst_gap": "worst gap",
    "requests_per_s": "rate",
    "saturation_share": "load",
    "gpus": "GPUs",
    "replicas": "repl",
    "rent_per_month": "a month",
    "tpot_high": "P90",
    "ttft_p99_high": "p99 P90",
    "in_time_share": "in time",
    "in_time_per_s": "goodput",
    "limits_chance": "chance",
    "cost_per_mtoken": "rent/M out",
}
_OF_ROWS = ("works", "codes", "notes", "fault")


def asked_values(row: Mapping[str, Any], paths: Collection[str], shown: Collection[str]) -> dict[str, Any]:
    """Of a combination as plain values: the keys that vary, the results asked for with their bands, and whether it
    works.
    """
    ends = [f"{name}_{end}" for name in shown for end in ENDS]
    names = {machine_name(name) for name in (*shown, *ends) if name in SERVING_COLUMNS}
    return {key: value for key, value in row.items() if key in {*paths, *names, *_OF_ROWS}}
