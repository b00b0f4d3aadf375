"""Files of tuned schedules: a line of JSON for each product that was tuned, sorted.

The schedule of an entry is legal for every product of its types on its chip. It is taken for products of the
same N and K, which are a layer's, and of the same class of M, which varies from call to call.
"""

import contextlib
import fcntl
import functools
import json
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

from weft import late_imports
from weft.dialects.schedule import AnySchedule, Types, ceil_div, read_schedule
from weft.dialects.tile_types import ELEMENT_TYPES
from weft.errors import WeftError, warn
from weft.isa.chips import CHIPS
from weft.isa.launch_limits import MOST_SIZE
from weft.target import Target

VARIABLE = "WEFT_SCHEDULES"
_CLASSES = (8, 16, 32, 64)  # of M; beyond them multiples of the last
_TWINS = {"f16": "bf16", "bf16": "f16"}
_ENCODING = "utf-8", "surrogateescape"  # what isn't UTF-8 is kept as it is


@dataclass(frozen=True)
class Product:
    """D[M, N] = A[M, K] B[K, N] of some types, on a chip that ptxas calls `chip`."""

    m: int
    n: int
    k: int
    types: Types
    chip: str

    @property
    def layer(self) -> "Layer":
        """What all products have in common that an entry may serve."""
        return self.chip, self.types, self.n, self.k

    @property
    def twin(self) -> "Product":
        """The same product with f16 for bf16 and the other way round, D's too: of the same bytes, and
        multiplied at the same rate.
        """
        a, b, d = (_TWINS.get(each, each) for each in (self.types.a, self.types.b, self.types.d))
        return replace(self, types=replace(self.types, a=a, b=b, d=d))


Layer = tuple[str, Types, int, int]


@dataclass(frozen=True)
class Entry:
    """A product, the text of its fastest schedule, its time, and what else the search says of itself.

    `place` is the file and the line where it stands.
    """

    product: Product
    schedule: str
    microseconds: float
    search: dict[str, Any]
    place: str = field(default="", compare=False)

    @property
    def model(self) -> tuple[str, float | None] | None:
        """The schedule that the model chooses and its time, where the search says them."""
        found = self.search.get("model")
        return (found["schedule"], found["microseconds"]) if found else None

    def line(self) -> str:
        """As text that `read` takes."""
        given = self.product
        types = {f.name: value for f in fields(Types) if (value := getattr(given.types, f.name)) != f.default}
        product = {"chip": given.chip, "types": types, "m": given.m, "n": given.n, "k": given.k}
        result = {"schedule": self.schedule, "microseconds": self.microseconds}
        return json.dumps(product | result | self.search, allow_nan=False)

    @classmethod
    def read(cls, line: str, place: str = "") -> "Entry":
        """What `line` wrote. Raises WeftError for any other text."""
        try:
            found = json.loads(line)
            given: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in found.pop("types").items()
            }
            types = Types(**given)
            m, n, k = (found.pop(name) for name in ("m", "n", "k"))
            product = Product(m, n, k, types, found.pop("chip"))
            entry = cls(product, found.pop("schedule"), found.pop("microseconds"), found, place)
            hash(product)
        except json.JSONDecodeError as error:
            raise WeftError(f"no JSON: {error.msg} in column {error.colno}") from None
        except KeyError as error:
            raise WeftError(f"expects an entry to say {error}") from None
        except (TypeError, AttributeError):
            raise WeftError(
                "expects an object with chip, types, m, n, k, schedule and microseconds"
            ) from None
        if complaint := entry._complaint():
            raise WeftError(complaint)
        return entry

    def _complaint(self) -> str | None:
        given = self.product
        for name in ("m", "n", "k"):
            size = getattr(given, name)
            if type(size) is not int or not 1 <= size <= MOST_SIZE:
                return f"expects {name} to be an integer from 1 to {MOST_SIZE}, got {size!r}"
        for f in fields(Types):
            value, kind = getattr(given.types, f.name), str if f.default is MISSING else type(f.default)
            if type(value) is not kind:
                return f"expects types to have a {kind.__name__} for {f.name}, got {value!r}"
        for element in (given.types.a, given.types.b, given.types.d):
            if element not in ELEMENT_TYPES:
                return f"expects element types of {', '.join(ELEMENT_TYPES)}, got {element!r}"
        if given.chip not in CHIPS:
            return f"knows no chip {given.chip!r}"
        if not isinstance(self.schedule, str):
            return f"expects schedule to be a text, got {self.schedule!r}"
        if type(self.microseconds) not in (int, float) or not self.microseconds > 0:
            return f"expects microseconds to be a number above 0, got {self.microseconds!r}"
        if not _is_timed(self.search.get("model", {"schedule": "", "microseconds": None})):
            return f"expects model to say a schedule and microseconds, got {self.search['model']!r}"
        return None


def _is_timed(found: Any) -> bool:
    """Whether this is a schedule and its time, or null where it has none."""
    kinds = {"schedule": (str,), "microseconds": (int, float, type(None))}
    return isinstance(found, dict) and all(type(found.get(n, ...)) in kinds[n] for n in kinds)


def rows_class(m: int) -> int:
    """The class of M: 8, 16, 32, 64, or a multiple of 64.

    Blocks have a multiple of 64 rows, so that all M of one class take the same number of any of them.
    """
    return next((most for most in _CLASSES if m <= most), ceil_div(m, _CLASSES[-1]) * _CLASSES[-1])


def own_file() -> Path | None:
    """The file that a user's entries go to: $WEFT_SCHEDULES, or the system's place for it; None where that
    is empty.
    """
    given = os.environ.get(VARIABLE)
    if given is not None:
        return Path(given) if given else None
    return _place_of_the_system()


@functools.cache
def _place_of_the_system() -> Path:
    with late_imports.whole():
        import platformdirs

    return Path(platformdirs.user_data_dir("weft")) / "schedules.jsonl"


def sources(chip: str) -> tuple[Path, ...]:
    """The files that are asked for a schedule, the user's first; none with an empty $WEFT_SCHEDULES."""
    own = own_file()
    return () if own is None else (own, Path(__file__).with_name(f"{chip}.jsonl"))


def asks_files() -> bool:
    """Whether a schedule may come from a file. With an empty $WEFT_SCHEDULES only the model decides."""
    return own_file() is not None


def tuned(product: Product, asked: Sequence[Path]) -> AnySchedule | None:
    """The schedule that the first of the files with one has for a product: that of its own M, else of the
    next greater M in its class, else of the next smaller; of its twin's where it has none of its own types.

    An entry that can't be used costs a warning. Files are read once in a process.
    """
    for path in asked:
        layers = (_index(path).get(each.layer, {}) for each in dict.fromkeys((product, product.twin)))
        for entry in chain.from_iterable(nearest(product.m, layer) for layer in layers):
            try:
                return checked(entry, product)
            except WeftError as error:
                _warn(entry.place, error)
    return None


def nearest(m: int, entries: dict[int, Entry]) -> list[Entry]:
    """The entries of the class of M, the best for it first."""
    able = [rows for rows in entries if rows_class(rows) == rows_class(m)]
    return [entries[rows] for rows in sorted(able, key=lambda rows: (rows < m, abs(rows - m)))]


def checked(entry: Entry, product: Product) -> AnySchedule:
    """The schedule of an entry. Raises WeftError where a product can't have it."""
    schedule = read_schedule(entry.schedule)
    if complaint := schedule.complaint(product.types, Target.of(product.chip)):
        raise WeftError(complaint)
    return schedule


def read(path: Path) -> dict[Product, Entry]:
    """The entries of a file; those that can't be read cost a warning each, and so does such a file. One that
    isn't there has none.
    """
    try:
        text = _text(path)
    except OSError as error:
        _warn(str(path), WeftError(f"it can't be read: {error.strerror}"))
        return {}
    return {entry.product: entry for entry in _entries(path, text)}


def keep(path: Path, entry: Entry, measured: Collection[str] = ()) -> None:
    """Puts an entry into a file, beside those that other processes put there at the same time.

    One for the same product stays if it has the shorter time and a schedule that isn't among those that were
    `measured` beside the new one. Raises WeftError where the file can't be written.
    """
    path = Path(os.path.realpath(path))  # a link stays one
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.parent):
            lines = _with(entry, measured, path)
            draft = path.with_name(f".{path.name}.new")
            draft.write_bytes("".join(f"{line}\n" for line in lines).encode(*_ENCODING))
            draft.replace(path)
    except OSError as error:
        raise WeftError(f"cannot write '{path}': {error.strerror}") from None
    _index.cache_clear()


def _with(entry: Entry, measured: Collection[str], path: Path) -> list[str]:
    """The lines of a file that also has an entry, if that is the better one. Lines that say nothing stay."""
    text = _text(path)
    unread = [line for line in text.split("\n") if line.strip() and not _readable(line)]
    kept = {each.product: each for each in _entries(path, text)}
    there = kept.get(entry.product)
    if not there or there.schedule in measured or there.microseconds >= entry.microseconds:
        kept[entry.product] = entry
    return [*(kept[product].line() for product in sorted(kept, key=_order)), *unread]


def _order(product: Product) -> tuple[Any, ...]:
    return product.chip, tuple(asdict(product.types).values()), product.n, product.k, product.m


def _readable(line: str) -> bool:
    try:
        Entry.read(line)
    except WeftError:
        return False
    return True


@functools.cache
def _index(path: Path) -> dict[Layer, dict[int, Entry]]:
    """The entries of a file by what they have in common, then by M."""
    found: dict[Layer, dict[int, Entry]] = {}
    for product, entry in read(path).items():
        found.setdefault(product.layer, {})[product.m] = entry
    return found


def _entries(path: Path, text: str) -> Iterator[Entry]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield Entry.read(line, f"{path}:{number}")
            except WeftError as error:
                _warn(f"{path}:{number}", error)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(*_ENCODING)
    except FileNotFoundError:
        return ""


def _warn(place: str, error: WeftError) -> None:
    warn(f"{place}: ignored: {error.diagnostics[0].message}")


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Keeps other processes out that lock the same directory."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
