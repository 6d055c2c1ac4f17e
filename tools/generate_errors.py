"""Write docs/errors.md: every refusal with its codes, from the table of the code, and what to do.

python tools/generate_errors.py           write it
python tools/generate_errors.py --check   fail when it is not what would be written

The sentences are in tools/error_advice.tsv; each refusal has one, and each sentence a refusal.
"""

from __future__ import annotations

import csv
from pathlib import Path

from magnetar import errors
from magnetar.errors import FAULTS, BrokerError, MagnetarError

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "errors.md"
ADVICE = ROOT / "tools" / "error_advice.tsv"
HEAD = """\
# Errors and what to do

Written by `tools/generate_errors.py` from `src/magnetar/errors.py`. Over REST a refusal is the
status and `{"reason": …}`; over the binary protocol the code of Pulsar's `ServerError`; in the
Python SDK an exception of `magnetar` whose text is the same sentence; on the command line that
sentence and exit code 1. *Retry* says whether repeating the same call may succeed without a
change; official clients and ours repeat those by themselves.

| error | when | what to do | REST | binary | retry |
| --- | --- | --- | --- | --- | --- |
"""


def read_advice() -> dict[str, tuple[str, str]]:
    with ADVICE.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return {row["error"]: (row["when"], row["what to do"]) for row in rows}


def refusals() -> dict[str, type[MagnetarError]]:
    """Those of the table, and those that end a process or a connection."""
    found: dict[str, type[MagnetarError]] = {each.__name__: each for each in FAULTS}
    for name, each in vars(errors).items():
        if not isinstance(each, type) or not issubclass(each, MagnetarError):
            continue
        if each is not MagnetarError and not issubclass(each, BrokerError):
            found[name] = each
    return found


def write_page() -> str:
    advice, known = read_advice(), refusals()
    if advice.keys() != known.keys():
        raise SystemExit(f"{ADVICE.name}: {sorted(advice.keys() ^ known.keys())}")
    lines = []
    for name, (when, todo) in advice.items():
        kind = known[name]
        codes = "— | — | —"
        if issubclass(kind, BrokerError):
            fault = FAULTS[kind]
            code = "".join(word.capitalize() for word in fault.code.name.split("_"))
            codes = f"{fault.status.value} | {code} | {'yes' if fault.retry else 'no'}"
        lines.append(f"| `{name}` | {when} | {todo} | {codes} |\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    from output import finish

    finish({PAGE: write_page()})
