"""Write the table of docs/unsupported.md from that of the code (`magnetar/admin/unsupported.tsv`).

python tools/generate_unsupported.py           write it
python tools/generate_unsupported.py --check   fail when it is not what would be written
"""

from __future__ import annotations

from pathlib import Path

from magnetar.admin.unsupported import load_rows

PAGE = Path(__file__).parent.parent / "docs" / "unsupported.md"
HEAD = """\
| what | calls | instead |
| --- | --- | --- |
"""


def render(page: str) -> str:
    """The page with its table written anew; what one sentence is about is one row of it."""
    calls: dict[tuple[str, str], list[str]] = {}
    for row in load_rows():
        call = f"{row.methods.replace(' ', ', ')} `{row.path}`"
        calls.setdefault((row.feature, row.sentence), []).append(call)
    lines = (
        f"| {feature} | {'<br>'.join(each)} | {sentence} |\n"
        for (feature, sentence), each in calls.items()
    )
    return page[: page.index(HEAD)] + HEAD + "".join(lines)


if __name__ == "__main__":
    from output import finish

    finish({PAGE: render(PAGE.read_text())})
