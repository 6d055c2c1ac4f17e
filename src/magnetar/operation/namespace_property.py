"""Properties of a namespace, and what one cluster keeps of it by itself."""

from __future__ import annotations

from typing import Final

from magnetar.model.permission import NAMESPACE_ADMIN, SUPER_USER, TENANT_ADMIN
from magnetar.operation.row import (
    NAMESPACE,
    TEXT_PLAIN,
    Kind,
    Result,
    Table,
    Verb,
    body,
    path,
)

TABLE: Final = Table("namespaces", "/admin/v2/namespaces/{tenant}/{namespace}", NAMESPACE)
_KEY: Final = path("key", "name of the property", "-k", "--key")
_AFFINITY: Final = "/persistence/bookieAffinity"

TABLE.add(
    "properties",
    "GET",
    "/properties",
    TENANT_ADMIN,
    "The namespace's properties.",
    result=Result.PROPERTIES,
    cli=Verb("get-properties", "show all properties"),
)
TABLE.add(
    "set_properties",
    "PUT",
    "/properties",
    TENANT_ADMIN,
    "Add properties, or replace those of the same name.",
    body("properties", Kind.PROPERTIES).asked(
        "a property; may be given again", "-p", "--properties", many=True, variable="KEY=VALUE"
    ),
    cli=Verb("set-properties", "set properties"),
)
TABLE.add(
    "clear_properties",
    "DELETE",
    "/properties",
    TENANT_ADMIN,
    "Remove all properties.",
    cli=Verb("clear-properties", "remove all properties"),
)
TABLE.add(
    "property",
    "GET",
    "/property/{key}",
    TENANT_ADMIN,
    "One property.",
    _KEY,
    result=Result.MAYBE_TEXT,
    produces=(TEXT_PLAIN,),
    cli=Verb("get-property", "show a property"),
)
TABLE.add(
    "set_property",
    "PUT",
    "/property/{key}/{value}",
    TENANT_ADMIN,
    "Set one property.",
    _KEY,
    path("value", "its value", "-v", "--value"),
    cli=Verb("set-property", "set a property"),
)
TABLE.add(
    "remove_property",
    "DELETE",
    "/property/{key}",
    TENANT_ADMIN,
    "Remove one property; the answer is what it was.",
    _KEY,
    result=Result.MAYBE_TEXT,
    status=200,
    produces=(TEXT_PLAIN,),
    cli=Verb("remove-property", "remove a property", is_silent=True),
)
TABLE.add(
    "bookie_affinity",
    "GET",
    _AFFINITY,
    SUPER_USER,
    "The groups of storage nodes the namespace prefers.",
    result=Result.MAYBE_DOCUMENT,
)
TABLE.add(
    "set_bookie_affinity",
    "POST",
    _AFFINITY,
    SUPER_USER,
    "Set the groups of storage nodes the namespace prefers.",
    body("group", Kind.PROPERTIES),
)
TABLE.add("remove_bookie_affinity", "DELETE", _AFFINITY, SUPER_USER, "Prefer no storage nodes.")
TABLE.add(
    "anti_affinity",
    "GET",
    "/antiAffinity",
    NAMESPACE_ADMIN,
    "The group of namespaces that are kept apart.",
    result=Result.MAYBE_TEXT,
    produces=(TEXT_PLAIN,),
)
TABLE.add(
    "set_anti_affinity",
    "POST",
    "/antiAffinity",
    NAMESPACE_ADMIN,
    "Put the namespace into a group of namespaces that are kept apart.",
    body("group", Kind.TEXT),
)
TABLE.add(
    "remove_anti_affinity",
    "DELETE",
    "/antiAffinity",
    NAMESPACE_ADMIN,
    "Take the namespace out of its group.",
)
