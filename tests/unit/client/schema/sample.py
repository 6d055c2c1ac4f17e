"""Records that the tests of schemas write and read."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field

from magnetar.client.schema import AvroType


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Line:
    product: str
    count: Annotated[int, AvroType("int")] = 1


@dataclass(frozen=True)
class Order:
    id: int
    customer: str
    weight: float
    is_paid: bool
    photo: bytes
    colour: Colour
    placed_at: datetime
    due: date
    alarm: time
    reference: UUID
    price: Decimal
    lines: list[Line]
    tags: dict[str, str]
    note: str | None = None
    ratio: Annotated[float, AvroType("float")] = 0.5
    corners: tuple[int, ...] = ()
    favourite: Colour = Colour.BLUE
    extra: list[str] = field(default_factory=list)


ORDER = Order(
    id=2**40,
    customer="Zoë",
    weight=1.25,
    is_paid=True,
    photo=b"\x00\xff",
    colour=Colour.RED,
    placed_at=datetime(2024, 2, 29, 12, 30, 15, 123456, UTC),
    due=date(2024, 3, 1),
    alarm=time(7, 15),
    reference=UUID(int=7),
    price=Decimal("19.90"),
    lines=[Line("tea"), Line("milk", 3)],
    tags={"a": "b"},
    corners=(1, 2),
)


class Address(BaseModel):
    street: str
    zip_code: str = Field(alias="zip")


class Customer(BaseModel):
    name: str
    address: Address | None = None
    age: int = Field(default=0, ge=0)


@dataclass
class Tree:
    value: int
    children: list[Tree]
