"""Arrow values as text, the way arrow-rs prints them (`arrow_cast::display::ArrayFormatter`).

The options are the ones the runner uses: NULL as `NULL` at every depth, durations in the readable form. On top of that
an empty string that is a whole column value is `(empty)`, because a blank would be invisible.

Not a general formatter: types that SQL cannot produce here raise an error instead of a guess.
"""

import datetime
import math
import re
import struct

import pyarrow as pa
import pyarrow.types as is_type

NULL = "NULL"
EMPTY = "(empty)"


class DisplayError(Exception):
    """A value that cannot stand in a script, or a type this module does not know."""


def column_letter(data_type):
    """The letter of a column type in a `query` header."""
    if is_type.is_dictionary(data_type):
        return column_letter(data_type.value_type)
    if is_type.is_boolean(data_type):
        return "B"
    if is_type.is_integer(data_type):
        return "I"
    if is_type.is_floating(data_type) or is_type.is_decimal(data_type):
        return "R"
    if is_type.is_string(data_type) or is_type.is_large_string(data_type) or is_type.is_string_view(data_type):
        return "T"
    if is_type.is_date(data_type) or is_type.is_time(data_type):
        return "D"
    if is_type.is_timestamp(data_type):
        return "P"
    return "?"


def rows_of(batches):
    """Every row of the record batches as a list of column texts."""
    rows = []
    for batch in batches:
        columns = [[cell(value) for value in texts(column)] for column in batch.columns]
        rows.extend([list(row) for row in zip(*columns)] if columns else [[] for _ in range(batch.num_rows)])
    return rows


def cell(text):
    """A column value as it stands in a script."""
    if text == "":
        return EMPTY
    if "\n" in text or "\r" in text or text.strip() == "":
        raise DisplayError(f"the value {text!r} cannot be told apart in a script: wrap it in something visible")
    return text


def texts(array):
    """The texts of an array's values, in order."""
    if isinstance(array, pa.ChunkedArray):
        return [text for chunk in array.chunks for text in texts(chunk)]
    kind = array.type
    if is_type.is_dictionary(kind):
        return texts(array.dictionary_decode())
    if is_type.is_null(kind):
        return [NULL] * len(array)
    if is_type.is_struct(kind):
        fields = [(kind.field(i).name, texts(field)) for i, field in enumerate(_fields(array))]
        made = ["{" + ", ".join(f"{name}: {values[i]}" for name, values in fields) + "}" for i in range(len(array))]
        return _nulls(array, made)
    if is_type.is_map(kind):
        made = []
        for i in range(len(array)):
            scalar = array[i]
            if not scalar.is_valid:
                made.append(NULL)
                continue
            entries = scalar.values
            keys, values = (texts(part) for part in (entries.field(0), entries.field(1)))
            made.append("{" + ", ".join(f"{key}: {value}" for key, value in zip(keys, values)) + "}")
        return made
    if (
        is_type.is_list(kind)
        or is_type.is_large_list(kind)
        or is_type.is_fixed_size_list(kind)
        or is_type.is_list_view(kind)
    ):
        made = []
        for i in range(len(array)):
            scalar = array[i]
            made.append("[" + ", ".join(texts(scalar.values)) + "]" if scalar.is_valid else NULL)
        return made
    return _nulls(array, _flat(array, kind))


def _fields(array):
    """The children of a struct array, with its offset applied."""
    return array.flatten()


def _nulls(array, made):
    return [text if valid else NULL for text, valid in zip(made, array.is_valid().to_pylist())]


def _flat(array, kind):
    if is_type.is_boolean(kind):
        return ["true" if value else "false" for value in array.to_pylist()]
    if is_type.is_integer(kind):
        return [str(value) for value in array.to_pylist()]
    if is_type.is_float64(kind):
        return [None if value is None else _ryu(repr(value), 16, -5) for value in array.to_pylist()]
    if is_type.is_float32(kind):
        return [None if value is None else _ryu(_shortest32(value), 13, -6) for value in array.to_pylist()]
    if is_type.is_decimal(kind):
        return [None if value is None else format(value, "f") for value in array.to_pylist()]
    if is_type.is_string(kind) or is_type.is_large_string(kind) or is_type.is_string_view(kind):
        return array.to_pylist()
    if (
        is_type.is_binary(kind)
        or is_type.is_large_binary(kind)
        or is_type.is_binary_view(kind)
        or is_type.is_fixed_size_binary(kind)
    ):
        return [None if value is None else value.hex() for value in array.to_pylist()]
    if is_type.is_date32(kind):
        return [None if days is None else _date(days) for days in _integers(array, pa.int32())]
    if is_type.is_time(kind):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        width = pa.int32() if is_type.is_time32(kind) else pa.int64()
        return [None if value is None else _time(value, per_second) for value in _integers(array, width)]
    if is_type.is_timestamp(kind):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        return [
            None if value is None else _timestamp(value, per_second, kind.tz) for value in _integers(array, pa.int64())
        ]
    if is_type.is_duration(kind):
        digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[kind.unit]
        return [None if value is None else _duration(value, digits) for value in _integers(array, pa.int64())]
    if is_type.is_interval(kind):
        return [None if value is None else _interval(*value) for value in array.to_pylist()]
    raise DisplayError(f"no text for values of type {kind}")


def _integers(array, width):
    return array.view(width).to_pylist()


def _shortest32(value):
    """The fewest digits that read back as the same 32-bit float, as `repr` gives them for 64 bits."""
    if not math.isfinite(value):
        return repr(value)
    for digits in range(1, 10):
        text = format(value, f".{digits}g")
        if struct.unpack("f", struct.pack("f", float(text)))[0] == value:
            return text
    raise DisplayError(f"{value!r} is not a 32-bit float")


def _ryu(shortest, plain_digits, smallest_exponent):
    """Python's shortest digits in the layout of the `ryu` crate's `Buffer::format`."""
    if shortest in ("nan", "inf", "-inf"):
        return {"nan": "NaN"}.get(shortest, shortest)
    sign, shortest = ("-", shortest[1:]) if shortest.startswith("-") else ("", shortest)
    mantissa, _, exponent = shortest.partition("e")
    whole, _, fraction = mantissa.partition(".")
    power = int(exponent or 0) - len(fraction)
    digits = (whole + fraction).lstrip("0")
    stripped = digits.rstrip("0")
    power += len(digits) - len(stripped)
    digits = stripped
    if not digits:
        return sign + "0.0"
    point = len(digits) + power
    if power >= 0 and point <= plain_digits:
        return sign + digits + "0" * power + ".0"
    if 0 < point <= plain_digits:
        return sign + digits[:point] + "." + digits[point:]
    if smallest_exponent < point <= 0:
        return sign + "0." + "0" * -point + digits
    tail = "." + digits[1:] if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1}"


def _date(days):
    ordinal = days + datetime.date(1970, 1, 1).toordinal()
    if not 1 <= ordinal <= datetime.date.max.toordinal():
        raise DisplayError(f"the date {days} days from 1970 is outside the years 1 to 9999")
    return datetime.date.fromordinal(ordinal).isoformat()


def _fraction(rest, per_second):
    """Chrono's `Debug`: no digits, 3, 6 or 9 of them."""
    nanoseconds = rest * (10**9 // per_second)
    if nanoseconds == 0:
        return ""
    if nanoseconds % 10**6 == 0:
        return f".{nanoseconds // 10**6:03}"
    if nanoseconds % 10**3 == 0:
        return f".{nanoseconds // 10**3:06}"
    return f".{nanoseconds:09}"


def _time(value, per_second):
    seconds, rest = divmod(value, per_second)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{_fraction(rest, per_second)}"


def _timestamp(value, per_second, zone):
    seconds, rest = divmod(value, per_second)
    offset = _zone_offset(seconds, zone) if zone is not None else 0
    days, within = divmod(seconds + offset, 86400)
    text = f"{_date(days)}T{_time(within * per_second + rest, per_second)}"
    if zone is None:
        return text
    if offset == 0:
        return text + "Z"
    sign, minutes = ("+" if offset > 0 else "-"), abs(offset) // 60
    return f"{text}{sign}{minutes // 60:02}:{minutes % 60:02}"


def _zone_offset(seconds, zone):
    fixed = re.fullmatch(r"([+-])(\d\d):?(\d\d)", zone)
    if fixed:
        sign = 1 if fixed.group(1) == "+" else -1
        return sign * (int(fixed.group(2)) * 3600 + int(fixed.group(3)) * 60)
    import zoneinfo

    instant = datetime.datetime.fromtimestamp(seconds, tz=zoneinfo.ZoneInfo(zone))
    return int(instant.utcoffset().total_seconds())


def _truncated(value, unit):
    """Division that rounds toward zero, and what is left."""
    quotient = abs(value) // unit * (1 if value >= 0 else -1)
    return quotient, value - quotient * unit


def _duration(value, digits):
    seconds, rest = _truncated(value, 10**digits)
    minutes, seconds = _truncated(seconds, 60)
    hours, minutes = _truncated(minutes, 60)
    days, hours = _truncated(hours, 24)
    head = f"{days} days {hours} hours {minutes} mins "
    if digits == 0:
        return f"{head}{seconds} secs"
    sign = "-" if rest < 0 else ""
    shown = abs(seconds) if rest < 0 else seconds
    return f"{head}{sign}{shown}.{abs(rest):0{digits}} secs"


def _interval(months, days, nanoseconds):
    if not (months or days or nanoseconds):
        return "0 secs"
    shown = []
    if months:
        shown.append(f"{months} mons")
    if days:
        shown.append(f"{days} days")
    seconds, rest = _truncated(nanoseconds, 10**9)
    minutes, seconds = _truncated(seconds, 60)
    hours, minutes = _truncated(minutes, 60)
    if hours:
        shown.append(f"{hours} hours")
    if minutes:
        shown.append(f"{minutes} mins")
    if seconds or rest:
        sign = "-" if seconds < 0 or rest < 0 else ""
        shown.append(f"{sign}{abs(seconds)}.{abs(rest):09} secs")
    return " ".join(shown)
