"""How fast rows come over Flight SQL, to ADBC's client (Go) and Arrow's own (C++), beside Arrow over HTTP; each read by
pyarrow. FLIGHT and HTTP are a server's addresses as it prints them, SQL is what is asked, ROUNDS how often."""
import os, statistics, time, urllib.request
import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow
import pyarrow.flight as flight

door, http = os.environ["FLIGHT"], os.environ["HTTP"]
sql, rounds = os.environ["SQL"], int(os.environ.get("ROUNDS", "7"))


def field(number, value):
    """A field of a message of protobuf that has bytes."""
    length, left = b"", len(value)
    while left > 0x7F:
        length, left = length + bytes([left & 0x7F | 0x80]), left >> 7
    return bytes([number << 3 | 2]) + length + bytes([left]) + value


command = field(1, b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery") + field(2, field(1, sql.encode()))
connection = flight_sql.connect(door, autocommit=True)
client = flight.FlightClient(door.replace("grpc://", "grpc+tcp://"))


def by_adbc():
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return sum(batch.num_rows for batch in cursor.fetch_record_batch())


def by_arrow():
    info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
    return sum(chunk.data.num_rows for chunk in client.do_get(info.endpoints[0].ticket))


def by_http():
    headers = {"Content-Type": "application/sql", "Accept": "application/vnd.apache.arrow.stream"}
    with urllib.request.urlopen(urllib.request.Request(f"{http}v1/sql", data=sql.encode(), headers=headers)) as answer:
        return sum(batch.num_rows for batch in pyarrow.ipc.open_stream(answer))


ways = {"Flight SQL, ADBC": by_adbc, "Flight SQL, Arrow's C++": by_arrow, "Arrow over HTTP": by_http}
took, rows = {name: [] for name in ways}, set()
for number in range(rounds + 1):  # the first one warms up
    for name, ask in ways.items():
        began = time.perf_counter()
        rows.add(ask())
        if number > 0:
            took[name].append(time.perf_counter() - began)
assert len(rows) == 1, rows
for name, seconds in took.items():
    print(f"{name:24} {next(iter(rows))} rows, median {statistics.median(seconds) * 1e3:.0f} ms, fastest {min(seconds) * 1e3:.0f} ms")
