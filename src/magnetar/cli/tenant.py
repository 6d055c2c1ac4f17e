"""`magnetar admin tenants`."""

from __future__ import annotations

from typing import Any, Final

from magnetar.cli.command import Argument, Flag, Options, Switch, Verb
from magnetar.cli.value import join, parse_list

_TENANT: Final = Argument("tenant", "name of the tenant")
_ROLES: Final = Flag(
    ("-r", "--admin-roles"), "roles that administrate it, with commas", parse=parse_list, many=True
)
_CLUSTERS: Final = Flag(
    ("-c", "--allowed-clusters"),
    "clusters it may use, with commas (all)",
    parse=parse_list,
    many=True,
)


def _create(admin: Any, options: Options) -> None:
    admin.tenants.create(
        options.tenant,
        admin_roles=join(options.admin_roles),
        allowed_clusters=join(options.allowed_clusters),
    )


def _update(admin: Any, options: Options) -> None:
    admin.tenants.update(
        options.tenant,
        admin_roles=None if options.admin_roles is None else join(options.admin_roles),
        allowed_clusters=(
            None if options.allowed_clusters is None else join(options.allowed_clusters)
        ),
    )


VERBS: Final = (
    Verb("list", "list tenants", (), lambda a, o: a.tenants.list()),
    Verb("get", "show a tenant", (_TENANT,), lambda a, o: a.tenants.get(o.tenant)),
    Verb("create", "add a tenant", (_TENANT, _ROLES, _CLUSTERS), _create, shows=False),
    Verb("update", "change a tenant", (_TENANT, _ROLES, _CLUSTERS), _update, shows=False),
    Verb(
        "delete",
        "remove a tenant",
        (_TENANT, Switch(("-f", "--force"), "with its namespaces and topics")),
        lambda a, o: a.tenants.delete(o.tenant, force=o.force),
        shows=False,
    ),
)
