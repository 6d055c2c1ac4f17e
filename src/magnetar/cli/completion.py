"""`magnetar completion SHELL`: scripts made from the same tables as the commands themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from magnetar.cli.admin import group_names, load_verbs
from magnetar.cli.cluster import VERBS as CLUSTER_VERBS
from magnetar.cli.command import Argument, Options, Verb, unknown
from magnetar.cli.spark import SHARED, VERBS
from magnetar.cli.table import ADMIN_ARGUMENTS, COMMANDS
from magnetar.cli.token import VERBS as TOKEN_VERBS


def run(options: Options) -> int:
    if options.shell not in _SCRIPTS:
        raise unknown("magnetar completion", "shell", options.shell, _SCRIPTS, "bash")
    print(format_script(options.shell))
    return 0


def format_script(shell: str) -> str:
    script, case = _SCRIPTS[shell]
    cases = [case.format(path=path or "/", words=" ".join(words)) for path, words in _cases()]
    return script.replace("@CASES@", "\n".join(cases))


def _flags(arguments: Iterable[Argument]) -> list[str]:
    return [name for argument in arguments for name in argument.names if name.startswith("--")]


def _cases() -> list[tuple[str, list[str]]]:
    """What may follow each path of words; the path `admin topics` is spelled `admin/topics`."""
    cases = [("", [command.name for command in COMMANDS])]
    for command in COMMANDS:
        if command.name == "completion":
            cases.append((command.name, [*_SCRIPTS]))
        elif not command.is_group:
            cases.append((command.name, [*_flags(command.arguments), "--help"]))
    cases += complete_rows("cluster", CLUSTER_VERBS, [])
    cases += complete_rows("spark", VERBS, _flags(SHARED))
    cases += complete_rows("tokens", TOKEN_VERBS, [])
    common = _flags(ADMIN_ARGUMENTS)
    cases.append(("admin", [*group_names(), *common, "--help"]))
    for name in group_names():
        cases += complete_rows(f"admin/{name}", tuple(load_verbs(name)), common)
    return cases


def complete_rows(
    path: str, rows: Sequence[Verb], common: list[str]
) -> list[tuple[str, list[str]]]:
    """The rows below a path, and what may follow each of them."""
    names = [row.name for row in rows]
    return [
        (path, [*names, "--help"]),
        *((f"{path}/{row.name}", [*_flags(row.arguments), *common, "--help"]) for row in rows),
    ]


# Words before the cursor that are options, or values of options, are no part of the path.
_BASH = r"""_magnetar_words() {
  case "$1" in
@CASES@
  esac
}
_magnetar() {
  local word path=""
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) continue ;; esac
    [ -n "$(_magnetar_words "${path:+$path/}$word")" ] || continue
    path="${path:+$path/}$word"
  done
  COMPREPLY=($(compgen -W "$(_magnetar_words "${path:-/}")" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _magnetar magnetar"""

_ZSH = r"""#compdef magnetar
_magnetar_words() {
  case "$1" in
@CASES@
  esac
}
_magnetar() {
  local word p=""
  for word in "${(@)words[2,CURRENT-1]}"; do
    case "$word" in -*) continue ;; esac
    [[ -n "$(_magnetar_words "${p:+$p/}$word")" ]] || continue
    p="${p:+$p/}$word"
  done
  compadd -- ${(s: :)"$(_magnetar_words "${p:-/}")"} || _files
}
compdef _magnetar magnetar"""

_FISH = r"""function _magnetar_words
    switch $argv[1]
@CASES@
    end
end
function _magnetar_complete
    set -l path ""
    for word in (commandline -opc)[2..-1]
        string match -q -- '-*' $word; and continue
        set -l next (string trim --left --chars=/ -- "$path/$word")
        test -n "$(_magnetar_words $next)"; or continue
        set path $next
    end
    test -n "$path"; or set path /
    string split ' ' -- (_magnetar_words $path)
end
complete -c magnetar -f -a '(_magnetar_complete)'"""

_CASE: Final = "    {path}) echo '{words}' ;;"
_SCRIPTS: Final = {
    "bash": (_BASH, _CASE),
    "zsh": (_ZSH, _CASE),
    "fish": (_FISH, "        case '{path}'\n            echo '{words}'"),
}
