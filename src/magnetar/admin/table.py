"""All routes of the REST interface."""

from __future__ import annotations

from magnetar.admin.application import Application
from magnetar.admin.bind import make_routes
from magnetar.admin.route import Route
from magnetar.admin.site import site_routes
from magnetar.admin.unsupported import unsupported_routes
from magnetar.broker.administration.web import Administration
from magnetar.operation.table import all_operations


def all_routes() -> list[Route]:
    routes = [*unsupported_routes(), *make_routes(all_operations())]
    return [*routes, *site_routes(routes)]


def make_application(api: Administration) -> Application:
    """The whole interface, ready to be served."""
    return Application(api, all_routes())
