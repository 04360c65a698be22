"""What a primed process runs: takes functions and rows from its socket, and gives values back.

It stands on the standard library alone. What a function prints goes to the file descriptors 1 and 2, which the engine
reads; the socket has a number of its own, so that no function meets it by accident.
"""

import array
import ast
import fcntl
import linecache
import os
import resource
import socket
import stat
import struct
import sys
import threading
from functools import reduce
from itertools import accumulate, compress
from operator import ne
from types import GeneratorType

# Kinds of frames. From the engine: LOAD, FORGET, CALL. From here: HELLO, LOADED, VALUES, RAISED.
LOAD, FORGET, CALL = 1, 2, 3
HELLO, LOADED, VALUES, RAISED = 1, 2, 3, 4
# Forms of functions that matter here: of whole columns, of any number of rows for each, of groups, steps of aggregates.
FORM_ARROW, FORM_ROW_SETS, FORM_GROUPS, FORM_STEPS = 1, 4, 5, 6
# Why a function raised.
EXCEPTION, SYNTAX, MISSING, MEMORY, WRONG = 0, 1, 2, 3, 4
# How values are sent: as they are, as their texts, as an Arrow stream.
NATIVE, TEXTS, ARROW = 0, 1, 2
BOOLEAN, SMALLINT, INTEGER, BIGINT, REAL, DOUBLE, NUMERIC, TEXT, BYTES = range(9)
# Arrays and rows, as JSON; those of floats, decimals and bytes, which JSON does not have as they are.
JSON, FLOATS, DECIMALS, BLOBS = range(9, 13)
# Rows as values, which go as texts, and values of json and jsonb.
ROW, DOCUMENT = 13, 14
# What `array` calls the integers and floats that come, and their bytes.
CODES = {SMALLINT: ("h", 2), INTEGER: ("i", 4), BIGINT: ("q", 8), REAL: ("f", 4), DOUBLE: ("d", 8)}
assert array.array("I").itemsize == 4 and array.array("q").itemsize == 8

HEADER = struct.Struct("<IB3xQ")
functions = {}
GD = {}
# Where the system says how much memory the process has; below zero if it says so nowhere.
sizes = -1


# Lines of where an error was raised: the outermost and the innermost ones that are told.
OUTER_LINES, INNER_LINES = 10, 10


class Wrong(Exception):
    """What a function gave is not what it was declared to give; and what to do instead."""

    def __init__(self, message, hint=""):
        super().__init__(message)
        self.hint = hint


class Output:
    """`plpy` as far as it needs no database: messages, and errors to raise."""

    class Error(Exception):
        """What plpy.error raises, with the parts of an error that PL/Python knows by these names."""

        def __init__(self, *arguments, detail=None, hint=None, sqlstate=None, **_):
            super().__init__(*arguments)
            self.detail, self.hint, self.sqlstate = detail, hint, sqlstate

    SPIError = Fatal = Error

    def _say(self, *arguments, **_):
        print(*arguments)

    debug = log = info = notice = warning = _say

    def error(self, *arguments, **parts):
        raise self.Error(*arguments, **parts)

    fatal = error

    def _missing(self, *_, **__):
        hint = "SELECT the rows where the function is called, and pass them as arguments; array_agg(x) makes an array"
        raise self.Error("a function cannot run statements", hint=hint, sqlstate="0A000")

    execute = prepare = cursor = subtransaction = commit = rollback = _missing


class Function:
    """A function as it was loaded."""

    def __init__(self, payload):
        self.ident, form, self.returns, count = struct.unpack_from("<QBBH", payload)
        self.is_arrow, self.gives_rows, self.is_aggregate = (form == one for one in (FORM_ARROW, FORM_ROW_SETS, FORM_GROUPS))
        at = 12
        self.kinds, names = [], []

        def text(size):
            nonlocal at
            (length,) = struct.unpack_from("<I" if size == 4 else "<H", payload, at)
            at += size + length
            return bytes(payload[at - length : at]).decode()

        for _ in range(count):
            self.kinds.append(payload[at])
            at += 1
            names.append(text(2))
        self.name = text(2)
        self.file = f"<function {self.name}, {self.ident}>"
        source = text(4)
        (count,) = struct.unpack_from("<H", payload, at)
        at += 2
        self.columns = [text(2) for _ in range(count)]
        (self.memory,) = struct.unpack_from("<Q", payload, at)
        self.has_steps = form == FORM_STEPS
        if self.has_steps:
            self.is_strict, has_first = payload[at + 16], payload[at + 17]
            at += 18
            first = text(4)
            # Before the first row: the state, or nothing, in whose place a strict function has the first value.
            self.first = READERS_OF_FIRST.get(self.returns, str)(first) if has_first else None
            self.takes_first = self.is_strict and not has_first
        self.call = self.compiled(names, source)
        if self.has_steps and self.returns == DOCUMENT:
            # A state is the text that the next step gets, in whichever process.
            call = self.call
            self.call = lambda *arguments: document(call(*arguments))

    def compiled(self, names, source):
        body = self.parsed(source)
        named = [name or f"_{place}" for place, name in enumerate(names, 1)]
        made = ast.parse("def function(%s):\n  pass" % ", ".join(f"a{place}" for place in range(len(named))), self.file)
        function = made.body[0]
        for argument, name in zip(function.args.args, named):
            argument.arg = name
        for node in ast.walk(function):
            if hasattr(node, "lineno"):
                node.lineno = node.end_lineno = 1
        # A parameter that is declared global is one that the body changes: here all are.
        statements = []
        for statement in body.body:
            if isinstance(statement, ast.Global):
                statement.names = [name for name in statement.names if name not in named]
                if not statement.names:
                    continue
            statements.append(statement)
        if any(isinstance(node, ast.Name) and node.id == "args" for node in ast.walk(body)) and "args" not in named:
            (listed,) = ast.parse("args = [%s]" % ", ".join(f"a{place}" for place in range(len(named)))).body
            for element, name in zip(listed.value.elts, named):
                element.id = name
            for node in ast.walk(listed):
                if hasattr(node, "lineno"):
                    node.lineno = node.end_lineno = 1
            statements.insert(0, listed)
        function.body = statements or function.body
        names_around = {"__name__": self.file, "plpy": Output(), "SD": {}, "GD": GD}
        if self.is_arrow:
            import pyarrow
            import pyarrow.compute

            names_around["pa"], names_around["pc"] = pyarrow, pyarrow.compute
        # Errors of the compiler tell their line as well.
        linecache.cache[self.file] = (len(source), None, source.splitlines(True), self.file)
        exec(compile(made, self.file, "exec"), names_around)
        return names_around["function"]

    def parsed(self, source):
        try:
            return ast.parse(source, self.file)
        except IndentationError:
            if not source.lstrip("\n\r")[:1].isspace():
                raise
        # All of it is indented. It is not moved to the left: that would change texts of several lines.
        try:
            tree = ast.parse("if True:\n" + source, self.file)
        except SyntaxError as error:
            error.lineno = (error.lineno or 1) - 1
            raise
        body = ast.Module(tree.body[0].body + tree.body[1:], [])
        return ast.increment_lineno(body, -1)

    def run(self, payload):
        if not self.memory:
            return self.answer(payload)
        # What the process has is what other functions have left there: the limit is for what this call takes.
        pages = int(os.pread(sizes, 200, 0).split()[0]) if sizes >= 0 else 0
        limits = resource.getrlimit(resource.RLIMIT_AS)
        allowed = pages * resource.getpagesize() + self.memory
        if limits[1] != resource.RLIM_INFINITY:
            allowed = min(allowed, limits[1])
        resource.setrlimit(resource.RLIMIT_AS, (allowed, limits[1]))
        try:
            return self.answer(payload)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)

    def answer(self, payload):
        rows, count = struct.unpack_from("<IH", payload, 8)
        if self.is_arrow:
            return self.run_arrow(payload[14:], rows)
        if self.is_aggregate:
            groups, _ = column(TEXT, payload, 14, rows)
            return encoded(self.returns, [self.call(*self.lists(group)) for group in groups], self.columns)
        if self.has_steps:
            return encoded(self.returns, self.stepped(payload, rows))
        at, columns = 14, []
        for kind in self.kinds:
            values, at = column(kind, payload, at, rows)
            columns.append(values)
        if columns:
            out = list(map(self.call, *columns))
        else:
            out = [self.call() for _ in range(rows)]
        if self.gives_rows:
            out = [None if given is None else self.rows_of(given) for given in out]
        return encoded(self.returns, out, self.columns)

    def stepped(self, payload, rows):
        """The state of each group at its last row, and None elsewhere. The rows of a group follow each other."""
        groups, at = column(INTEGER, payload, 14, rows)
        columns = []
        for kind in self.kinds[1:]:
            values, at = column(kind, payload, at, rows)
            columns.append(values)
        ends = [*compress(range(1, rows), map(ne, groups, groups[1:])), rows] if rows else []
        out, begin = [None] * rows, 0
        for end in ends:
            out[end - 1] = self.state_of([values[begin:end] for values in columns])
            begin = end
        return out

    def state_of(self, columns):
        """The state that the rows of one group make."""
        call, state, is_strict = self.call, self.first, self.is_strict
        if len(columns) == 1:
            values = iter(columns[0])
            if not is_strict:
                return reduce(call, values, state)
            if self.takes_first:
                state = next(values)
            for value in values:
                if state is None:
                    break
                state = call(state, value)
            return state
        rows = zip(*columns)
        if self.takes_first:
            state = next(rows)[0]
        for row in rows:
            if state is None and is_strict:
                break
            state = call(state, *row)
        return state

    def lists(self, group):
        """A group's values, a list for each parameter."""
        import json

        rows = [] if group is None else json.loads(group)
        lists = list(map(list, zip(*rows))) if rows else [[] for _ in self.kinds]
        for place, kind in enumerate(self.kinds):
            if kind in READERS:
                read = READERS[kind]
                lists[place] = [None if value is None else read(value) for value in lists[place]]
        return lists

    def rows_of(self, given):
        """The rows that one call gave, as JSON. A generator runs here."""
        import json

        if isinstance(given, (str, bytes, dict)) or not hasattr(given, "__iter__"):
            hint = "return a list of rows, or yield each row: a tuple, a dictionary, or a value if there is one column"
            raise Wrong(f"it returned {type(given).__name__}, which is no list of rows", hint)
        rows, count = [], len(self.columns)
        for row in given:
            if isinstance(row, dict):
                unknown = [name for name in row if name not in self.columns]
                if unknown:
                    hint = f"its columns are: {', '.join(self.columns)}"
                    raise Wrong(f"it gave a column {unknown[0]!r}, which it does not return", hint)
                row = [row.get(name) for name in self.columns]
            elif count == 1 and not isinstance(row, (tuple, list)):
                row = [row]
            elif not isinstance(row, (tuple, list)):
                hint = f"give a tuple or a dictionary with the columns: {', '.join(self.columns)}"
                raise Wrong(f"it gave {type(row).__name__}, which is no row of {count} columns", hint)
            if len(row) != count:
                raise Wrong(f"it gave a row of {len(row)} columns, not {count}: {', '.join(self.columns)}")
            rows.append([cell(json, value) for value in row])
        return json.dumps(rows, ensure_ascii=False)

    def run_arrow(self, stream, rows):
        import pyarrow

        with pyarrow.ipc.open_stream(pyarrow.py_buffer(stream)) as reader:
            batch = reader.read_next_batch()
        out = self.call(*batch.columns)
        if out is None:
            raise Wrong("it returned None, which is no array: NULLs are pa.nulls(len(x))")
        if isinstance(out, pyarrow.Scalar):
            out = pyarrow.array([out.as_py()] * rows, out.type)
        elif not isinstance(out, (pyarrow.Array, pyarrow.ChunkedArray)):
            if isinstance(out, (str, bytes, dict)) or not hasattr(out, "__iter__"):
                hint = "return an array of pyarrow or a list, with a value for each row, or pa.scalar(value) for all rows"
                raise Wrong(f"it returned {type(out).__name__}, which is no array", hint)
            out = pyarrow.array(out)
        if isinstance(out, pyarrow.ChunkedArray):
            out = out.combine_chunks()
        if len(out) != rows:
            raise Wrong(f"it returned {len(out)} values for {rows} rows", "return a value for each row, in their order")
        sink = pyarrow.BufferOutputStream()
        made = pyarrow.record_batch([out], ["value"])
        with pyarrow.ipc.new_stream(sink, made.schema) as writer:
            writer.write_batch(made)
        return [bytes([ARROW]), memoryview(sink.getvalue())]

    def place(self, error):
        """Where in the function an error was raised, the outermost first."""
        lines, step = [], error.__traceback__
        while step is not None:
            file, number = step.tb_frame.f_code.co_filename, step.tb_lineno
            if file == self.file:
                line = linecache.getline(file, number).strip()
                lines.append(f"function {self.name}, line {number}: {line}")
            elif file not in (__file__, ast.__file__):
                name = step.tb_frame.f_code.co_name
                lines.append(f"{file}, line {number}, in {name}")
            step = step.tb_next
        if isinstance(error, SyntaxError) and error.filename == self.file:
            number = error.lineno or 1
            text = error.text or linecache.getline(self.file, number)
            lines.append(f"function {self.name}, line {number}: {text.strip()}")
        left_out = len(lines) - OUTER_LINES - INNER_LINES
        if left_out > 0:
            lines[OUTER_LINES:-INNER_LINES] = [f"… {left_out} lines more"]
        return "\n".join(lines)


def number(text):
    from decimal import Decimal

    return Decimal(text)


def each(read, value):
    """The same of each value in lists of lists."""
    if isinstance(value, list):
        return [each(read, one) for one in value]
    return None if value is None else read(value)


def of_json(text):
    import json

    return json.loads(text)


def decimals(text):
    import json
    from decimal import Decimal

    return each(Decimal, json.loads(text, parse_float=Decimal, parse_int=Decimal))


def blob(text):
    return bytes.fromhex(text[2:])


# What makes arrays and rows of JSON.
READERS_OF_JSON = {
    JSON: of_json,
    FLOATS: lambda text: each(float, of_json(text)),
    DECIMALS: decimals,
    BLOBS: lambda text: each(blob, of_json(text)),
}
# What makes values of the texts that groups hold.
READERS = {REAL: float, DOUBLE: float, NUMERIC: number, BYTES: blob, **READERS_OF_JSON}


# The same of the text of a first state.
READERS_OF_FIRST = {
    **READERS,
    BOOLEAN: lambda text: text == "true",
    **dict.fromkeys((SMALLINT, INTEGER, BIGINT), int),
}


def cell(json, value):
    """A value of a row as the text that SQL reads."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "\\x" + bytes(value).hex()
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def document(value):
    """A value of json as its text. A text is one already."""
    import json

    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=plain)


def plain(value):
    """A value that JSON does not have, as one that it has."""
    from decimal import Decimal

    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "\\x" + bytes(value).hex()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return list(value) if hasattr(value, "__iter__") else str(value)


def literal(value):
    """A list as SQL writes an array. A text is one already."""
    if isinstance(value, str):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (bytes, bytearray, dict)) or not hasattr(value, "__iter__"):
        raise Wrong(f"it returned {type(value).__name__}, which is no list", "an array is a list, a tuple or an iterator")
    return "{%s}" % ",".join(map(element, value))


def element(value):
    """A value within an array as SQL writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return literal(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        text = "\\x" + bytes(value).hex()
    elif isinstance(value, dict):
        import json

        text = json.dumps(value, ensure_ascii=False)
    else:
        text = str(value)
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"')


def composite(value, columns):
    """A row as SQL writes it. A text is one already."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        unknown = [name for name in value if name not in columns]
        if unknown:
            hint = f"its columns are: {', '.join(columns)}"
            raise Wrong(f"it returned a column {unknown[0]!r}, which its type does not have", hint)
        value = [value.get(name) for name in columns]
    elif not isinstance(value, (tuple, list)):
        if not all(hasattr(value, name) for name in columns):
            hint = f"return a tuple, a list or a dictionary with the columns: {', '.join(columns)}"
            raise Wrong(f"it returned {type(value).__name__}, which is no row", hint)
        value = [getattr(value, name) for name in columns]
    if len(value) != len(columns):
        raise Wrong(f"it returned a row of {len(value)} columns, not {len(columns)}: {', '.join(columns)}")
    return "(%s)" % ",".join(map(field, value))


def field(value):
    """A value within a row as SQL writes it: tuples are rows, lists are arrays, dictionaries are JSON."""
    import json

    if value is None:
        return ""
    if isinstance(value, tuple):
        text = "(%s)" % ",".join(map(field, value))
    else:
        text = literal(value) if isinstance(value, list) else cell(json, value)
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '""')


def column(kind, payload, at, rows):
    """A column's values, and where it ends."""
    valid = None
    if payload[at]:
        valid = payload[at + 1 : at + 1 + rows]
        at += rows
    at += 1
    if kind == BOOLEAN:
        values = list(map(bool, payload[at : at + rows]))
        at += rows
    elif kind in CODES:
        code, width = CODES[kind]
        values = array.array(code)
        values.frombytes(payload[at : at + rows * width])
        at += rows * width
    else:
        lengths = array.array("I")
        lengths.frombytes(payload[at : at + 4 * rows])
        at += 4 * rows
        ends = list(accumulate(lengths, initial=0))
        blob = bytes(payload[at : at + ends[-1]])
        at += ends[-1]
        if kind == BYTES:
            values = [blob[start:end] for start, end in zip(ends, ends[1:])]
        elif blob.isascii():
            text = blob.decode("ascii")
            values = [text[start:end] for start, end in zip(ends, ends[1:])]
        else:
            values = [blob[start:end].decode() for start, end in zip(ends, ends[1:])]
        if kind == NUMERIC:
            from decimal import Decimal

            values = [Decimal(value or "0") for value in values]
        elif kind in READERS_OF_JSON:
            read = READERS_OF_JSON[kind]
            values = [read(value) if value else None for value in values]
    if valid is not None:
        values = [value if there else None for value, there in zip(values, valid)]
    return values, at


def with_nulls(out, form, nothing):
    """The head of values, and the values with something in the places of None."""
    head = bytes([form, 1]) + bytes([value is not None for value in out])
    return head, [nothing if value is None else value for value in out]


def encoded(kind, out, columns=()):
    """Values as they are sent. Of a row, `columns` are the names in it."""
    if kind == ROW:
        out = [None if value is None else composite(value, columns) for value in out]
    elif kind == DOCUMENT:
        out = list(map(document, out))
    elif kind in READERS_OF_JSON:
        out = [None if value is None else literal(value) for value in out]
    kinds = set(map(type, out))
    has_nulls = type(None) in kinds
    kinds.discard(type(None))
    try:
        if kind == BOOLEAN:
            head, values = with_nulls(out, NATIVE, False) if has_nulls else (bytes([NATIVE, 0]), out)
            return [head, bytes([1 if value else 0 for value in values])]
        if kind in (SMALLINT, INTEGER, BIGINT) and kinds <= {int}:
            head, values = with_nulls(out, NATIVE, 0) if has_nulls else (bytes([NATIVE, 0]), out)
            return [head, array.array("q", values)]
        if kind in (REAL, DOUBLE) and kinds <= {float, int}:
            head, values = with_nulls(out, NATIVE, 0) if has_nulls else (bytes([NATIVE, 0]), out)
            return [head, array.array("d", values)]
    except OverflowError:
        pass
    if kind == BYTES:
        head, values = with_nulls(out, NATIVE, b"") if has_nulls else (bytes([NATIVE, 0]), out)
        for value in values:
            if not isinstance(value, (bytes, bytearray, memoryview)):
                hint = "return bytes: value.encode() makes them of a text"
                raise Wrong(f"it returned {type(value).__name__}, which is no bytes", hint)
        values = list(map(bytes, values))
        return [head, array.array("I", map(len, values)), b"".join(values)]
    if GeneratorType in kinds:
        raise Wrong("it yields rows, and is declared to return one value", "declare it with RETURNS SETOF or RETURNS TABLE")
    # Anything else is read from its text, as a literal would be.
    head, values = with_nulls(out, TEXTS, "") if has_nulls else (bytes([TEXTS, 0]), out)
    if not kinds <= {str}:
        values = [repr(value) if type(value) is float else str(value) for value in values]
    joined = "".join(values)
    if joined.isascii():
        return [head, array.array("I", map(len, values)), joined.encode("ascii")]
    values = [value.encode() for value in values]
    return [head, array.array("I", map(len, values)), b"".join(values)]


def raised(function, error):
    """An error as it is sent."""
    kind = type(error)
    module = "" if kind.__module__ in ("builtins", "__main__", None) else kind.__module__ + "."
    if kind is Output.Error:
        module = "plpy."
    if isinstance(error, ImportError) and (error.name or "").split(".")[0] == "pyarrow":
        cause = MISSING
    elif isinstance(error, SyntaxError) and error.filename == function.file:
        cause = SYNTAX
    elif isinstance(error, MemoryError):
        cause = MEMORY
    elif isinstance(error, Wrong):
        cause = WRONG
    else:
        cause = EXCEPTION
    try:
        text = error.msg if cause == SYNTAX else str(error)
    except BaseException:
        text = "its text cannot be had"
    message = text if cause == WRONG else f"{module}{kind.__qualname__.split('.')[-1]}: {text}"
    if not text:
        message = f"{module}{kind.__qualname__.split('.')[-1]}"
    texts = [message, function.place(error)]
    if isinstance(error, (Output.Error, Wrong)):
        told = [getattr(error, name, None) for name in ("sqlstate", "detail", "hint")]
        texts += [part if isinstance(part, str) else repr(part) if part else "" for part in told]
    parts = [text.encode("utf-8", "backslashreplace") for text in texts]
    return [bytes([cause])] + [part for text in parts for part in (struct.pack("<I", len(text)), text)]


class Connection:
    """The socket to the engine."""

    def __init__(self, descriptor):
        self.socket = socket.socket(fileno=descriptor)

    def receive(self, count):
        buffer = bytearray(count)
        view, at = memoryview(buffer), 0
        while at < count:
            got = self.socket.recv_into(view[at:], 0, socket.MSG_WAITALL)
            if not got:
                os._exit(0)
            at += got
        return view

    def send(self, kind, number, parts):
        parts = [memoryview(part).cast("B") for part in parts]
        parts.insert(0, HEADER.pack(sum(map(len, parts)), kind, number))
        try:
            self.socket.sendall(b"".join(parts))
        except OSError:
            os._exit(1)


def answer(kind, payload):
    """What is answered to a frame; `None` for nothing."""
    (ident,) = struct.unpack_from("<Q", payload)
    if kind == FORGET:
        forgotten = functions.pop(ident, None)
        if forgotten is not None:
            linecache.cache.pop(forgotten.file, None)
        return None
    function = functions.get(ident)
    try:
        if kind == LOAD:
            function = Function.__new__(Function)
            function.__init__(payload)
            functions[ident] = function
            answered = LOADED, []
        else:
            answered = VALUES, function.run(payload)
    except BaseException as error:
        answered = RAISED, raised(function, error)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass
    return answered


class Refused(Exception):
    """The system cannot keep functions from what they are to be kept from."""


def keep_from_files(call):
    """From now on only the interpreter and its libraries can be read, and nothing can be written: Landlock."""
    import ctypes

    create, add, restrict, no_new_privileges = 444, 445, 446, 38
    execute, write, read, list_ = 1, 1 << 1, 1 << 2, 1 << 3
    version = call.syscall(create, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    if version < 1:
        raise Refused("function_files = off needs Linux 5.13 or newer with Landlock")
    # What later versions know beside files is none of this rule's.
    handled = ctypes.c_uint64((1 << (13 if version == 1 else 14 if version == 2 else 15)) - 1)
    rules = call.syscall(create, ctypes.byref(handled), ctypes.c_size_t(8), ctypes.c_uint(0))
    if rules < 0:
        raise Refused("function_files = off: the system makes no rules of Landlock")
    libraries = ["/usr", "/lib", "/lib64", "/bin", sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
    libraries += sys.path + os.environ.get("LD_LIBRARY_PATH", "").split(":")
    allowed = {os.path.realpath(path): execute | read | list_ for path in libraries if path}
    allowed["/etc/localtime"] = read
    allowed.update({path: read | write for path in ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")})
    # Where everything is a library, nothing is kept.
    allowed.pop("/", None)
    for path, rights in allowed.items():
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= ~list_
        rule = ctypes.create_string_buffer(struct.pack("<Qi", rights, descriptor))
        failed = call.syscall(add, rules, 1, rule, ctypes.c_uint(0))
        os.close(descriptor)
        if failed:
            raise Refused(f"function_files = off: the system takes no rule for {path}")
    if call.prctl(no_new_privileges, 1, 0, 0, 0) or call.syscall(restrict, rules, ctypes.c_uint(0)):
        raise Refused("function_files = off: the system does not take the rules of Landlock")
    os.close(rules)


# Of each machine: its number in seccomp's words, and those of the system calls socket, ptrace, process_vm_readv,
# process_vm_writev, pidfd_getfd and io_uring_setup: all ways to a socket that the process does not have.
MACHINES = {
    "x86_64": (0xC000003E, (41, 101, 310, 311, 438, 425)),
    "aarch64": (0xC00000B7, (198, 117, 270, 271, 438, 425)),
}


def keep_from_network(call):
    """From now on no socket can be made: seccomp."""
    import ctypes

    found = MACHINES.get(os.uname().machine)
    if found is None:
        raise Refused(f"function_network = off is not possible on {os.uname().machine}")
    machine, calls = found
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    allow, refuse, kill = 0x7FFF0000, 0x00050000 | 13, 0x80000000
    # The machine's number is at 4, that of the call at 0. Calls of another machine's kind have other numbers, and so
    # have those of x32, which are those from 0x40000000.
    steps = [(load, 0, 0, 4), (equal, 1, 0, machine), (give, 0, 0, kill), (load, 0, 0, 0)]
    steps += [(at_least, len(calls) + 1, 0, 0x40000000)]
    steps += [(equal, len(calls) - place, 0, number) for place, number in enumerate(calls)]
    steps += [(give, 0, 0, allow), (give, 0, 0, refuse)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(filters)))
    no_new_privileges, seccomp, filter_mode = 38, 22, 2
    if call.prctl(no_new_privileges, 1, 0, 0, 0) or call.prctl(seccomp, filter_mode, program, 0, 0):
        raise Refused("function_network = off needs a Linux with seccomp")


def keep_from(what):
    """Keeps functions from files, 1, and from the network, 2. It holds for what they start, and for good."""
    if not what:
        return
    if sys.platform != "linux":
        raise Refused("function_files = off and function_network = off need Linux")
    import ctypes

    call = ctypes.CDLL(None, use_errno=True)
    call.syscall.restype = ctypes.c_long
    if what & 1:
        keep_from_files(call)
    if what & 2:
        keep_from_network(call)


def prime(lifeline, memory, kept_from):
    """Sets up the process; its connection."""
    global sizes
    descriptor = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 64)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)
    if lifeline >= 0:
        # When the engine goes, however it does, the other end closes: SIGIO ends this process and those it started.
        os.set_inheritable(lifeline, False)
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = open(number, "w", 1, "utf-8", "backslashreplace", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    threading.stack_size(1 << 20)
    connection = Connection(descriptor)
    if os.path.exists("/proc/self/statm"):
        opened = os.open("/proc/self/statm", os.O_RDONLY)
        sizes = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, 64)
        os.close(opened)
    # A process that a function forks does not speak for this one.
    os.register_at_fork(after_in_child=connection.socket.close)
    try:
        keep_from(kept_from)
    except Refused as refused:
        sys.exit(str(refused))
    return connection


def serve():
    connection = prime(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4]))
    connection.send(HELLO, 0, ["{}.{}.{}".format(*sys.version_info).encode()])
    while True:
        size, kind, number = HEADER.unpack(connection.receive(HEADER.size))
        answered = answer(kind, connection.receive(size))
        if answered is not None:
            connection.send(answered[0], number, answered[1])


__file__ = "<primed>"
serve()
