"""Records what psql, psycopg, asyncpg and pgjdbc say to `diligence serve` and what it answers, message by message: the golden transcripts of
tests/transcripts, which tests/tests/black_box/transcripts.rs replays without the clients.

    POSTGRES=127.0.0.1:5433 python tests/clients/record.py      # a server over tests/transcripts/data, without users

A line of a transcript is `> KIND BYTES` for what the client sends and `< KIND BYTES` for what the server answers; messages without a kind
have `-`, and bytes that are not printable ASCII are escaped as in Rust. The recorded order is one in which both could be said.
"""
import asyncio, os, pathlib, socket, subprocess, threading

import asyncpg, psycopg

host, port = os.environ["POSTGRES"].rsplit(":", 1)
folder = pathlib.Path(__file__).parent.parent / "transcripts"


def escaped(data):
    named = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r", 0x22: '\\"', 0x27: "\\'", 0x5C: "\\\\"}
    return "".join(named.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}") for byte in data)


class Proxy:
    """One connection at a time between a client and the server; every message is a line."""

    def __init__(self):
        self.lines, self.lock = [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection((host, int(port)))
            threads = [
                threading.Thread(target=self.carry, args=(client, server, ">")),
                threading.Thread(target=self.carry, args=(server, client, "<")),
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            client.close()
            server.close()

    def carry(self, source, sink, sign):
        data, first = b"", sign == ">"
        while more := source.recv(65536):
            data += more
            ready = b""
            while True:
                head = 4 if first else 5
                if sign == "<" and data[:1] in (b"N", b"S") and data[1:5] == b"":
                    length = 1  # the answer to a request for encryption
                elif len(data) < head or len(data) < (length := int.from_bytes(data[head - 4 : head], "big") + head - 4):
                    break
                message, data = data[:length], data[length:]
                kind = "-" if first or length == 1 else escaped(message[:1])
                body = message if length == 1 else message[head:]
                with self.lock:
                    self.lines.append(f"{sign} {kind} {escaped(body)}".rstrip(" "))
                # After a request for encryption the first message is still to come.
                first = first and body[:4] == b"\x04\xd2\x16\x2f"
                ready += message
            sink.sendall(ready)
        sink.shutdown(socket.SHUT_WR)


def psql(proxy):
    script = "\\d items\nSELECT * FROM items ORDER BY id;\nSELECT nothing FROM items;\nBEGIN;\nSELECT 1 AS one;\nROLLBACK;\n" \
             "COPY (SELECT id, name FROM items ORDER BY id) TO STDOUT;\n\\set FETCH_COUNT 2\nSELECT value FROM generate_series(1::BIGINT, 5) AS g(value) ORDER BY value;\n"
    subprocess.run(
        ["psql", "-X", "-q", "-h", "127.0.0.1", "-p", str(proxy.port), "-U", "ann", "diligence"], input=script.encode(), check=True,
        env={"PATH": os.environ["PATH"], "PGAPPNAME": "psql", "PGCLIENTENCODING": "UTF8", "PGSSLMODE": "prefer", "PGGSSENCMODE": "disable"})
    return subprocess.check_output(["psql", "--version"], text=True).strip()


def with_psycopg(proxy):
    with psycopg.connect(f"host=127.0.0.1 port={proxy.port} user=ann dbname=diligence sslmode=disable gssencmode=disable", autocommit=True) as connection:
        for _ in range(7):  # the driver prepares after five
            connection.execute("SELECT name FROM items WHERE id = %s", (2,)).fetchall()
        with connection.cursor(binary=True) as cursor:
            cursor.execute("SELECT id, name, price FROM items WHERE id <= %b ORDER BY id", (2,)).fetchall()
        with connection.transaction():
            connection.execute("SELECT count(*) FROM items").fetchone()
        try:
            connection.execute("SELECT 1/0 FROM items")
        except psycopg.errors.DivisionByZero:
            pass
        with connection.cursor() as cursor:
            with cursor.copy("COPY (SELECT id FROM items ORDER BY id) TO STDOUT") as copy:
                list(copy)
    return f"psycopg {psycopg.__version__}"


async def with_asyncpg(proxy):
    connection = await asyncpg.connect(host="127.0.0.1", port=proxy.port, user="ann", database="diligence", ssl=False)
    assert await connection.fetchval("SELECT $1::bigint + 1", 41) == 42
    statement = await connection.prepare("SELECT id, name FROM items WHERE id >= $1 ORDER BY id")
    for least in (1, 3):
        await statement.fetch(least)
    async with connection.transaction():
        [record async for record in connection.cursor("SELECT value FROM generate_series(1::BIGINT, 5) AS g(value) ORDER BY value", prefetch=2)]
    try:
        await connection.fetch("SELECT * FROM nowhere")
    except asyncpg.UndefinedTableError:
        pass
    await connection.close()
    return f"asyncpg {asyncpg.__version__}"


def with_jdbc(proxy):
    driver = "/usr/share/java/postgresql.jar"
    program = pathlib.Path(__file__).parent / "Jdbc.java"
    subprocess.run(["java", "-cp", driver, program, "recorded", f"127.0.0.1:{proxy.port}"], check=True)
    return f"pgjdbc {pathlib.Path(driver).resolve().stem.removeprefix('postgresql-')}"


for name, run in (("psql", psql), ("psycopg", with_psycopg), ("asyncpg", lambda proxy: asyncio.run(with_asyncpg(proxy))), ("pgjdbc", with_jdbc)):
    proxy = Proxy()
    about = run(proxy)
    threading.Event().wait(0.3)  # the last messages are on their way
    path = folder / f"{name}.txt"
    path.write_text(f"# {about}; recorded by tests/clients/record.py\n" + "\n".join(proxy.lines) + "\n")
    print(f"{path}: {len(proxy.lines)} messages")
