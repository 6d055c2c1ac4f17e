"""The clients of the admin REST API."""

from magnetar.client.admin.blocking import AdminClient

__all__ = ["AdminClient"]
