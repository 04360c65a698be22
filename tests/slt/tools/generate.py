#!/usr/bin/env python3
"""Fills in, or checks, the expected results of the SQL test scripts.

    bench/rivals/venv/bin/python tests/slt/tools/generate.py [options] [FILE or FOLDER ...]

    (no option)  run every record in DataFusion and write types and results into the files
    --check      write nothing; fail if a file would change, or if an answer depends on how it is computed:
                 every script is run again with several partitions, tiny batches and scattered tables
    --oracle     write nothing; run every record in DuckDB too and list the answers that differ and have no
                 `# DuckDB differs: why` above them
    --verbose    with --oracle, also list what DuckDB cannot run; otherwise, show every error message

Without files: all of tests/slt. `bench/rivals/setup` makes the environment.
"""

import argparse
import pathlib
import re
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import display
import engines
import script

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Ways to compute the same answers. An expected result that depends on one of them is a mistake in the script.
VARIATIONS = [
    {"partitions": 4, "batch_rows": 3},
    {"partitions": 1, "batch_rows": 1, "scatter": True},
    {"partitions": 3, "batch_rows": 2, "scatter": True},
]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("paths", nargs="*", type=pathlib.Path)
    options.add_argument("--check", action="store_true")
    options.add_argument("--oracle", action="store_true")
    options.add_argument("--verbose", action="store_true")
    options = options.parse_args()

    files = []
    for path in options.paths or [ROOT]:
        path = path.resolve()
        found = sorted(path.rglob("*.slt")) if path.is_dir() else [path]
        # What PostgreSQL answers is not for DataFusion to say.
        files.extend(path for path in found if path.parent.name != "postgres")
    problems = 0
    totals = Totals()
    for path in files:
        try:
            parts = script.parse(path)
        except script.ScriptError as error:
            print(error)
            problems += 1
            continue
        if tpch_folder(path) is not None and not tpch_folder(path).is_dir():
            print(f"{name_of(path)}: skipped, no folder {tpch_folder(path)} (see tests/slt/README.md)")
            problems += 1
            continue
        if options.oracle:
            problems += compare(path, parts, options.verbose, totals)
        elif options.check:
            problems += check(path, parts)
        else:
            problems += fill(path, parts, options.verbose)
        totals.records += len(script.records(parts))
    print(f"{len(files)} files, {totals.records} records, {problems} problems")
    if options.oracle:
        print(f"{totals.same} answers agree with DuckDB, {totals.known} differ and say why, {totals.foreign} cannot run there")
    return 1 if problems else 0


class Totals:
    def __init__(self):
        self.records = self.same = self.known = self.foreign = 0


def name_of(path):
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def tpch_folder(path):
    """The data of a TPC-H script: `tpch/sf001*.slt` runs on data/tpch-sf001 at the top of the repository."""
    if path.parent.name != "tpch":
        return None
    return ROOT.parent.parent / "data" / f"tpch-{path.stem.split('_')[0]}"


class Places:
    """The folders behind the placeholders for one run of one script; the scratch folder is fresh and goes away."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.scratch = tempfile.mkdtemp(prefix="slt-")
        return {"__DATA__": ROOT / "data", "__SCRATCH__": self.scratch}

    def __exit__(self, *_):
        shutil.rmtree(self.scratch, ignore_errors=True)


def answer(record, engine):
    """What the record should say: (types, sort mode, rows) for a query, None for a statement. Raises Complaint."""
    got = engine.run(record.sql)
    if record.kind == "error":
        if got.error is None:
            raise Complaint("an error was expected, the statement succeeded")
        if not record.pattern:
            raise Complaint(f"give the error a pattern; the message is: {got.error}")
        if not re.search(record.pattern, got.error) and not record.must_say_more:
            raise Complaint(f"the error does not match /{record.pattern}/: {got.error}")
        return None
    if got.error is not None:
        raise Complaint(got.error)
    if record.kind == "ok":
        return None
    try:
        rows = got.rows()
    except display.DisplayError as error:
        raise Complaint(str(error)) from None
    sort = record.sort or ("nosort" if script.is_ordered(record.sql) else "rowsort")
    if sort == "rowsort":
        rows.sort()
    return got.letters(), sort, [" ".join(row) for row in rows]


class Complaint(Exception):
    pass


def normal(row):
    """As the runner compares: runs of white space count as one space."""
    return " ".join(row.split())


def fill(path, parts, verbose):
    problems = 0
    with Places(path) as places:
        engine = engines.DataFusion(places, tables=tpch_folder(path))
        mended = any(record.is_mended for record in script.records(parts))
        oracle = engines.DuckDB(places, tables=tpch_folder(path)) if mended else None
        for record in script.records(parts):
            try:
                if record.kind == "ok" and mended:
                    oracle.run(record.sql)
                if record.kind == "error" and record.is_mended:
                    continue
                expected = answer(record, oracle if record.is_mended else engine)
            except Complaint as complaint:
                print(f"{name_of(path)}:{record.line}: {complaint}\n    {record.sql}")
                problems += 1
                continue
            if expected is not None:
                types, record.sort, record.rows = expected
                # DuckDB's sums have wider types.
                record.types = record.types if record.is_mended and record.types else types
            elif verbose and record.kind == "error":
                print(f"{name_of(path)}:{record.line}: /{record.pattern}/ {engine.run(record.sql).error}")
    path.write_text(script.render(parts), encoding="utf-8")
    return problems


def check(path, parts):
    problems = 0
    if script.render(parts) != path.read_text(encoding="utf-8"):
        print(f"{name_of(path)}: not in the form that generate.py writes")
        problems += 1
    wrong = set()  # lines of records that were wrong already, told once
    variations = VARIATIONS
    if path.parent.name in ("tpch", "large"):  # tiny batches and scattered tables would take minutes
        variations = [{"partitions": 4, "batch_rows": 100}]
    for variation in [{}] + variations:
        with Places(path) as places:
            engine = engines.DataFusion(places, tables=tpch_folder(path), **variation)
            for record in script.records(parts):
                if record.is_mended:
                    continue
                try:
                    expected = answer(record, engine)
                    if record.line in wrong:
                        continue
                    if expected is not None:
                        types, sort, rows = expected
                        if types != record.types:
                            raise Complaint(f"the types are {types}, not {record.types}")
                        if [normal(row) for row in rows] != [normal(row) for row in record.rows]:
                            raise Complaint("got\n        " + "\n        ".join(rows))
                except Complaint as complaint:
                    if record.line in wrong:
                        continue
                    wrong.add(record.line)
                    how = ", ".join(f"{name} = {value}" for name, value in variation.items()) or "as written"
                    print(f"{name_of(path)}:{record.line}: ({how}) {complaint}\n    {record.sql}")
                    problems += 1
    return problems


def compare(path, parts, verbose, totals):
    problems = 0
    with Places(path) as ours, Places(path) as theirs:
        engine = engines.DataFusion(ours, tables=tpch_folder(path))
        oracle = engines.DuckDB(theirs, tables=tpch_folder(path))
        for record in script.records(parts):
            if record.is_mended:
                continue
            left, right = engine.run(record.sql), oracle.run(record.sql)
            if record.kind == "ok":
                if right.error and verbose:
                    print(f"{name_of(path)}:{record.line}: DuckDB cannot: {first_line(right.error)}\n    {record.sql}")
                continue
            verdict = judge(record, left, right)
            if verdict is None:
                totals.same += 1
                if record.known_difference:
                    print(f"{name_of(path)}:{record.line}: says DuckDB differs, but it does not\n    {record.sql}")
                    problems += 1
            elif right.error is not None and record.kind == "query" and not record.known_difference:
                totals.foreign += 1
                if verbose:
                    print(f"{name_of(path)}:{record.line}: DuckDB cannot: {first_line(right.error)}\n    {record.sql}")
            elif record.known_difference:
                totals.known += 1
            else:
                print(f"{name_of(path)}:{record.line}: {verdict}\n    {record.sql}")
                problems += 1
    return problems


def first_line(text):
    return text.split("\n")[0]


def judge(record, left, right):
    """None when both engines say the same, else what differs."""
    if record.kind == "error":
        return None if right.error is not None else f"DuckDB gives no error but {right.values()}"
    if left.error or right.error:
        return left.error or right.error
    ours, theirs = left.values(), right.values()
    if record.sort == "rowsort":
        ours.sort(key=engines.sort_key)
        theirs.sort(key=engines.sort_key)
    if len(ours) != len(theirs):
        return f"DataFusion gives {len(ours)} rows, DuckDB {len(theirs)}"
    shown = []
    for our, their in zip(ours, theirs):
        if not engines.equal(our, their):
            shown += [f"DataFusion {our}", f"DuckDB     {their}"]
    return "answers differ:\n        " + "\n        ".join(shown[:12]) if shown else None


if __name__ == "__main__":
    sys.exit(main())
