"""Small tables as Parquet files, without a library for tables: of a run's labels and figures, each column in one page.

Source: Apache Parquet format 2.x (parquet.thrift, Encodings.md), Thrift's compact protocol. Pages are PLAIN, levels
RLE, compression GZIP: any reader of Parquet reads them. What others wrote is read by polars (extra `tables`).
"""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

Kind = Literal["integer", "number", "text", "integers"]
MAGIC, WRITER = b"PAR1", b"consilium"
INT, LONG, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
"""Types of Thrift's compact protocol."""
PHYSICAL: dict[Kind, int] = {"integer": 2, "number": 5, "text": 6, "integers": 2}
KINDS: dict[int, Kind] = {2: "integer", 5: "number", 6: "text"}
OPTIONAL, REPEATED, GZIP, RLE = 1, 2, 2, 3
BROKEN = (LookupError, TypeError, AttributeError, ArithmeticError, EOFError, OSError, RecursionError, StopIteration)


class TypedValues(NamedTuple):
    """values: of one kind, None where there is none. integers: a list of them in each row."""

    kind: Kind
    values: Sequence[Any]


def to_parquet(columns: Mapping[str, TypedValues]) -> bytes:
    """The file with these columns, of one length. The same columns are the same bytes.

    >>> from_parquet(to_parquet({"counts": TypedValues("integers", [[2, 3], None])}))
    {'counts': TypedValues(kind='integers', values=[[2, 3], None])}
    """
    out, chunks = bytearray(MAGIC), []
    for name, column in columns.items():
        start, levels = len(out), _levels(column)
        plain = b"".join(_page(column, levels))
        packed = gzip.compress(plain, mtime=0)
        count = len(levels[0])
        encoded = _struct({1: (INT, count), 2: (INT, 0), 3: (INT, RLE), 4: (INT, RLE)})
        out += _struct({1: (INT, 0), 2: (INT, len(plain)), 3: (INT, len(packed)), 5: (STRUCT, encoded)}) + packed
        chunks.append((name, column.kind, count, start, len(plain), len(out) - start))
    rows = len(next(iter(columns.values())).values)
    group = _struct(
        {
            1: (LIST, (STRUCT, [_chunk(*chunk) for chunk in chunks])),
            2: (LONG, sum(chunk[4] for chunk in chunks)),
            3: (LONG, rows),
        }
    )
    schema = [_struct({4: (BINARY, b"schema"), 5: (INT, len(columns))})]
    schema += [part for name, column in columns.items() for part in _element(name, column.kind)]
    footer = _struct(
        {1: (INT, 1), 2: (LIST, (STRUCT, schema)), 3: (LONG, rows), 4: (LIST, (STRUCT, [group])), 6: (BINARY, WRITER)}
    )
    return bytes(out + footer + struct.pack("<i", len(footer)) + MAGIC)


def from_parquet(content: bytes) -> dict[str, TypedValues]:
    """The columns of a file, by name; what others wrote is read by polars.

    Raises
    ------
    ValueError : it is not as this module writes files. Polars has errors of its own, some of which are no Exception.
    """
    try:
        (size,) = struct.unpack("<i", content[-8:-4])
        footer, _ = _parsed(content, len(content) - 8 - size)
        if footer.get(6) == WRITER:
            return _columns(content, footer)
    except (*BROKEN, struct.error, zlib.error) as error:
        raise ValueError(f"the file is damaged: {type(error).__name__}") from None
    return _by_polars(content)


def _columns(content: bytes, footer: dict[int, Any]) -> dict[str, TypedValues]:
    columns = {}
    for chunk in (chunk[3] for chunk in footer[4][0][1]):
        path = [part.decode() for part in chunk[3]]
        kind = "integers" if len(path) == 3 else KINDS[chunk[1]]
        header, start = _parsed(content, chunk[9])
        plain = gzip.decompress(content[start : start + header[3]])
        columns[path[0]] = TypedValues(kind, _values(plain, kind, header[5][1]))
    if {len(column.values) for column in columns.values()} != {footer[3]}:
        raise ValueError("columns of different lengths")
    return columns


def _by_polars(content: bytes) -> dict[str, TypedValues]:
    import polars as pl

    kinds: dict[Any, Kind] = {pl.Int64: "integer", pl.Float64: "number", pl.String: "text"}
    frame = pl.read_parquet(io.BytesIO(content))
    columns = {}
    for name, dtype in frame.schema.items():
        kind: Kind | None = "integers" if dtype == pl.List(pl.Int64) else kinds.get(dtype)
        if kind is not None:
            columns[name] = TypedValues(kind, frame[name].to_list())
    return columns


def _levels(column: TypedValues) -> tuple[list[int], list[int]]:
    """How much of its path each value has (definition), and whether it goes on with the row before (repetition)."""
    if column.kind != "integers":
        return [int(value is not None) for value in column.values], []
    defined, repeated = [], []
    for values in column.values:
        defined += [3] * len(values) if values else [int(values is not None)]
        repeated += [0] + [1] * (len(values or ()) - 1)
    return defined, repeated


def _page(column: TypedValues, levels: tuple[list[int], list[int]]) -> Iterator[bytes]:
    defined, repeated = levels
    for level in (repeated, defined) if column.kind == "integers" else (defined,):
        runs = b"".join(_varint(len(list(run)) << 1) + bytes([value]) for value, run in groupby(level))
        yield struct.pack("<i", len(runs)) + runs
    values = [value for value in column.values if value is not None]
    match column.kind:
        case "text":
            for text in map(str.encode, values):
                yield struct.pack("<i", len(text)) + text
        case "number":
            yield struct.pack(f"<{len(values)}d", *values)
        case "integer":
            yield struct.pack(f"<{len(values)}q", *values)
        case "integers":
            flat = [value for row in values for value in row]
            yield struct.pack(f"<{len(flat)}q", *flat)


def _values(plain: bytes, kind: Kind, count: int) -> list[Any]:
    place, repeated = 0, []
    if kind == "integers":
        repeated, place = _runs(plain, place, count)
    defined, place = _runs(plain, place, count)
    full = 3 if kind == "integers" else 1
    present, flat = defined.count(full), []
    if kind == "text":
        for _ in range(present):
            (size,) = struct.unpack_from("<i", plain, place)
            if size < 0:
                raise ValueError("a text of negative length")
            flat.append(plain[place + 4 : (place := place + 4 + size)].decode())
    else:
        flat = list(struct.unpack_from(f"<{present}{'d' if kind == 'number' else 'q'}", plain, place))
    values = iter(flat)
    if kind != "integers":
        return [next(values) if level else None for level in defined]
    rows: list[Any] = []
    for level, more in zip(defined, repeated, strict=True):
        if more:
            rows[-1].append(next(values))
        else:
            rows.append([next(values)] if level == full else [] if level else None)
    return rows


def _runs(plain: bytes, place: int, count: int) -> tuple[list[int], int]:
    """The levels of so many values, and the place after them."""
    (size,) = struct.unpack_from("<i", plain, place)
    levels, place = [], place + 4
    end = place + size
    while place < end:
        length, place = _number(plain, place)
        if length & 1 or len(levels) + (length >> 1) > count:
            raise ValueError("levels of another form")
        levels += [plain[place]] * (length >> 1)
        place += 1
    if len(levels) != count or place != end:
        raise ValueError("levels of another length")
    return levels, place


def _element(name: str, kind: Kind) -> list[bytes]:
    """A column in the schema: of a list with the two levels that the format asks for."""
    if kind == "integers":
        logical = _struct({3: (STRUCT, _struct({}))})
        names = {3: (INT, OPTIONAL), 4: (BINARY, name.encode()), 5: (INT, 1), 6: (INT, 3), 10: (STRUCT, logical)}
        repeated = _struct({3: (INT, REPEATED), 4: (BINARY, b"list"), 5: (INT, 1)})
        return [_struct(names), repeated, *_element("element", "integer")]
    fields = {1: (INT, PHYSICAL[kind]), 3: (INT, OPTIONAL), 4: (BINARY, name.encode())}
    if kind == "text":
        fields |= {6: (INT, 0), 10: (STRUCT, _struct({1: (STRUCT, _struct({}))}))}
    return [_struct(fields)]


def _chunk(name: str, kind: Kind, count: int, start: int, plain: int, packed: int) -> bytes:
    path = [name, "list", "element"] if kind == "integers" else [name]
    described = _struct(
        {
            1: (INT, PHYSICAL[kind]),
            2: (LIST, (INT, [0, RLE])),
            3: (LIST, (BINARY, [part.encode() for part in path])),
            4: (INT, GZIP),
            5: (LONG, count),
            6: (LONG, plain),
            7: (LONG, packed),
            9: (LONG, start),
        }
    )
    return _struct({2: (LONG, start), 3: (STRUCT, described)})


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(content: bytes, place: int) -> tuple[int, int]:
    """A varint of at most 64 bits, and the place after it."""
    value = 0
    for shift in range(0, 64, 7):
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError("a number of more than 64 bits")


def _struct(fields: Mapping[int, tuple[int, Any]]) -> bytes:
    """By number, in order: type and value; a struct as its bytes, a list as type and values."""
    out, before = b"", 0
    for number, (kind, value) in fields.items():
        out += bytes([(number - before) << 4 | kind]) + _encoded(kind, value)
        before = number
    return out + b"\0"


def _encoded(kind: int, value: Any) -> bytes:
    match kind:
        case 5 | 6:
            return _varint(value << 1)  # zigzag; nothing here is negative
        case 8:
            return _varint(len(value)) + value
        case 9:
            inner, values = value
            size = (
                bytes([len(values) << 4 | inner]) if len(values) < 15 else bytes([0xF0 | inner]) + _varint(len(values))
            )
            return size + b"".join(_encoded(inner, item) for item in values)
        case _:
            return value


def _parsed(content: bytes, place: int) -> tuple[dict[int, Any], int]:
    """The struct there, by number, and the place after it."""
    if place < 0:
        raise ValueError("a place before the file")
    fields, number = {}, 0
    while content[place]:
        step, kind = content[place] >> 4, content[place] & 15
        place += 1
        number += step
        fields[number], place = _decoded(content, place, kind)
    return fields, place + 1


def _decoded(content: bytes, place: int, kind: int) -> tuple[Any, int]:
    match kind:
        case 1 | 2:
            return kind == 1, place
        case 4 | 5 | 6:
            value, place = _number(content, place)
            return value >> 1 ^ -(value & 1), place
        case 8:
            size, place = _number(content, place)
            return content[place : place + size], place + size
        case 9:
            size, inner = content[place] >> 4, content[place] & 15
            place += 1
            if size == 15:
                size, place = _number(content, place)
            values = []
            for _ in range(size):
                value, place = _decoded(content, place, inner)
                values.append(value)
            return values, place
        case 12:
            return _parsed(content, place)
        case _:
            raise ValueError("a type that is not in such files")
