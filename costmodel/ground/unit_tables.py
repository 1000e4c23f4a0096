"""Units and their multiples as people write them, with an example of each for messages."""

from __future__ import annotations

DECIMAL = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
SMALL = {"m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9}  # the micro sign, and the Greek letter
BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
LARGE = {"": 1.0, **DECIMAL, **BINARY}
NAMES = {"k": "kilo", "M": "mega", "G": "giga", "T": "tera"}
WORDS = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
MULTIPLES = {**DECIMAL, **BINARY, **WORDS}
COUNT_SUFFIXES = {"": 1.0, "B": 1e9, **MULTIPLES}
TENS = {"100": 100.0, "1000": 1e3}  # a rate for each so many

SYMBOLS: dict[str, tuple[float, dict[str, int]]] = {
    "B": (1.0, {"B": 1}),
    "b": (0.125, {"B": 1}),
    **dict.fromkeys(("byte", "bytes", "Byte", "Bytes"), (1.0, {"B": 1})),
    **dict.fromkeys(("bit", "bits"), (0.125, {"B": 1})),
    "Bps": (1.0, {"B": 1, "s": -1}),
    "bps": (0.125, {"B": 1, "s": -1}),
    "FLOP": (1.0, {"FLOP": 1}),
    "OP": (1.0, {"FLOP": 1}),
    "s": (1.0, {"s": 1}),
    "J": (1.0, {"J": 1}),
    **dict.fromkeys(("W", "watt", "watts"), (1.0, {"J": 1, "s": -1})),
    "Wh": (3600.0, {"J": 1}),
    "Hz": (1.0, {"s": -1}),
    **dict.fromkeys(("rps", "RPS", "qps", "QPS"), (1.0, {"request": 1, "s": -1})),
    "g": (1e-3, {"kg": 1}),
    "t": (1e3, {"kg": 1}),
    "USD": (1.0, {"USD": 1}),
    "$": (1.0, {"USD": 1}),
}
WHOLE = {
    **dict.fromkeys(("sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("week", "weeks"), 604800.0),
}
# How quantities of a unit are written, for messages.
SPELLINGS = {
    "s": "a time is written in us, ms, s, min, h, days or weeks",
    "USD": "money is written '3 M USD', '$3M', '3 million USD' or '3e6 USD'; no other currency",
    "USD/s": "a price is written '2.50 USD/GPU/h', '$2.50/h' or '60 USD/day'; no other currency",
    "1": "a number may end in k, M, B, T, Ki, Mi, Gi, million, billion, trillion or %",
}
EXAMPLES = {
    "B": "80 GiB",
    "B/s": "3.35 TB/s",
    "FLOP/s": "989 TFLOP/s",
    "FLOP": "4 GFLOP",
    "s": "4.2 us",
    "J/s": "700 W",
    "USD": "3 M USD",
    "USD/s": "2.50 USD/GPU/h",
    "1/s": "1830 MHz",
    "J": "5 GWh",
    "kg": "1800 t",
    "kg/J": "380 g/kWh",
    "1": "0.81 or 81 %",
}
OWN_EXAMPLES = {
    "token/s": "300,000 token/s",
    "token/GPU/s": "9,000 token/s",
    "USD/node/s": "98.32 USD/h",
    "USD/J": "0.08 USD/kWh",
    "1/node/s": "3.8 /1000 node-days",
    "run/s": "2.2 /day",
    "request/s": "8 requests/s",
}
# In which a number may stand without its unit, since there is no other one in use.
PLAIN = frozenset({"request/s"})
# How what was counted leads to what is counted there.
RELATED = {
    ("GPU", "node"): "nodes are GPUs over those of a node; write e.g. '4 nodes'",
    ("node", "GPU"): "GPUs are nodes times those of a node; write e.g. '8 GPUs'",
    ("sequence", "token"): "tokens are sequences times the length of one; write e.g. '8192 tokens'",
    ("step", "token"): "tokens are steps times those of a batch; write e.g. '15 T tokens'",
}
