"""How values become the bytes of messages, and what a topic's schema says about them."""

from magnetar.client.schema.generic import GenericRecord
from magnetar.client.schema.key_value import KeyValue
from magnetar.client.schema.schema import Schema
from magnetar.client.schema.shape import AvroType

__all__ = ["AvroType", "GenericRecord", "KeyValue", "Schema"]
