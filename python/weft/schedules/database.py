"""Files of tuned schedules: a sorted line of JSON for each tuned product.

The schedule of an entry is legal for every product of its types on its chip. It is used for products with the
same N and K, which belong to a layer, and with M in the same class, since M varies from call to call.
"""

import functools
import json
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

from weft.dialects.element_types import ELEMENT_TYPES
from weft.dialects.product_types import Types, ceil_div
from weft.dialects.schedule import AnySchedule, read_schedule
from weft.errors import WeftError, shown, warn
from weft.isa.chips import CHIPS
from weft.isa.launch_limits import MOST_SIZE
from weft.schedules.tuned_files import first_digest
from weft.system import file_locks, output_files
from weft.target import Target

_CLASSES = (8, 16, 32, 64)  # of M; above them, multiples of the last
_TWINS = {"f16": "bf16", "bf16": "f16"}
_ENCODING = "utf-8", "surrogateescape"  # keeps bytes that aren't UTF-8


@dataclass(frozen=True)
class Product:
    """D[M, N] = A[M, K] B[K, N] of some types on a chip, by ptxas's name."""

    m: int
    n: int
    k: int
    types: Types
    chip: str

    @property
    def layer(self) -> "Layer":
        """What all products have in common for which an entry may be used."""
        return self.chip, self.types, self.n, self.k

    @property
    def twin(self) -> "Product":
        """The same product with f16 and bf16 exchanged, in D too: as many bytes at the same rate."""
        a, b, d = (_TWINS.get(each, each) for each in (self.types.a, self.types.b, self.types.d))
        return replace(self, types=replace(self.types, a=a, b=b, d=d))


Layer = tuple[str, Types, int, int]


@dataclass(frozen=True)
class Entry:
    """A product, the text of its fastest schedule, its time, and further records of the search.

    `location` is the file and the line of the entry.
    """

    product: Product
    schedule: str
    microseconds: float
    search: dict[str, Any]
    location: str = field(default="", compare=False)

    @property
    def model(self) -> tuple[str, float | None] | None:
        """The schedule that the model chooses, and its time, if the search recorded them."""
        own = self.search.get("model")
        return (own["schedule"], own["microseconds"]) if own else None

    def line(self) -> str:
        """The text of the entry, which `read` parses."""
        p = self.product
        types = {f.name: value for f in fields(Types) if (value := getattr(p.types, f.name)) != f.default}
        product = {"chip": p.chip, "types": types, "m": p.m, "n": p.n, "k": p.k}
        result = {"schedule": self.schedule, "microseconds": self.microseconds}
        return json.dumps(product | result | self.search, allow_nan=False)

    @classmethod
    def read(cls, line: str, location: str = "") -> "Entry":
        """The entry of a text that `line` returned. Raises WeftError for any other text."""
        try:
            record = json.loads(line, object_pairs_hook=_object)
            kinds: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in record.pop("types").items()
            }
            m, n, k = (record.pop(name) for name in ("m", "n", "k"))
            product = Product(m, n, k, Types(**kinds), record.pop("chip"))
            entry = cls(product, record.pop("schedule"), record.pop("microseconds"), record, location)
            hash(product)
        except json.JSONDecodeError as error:
            raise WeftError(f"an entry must be JSON: {error.msg} in column {error.colno}") from None
        except ValueError:  # Python's own limit
            raise WeftError("an entry must not have numbers of thousands of digits") from None
        except RecursionError:
            raise WeftError("an entry must not nest objects or arrays a hundred deep") from None
        except KeyError as error:
            raise WeftError(f"an entry must have {error}") from None
        except (TypeError, AttributeError):
            raise WeftError(
                "an entry must be an object with chip, types, m, n, k, schedule and microseconds"
            ) from None
        if complaint := entry._complaint():
            raise WeftError(complaint)
        return entry

    def _complaint(self) -> str | None:
        product = self.product
        for name in ("m", "n", "k"):
            size = getattr(product, name)
            if type(size) is not int or not 1 <= size <= MOST_SIZE:
                return f"{name} must be an integer in 1..{MOST_SIZE}, got {size!r}"
        for f in fields(Types):
            value, kind = getattr(product.types, f.name), str if f.default is MISSING else type(f.default)
            if type(value) is not kind:
                return f"{f.name} of types must be a {kind.__name__}, got {value!r}"
        for element in (product.types.a, product.types.b, product.types.d):
            if element not in ELEMENT_TYPES:
                return f"element types must be of {', '.join(ELEMENT_TYPES)}, got {element!r}"
        if product.chip not in CHIPS:
            return f"chip must be a known chip, got {product.chip!r}"
        if not isinstance(self.schedule, str):
            return f"schedule must be a text, got {self.schedule!r}"
        if type(self.microseconds) not in (int, float) or not self.microseconds > 0:
            return f"microseconds must be a number above 0, got {self.microseconds!r}"
        own = self.search.get("model", {"schedule": "", "microseconds": None})
        kinds = {"schedule": (str,), "microseconds": (int, float, type(None))}
        if not (isinstance(own, dict) and all(type(own.get(n, ...)) in kinds[n] for n in kinds)):
            return f"model must have a schedule and microseconds, got {self.search['model']!r}"
        return None


def rows_class(m: int) -> int:
    """The class of M: 8, 16, 32, 64, or a multiple of 64.

    Tiles have a multiple of 64 rows, so that all M of one class need the same number of tiles.
    """
    return next((most for most in _CLASSES if m <= most), ceil_div(m, _CLASSES[-1]) * _CLASSES[-1])


def tuned(product: Product, asked: Sequence[Path]) -> AnySchedule | None:
    """The schedule for a product in the first file that has one: for its own M, otherwise for the next
    greater M in its class, otherwise for the next smaller one. Those of its types come before its twin's.

    An entry that can't be used is a warning. Files are read once in a process.
    """
    for path in asked:
        layers = (_index(path).get(each.layer, {}) for each in dict.fromkeys((product, product.twin)))
        for entry in chain.from_iterable(nearest(product.m, layer) for layer in layers):
            try:
                return checked(entry, product)
            except WeftError as error:
                _warn(entry.location, error)
    return None


def nearest(m: int, entries: dict[int, Entry]) -> list[Entry]:
    """The entries in the class of M, the best first."""
    able = [rows for rows in entries if rows_class(rows) == rows_class(m)]
    return [entries[rows] for rows in sorted(able, key=lambda rows: (rows < m, abs(rows - m)))]


def checked(entry: Entry, product: Product) -> AnySchedule:
    """The schedule of an entry. Raises WeftError if it is illegal for a product."""
    schedule = read_schedule(entry.schedule)
    if complaint := schedule.complaint(product.types, Target.of(product.chip)):
        raise WeftError(complaint)
    return schedule


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises WeftError for a key that it has twice."""
    names = Counter(name for name, _ in pairs)
    if twice := [name for name, count in names.items() if count > 1]:
        raise WeftError(f"an entry must have each key once; got {shown(twice[0])} twice")
    return dict(pairs)


def read(path: Path) -> dict[Product, Entry]:
    """The entries of a file, none if it doesn't exist. A file or an entry that can't be read is a warning."""
    try:
        text = _text(path)
    except OSError as error:
        _warn(str(path), WeftError(f"it can't be read: {error.strerror}"))
        return {}
    return {entry.product: entry for _, entry in _entries(path, text) if entry is not None}


def keep(path: Path, entry: Entry, measured: Collection[str] = ()) -> None:
    """Adds an entry to a file, to which other processes may add at the same time.

    An existing entry for the same product stays if its time is shorter and its schedule wasn't `measured`
    together with the new one. Raises WeftError if the file can't be written.
    """
    path = Path(os.path.realpath(path))  # keeps a symbolic link
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file_locks.with_directory(path.parent, functools.partial(_add, path, entry, measured))
    except OSError as error:
        raise WeftError(f"cannot write '{path}': {error.strerror}") from None
    _index.cache_clear()
    first_digest.cache_clear()


def _add(path: Path, entry: Entry, measured: Collection[str]) -> None:
    text = _text(path)
    lines = list(_entries(path, text))
    unreadable = [line for line, each in lines if each is None]
    kept = {each.product: each for _, each in lines if each is not None}
    old = kept.get(entry.product)
    if not old or old.schedule in measured or old.microseconds >= entry.microseconds:
        kept[entry.product] = entry
    written = [*(kept[product].line() for product in sorted(kept, key=_order)), *unreadable]
    draft = path.with_name(f".{path.name}.new")
    draft.write_bytes("".join(f"{line}\n" for line in written).encode(*_ENCODING))
    output_files.replace(draft, path)


def _order(product: Product) -> tuple[object, ...]:
    return product.chip, tuple(asdict(product.types).values()), product.n, product.k, product.m


@functools.cache
def _index(path: Path) -> dict[Layer, dict[int, Entry]]:
    """The entries of a file by layer, then by M."""
    layers: dict[Layer, dict[int, Entry]] = {}
    for product, entry in read(path).items():
        layers.setdefault(product.layer, {})[product.m] = entry
    return layers


def _entries(path: Path, text: str) -> Iterator[tuple[str, Entry | None]]:
    """The lines of a file and their entries; None, and a warning, for a line that can't be read."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            entry = None
            try:
                entry = Entry.read(line, f"{path}:{number}")
            except WeftError as error:
                _warn(f"{path}:{number}", error)
            yield line, entry


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(*_ENCODING)
    except FileNotFoundError:
        return ""


def _warn(location: str, error: WeftError) -> None:
    warn(f"{location}: ignored: {error.diagnostics[0].message}")
