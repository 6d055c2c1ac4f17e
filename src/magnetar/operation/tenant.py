"""Tenants."""

from __future__ import annotations

from typing import Final

from magnetar.model.answer.record import TenantAnswer
from magnetar.model.permission import SUPER_USER, TENANT_ADMIN
from magnetar.operation.row import FORCE, TENANT, Answer, Kind, Result, Table, Verb, body, local

TABLE: Final = Table("tenants", "/admin/v2/tenants")
ONE: Final = TABLE.below("/{tenant}", TENANT)
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
    SUPER_USER,
    "Names of all tenants, sorted.",
    result=Result.NAMES,
    cli=Verb("list", "list tenants"),
)
ONE.add(
    "get",
    "GET",
    TENANT_ADMIN,
    "A tenant's admin roles and clusters.",
    result=Answer(TenantAnswer),
    cli=Verb("get", "show a tenant"),
)
ONE.add(
    "create",
    "PUT",
    SUPER_USER,
    "Create a tenant.",
    _INFO,
    _ROLES,
    _CLUSTERS,
    cli=Verb("create", "add a tenant"),
    is_written=True,
)
ONE.add(
    "update",
    "POST",
    TENANT_ADMIN,
    "Change a tenant's admin roles and clusters.",
    _INFO,
    _ROLES,
    _CLUSTERS,
    cli=Verb("update", "change a tenant"),
    is_written=True,
)
ONE.add(
    "delete",
    "DELETE",
    TENANT_ADMIN,
    "Delete a tenant without namespaces, or with them when forced.",
    FORCE.asked("with its namespaces and topics", "-f", "--force"),
    cli=Verb("delete", "remove a tenant"),
)
