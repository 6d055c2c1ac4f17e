"""Dispatch as deterministic machines: events in, actions out; a driver carries the actions out.

A machine has no clock, no socket and no storage. Its events are its methods: consumers are added
and removed, grant permits, acknowledge and redeliver; `poll` asks what to do next; `on_entries`
takes what a read found and answers with the deliveries.
"""
