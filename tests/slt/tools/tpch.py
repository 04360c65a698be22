#!/usr/bin/env python3
"""Makes the TPC-H data of the scripts, and proves that it is TPC-H.

    bench/rivals/venv-oracle/bin/python tests/slt/tools/tpch.py data      Parquet files in data/tpch-sf001, data/tpch-sf01
    bench/rivals/venv-oracle/bin/python tests/slt/tools/tpch.py verify    DuckDB's answers over those files equal its
                                                                          answers over the data it generates itself
    bench/rivals/venv-oracle/bin/python tests/slt/tools/tpch.py scripts   tests/slt/tpch/sf001.slt and sf01.slt, without
                                                                          answers: DILIGENCE_SLT_UPDATE fills them in

`tpchgen-cli` is the command of the `tpchgen` crate, so the files hold the very rows that the Rust tests generate. The text
of the queries is that of DuckDB's extension, whose wheel is loaded by path: nothing is downloaded here.
"""

import pathlib
import subprocess
import sys

import duckdb
import duckdb_extension_tpch

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCALES = {"sf001": "0.01", "sf01": "0.1"}
TABLES = ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"]

TITLES = {
    1: "pricing summary report: one pass over lineitem, few groups, decimal sums and averages",
    2: "minimum cost supplier: a correlated min() over a five-table join",
    3: "shipping priority: the ten orders worth most",
    4: "order priority checking: EXISTS",
    5: "local supplier volume: a six-table join with a cycle",
    6: "forecasting revenue change: a selective scan",
    7: "volume shipping: nation joined twice, a disjunction over both",
    8: "national market share: a ratio of conditional sums",
    9: "product type profit: LIKE on a wide join",
    10: "returned items: many group keys, top twenty",
    11: "important stock: HAVING against a scalar subquery (with the same fraction at every scale)",
    12: "shipping modes and order priority: conditional counts",
    13: "customer distribution: a left join with a condition on the right side, grouped twice",
    14: "promotion effect: a ratio over a join",
    15: "top supplier: a common table expression used twice, equality with its maximum",
    16: "parts and suppliers: NOT IN, count(DISTINCT)",
    17: "small quantity orders: a correlated average",
    18: "large volume customers: IN over a grouped subquery with HAVING",
    19: "discounted revenue: a disjunction of conjunctions that share the join condition",
    20: "potential part promotion: nested IN and a correlated sum over two keys",
    21: "suppliers who kept orders waiting: EXISTS and NOT EXISTS with unequal conditions",
    22: "global sales opportunity: NOT EXISTS and an uncorrelated average",
}


def folder(scale):
    return ROOT / "data" / f"tpch-{scale}"


def connection():
    database = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    extension = next(pathlib.Path(duckdb_extension_tpch.__file__).parent.rglob("tpch.duckdb_extension"))
    database.execute(f"LOAD '{extension}'")
    return database


def queries():
    return [(number, text.strip().rstrip(";")) for number, text in connection().sql("FROM tpch_queries()").fetchall()]


def make_data():
    command = pathlib.Path(sys.executable).parent / "tpchgen-cli"
    for scale, factor in SCALES.items():
        folder(scale).mkdir(parents=True, exist_ok=True)
        if all((folder(scale) / f"{table}.parquet").exists() for table in TABLES):
            print(f"{folder(scale)} is there")
            continue
        subprocess.run([command, "parquet", "-s", factor, "--output-dir", folder(scale), "--overwrite"], check=True)
        print(f"{folder(scale)} made")


def verify():
    """DuckDB's generator makes its own texts for comments and addresses; everything else must be the same. Query 13
    counts orders by their comment, so only the two engines over the same files can be compared there."""
    wrong = 0

    def shown(relation):
        columns = [column for column in relation.columns if not column.endswith(("_comment", "_address"))]
        return relation.select(*columns)

    for scale, factor in SCALES.items():
        generated, files = connection(), connection()
        generated.execute(f"CALL dbgen(sf = {factor})")
        for table in TABLES:
            files.execute(f"CREATE VIEW {table} AS SELECT * FROM '{folder(scale)}/{table}.parquet'")
        for table in TABLES:
            ours, theirs = (shown(database.table(table)).order("ALL").fetchall() for database in (files, generated))
            if ours != theirs:
                print(f"{scale}: the rows of {table} differ")
                wrong += 1
        for number, text in queries():
            if number == 13:
                continue
            if shown(files.sql(text)).fetchall() != shown(generated.sql(text)).fetchall():
                print(f"{scale}: the answers of query {number} differ")
                wrong += 1
    print(f"{wrong} differences between the files and DuckDB's own data, over all rows and 21 queries")
    return 1 if wrong else 0


def write_scripts():
    for scale, factor in SCALES.items():
        out = [
            f"# The 22 TPC-H queries at scale factor {factor}, over the rows that the `tpchgen` crate generates. The runner",
            "# registers the eight tables before it runs this file. Written by tools/tpch.py: the text of the queries is",
            "# DuckDB's; its answers over this data, and over the data it generates itself, are the same as these.",
            "",
        ]
        for number, text in queries():
            out += [f"# Q{number}, {TITLES[number]}.", "query", text, ""]
        (ROOT / "tests/slt/tpch" / f"{scale}.slt").write_text("\n".join(out[:-1]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    acts = {"data": make_data, "verify": verify, "scripts": write_scripts}
    if len(sys.argv) != 2 or sys.argv[1] not in acts:
        sys.exit(__doc__)
    sys.exit(acts[sys.argv[1]]())
