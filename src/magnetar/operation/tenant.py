"""Tenants."""

from __future__ import annotations

from typing import Final

from magnetar.model.permission import SUPER_USER, TENANT_ADMIN
from magnetar.operation.row import FORCE, TENANT, Kind, Result, Table, Verb, body, local

TABLE: Final = Table("tenants", "/admin/v2/tenants")
_INFO: Final = body("info", Kind.DOCUMENT, None)
_ROLES: Final = local("admin_roles", Kind.NAMES).asked(
    "roles that administrate it, with commas", "-r", "--admin-roles", many=True
)
_CLUSTERS: Final = local("allowed_clusters", Kind.NAMES).asked(
    "clusters it may use, with commas (all)", "-c", "--allowed-clusters", many=True
)

TABLE.add(
    "list",
    "GET",
    "",
    SUPER_USER,
    "Names of all tenants, sorted.",
    result=Result.NAMES,
    cli=Verb("list", "list tenants"),
)
TABLE.add(
    "get",
    "GET",
    "/{tenant}",
    TENANT_ADMIN,
    "A tenant's admin roles and clusters.",
    TENANT,
    result=Result.DOCUMENT,
    cli=Verb("get", "show a tenant"),
)
TABLE.add(
    "create",
    "PUT",
    "/{tenant}",
    SUPER_USER,
    "Create a tenant.",
    TENANT,
    _INFO,
    _ROLES,
    _CLUSTERS,
    cli=Verb("create", "add a tenant"),
    is_written=True,
)
TABLE.add(
    "update",
    "POST",
    "/{tenant}",
    TENANT_ADMIN,
    "Change a tenant's admin roles and clusters.",
    TENANT,
    _INFO,
    _ROLES,
    _CLUSTERS,
    cli=Verb("update", "change a tenant"),
    is_written=True,
)
TABLE.add(
    "delete",
    "DELETE",
    "/{tenant}",
    TENANT_ADMIN,
    "Delete a tenant without namespaces, or with them when forced.",
    TENANT,
    FORCE.asked("with its namespaces and topics", "-f", "--force"),
    cli=Verb("delete", "remove a tenant"),
)
