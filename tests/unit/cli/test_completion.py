from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from magnetar.cli.completion import format_script
from magnetar.cli.table import COMMANDS


def complete(*words: str) -> set[str]:
    """What bash offers for the last of these words."""
    quoted = " ".join(f"'{word}'" for word in ("magnetar", *words))
    script = (
        f"{format_script('bash')}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _magnetar\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("prod",), {"produce"}),
        (("admin", "top"), {"topics", "topicPolicies"}),
        (("admin", "-o", "json", "tenants", "up"), {"update"}),
        (("admin", "topics", "create-par"), {"create-partitioned-topic"}),
        (("admin", "topics", "create-partitioned-topic", "x", "--part"), {"--partitions"}),
        (("consume", "my-topic", "--read"), {"--reader"}),
        (("completion", ""), {"bash", "zsh", "fish"}),
        (("spark", "order"), {"order-audit"}),
        (("spark", "what-if", "--mas"), {"--master"}),
        (("tokens", "cr"), {"create", "create-secret-key", "create-key-pair"}),
        (("tokens", "create-secret-key", "--out"), {"--output"}),
        (("tokens", "create-secret-key", "--output", "a.key", "--fo"), {"--force"}),
    ],
)
def test_bash_offers_what_can_follow(words: tuple[str, ...], expected: set[str]) -> None:
    assert complete(*words) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_valid_in_its_shell(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = format_script(shell)
    done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [each.name for each in COMMANDS if each.is_group])
def test_a_command_with_commands_of_its_own_offers_those_alone(command: str) -> None:
    offered = complete(command, "")
    assert offered > {"--help"}
    assert not offered & {each.name for each in COMMANDS}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("admin/topics/create-partitioned-topic", "--partitions"),
        ("spark", "order-audit"),
        ("spark/order-audit", "--master"),
        ("tokens/create-key-pair", "--force"),
    ],
)
def test_every_script_knows_every_level(shell: str, path: str, word: str) -> None:
    script = format_script(shell)
    assert re.search(rf"\s'?{path}[')].*\s*echo '[^']*(?<![\w-]){word}(?![\w-])", script)
