"""The client for code without an event loop: the same core, run on a thread of its own."""
