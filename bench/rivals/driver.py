"""Runs SQL on one rival engine for `diligence-bench`, one statement per line of standard input.

    driver.py ENGINE DATA [THREADS [MEMORY TEMP]]

ENGINE is duckdb-parquet, duckdb, datafusion, polars or hyper; DATA is a folder of Parquet files, each a table. MEMORY, in
bytes, is what the engine may use, if it can be told (Polars and Hyper cannot), and TEMP a folder for what does not fit.

Each input line is a JSON object {"sql": ...}; each output line is {"ms": ..., "rows": [[...], ...]} or {"error": ...}. The
time is that of running the statement and fetching all rows as Python or Arrow values, whatever the engine gives first. With
"copy_to" the rows of the query are written into that Parquet file instead, with Snappy compression.

A line {"pools": [{"clients": [[sql, ...], ...], "starts": [s, ...] or null}, ...], "seconds": s} runs one thread per client, each with
a connection of its own (duckdb and hyper only) and one statement at a time. Without "starts" each sends its next statement when it has the
answer to the last; with them, whichever client of the pool is free sends one when it is due. The answer is {"records":
[[pool, queue_ms, latency_ms, error or null], ...], "seconds": s}; both times begin when the statement is due.
"""

import datetime
import decimal
import json
import os
import pathlib
import sys
import threading
import time


def tables(data):
    """The names of the tables: those of the Parquet files."""
    return sorted(path.stem for path in data.glob("*.parquet"))


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
    def __init__(self, data, threads, limits, native):
        import duckdb

        if native:
            file = data / "duckdb.db"
            fresh = not file.exists()
            self.connection = duckdb.connect(str(file))
            self.connection.execute(f"SET threads TO {threads}")
            if fresh:
                for table in tables(data):
                    self.connection.execute(f"CREATE TABLE {table} AS FROM '{data}/{table}.parquet'")
        else:
            self.connection = duckdb.connect()
            self.connection.execute(f"SET threads TO {threads}")
            for table in tables(data):
                self.connection.execute(f"CREATE VIEW {table} AS FROM '{data}/{table}.parquet'")
        if limits:
            memory, temp = limits
            self.connection.execute(f"SET memory_limit = '{memory}B'")
            self.connection.execute(f"SET temp_directory = '{temp}'")

    def run(self, sql):
        return self.connection.execute(sql).fetchall()

    def client(self):
        cursor = self.connection.cursor()
        return (lambda sql: cursor.execute(sql).fetchall()), cursor.close

    def copy(self, sql, path):
        self.connection.execute(f"COPY ({sql}) TO '{path}' (FORMAT parquet, COMPRESSION snappy)")


class Datafusion:
    def __init__(self, data, threads, limits):
        import datafusion

        config = datafusion.SessionConfig().with_target_partitions(threads)
        runtime = datafusion.RuntimeEnvBuilder()
        if limits:
            memory, temp = limits
            runtime = runtime.with_fair_spill_pool(memory).with_disk_manager_specified(temp)
        self.context = datafusion.SessionContext(config, runtime)
        for table in tables(data):
            self.context.register_parquet(table, f"{data}/{table}.parquet")

    def run(self, sql):
        batches = self.context.sql(sql).collect()
        columns = lambda batch: [column.to_pylist() for column in batch.columns]
        return [row for batch in batches for row in zip(*columns(batch))]

    def copy(self, sql, path):
        options = "OPTIONS ('format.compression' 'snappy')"
        self.context.sql(f"COPY ({sql}) TO '{path}' STORED AS PARQUET {options}").collect()


class Polars:
    def __init__(self, data, threads, limits):
        # Polars reads these when it is imported. It has no limit on memory.
        os.environ["POLARS_MAX_THREADS"] = str(threads)
        if limits:
            os.environ["POLARS_TEMP_DIR"] = limits[1]
        import polars

        frames = {table: polars.scan_parquet(data / f"{table}.parquet") for table in tables(data)}
        self.context = polars.SQLContext(frames)

    def run(self, sql):
        return self.context.execute(sql).collect(engine="streaming").rows()

    def copy(self, sql, path):
        self.context.execute(sql).sink_parquet(path, compression="snappy", engine="streaming")


class Hyper:
    def __init__(self, data, threads):
        from tableauhyperapi import Connection, CreateMode, HyperProcess, Telemetry

        parameters = {"max_query_size": "10000000000", "log_config": "", "default_database_version": "2"}
        if threads:
            parameters["hard_concurrent_query_thread_limit"] = str(threads)
        self.process = HyperProcess(Telemetry.DO_NOT_SEND_USAGE_DATA_TO_TABLEAU, parameters=parameters)
        file = data / "hyper.hyper"
        fresh = not file.exists()
        self.connect, self.file = Connection, str(file)
        self.connection = Connection(self.process.endpoint, str(file), CreateMode.CREATE_IF_NOT_EXISTS)
        if fresh:
            for table in tables(data):
                self.connection.execute_command(
                    f"CREATE TABLE {table} AS (SELECT * FROM external('{data}/{table}.parquet'))")

    def run(self, sql):
        with self.connection.execute_query(sql) as result:
            return [list(row) for row in result]

    def client(self):
        connection = self.connect(self.process.endpoint, self.file)

        def run(sql):
            with connection.execute_query(sql) as result:
                return [list(row) for row in result]

        return run, connection.close


def open_engine(name, data, threads, limits):
    if name in ("duckdb", "duckdb-parquet"):
        return Duckdb(data, threads, limits, native=name == "duckdb")
    if name == "datafusion":
        return Datafusion(data, threads, limits)
    if name == "polars":
        return Polars(data, threads, limits)
    if name == "hyper":
        return Hyper(data, threads)
    raise SystemExit(f"unknown engine '{name}'")


def run_clients(engine, pools, seconds):
    """All clients at once. A statement that has begun is run to its end, and counts."""
    records, threads = [], []
    # Connecting is not what is measured.
    clients = [[(engine.client(), statements) for statements in pool["clients"]] for pool in pools]
    start = time.perf_counter()

    def work(number, run, statements, due):
        sent = 0
        while time.perf_counter() - start < seconds:
            wanted = time.perf_counter()
            if due is not None:
                wanted = next(due, None)
                if wanted is None or wanted > seconds:
                    return
                wanted += start
                time.sleep(max(0, wanted - time.perf_counter()))
            began, error = time.perf_counter(), None
            if began - start >= seconds:
                return
            try:
                run(statements[sent % len(statements)])
            except Exception as failure:  # the rival's own error is the answer
                error = f"{type(failure).__name__}: {failure}"
            ended = time.perf_counter()
            sent += 1
            records.append((number, (began - wanted) * 1000, (ended - wanted) * 1000, error))

    for number, pool in enumerate(pools):
        # One list for all clients of the pool: `next` on it is atomic.
        due = iter(pool["starts"]) if pool["starts"] is not None else None
        for (run, _), statements in clients[number]:
            threads.append(threading.Thread(target=work, args=(number, run, statements, due)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - start
    for (_, close), _ in (client for group in clients for client in group):
        close()
    return {"records": records, "seconds": took}


def main():
    name, data, *rest = sys.argv[1:]
    limits = (int(rest[1]), str(pathlib.Path(rest[2]).resolve())) if len(rest) > 2 else None
    engine = open_engine(name, pathlib.Path(data).resolve(), int(rest[0]) if rest else 2, limits)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "pools" in request:
                print(json.dumps(run_clients(engine, request["pools"], request["seconds"])), flush=True)
                continue
            start = time.perf_counter()
            copy_to = request.get("copy_to")
            rows = engine.copy(request["sql"], copy_to) if copy_to else engine.run(request["sql"])
            elapsed = time.perf_counter() - start
            answer = {"ms": elapsed * 1000}
            if request.get("rows"):
                answer["rows"] = [[plain(value) for value in row] for row in rows]
        except Exception as error:  # the rival's own error is the answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
