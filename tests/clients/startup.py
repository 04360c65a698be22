"""What tools send when they open a connection, as a PostgreSQL server logs it (`startup/*.sql`), one statement after the other.

None may fail; where the file says `-- expect: text`, one cell of the answer must be that text. Each is sent twice: as pgjdbc does in its
simple mode and as it does by default."""
import os, pathlib, sys

import psycopg

host, port = os.environ["POSTGRES"].split(":")


def statements(text):
    expected, lines = None, []
    for line in text.splitlines():
        if line.startswith("-- expect: "):
            expected = line.removeprefix("-- expect: ")
        elif line.startswith("--") and not lines:
            continue
        else:
            lines.append(line)
            if line.endswith(";"):
                yield "\n".join(lines), expected
                expected, lines = None, []
    assert not lines, lines


def sent(connection, simple, sql):
    """The cells of the answer as text."""
    if simple:
        result = connection.pgconn.exec_(sql.encode())
    else:
        result = connection.pgconn.exec_params(sql.encode(), None)
    if result.status not in (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK):
        raise RuntimeError(result.error_message.decode())
    values = (result.get_value(row, column) for row in range(result.ntuples) for column in range(result.nfields))
    return [value.decode() for value in values if value is not None]


failed = set()
for path in sorted(pathlib.Path(__file__).with_name("startup").glob("*.sql")):
    for simple in (True, False):
        with psycopg.connect(f"host={host} port={port} user=ann dbname=diligence", autocommit=True) as connection:
            for sql, expected in statements(path.read_text()):
                try:
                    cells = sent(connection, simple, sql)
                    if expected is not None and expected not in cells:
                        raise RuntimeError(f"'{expected}' is not in the answer: {cells[:20]}")
                except RuntimeError as error:
                    failed.add(path.stem)
                    print(f"FAILED {path.stem}: {sql}\n  {error}")
    print("failed" if path.stem in failed else "ok", "start of", path.stem)
sys.exit(bool(failed))
