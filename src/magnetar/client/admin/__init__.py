"""The synchronous client of the admin REST API."""

from magnetar.client.admin.service import AdminClient

__all__ = ["AdminClient"]
