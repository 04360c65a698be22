"""Runs SQL on one rival engine for `diligence-bench`, one statement per line of standard input.

    driver.py ENGINE DATA [THREADS]

ENGINE is duckdb-parquet, duckdb, datafusion or hyper; DATA is a folder of TPC-H Parquet files. Each input line is a JSON
object {"sql": ...}; each output line is {"ms": ..., "columns": [...], "rows": [[...], ...]} or {"error": ...}. The time is
that of running the statement and fetching all rows as Python or Arrow values, whatever the engine gives first.

A line {"clients": [[sql, ...], ...], "seconds": s} runs one thread per list, each with a connection of its own (duckdb only) and one
statement at a time, for so long; the answer is {"latencies": [ms, ...], "seconds": s}.
"""

import datetime
import decimal
import json
import pathlib
import sys
import threading
import time

TABLES = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]


def plain(value):
    """A value as JSON: numbers as numbers, dates as text."""
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, (datetime.date, datetime.datetime)):
        return str(value)[:10]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


class Duckdb:
    def __init__(self, data, threads, native):
        import duckdb

        if native:
            file = data / "duckdb.db"
            fresh = not file.exists()
            self.connection = duckdb.connect(str(file))
            self.connection.execute(f"SET threads TO {threads}")
            if fresh:
                for table in TABLES:
                    self.connection.execute(f"CREATE TABLE {table} AS FROM '{data}/{table}.parquet'")
        else:
            self.connection = duckdb.connect()
            self.connection.execute(f"SET threads TO {threads}")
            for table in TABLES:
                self.connection.execute(f"CREATE VIEW {table} AS FROM '{data}/{table}.parquet'")

    def run(self, sql):
        return self.connection.execute(sql).fetchall()

    def client(self):
        cursor = self.connection.cursor()
        return lambda sql: cursor.execute(sql).fetchall()


class Datafusion:
    def __init__(self, data, threads):
        import datafusion

        config = datafusion.SessionConfig().with_target_partitions(threads)
        self.context = datafusion.SessionContext(config)
        for table in TABLES:
            self.context.register_parquet(table, f"{data}/{table}.parquet")

    def run(self, sql):
        batches = self.context.sql(sql).collect()
        columns = lambda batch: [column.to_pylist() for column in batch.columns]
        return [row for batch in batches for row in zip(*columns(batch))]


class Hyper:
    def __init__(self, data, threads):
        from tableauhyperapi import Connection, CreateMode, HyperProcess, Telemetry

        parameters = {"max_query_size": "10000000000", "log_config": "", "default_database_version": "2"}
        if threads:
            parameters["hard_concurrent_query_thread_limit"] = str(threads)
        self.process = HyperProcess(Telemetry.DO_NOT_SEND_USAGE_DATA_TO_TABLEAU, parameters=parameters)
        file = data / "hyper.hyper"
        fresh = not file.exists()
        self.connection = Connection(self.process.endpoint, str(file), CreateMode.CREATE_IF_NOT_EXISTS)
        if fresh:
            for table in TABLES:
                self.connection.execute_command(
                    f"CREATE TABLE {table} AS (SELECT * FROM external('{data}/{table}.parquet'))")

    def run(self, sql):
        with self.connection.execute_query(sql) as result:
            return [list(row) for row in result]


def open_engine(name, data, threads):
    if name in ("duckdb", "duckdb-parquet"):
        return Duckdb(data, threads, native=name == "duckdb")
    if name == "datafusion":
        return Datafusion(data, threads)
    if name == "hyper":
        return Hyper(data, threads)
    raise SystemExit(f"unknown engine '{name}'")


def run_clients(engine, lists, seconds):
    """All clients at once. A statement that has begun is run to its end, and counts."""
    latencies, errors = [], []
    start = time.perf_counter()

    def work(run, statements):
        own = []
        try:
            while time.perf_counter() - start < seconds:
                began = time.perf_counter()
                run(statements[len(own) % len(statements)])
                own.append((time.perf_counter() - began) * 1000)
        except Exception as error:  # reported below, by the thread that answers
            errors.append(error)
        latencies.extend(own)

    threads = [threading.Thread(target=work, args=(engine.client(), statements)) for statements in lists]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return {"latencies": latencies, "seconds": time.perf_counter() - start}


def main():
    engine = open_engine(sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), int(sys.argv[3]) if len(sys.argv) > 3 else 2)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "clients" in request:
                print(json.dumps(run_clients(engine, request["clients"], request["seconds"])), flush=True)
                continue
            start = time.perf_counter()
            rows = engine.run(request["sql"])
            elapsed = time.perf_counter() - start
            answer = {"ms": elapsed * 1000}
            if request.get("rows"):
                answer["rows"] = [[plain(value) for value in row] for row in rows]
        except Exception as error:  # the rival's own error is the answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
