"""Transactions: coordinators with their journals, and topics that take part."""
