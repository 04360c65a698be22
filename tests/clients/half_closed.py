"""Clients that send no more while they wait for their answer, and clients that leave meanwhile: the former get it, the latter cancel."""
import os, socket, struct, time
import psycopg

host, port = os.environ["POSTGRES"].rsplit(":", 1)
watch = psycopg.connect(f"host={host} port={port} user=ann dbname=diligence", autocommit=True)
slow = "SELECT count(*) /* {} */ FROM generate_series(1::BIGINT, 100000) a(value), generate_series(1::BIGINT, {}) b(value)"


def message(kind, body):
    return kind + struct.pack("!i", len(body) + 4) + body


def connect():
    peer = socket.create_connection((host, int(port)), timeout=60)
    body = struct.pack("!i", 3 << 16) + b"user\0ann\0database\0diligence\0\0"
    peer.sendall(struct.pack("!i", len(body) + 4) + body)
    read_until(peer, b"Z")
    return peer


def read_until(peer, last):
    """The messages up to one of a kind, or to the end."""
    data, seen = b"", []
    while True:
        while len(data) >= 5 and len(data) > (length := struct.unpack("!i", data[1:5])[0]):
            seen.append((data[:1], data[5:length + 1]))
            data = data[length + 1:]
            if seen[-1][0] == last:
                return seen
        more = peer.recv(65536)
        if not more:
            assert not data, data
            return seen
        data += more


def active(mark):
    rows = watch.execute(f"SELECT count(*) FROM system.queries WHERE state IN ('queued', 'running') AND statement LIKE '%/* {mark} */%' AND statement NOT LIKE '%system.queries%'")
    return rows.fetchone()[0]


def until(what, found, most=20):
    began = time.time()
    while not found():
        assert time.time() - began < most, f"did not happen: {what}"
        time.sleep(0.02)
    return time.time() - began


# One that sends no more gets its answer: to a script, and to what it had sent before.
peer = connect()
peer.sendall(message(b"Q", slow.format("half", 150000).encode() + b"\0") + message(b"Q", b"SELECT 'second'\0"))
peer.shutdown(socket.SHUT_WR)
until("it runs", lambda: active("half") == 1)
# The server has seen that nothing more comes, and asks whether the client is still there.
assert peer.recv(1, socket.MSG_PEEK) == b"S"
assert active("half") == 1
seen = read_until(peer, None)
rows = [body for kind, body in seen if kind == b"D"]
assert rows == [b"\0\x01\0\0\0\x0b15000000000", b"\0\x01\0\0\0\x06second"], seen
assert {kind for kind, _ in seen} == {b"S", b"T", b"D", b"C", b"Z"}, seen
asked = [body for kind, body in seen if kind == b"S"]
assert asked and set(asked) == {b"server_encoding\0UTF8\0"}, asked
peer.close()
# One that leaves without a word does not have it run on.
for goodbye in [b"", message(b"X", b"")]:
    peer = connect()
    peer.sendall(message(b"Q", slow.format("gone", 1000000).encode() + b"\0"))
    until("it runs", lambda: active("gone") == 1)
    peer.sendall(goodbye)
    peer.close()
    took = until("it is cancelled", lambda: active("gone") == 0)
    assert took < 2, took
print("ok half-closed connections")
