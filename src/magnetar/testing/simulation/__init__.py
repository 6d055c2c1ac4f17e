"""A cluster in one thread on virtual time, driven from one seed."""
