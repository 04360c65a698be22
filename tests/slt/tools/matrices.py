#!/usr/bin/env python3
"""Writes the scripts that are systematic rather than told: join types x shapes of data, window functions x frames, types x
clauses, types x operators, types x casts, aggregates x types. Run with bench/rivals/venv/bin/python, then let generate.py
fill in the answers.

The scripts have `matrix` in their names. Everything else under tests/slt is written by hand.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import engines

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Script:
    """A script being written. `query` and `statement` add records; `attempt` asks DataFusion which of the two it is."""

    def __init__(self, name, *opening):
        self.path = ROOT / name
        self.lines = [f"# {line}" for line in opening]
        self.lines.append("# Written by tools/matrices.py.")
        self.lines.append("")
        self.engine = engines.DataFusion({"__DATA__": ROOT / "data", "__SCRATCH__": "/nonexistent"})

    def comment(self, *text):
        self.lines += [f"# {line}" for line in text]

    def statement(self, sql):
        self.engine.run(sql)
        self.lines += ["statement ok", sql, ""]

    def query(self, sql, differs=None):
        if differs:
            self.comment(f"DuckDB differs: {differs}")
        self.lines += ["query", sql, ""]

    def attempt(self, sql, differs=None):
        """A query where the combination makes sense, else an error."""
        if differs:
            self.comment(f"DuckDB differs: {differs}")
        if self.engine.run(sql).error is None:
            self.query(sql)
        else:
            self.lines += ["statement error .", sql, ""]

    def write(self):
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text("\n".join(self.lines[:-1]) + "\n", encoding="utf-8")


# ---------------------------------------------------------------------------------------------------------------------
# Joins: eight types x shapes of data x conditions.

JOIN_TYPES = [
    ("INNER JOIN", "both"),
    ("LEFT JOIN", "both"),
    ("RIGHT JOIN", "both"),
    ("FULL JOIN", "both"),
    ("LEFT SEMI JOIN", "left"),
    ("LEFT ANTI JOIN", "left"),
    ("RIGHT SEMI JOIN", "right"),
    ("RIGHT ANTI JOIN", "right"),
]

# Each side: (key, value) rows as SQL, and the type of the key.
SHAPES = {
    "unique": (
        "unique keys on both sides, some without a partner",
        "INT",
        "(1, 10), (2, 20), (3, 30), (4, 40)",
        "(3, 300), (4, 400), (5, 500), (6, 600)",
    ),
    "duplicates": (
        "several rows per key on both sides",
        "INT",
        "(1, 10), (1, 11), (2, 20), (2, 21), (2, 22), (3, 30)",
        "(1, 100), (1, 101), (1, 102), (2, 200), (4, 400), (4, 401)",
    ),
    "nulls": (
        "NULL keys on both sides, which never meet",
        "INT",
        "(NULL, 1), (NULL, 2), (1, 10), (2, 20), (2, NULL)",
        "(NULL, 100), (2, 200), (2, NULL), (3, 300), (NULL, NULL)",
    ),
    "all_null": (
        "nothing but NULL keys on the right side",
        "INT",
        "(1, 10), (NULL, 20)",
        "(NULL, 100), (NULL, 200)",
    ),
    "no_match": ("no key of one side on the other", "INT", "(1, 10), (3, 30), (5, 50)", "(2, 200), (4, 400)"),
    "one_key": (
        "one heavy key: every row meets every row",
        "INT",
        "(7, 1), (7, 2), (7, 3), (7, 4), (7, 5)",
        "(7, 10), (7, 20), (7, 30), (8, 40)",
    ),
    "text": (
        "text keys: empty, short, equal up to the twelfth byte, not ASCII",
        "VARCHAR",
        "('', 1), ('a', 2), ('same prefix 1', 3), ('same prefix 2', 4), ('größe', 5), (NULL, 6), ('A', 7)",
        "('', 10), ('a', 20), ('same prefix 2', 30), ('same prefix 3', 40), ('größe', 50), (NULL, 60)",
    ),
    "decimal": (
        "decimal keys",
        "DECIMAL(10, 2)",
        "(1.50, 1), (1.51, 2), (-0.01, 3), (0.00, 4), (NULL, 5)",
        "(1.5, 10), (-0.01, 20), (99999999.99, 30), (0, 40), (0.00, 50)",
    ),
    "date": (
        "date keys",
        "DATE",
        "('2024-02-29', 1), ('1970-01-01', 2), ('1969-12-31', 3), (NULL, 4)",
        "('2024-02-29', 10), ('1969-12-31', 20), ('1969-12-31', 30), ('9999-12-31', 40)",
    ),
    "double": (
        "float keys: both zeros are one key, and so are all NaNs",
        "DOUBLE",
        "(0.0, 1), (1.5, 2), ('NaN', 3), ('Infinity', 4), (NULL, 5), (-1e300, 6)",
        "(0.0, 10), (1.5, 20), ('NaN', 30), ('-Infinity', 40), (-1e300, 50), (1.5, 60)",
    ),
    "boolean": ("two possible keys", "BOOLEAN", "(true, 1), (false, 2), (NULL, 3), (true, 4)", "(true, 10), (NULL, 20)"),
}


def joins():
    for name, (title, kind, left, right) in SHAPES.items():
        script = Script(
            f"joins/matrix_{name}.slt", f"Every join type over {title}: plain, with a condition over both sides,", "with one on a single side, and with NULL-safe keys."
        )
        script.statement(f"CREATE TABLE l (k {kind}, v INT) AS VALUES {left}")
        script.statement(f"CREATE TABLE r (k {kind}, w INT) AS VALUES {right}")
        for join, sides in JOIN_TYPES:
            shown = {"both": "l.k, l.v, r.k, r.w", "left": "l.k, l.v", "right": "r.k, r.w"}[sides]
            script.query(f"SELECT {shown} FROM l {join} r ON l.k = r.k")
            script.query(f"SELECT {shown} FROM l {join} r ON l.k = r.k AND l.v * 10 <> r.w")
            side = "l.v > 2" if "RIGHT" not in join else "r.w > 20"
            script.query(f"SELECT {shown} FROM l {join} r ON l.k = r.k AND {side}")
            script.query(f"SELECT {shown} FROM l {join} r ON l.k IS NOT DISTINCT FROM r.k")
        script.comment("The same through subqueries.")
        script.query("SELECT k, v FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k)")
        script.query("SELECT k, v FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)")
        script.query("SELECT k, v FROM l WHERE k IN (SELECT k FROM r)")
        script.query("SELECT k, v FROM l WHERE k NOT IN (SELECT k FROM r)")
        script.query("SELECT k, v FROM l WHERE k NOT IN (SELECT k FROM r WHERE k IS NOT NULL)")
        script.query("SELECT k, v FROM l WHERE v = 2 OR k IN (SELECT k FROM r)")
        script.query("SELECT k, v FROM l WHERE v = 2 OR NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.w > 20)")
        script.comment("Counts per key, and the join against itself.")
        script.query("SELECT l.k, count(*), count(r.w), sum(r.w) FROM l LEFT JOIN r ON l.k = r.k GROUP BY l.k")
        script.query("SELECT count(*), count(l.v), count(r.w) FROM l FULL JOIN r ON l.k = r.k")
        script.query("SELECT count(*), sum(a.v), sum(b.v) FROM l a JOIN l b ON a.k = b.k")
        script.write()

    # More rows than fit one batch, on either side, and no rows.
    script = Script(
        "joins/matrix_sizes.slt", "Every join type with a large and a small side, both large, and empty sides; the rows are counted and summed."
    )
    script.statement("CREATE TABLE big AS SELECT value AS k, value % 1000 AS m, value * 3 AS v FROM generate_series(1, 3000) AS g(value)")
    script.statement("CREATE TABLE small AS SELECT value * 100 AS k, value AS w FROM generate_series(0, 40) AS g(value)")
    script.statement("CREATE TABLE nothing AS SELECT k, w FROM small WHERE false")
    script.statement("CREATE TABLE holes AS SELECT CASE WHEN value % 4 <> 0 THEN value % 50 END AS k, value AS w FROM generate_series(1, 400) AS g(value)")
    pairs = [("big", "small", "k", "v", "w"), ("small", "big", "k", "w", "v"), ("big", "nothing", "k", "v", "w"), ("nothing", "big", "k", "w", "v"),
             ("nothing", "nothing", "k", "w", "w"), ("small", "holes", "k", "w", "w"), ("holes", "holes", "k", "w", "w"), ("big", "big", "m", "v", "v")]  # fmt: skip
    for left, right, key, lv, rv in pairs:
        script.comment(f"{left} and {right}")
        for join, sides in JOIN_TYPES:
            shown = {
                "both": f"count(*), count(a.{lv}), count(b.{rv}), sum(a.{lv}), sum(b.{rv})",
                "left": f"count(*), sum(a.{lv})",
                "right": f"count(*), sum(b.{rv})",
            }[sides]
            script.query(f"SELECT {shown} FROM {left} a {join} {right} b ON a.{key} = b.{key}")
    script.write()

    # Two keys, either of which may be NULL.
    script = Script("joins/matrix_two_keys.slt", "Every join type on two keys of different types, either of which may be NULL.")
    script.statement("CREATE TABLE l (a INT, b VARCHAR, v INT) AS VALUES (1, 'x', 1), (1, 'y', 2), (2, 'x', 3), (NULL, 'x', 4), (1, NULL, 5), (NULL, NULL, 6)")
    script.statement("CREATE TABLE r (a INT, b VARCHAR, w INT) AS VALUES (1, 'x', 10), (1, 'x', 11), (2, 'y', 20), (NULL, 'x', 30), (1, NULL, 40), (NULL, NULL, 50)")
    conditions = [
        "l.a = r.a AND l.b = r.b",
        "(l.a IS NOT DISTINCT FROM r.a) AND (l.b IS NOT DISTINCT FROM r.b)",
        "l.a = r.a AND (l.b IS NOT DISTINCT FROM r.b)",
        "l.a = r.a AND l.b = r.b AND l.v + r.w > 11",
        "l.a = r.a OR l.b = r.b",
        "l.a < r.a",
        "l.a <= r.a AND l.b = r.b",
    ]
    for condition in conditions:
        for join, sides in JOIN_TYPES:
            shown = {"both": "l.v, r.w", "left": "l.v", "right": "r.w"}[sides]
            script.query(f"SELECT {shown} FROM l {join} r ON {condition}")
    script.write()


# ---------------------------------------------------------------------------------------------------------------------
# Window functions x frames.

FRAMES = [
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING",
    "ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    "RANGE BETWEEN 5 PRECEDING AND 2 PRECEDING",
    "GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "GROUPS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
]

WINDOW_FUNCTIONS = ["sum(v)", "count(v)", "count(*)", "avg(v)", "min(v)", "max(v)", "bit_xor(v)", "first_value(v)", "last_value(v)", "nth_value(v, 2)"]


def windows():
    script = Script(
        "windows/matrix_frames.slt",
        "Every function over every kind of frame. The order within a partition has peers (equal k) and NULL values;",
        "with ROWS the order is made complete by id, and with RANGE and GROUPS the first, last and nth value are those of",
        "the key, so that there is one answer.",
    )
    script.statement(
        "CREATE TABLE t (id INT, g INT, k INT, v INT) AS VALUES (1, 1, 1, 10), (2, 1, 2, NULL), (3, 1, 2, 5), (4, 1, 4, 7), (5, 1, 9, 1),\n"
        "  (6, 2, 3, NULL), (7, 2, 3, 8), (8, 2, 5, 2), (9, 3, 1, 4)"
    )
    for frame in FRAMES:
        for function in WINDOW_FUNCTIONS:
            order = "k, id" if frame.startswith("ROWS") else "k"
            if not frame.startswith("ROWS"):
                function = function.replace("value(v", "value(k")  # which of the peers comes first must not matter
            script.query(f"SELECT id, {function} OVER (PARTITION BY g ORDER BY {order} {frame}) FROM t ORDER BY id")
    script.write()


# ---------------------------------------------------------------------------------------------------------------------
# Types x clauses.

# name: (SQL type, values in ascending order as SQL text, one of which appears twice)
TYPES = {
    "tinyint": ("TINYINT", ["-128", "0", "5", "127"]),
    "smallint": ("SMALLINT", ["-32768", "-1", "300", "32767"]),
    "int": ("INT", ["-2147483648", "0", "7", "2147483647"]),
    "bigint": ("BIGINT", ["-9223372036854775807", "-1", "42", "9223372036854775807"]),
    "utinyint": ("TINYINT UNSIGNED", ["0", "1", "200", "255"]),
    "usmallint": ("SMALLINT UNSIGNED", ["0", "9", "40000", "65535"]),
    "uint": ("INT UNSIGNED", ["0", "3", "3000000000", "4294967295"]),
    "ubigint": ("BIGINT UNSIGNED", ["0", "1", "10000000000000000000", "18446744073709551615"]),
    "real": ("REAL", ["-1e30", "-0.5", "0.25", "3e30"]),
    "double": ("DOUBLE", ["-1e300", "-0.125", "0.1", "1e300"]),
    "decimal_small": ("DECIMAL(7, 2)", ["-99999.99", "-0.01", "0.00", "12345.67"]),
    "decimal_large": ("DECIMAL(38, 6)", ["'-12345678901234567890.123456'", "'0.000001'", "'1.5'", "'98765432109876543210.000000'"]),
    "boolean": ("BOOLEAN", ["false", "true"]),
    "varchar": ("VARCHAR", ["''", "'Zeta'", "'a string longer than twelve bytes'", "'äther'"]),
    "bytes": ("BYTEA", ["x'00'", "x'00ff'", "x'61'", "x'ff'"]),
    "date": ("DATE", ["'0001-01-01'", "'1969-12-31'", "'2024-02-29'", "'9999-12-31'"]),
    "time": ("TIME", ["'00:00:00'", "'09:30:00'", "'12:00:00.5'", "'23:59:59'"]),
    "timestamp": ("TIMESTAMP", ["'1700-01-01T00:00:00'", "'1969-12-31T23:59:59.999'", "'2024-02-29T12:00:00'", "'2200-12-31T00:00:00'"]),
}


OTHER_TEXT = "the text of such a value has another form there."
OTHER_TEXTS = {"real", "double", "time", "timestamp"}


def types():
    for name, (kind, values) in TYPES.items():
        script = Script(f"types/matrix_{name}.slt", f"Values of type {kind} in every clause: compared, sorted, grouped, joined, aggregated, ranked, combined.")
        literals = [f"CAST({value} AS {kind})" for value in values]
        low, high = literals[0], literals[-1]
        other = literals[1]
        rows = ", ".join(f"({at + 1}, {value})" for at, value in enumerate(literals + [literals[1], "NULL", "NULL"]))
        script.statement(f"CREATE TABLE t (id INT, v {kind}) AS VALUES {rows}")
        script.query("SELECT id, v FROM t")
        script.query("SELECT arrow_typeof(v) FROM t LIMIT 1")
        script.comment("Comparison.")
        script.query(f"SELECT id, v = {other}, v <> {other}, v < {other}, v >= {other} FROM t ORDER BY id")
        script.query(f"SELECT id, v IS DISTINCT FROM {other}, v IS NULL FROM t ORDER BY id")
        script.query(f"SELECT id FROM t WHERE v > {low} AND v <= {high} ORDER BY id")
        script.query(f"SELECT id FROM t WHERE v BETWEEN {other} AND {high} ORDER BY id")
        script.query(f"SELECT id FROM t WHERE v IN ({low}, {high}) ORDER BY id")
        script.query(f"SELECT id FROM t WHERE v NOT IN ({low}, {other}) ORDER BY id")
        script.query("SELECT a.id, b.id FROM t a JOIN t b ON a.v < b.v")
        script.comment("Order.")
        script.query("SELECT id, v FROM t ORDER BY v, id")
        script.query("SELECT id, v FROM t ORDER BY v DESC, id DESC")
        script.query("SELECT id, v FROM t ORDER BY v NULLS FIRST, id LIMIT 4")
        script.query("SELECT id, v FROM t ORDER BY v DESC NULLS LAST, id LIMIT 3 OFFSET 1")
        script.comment("Groups.")
        script.query("SELECT v, count(*), sum(id) FROM t GROUP BY v ORDER BY v")
        script.query("SELECT DISTINCT v FROM t")
        script.query("SELECT count(v), count(DISTINCT v) FROM t")
        script.attempt("SELECT min(v), max(v) FROM t")
        script.attempt("SELECT id % 2 AS odd, min(v), max(v) FROM t GROUP BY id % 2 ORDER BY odd")
        script.query("SELECT v, id % 2 AS odd, count(*) FROM t GROUP BY v, id % 2")
        script.query("SELECT v, grouping(v), count(*) FROM t GROUP BY ROLLUP (v)")
        script.query("SELECT array_agg(v ORDER BY v, id) FROM t")
        script.query("SELECT first_value(v ORDER BY id), last_value(v ORDER BY id) FROM t")
        script.query("SELECT max(id) FROM t GROUP BY v HAVING count(*) > 1")
        script.comment("Joins.")
        script.query("SELECT a.id, b.id FROM t a JOIN t b ON a.v = b.v AND a.id < b.id")
        script.query("SELECT a.id, b.id FROM t a LEFT JOIN t b ON a.v = b.v AND a.id <> b.id")
        script.query("SELECT a.id, b.id FROM t a FULL JOIN (SELECT * FROM t WHERE id > 3) b ON a.v = b.v AND a.id < 3")
        script.query("SELECT a.id, b.id FROM t a JOIN t b ON (a.v IS NOT DISTINCT FROM b.v) AND a.id < b.id")
        script.query("SELECT id FROM t WHERE v IN (SELECT v FROM t WHERE id = 5) ORDER BY id")
        script.query("SELECT id FROM t WHERE v NOT IN (SELECT v FROM t WHERE id = 5) ORDER BY id")
        script.comment("Windows and neighbours.")
        if name not in ("bytes", "time"):  # DataFusion has no ranges over these
            script.query("SELECT id, rank() OVER (ORDER BY v), dense_rank() OVER (ORDER BY v DESC) FROM t ORDER BY id")
        script.query("SELECT id, lag(v) OVER (ORDER BY id), lead(v, 2) OVER (ORDER BY id) FROM t ORDER BY id")
        script.query("SELECT id, count(*) OVER (PARTITION BY v) FROM t ORDER BY id")
        script.comment("Sets, branches and casts.")
        script.query("SELECT v FROM t WHERE id < 3 UNION SELECT v FROM t WHERE id > 3")
        script.query("SELECT v FROM t EXCEPT SELECT v FROM t WHERE id < 3")
        script.query("SELECT v FROM t INTERSECT SELECT v FROM t WHERE id > 4")
        script.query(f"SELECT id, coalesce(v, {low}), nullif(v, {other}), CASE WHEN id > 2 THEN v END FROM t ORDER BY id")
        script.query(f"SELECT id, greatest(v, {other}), least(v, {other}) FROM t ORDER BY id")
        if name == "bytes":
            script.query("SELECT id, encode(v, 'hex') FROM t ORDER BY id")
        else:
            script.query("SELECT id, CAST(v AS VARCHAR) FROM t ORDER BY id", OTHER_TEXT if name in OTHER_TEXTS else None)
        script.statement("CREATE TABLE copy AS SELECT v, id FROM t WHERE v IS NOT NULL")
        script.query("SELECT count(*), count(DISTINCT c.v) FROM copy c JOIN t ON c.v = t.v")
        script.query("SELECT [v, v] AS a, named_struct('v', v) AS s FROM t WHERE id < 3")
        script.write()


# ---------------------------------------------------------------------------------------------------------------------
# Number types x arithmetic.

NUMBERS = {
    "i8": "TINYINT",
    "i16": "SMALLINT",
    "i32": "INT",
    "i64": "BIGINT",
    "u8": "TINYINT UNSIGNED",
    "u16": "SMALLINT UNSIGNED",
    "u32": "INT UNSIGNED",
    "u64": "BIGINT UNSIGNED",
    "f32": "REAL",
    "f64": "DOUBLE",
    "d": "DECIMAL(9, 2)",
    "e": "DECIMAL(20, 5)",
}


def arithmetic():
    script = Script(
        "types/matrix_arithmetic.slt",
        "Arithmetic and comparison between any two number types. Each record has five operators and three comparisons",
        "over the pairs (7, 2), (2, 7), (6, 6) and NULLs on either side.",
    )
    columns = ", ".join(f"{name} {kind}" for name, kind in NUMBERS.items())
    for table, numbers in (("x", ["7", "2", "6", "NULL", "1"]), ("y", ["2", "3", "6", "1", "NULL"])):
        rows = ", ".join(f"({at + 1}, " + ", ".join([number] * len(NUMBERS)) + ")" for at, number in enumerate(numbers))
        script.statement(f"CREATE TABLE {table} (id INT, {columns}) AS VALUES {rows}")
    for left in NUMBERS:
        shown = ", ".join(f"arrow_typeof(x.{left} + y.{right}) AS {right}" for right in NUMBERS)
        script.comment(f"{NUMBERS[left]} and the others: the types of sums.")
        script.attempt(f"SELECT {shown} FROM x JOIN y ON x.id = y.id AND x.id = 1")
        for right in NUMBERS:
            a, b = f"x.{left}", f"y.{right}"
            # The difference of unsigned numbers must not be negative.
            difference = f"CASE WHEN {a} >= {b} THEN {a} - {b} END" if "u" in (left[0], right[0]) else f"{a} - {b}"
            mixed = "u64" in (left, right) and "i" in (left[0], right[0])
            script.attempt(
                f"SELECT x.id, {a} + {b}, {difference} AS minus, {a} * {b}, {a} / {b}, {a} % {b}, {a} = {b}, {a} < {b}, {a} >= {b} FROM x JOIN y ON x.id = y.id ORDER BY x.id",
                "both become decimals here, so the division has a fraction." if mixed else None,
            )
    script.write()


# ---------------------------------------------------------------------------------------------------------------------
# Types x casts.

CASTS = {
    "tinyint": ("TINYINT", ["7", "-128", "0"]),
    "int": ("INT", ["7", "-2000000000", "0"]),
    "bigint": ("BIGINT", ["7", "9000000000000000000", "-1"]),
    "ubigint": ("BIGINT UNSIGNED", ["7", "18446744073709551615", "0"]),
    "real": ("REAL", ["7.5", "-0.25", "1e20"]),
    "double": ("DOUBLE", ["7.5", "-0.999", "1e20"]),
    "decimal": ("DECIMAL(12, 3)", ["7.500", "-0.999", "123456789.125"]),
    "boolean": ("BOOLEAN", ["true", "false"]),
    "varchar": ("VARCHAR", ["'7'", "' 7 '", "'7.5'", "'true'", "'2024-02-29'", "'2024-02-29T01:02:03'", "'abc'", "''"]),
    "date": ("DATE", ["'2024-02-29'", "'1969-12-31'"]),
    "time": ("TIME", ["'01:02:03'", "'23:59:59.5'"]),
    "timestamp": ("TIMESTAMP", ["'2024-02-29T01:02:03.5'", "'1969-12-31T23:59:59'"]),
}

TARGETS = ["TINYINT", "SMALLINT", "INT", "BIGINT", "INT UNSIGNED", "REAL", "DOUBLE", "DECIMAL(10, 2)", "DECIMAL(30, 5)", "BOOLEAN", "VARCHAR", "DATE", "TIME", "TIMESTAMP"]

TEMPORAL = {"date", "time", "timestamp"}


def cast_difference(source, target):
    """Why DuckDB's answer to a cast is another one, where it is."""
    whole = target.endswith("INT") or target == "INT UNSIGNED"
    if source in ("real", "double", "decimal") and whole:
        return "it rounds to whole numbers, this cuts."
    if source == "varchar" and whole:
        return "it reads a number with a fraction and rounds it."
    if source in OTHER_TEXTS and target == "VARCHAR":
        return OTHER_TEXT
    if (source, target) == ("varchar", "TIME"):
        return "it takes the time from a moment; here a bare number counts nanoseconds."
    if (source, target) in (("decimal", "BOOLEAN"), ("boolean", "DECIMAL(10, 2)"), ("boolean", "DECIMAL(30, 5)")):
        return "decimals and truth values are related there."
    if (source, target) in (("date", "TIME"), ("time", "DATE"), ("time", "TIMESTAMP")):
        return "it tries, and gets NULL."
    return None


def casts():
    script = Script("types/matrix_casts.slt", "TRY_CAST between types: the value, NULL where this value does not fit, an error where the types never do.")
    for name, (kind, values) in CASTS.items():
        rows = ", ".join(f"({at + 1}, CAST({value} AS {kind}))" for at, value in enumerate(values + ["NULL"]))
        script.comment(f"From {kind}.")
        script.statement(f"CREATE TABLE from_{name} (id INT, v {kind}) AS VALUES {rows}")
        for target in TARGETS:
            # What a number means as a date is nobody's standard.
            if name != "varchar" and target != "VARCHAR" and (name in TEMPORAL) != (target.lower() in TEMPORAL):
                continue
            if (name, target) == ("varchar", "TIME"):
                script.comment("Over the wire: PostgreSQL has microseconds.")
                script.lines.append("skipif pgwire")
            script.attempt(f"SELECT id, TRY_CAST(v AS {target}) FROM from_{name} ORDER BY id", cast_difference(name, target))
    script.write()


# ---------------------------------------------------------------------------------------------------------------------
# Aggregates x types.

AGGREGATES = ["sum", "avg", "min", "max", "count", "median", "stddev_pop", "var_samp", "bit_or", "bool_or", "array_agg", "first_value"]

AGGREGATED = {
    "i8": ("TINYINT", ["100", "100", "27", "-5", "3"]),
    "i32": ("INT", ["200000", "200000", "5", "-5", "3"]),
    "i64": ("BIGINT", ["4000000000000", "4000000000000", "5", "-5", "3"]),
    "u64": ("BIGINT UNSIGNED", ["9000000000000000000", "9000000000000000000", "5", "6", "3"]),
    "f64": ("DOUBLE", ["0.5", "0.5", "1e3", "-5", "3"]),
    "d": ("DECIMAL(9, 2)", ["99999.99", "99999.99", "0.01", "-5", "3"]),
    "b": ("BOOLEAN", ["true", "true", "false", "false", "true"]),
    "s": ("VARCHAR", ["'mm'", "'mm'", "'a'", "''", "'zz'"]),
    "day": ("DATE", ["'2024-02-29'", "'2024-02-29'", "'1970-01-01'", "'2000-01-01'", "'1999-12-31'"]),
}


def aggregates():
    script = Script(
        "aggregates/matrix_types.slt",
        "Every common aggregate over every kind of type: over all rows, per group (one group holds only NULL), over distinct",
        "values, filtered, and over no rows; where a function does not know a type, an error.",
    )
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in AGGREGATED.items())
    rows = []
    for at in range(5):
        rows.append(f"({at + 1}, {at % 2}, " + ", ".join(values[at] for _, values in AGGREGATED.values()) + ")")
    rows.append("(6, 2, " + ", ".join(["NULL"] * len(AGGREGATED)) + ")")
    rows.append("(7, 0, " + ", ".join(["NULL"] * len(AGGREGATED)) + ")")
    script.statement(f"CREATE TABLE t (id INT, g INT, {columns}) AS VALUES\n  " + ",\n  ".join(rows))
    for name, (kind, _) in AGGREGATED.items():
        script.comment(f"{kind}.")
        for function in AGGREGATES:
            if name in ("i64", "u64") and function in ("stddev_pop", "var_samp"):
                continue  # their squares need more digits than a float has
            order = " ORDER BY id" if function in ("array_agg", "first_value") else ""
            call = f"{function}({name}{order})"
            rounded = f"round({call}, 4)" if function in ("stddev_pop", "var_samp") else call
            sql = f"SELECT g, {rounded}, {rounded} FILTER (WHERE id > 1) AS later FROM t GROUP BY g ORDER BY g"
            if rounded != call:
                sql = f"SELECT g, {rounded} FROM t GROUP BY g ORDER BY g"
            if script.engine.run(sql).error is not None:
                reasons = {"sum": "it counts what is true.", "median": "it has a median of whatever has an order.", "avg": "it has an average of dates."}
                told = (function, name) in (("sum", "b"), ("median", "b"), ("median", "s"), ("median", "day"), ("avg", "day"))
                script.attempt(f"SELECT {function}({name}) FROM t", reasons[function] if told else None)
                continue
            script.query(sql)
            distinct = f"{function}(DISTINCT {name}{order.replace('id', name)})"
            extra = f", {distinct}" if function in ("sum", "count", "min", "max", "array_agg") else ""
            script.attempt(f"SELECT {rounded}{extra}, (SELECT {function}({name}) FROM t WHERE false) AS nothing FROM t")
    script.write()


if __name__ == "__main__":
    for act in (joins, windows, types, arithmetic, casts, aggregates):
        act()
