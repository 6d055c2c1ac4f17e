"""What holds for every test: no verdict depends on how long it took."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "magnetar", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("magnetar")
