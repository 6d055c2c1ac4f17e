"""Ledger stores, one per way of keeping ledgers; only `magnetar.app` names one."""
