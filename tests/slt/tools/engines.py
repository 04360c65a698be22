"""The two engines that answer a script: DataFusion, whose dialect and display are the expected ones, and DuckDB, the
second opinion.

Both run a script's records in order in a session of their own. The placeholders `__DATA__` (tests/slt/data) and
`__SCRATCH__` (an empty folder) are replaced in every statement. `tables` is a folder of Parquet files that are tables
from the start.
"""

import datetime
import decimal
import math
import pathlib
import re
import warnings

import datafusion
import duckdb
import pyarrow as pa
import pyarrow.ipc

import display
import script


class Answer:
    """What a record produced: Arrow batches, or the message of an error."""

    def __init__(self, batches=None, schema=None, error=None):
        self.batches = batches
        self.schema = schema
        self.error = error

    def letters(self):
        return "".join(display.column_letter(column.type) for column in self.schema)

    def rows(self):
        return display.rows_of(self.batches)

    def values(self):
        """Rows of Python values, made comparable between engines."""
        rows = []
        for batch in self.batches:
            columns = [[comparable(value) for value in _python(column)] for column in batch.columns]
            rows.extend(list(row) for row in zip(*columns))
        return rows


def _python(column):
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind):
        # Compared as microseconds: DuckDB keeps no more, and Python's datetime holds no more.
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        width = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        values = column.view(width).to_pylist()
        tag = "time" if pa.types.is_time(kind) else "duration" if pa.types.is_duration(kind) else "timestamp"
        return [None if value is None else (tag, value * 10**6 // per_second) for value in values]
    return column.to_pylist()


def comparable(value):
    """A value in a form that does not depend on the engine's choice of type: dates as timestamps, moments as
    microseconds, containers as tuples. Numbers stay as they are, `equal` knows what to make of them."""
    if isinstance(value, datetime.datetime):
        moment = value.replace(tzinfo=None) - (value.utcoffset() or datetime.timedelta())
        return ("timestamp", round((moment - datetime.datetime(1970, 1, 1)) / datetime.timedelta(microseconds=1)))
    if isinstance(value, datetime.date):
        return ("timestamp", (value - datetime.date(1970, 1, 1)).days * 86400 * 10**6)
    if isinstance(value, datetime.timedelta):
        return ("duration", round(value / datetime.timedelta(microseconds=1)))
    if isinstance(value, dict):
        return tuple((key, comparable(inner)) for key, inner in value.items())
    if isinstance(value, tuple) and value and value[0] in ("timestamp", "duration", "time"):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(comparable(inner) for inner in value)
    return value


def is_number(value):
    return isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool)


def equal(left, right):
    """Whether two comparable values are the same answer. A float may differ in its last digits; a decimal and a float
    may differ by one unit in the decimal's last place, because DuckDB averages decimals as floats."""
    if is_number(left) and is_number(right):
        if not isinstance(left, float) and not isinstance(right, float):
            return left == right
        slack = decimal.Decimal(0)
        for side in (left, right):
            if isinstance(side, decimal.Decimal):
                slack = decimal.Decimal(1).scaleb(side.as_tuple().exponent)
            elif isinstance(side, float) and not math.isfinite(side):
                return str(float(left)) == str(float(right))
        left, right = decimal.Decimal(left), decimal.Decimal(right)
        return abs(left - right) <= max(slack, decimal.Decimal("1e-9") * max(abs(left), abs(right)))
    if isinstance(left, (tuple, list)) and isinstance(right, (tuple, list)):
        return len(left) == len(right) and all(map(equal, left, right))
    return type(left) is type(right) and left == right


def sort_key(row):
    """An order of rows in which equal rows of two engines stand at the same place, or nearly always."""

    def key(value):
        if isinstance(value, tuple):
            return "(" + ",".join(map(key, value)) + ")"
        return format(float(value), ".4g") if is_number(value) else repr(value)

    return [key(value) for value in row]


def with_doubles(sql):
    """The statement with its literals that have an exponent as casts: they are DOUBLE, but DECIMAL in this session."""
    parts = re.split(r"('(?:[^']|'')*')", sql)
    number = re.compile(r"(?<![\w.\"])(?:\d+\.?\d*|\.\d+)[eE][+-]?\d+")
    return "".join(
        part if part.startswith("'") else number.sub(r"CAST('\g<0>' AS DOUBLE)", part) for part in parts
    )


class DataFusion:
    """One session. `scatter` re-orders and splits every table after each change, to catch answers that depend on the
    order of rows."""

    def __init__(self, places, tables=None, partitions=1, batch_rows=8192, scatter=False):
        self.places = places
        self.scatter = scatter
        config = datafusion.SessionConfig(
            {
                "datafusion.execution.target_partitions": str(partitions),
                "datafusion.execution.batch_size": str(batch_rows),
                # Files are not cut into ranges: DataFusion takes the header for a row when comments precede it.
                "datafusion.optimizer.repartition_file_scans": "false",
                "datafusion.catalog.information_schema": "true",
                # As our sessions do: a literal with a point is a decimal.
                "datafusion.sql_parser.parse_float_as_decimal": "true",
            }
        )
        self.context = datafusion.SessionContext(config).enable_url_table()
        for file in sorted(tables.glob("*.parquet")) if tables else []:
            self.context.register_parquet(file.stem, str(file))

    def run(self, sql):
        sql = with_doubles(placed(sql, self.places))
        try:
            frame = self.context.sql(sql)
            schema = frame.schema()
            batches = frame.collect()
        except Exception as error:  # every failure of the engine is an answer
            return Answer(error=str(error))
        if self.scatter:
            self._scatter(sql)
        return Answer(batches, schema)

    def _scatter(self, sql):
        found = re.match(
            r"\s*(?:create\s+(?:or\s+replace\s+)?table(?:\s+if\s+not\s+exists)?|insert\s+into)\s+(\w+)(?![\w.])",
            sql,
            re.IGNORECASE,
        )
        if not found:
            return
        name = found.group(1)
        frame = self.context.sql(f"SELECT * FROM {name}")
        batches = [batch for batch in frame.collect() if batch.num_rows]
        if not batches:
            return
        table = pa.Table.from_batches(batches)
        # By slices: `take` does not know string views.
        table = pa.concat_tables([table.slice(at, 1) for at in range(table.num_rows - 1, -1, -1)])
        partitions = [[], [], []]
        for at in range(0, table.num_rows, 2):
            partitions[at // 2 % 3].extend(table.slice(at, 2).to_batches())
        self.context.deregister_table(name)
        self.context.register_record_batches(name, [part for part in partitions if part])


class DuckDB:
    """One in-memory database, with the few settings and spellings that make the same SQL mean the same."""

    def __init__(self, places, tables=None):
        self.places = places
        self.connection = duckdb.connect(config={"threads": 1})
        for setting in (
            "SET default_null_order = 'nulls_last_on_asc_first_on_desc'",
            "SET integer_division = true",
            "SET autoinstall_known_extensions = false",
            "SET TimeZone = 'UTC'",
        ):
            try:
                self.connection.execute(setting)
            except duckdb.Error:
                pass  # TimeZone needs the ICU extension
        for file in sorted(tables.glob("*.parquet")) if tables else []:
            self.connection.execute(f"CREATE VIEW {file.stem} AS SELECT * FROM '{file}'")

    def run(self, sql):
        try:
            for statement in duckdb_spelling(self._files(placed(sql, self.places))):
                self.connection.execute(statement)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about the cost of an extra copy
                table = self.connection.to_arrow_table() if self.connection.description else pa.table({})
        except Exception as error:
            return Answer(error=str(error))
        return Answer(table.to_batches(), table.schema)


    def _files(self, sql):
        """What DuckDB cannot name itself: a folder as a table, and Arrow files."""

        def replace(found):
            path = pathlib.Path(found.group(2))
            if path.is_dir():
                first = next((file for file in sorted(path.rglob("*")) if file.is_file()), None)
                if first and first.suffix == ".parquet":
                    return f"{found.group(1)}read_parquet('{path}/**/*.parquet', union_by_name = true)"
                return f"{found.group(1)}'{path}/**/*{first.suffix}'" if first else found.group(0)
            if path.suffix == ".arrow" and path.is_file():
                name = f"arrow_file_{path.stem}"
                self.connection.register(name, pa.ipc.open_file(path).read_all())
                return f"{found.group(1)}{name}"
            return found.group(0)

        return re.sub(r"(\b(?:FROM|JOIN)\s+|\bLOCATION\s+)'([^']*)'", replace, sql, flags=re.IGNORECASE)


def closing(quiet, at):
    """The position after the bracket that closes the one before `at`."""
    depth = 1
    while depth:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(quiet[at], 0)
        at += 1
    return at


def first_and_last(sql):
    """`first_value` and `last_value` as plain aggregates are `first` and `last` in DuckDB."""
    quiet = script.without_noise(sql)
    for found in reversed(list(re.finditer(r"\b(first|last)_value\(", quiet, re.IGNORECASE))):
        after = quiet[closing(quiet, found.end()) :]
        if not re.match(r"\s*((IGNORE|RESPECT)\s+NULLS\s*)?OVER\b", after, re.IGNORECASE):
            sql = sql[: found.start()] + found.group(1) + "(" + sql[found.end() :]
    return sql


def declared(columns):
    """Names and types of a column list."""
    return re.findall(r"(\w+)\s+(\w+(?:\(\d+(?:,\s*\d+)?\))?)\s*(?:,|$)", columns)


def struct_literals(sql):
    """`named_struct('a', x, 'b', y)` as DuckDB's `{'a': x, 'b': y}`."""
    while True:
        found = re.search(r"\bnamed_struct\(", script.without_noise(sql), re.IGNORECASE)
        if not found:
            return sql
        quiet = script.without_noise(sql)
        depth, at, cuts = 1, found.end(), [found.end()]
        while depth:
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(quiet[at], 0)
            if quiet[at] == "," and depth == 1:
                cuts.append(at + 1)
            at += 1
        arguments = [sql[start : end - 1].strip() for start, end in zip(cuts, cuts[1:] + [at])]
        pairs = ", ".join(f"{key}: {value}" for key, value in zip(arguments[::2], arguments[1::2]))
        sql = f"{sql[:found.start()]}{{{pairs}}}{sql[at:]}"


def declared_csv(found):
    """A CSV table with declared columns or options, as a DuckDB view."""
    name, columns, partitions, path, options = found.groups()
    options = dict(re.findall(r"'format\.(\w+)'\s+E?'([^']*)'", options or ""))
    arguments = [f"'{path}'", f"header = {options.get('has_header', 'true')}"]
    if "delimiter" in options:
        arguments.append(f"delim = E'{options['delimiter']}'")
    if "comment" in options:
        arguments.append(f"comment = '{options['comment']}'")
    if columns and not partitions:
        listed = [f"'{column}': '{kind}'" for column, kind in declared(columns)]
        arguments.append("columns = {" + ", ".join(listed) + "}")
    return f"CREATE VIEW {name} AS SELECT * FROM read_csv({', '.join(arguments)})"


def placed(sql, places):
    for name, folder in places.items():
        sql = sql.replace(name, str(folder))
    return sql


# Spellings that differ only in name. Applied outside strings and comments.
SPELLINGS = [
    (r"\bLEFT SEMI JOIN\b", "SEMI JOIN"),
    (r"\bLEFT ANTI JOIN\b", "ANTI JOIN"),
    (r"\bTINYINT UNSIGNED\b", "UTINYINT"),
    (r"\bSMALLINT UNSIGNED\b", "USMALLINT"),
    (r"\b(?:INT|INTEGER) UNSIGNED\b", "UINTEGER"),
    (r"\bBIGINT UNSIGNED\b", "UBIGINT"),
    (r"\bmake_array\(", "list_value("),
    (r"\bbtrim\(", "trim("),
    (r"\bregexp_like\(", "regexp_matches("),
    (r"\bapprox_distinct\(", "approx_count_distinct("),
    (r"\barray_length\(", "len("),
    (r"\barray_sum\(", "list_sum("),
    (r"\barray_has\(", "list_contains("),
    (r"\barray_sort\(", "list_sort("),
    (r"\bcharacter_length\(", "length("),
    (r"\boctet_length\(", "strlen("),
    (r"\bchar_length\(", "length("),
    (r"\bvar_sample\(", "var_samp("),
    (r"\bto_hex\(", "hex("),
    (r"\bsignum\(", "sign("),
    (r"\bBYTEA\b", "BLOB"),
    (r"\bstruct\(", "row("),
]


def duckdb_spelling(sql):
    """The statements DuckDB needs for one of ours."""
    sql = first_and_last(struct_literals(sql))
    sql = re.sub(
        r"\bFROM (\w+(?: (?!RIGHT)\w+)?) RIGHT (SEMI|ANTI) JOIN (\w+(?: (?!ON)\w+)?) ON\b", r"FROM \3 \2 JOIN \1 ON", sql
    )
    quiet = script.without_noise(sql)
    edits = []
    for pattern, replacement in SPELLINGS:
        for found in re.finditer(pattern, quiet, re.IGNORECASE):
            edits.append((found.start(), found.end(), replacement))
    for start, end, replacement in sorted(edits, reverse=True):
        sql = sql[:start] + replacement + sql[end:]
    external = re.match(
        r"\s*CREATE\s+EXTERNAL\s+TABLE\s+(\w+)\s*(?:\((.*)\))?\s*STORED\s+AS\s+(?:PARQUET|JSON|ARROW)\s+"
        r"(?:PARTITIONED BY \(.*?\)\s*)?LOCATION\s+(\S.*)$",
        sql,
        re.IGNORECASE | re.DOTALL,
    )
    if external:
        name, columns, source = external.groups()
        listed = [f"CAST({column} AS {kind}) AS {column}" for column, kind in declared(columns or "")]
        return [f"CREATE VIEW {name} AS SELECT {', '.join(listed) or '*'} FROM {source}"]
    external = re.match(
        r"\s*CREATE\s+EXTERNAL\s+TABLE\s+(\w+)\s*(?:\((.*)\))?\s*STORED\s+AS\s+CSV\s+(PARTITIONED BY \(.*?\)\s*)?"
        r"LOCATION\s+'([^']*)'\s*(?:OPTIONS\s*\((.*)\))?\s*$",
        sql,
        re.IGNORECASE | re.DOTALL,
    )
    if external:
        return [declared_csv(external)]
    table = re.match(r"\s*CREATE\s+TABLE\s+(\w+)\s*(\(.*?\))\s*AS\s+(VALUES\b.*)$", sql, re.IGNORECASE | re.DOTALL)
    if table:
        return [
            f"CREATE TABLE {table.group(1)} {table.group(2)}",
            f"INSERT INTO {table.group(1)} {table.group(3)}",
        ]
    return [sql]
