"""Numbers and addresses that Python and code of the host share, 8 bytes each."""

from enum import IntEnum


class Record(IntEnum):
    """The fields of a record, as their positions. A field is a number, or the address of an array, whose
    elements have the type that its definition names: `KNOWN = "i4"`. Some are several numbers: `"", 5`.
    """

    element: str
    count: int

    def __new__(cls, element: str = "", count: int = 1) -> "Record":
        """A field after those before it."""
        field = int.__new__(cls, sum(each.count for each in cls))
        field._value_ = int(field)
        field.element, field.count = element, count
        return field
