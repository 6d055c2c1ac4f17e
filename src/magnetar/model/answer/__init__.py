"""What operations answer, as JSON has it: the broker builds these documents, the admin client has
them for results, and OpenAPI describes them.

They are dictionaries with known keys. Other brokers may leave keys out or add more.
"""
