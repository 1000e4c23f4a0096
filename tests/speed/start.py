"""How long a command takes, whole, over what importing typer and rich takes: `python tests/speed/start.py [runs]`.

Commands take turns, and the least of the runs of each is shown: the rest is what else the machine did.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

COMMANDS = {
    "import typer, rich": ["-c", "import typer, rich.console, rich.table"],
    "costmodel --help": ["-m", "costmodel", "--help"],
    "costmodel estimate": ["-m", "costmodel", "estimate", "llama-3-70b-512"],
    "… of serving": ["-m", "costmodel", "estimate", "serve-llama-3.1-70b"],
    "costmodel memory": ["-m", "costmodel", "memory", "llama-3-70b-512"],
    "costmodel search": ["-m", "costmodel", "search", "llama-3-70b-512"],
}


def seconds(arguments: list[str]) -> float:
    """Of one whole process, which may keep what it compiled as an installed command does."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True, env=environment)
    return time.perf_counter() - began


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    rounds = [{name: seconds(arguments) for name, arguments in COMMANDS.items()} for _ in range(runs)]
    taken = {name: min(turn[name] for turn in rounds) for name in COMMANDS}
    base, *_ = taken.values()
    for name, least in taken.items():
        print(f"{name:20} {least * 1e3:6.0f} ms {least / base:6.2f} ×")


if __name__ == "__main__":
    main()
