"""Commands that the guides print and no test runs are ones that the programs take."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping

import pytest

from magnetar.cli.admin import GROUPS
from magnetar.cli.cluster import VERBS as CLUSTER_VERBS
from magnetar.cli.command import Verb, build_parser
from magnetar.cli.spark import SUBMIT
from magnetar.cli.spark import VERBS as SPARK_VERBS
from magnetar.cli.table import ADMIN_ARGUMENTS, COMMANDS
from magnetar.cli.token import VERBS as TOKEN_VERBS
from tests.tidy.source import PACKAGE, ROOT
from tests.tidy.test_doc import PAGES, blocks

READ = [*PAGES, ROOT / "bench" / "README.md", ROOT / "deploy" / "README.md"]
SUBCOMMANDS = {"cluster": CLUSTER_VERBS, "tokens": TOKEN_VERBS, "spark": SPARK_VERBS}
OTHERS = {"cd", ".", "spark-pipelines"}
"""What a shell or another project brings."""
INLINE = re.compile(r"`magnetar ([a-z-]+)(?: ([a-z-]+))?(?: ([a-z-]+))?")


def find(verbs: Iterable[Verb], word: str) -> Verb:
    found = next((each for each in verbs if word in (each.name, *each.aliases)), None)
    assert found is not None, f"no command {word}"
    return found


def check_magnetar(words: list[str]) -> None:
    command = find(COMMANDS, words[0])
    rest = words[1:]
    if command.name == "admin":
        names = {name for group in GROUPS for name in (group.name, *group.aliases)}
        place = next(number for number, word in enumerate(rest) if word in names)
        group = find(GROUPS, rest[place])
        verb = find(group.run(), rest[place + 1])
        parser = build_parser("magnetar admin", verb, ADMIN_ARGUMENTS)
        parser.parse_args([*rest[:place], *rest[place + 2 :]])
        return
    if command.name in SUBCOMMANDS:
        is_submitted = rest[0] == SUBMIT
        command, rest = find(SUBCOMMANDS[command.name], rest[is_submitted]), rest[is_submitted:][1:]
        if is_submitted:  # what it does not know is spark-submit's
            build_parser("magnetar", command).parse_known_args(rest)
            return
    build_parser("magnetar", command).parse_args(rest)


def check_make(words: list[str]) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {word for word in words if "=" not in word} <= set(targets)


def check_python(words: list[str]) -> None:
    assert words[0] == "-m"
    if words[1] == "pytest":
        return
    place = ROOT / words[1].replace(".", "/")
    assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), words[1]
    known = "".join(path.read_text() for path in (ROOT / "bench").rglob("*.py"))
    for option in (word for word in words[2:] if word.startswith("--")):
        assert f'"{option}"' in known, f"{words[1]} has no {option}"


def check_pip(words: list[str]) -> None:
    assert words[0] == "install"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra in re.findall(r"\[([\w,-]+)\]", " ".join(words)):
        assert set(extra.split(",")) <= set(project["optional-dependencies"])


def check_simulation(words: list[str]) -> None:
    known = (PACKAGE / "testing" / "simulation" / "main.py").read_text()
    assert all(f'"{word}"' in known for word in words if word.startswith("--"))


CHECKS: Mapping[str, Callable[[list[str]], None]] = {
    "magnetar": check_magnetar,
    "magnetar-sim": check_simulation,
    "make": check_make,
    "pip": check_pip,
    "python": check_python,
}


def printed() -> Iterator[tuple[str, list[str]]]:
    """Where it stands, and the words of one command without its environment and redirections."""
    for page in READ:
        for block in blocks(page):
            if block.mark != "sh":
                continue
            for line in block.text.replace("\\\n", " ").splitlines():
                words: list[str] = []
                for word in [*shlex.split(line, comments=True), "&&"]:
                    if word not in ("&&", "&", ">"):
                        words.append(word)
                    elif words:
                        kept = [each for each in words if not re.match(r"[A-Z_]+=", each)]
                        yield f"{page.parent.name}/{page.name}: {line}", kept
                        words = []


def check(words: list[str]) -> None:
    program, *rest = words
    if program in CHECKS:
        CHECKS[program](rest)
    elif "/" in program:
        assert (ROOT / program).exists()
    else:
        assert program in OTHERS, program


def test_every_printed_command_is_one_that_its_program_takes() -> None:
    found = list(printed())
    assert len(found) > 40
    for place, words in found:
        if words[0].endswith(".json"):  # what a command is written to
            continue
        try:
            check(words)
        except Exception as error:
            raise AssertionError(f"{place}: {error}") from error


def test_every_command_that_a_sentence_names_exists() -> None:
    for page in READ:
        for first, second, third in INLINE.findall(page.read_text()):
            command = find(COMMANDS, first)
            if command.name in SUBCOMMANDS and second and second != SUBMIT:
                find(SUBCOMMANDS[command.name], second)
            if command.name == "admin" and second and third:
                find(find(GROUPS, second).run(), third)


@pytest.mark.parametrize(
    "line",
    ["magnetar standalone --nonsense", "make nothing", "pip install '.[nothing]'", "curl x"],
)
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    with pytest.raises(Exception, match=r"nonsense|nothing|curl|assert"):
        check(shlex.split(line))
