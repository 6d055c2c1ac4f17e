"""From a cursor to consumers: one dispatcher per kind of subscription."""
