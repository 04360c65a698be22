#!/usr/bin/env python3
"""Writes tests/slt/data: small files of every format, good and broken. The files are committed, because the runner does not
need Python; run this only to change them, with bench/rivals/venv/bin/python. Running it again gives the same rows.
"""

import base64
import datetime
import decimal
import gzip
import json
import pathlib
import shutil

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as parquet

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"

PEOPLE = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5, 6], pa.int64()),
        "name": pa.array(["Ada", "Bob", "Cid", None, "Eve, Jr.", 'Fay "F"'], pa.string()),
        "age": pa.array([36, None, 41, 19, 28, 65], pa.int64()),
        "salary": pa.array([1200.5, 900.0, None, 0.25, 3100.75, 1e6], pa.float64()),
        "active": pa.array([True, False, True, None, True, False], pa.bool_()),
        "joined": pa.array(
            [datetime.date(2020, 1, 31), datetime.date(2021, 12, 1), None, datetime.date(1999, 2, 28),
             datetime.date(2024, 2, 29), datetime.date(1970, 1, 1)],
            pa.date32(),
        ),
    }
)  # fmt: skip


def folder(name):
    path = DATA / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def people():
    parquet.write_table(PEOPLE, DATA / "people.parquet")
    with pa.ipc.new_file(DATA / "people.arrow", PEOPLE.schema) as writer:
        writer.write_table(PEOPLE, max_chunksize=4)
    rows = PEOPLE.to_pylist()
    for row in rows:
        row["joined"] = row["joined"] and row["joined"].isoformat()
    (DATA / "people.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (DATA / "people.csv").write_text(csv_text(rows, ","))
    (DATA / "people.tsv").write_text(csv_text(rows, "\t"))
    (DATA / "people_pipe.csv").write_text(csv_text(rows, "|", header=False))
    (DATA / "people_gz.csv.gz").write_bytes(gzip.compress(csv_text(rows, ",").encode(), mtime=0))
    (DATA / "people_crlf.csv").write_text(csv_text(rows, ",").replace("\n", "\r\n"), newline="")


def csv_text(rows, delimiter, header=True):
    def field(value):
        if value is None:
            return ""
        if isinstance(value, bool):
            return str(value).lower()
        text = str(value)
        if any(mark in text for mark in (delimiter, '"', "\n")):
            text = '"' + text.replace('"', '""') + '"'
        return text

    lines = [delimiter.join(rows[0])] if header else []
    lines += [delimiter.join(field(value) for value in row.values()) for row in rows]
    return "\n".join(lines) + "\n"


def types():
    """One column of every type that Parquet and Arrow files share with SQL: a usual value, extremes, NULL."""
    D = decimal.Decimal
    utc = datetime.timezone.utc
    moments = [datetime.datetime(2024, 2, 29, 12, 34, 56, 789000), datetime.datetime(1969, 12, 31, 23, 59, 59), None]
    table = pa.table(
        {
            "i8": pa.array([1, -128, None], pa.int8()),
            "i16": pa.array([1, -32768, None], pa.int16()),
            "i32": pa.array([1, -(2**31), None], pa.int32()),
            "i64": pa.array([1, -(2**63), None], pa.int64()),
            "u8": pa.array([1, 255, None], pa.uint8()),
            "u16": pa.array([1, 65535, None], pa.uint16()),
            "u32": pa.array([1, 2**32 - 1, None], pa.uint32()),
            "u64": pa.array([1, 2**64 - 1, None], pa.uint64()),
            "f32": pa.array([0.5, -3.4028234663852886e38, None], pa.float32()),
            "f64": pa.array([0.1, float("inf"), None], pa.float64()),
            "flag": pa.array([True, False, None], pa.bool_()),
            "dec9": pa.array([D("1234567.89"), D("-0.01"), None], pa.decimal128(9, 2)),
            "dec18": pa.array([D("123456789012.345678"), D("-1"), None], pa.decimal128(18, 6)),
            "dec38": pa.array([D("12345678901234567890123456789012345678"), D("-1"), None], pa.decimal128(38, 0)),
            "text": pa.array(["plain", "äöü €", None], pa.string()),
            "empty": pa.array(["", "x", None], pa.string()),
            "bytes": pa.array([b"\x00\xff", b"abc", None], pa.binary()),
            "day": pa.array([datetime.date(2024, 2, 29), datetime.date(1, 1, 1), None], pa.date32()),
            "ms": pa.array(moments, pa.timestamp("ms")),
            "us": pa.array(moments, pa.timestamp("us")),
            "ns": pa.array(moments, pa.timestamp("ns")),
            "utc": pa.array([m and m.replace(tzinfo=utc) for m in moments], pa.timestamp("us", tz="UTC")),
            "clock": pa.array([datetime.time(12, 34, 56, 789000), datetime.time(0), None], pa.time64("us")),
            "code": pa.array(["red", "blue", None], pa.string()).dictionary_encode(),
        }
    )
    parquet.write_table(table, DATA / "types.parquet")
    with pa.ipc.new_file(DATA / "types.arrow", table.schema) as writer:
        writer.write_table(table)


def nested():
    table = pa.table(
        {
            "id": pa.array([1, 2, 3, 4], pa.int64()),
            "tags": pa.array([["a", "b"], [], None, ["c", None]], pa.list_(pa.string())),
            "place": pa.array(
                [{"city": "Rome", "zip": 100}, {"city": None, "zip": 200}, None, {"city": "Oslo", "zip": None}],
                pa.struct([("city", pa.string()), ("zip", pa.int64())]),
            ),
            "lines": pa.array(
                [[{"item": "pen", "n": 2}], [{"item": "ink", "n": 1}, {"item": "cap", "n": None}], [], None],
                pa.list_(pa.struct([("item", pa.string()), ("n", pa.int64())])),
            ),
            "matrix": pa.array([[[1, 2], [3]], [[]], None, [[5], [4]]], pa.list_(pa.list_(pa.int64()))),
        }
    )
    parquet.write_table(table, DATA / "nested.parquet")
    with pa.ipc.new_file(DATA / "nested.arrow", table.schema) as writer:
        writer.write_table(table)
    (DATA / "nested.json").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def events(start, rows):
    """Rows that a reader can predict: `n` counts, the rest follows from it."""
    numbers = range(start, start + rows)
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "bucket": pa.array([n % 7 for n in numbers], pa.int32()),
            "label": pa.array([f"label-{n % 100:02}" for n in numbers], pa.string()),
            "maybe": pa.array([n if n % 3 else None for n in numbers], pa.int64()),
            "moment": pa.array(
                [datetime.datetime(2024, 1, 1) + datetime.timedelta(minutes=n) for n in numbers], pa.timestamp("us")
            ),
        }
    )


def row_groups():
    """10,000 rows in ten row groups: `n` ascends, so its ranges per group do not overlap."""
    table = events(0, 10_000)
    parquet.write_table(table, DATA / "groups.parquet", row_group_size=1000, compression="zstd")
    parquet.write_table(
        table, DATA / "groups_bare.parquet", row_group_size=1000, compression="zstd", write_statistics=False,
        use_dictionary=False,
    )  # fmt: skip
    with pa.ipc.new_file(DATA / "groups.arrow", table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table.slice(0, 2000), max_chunksize=500)


def encodings():
    table = events(0, 300)
    for codec in ("none", "snappy", "gzip", "brotli", "lz4", "zstd"):
        parquet.write_table(table, folder("codecs") / f"{codec}.parquet", compression=codec)
    parquet.write_table(table, folder("encodings") / "plain.parquet", use_dictionary=False)
    parquet.write_table(table, folder("encodings") / "dictionary.parquet", use_dictionary=True)
    parquet.write_table(table, folder("encodings") / "v2pages.parquet", data_page_version="2.0", version="2.6")
    parquet.write_table(
        table, folder("encodings") / "delta.parquet", use_dictionary=False,
        column_encoding={"n": "DELTA_BINARY_PACKED", "bucket": "DELTA_BINARY_PACKED", "label": "DELTA_BYTE_ARRAY",
                         "maybe": "DELTA_BINARY_PACKED", "moment": "DELTA_BINARY_PACKED"},
    )  # fmt: skip
    parquet.write_table(
        table, folder("encodings") / "bytesplit.parquet", use_dictionary=False,
        column_encoding={"n": "BYTE_STREAM_SPLIT", "bucket": "PLAIN", "label": "DELTA_LENGTH_BYTE_ARRAY",
                         "maybe": "BYTE_STREAM_SPLIT", "moment": "PLAIN"},
    )  # fmt: skip
    parquet.write_table(table, folder("encodings") / "small_pages.parquet", data_page_size=256, write_page_index=True)


def folders():
    """The same kind of rows in several files, flat and as `key=value` folders."""
    for part in range(3):
        parquet.write_table(events(part * 100, 100), folder("many") / f"part-{part}.parquet")
    for part in range(2):
        rows = events(part * 10, 10).select(["n", "label"]).to_pylist()
        (folder("many_csv") / f"part-{part}.csv").write_text(csv_text(rows, ","))
        (folder("many_json") / f"part-{part}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for year in (2023, 2024):
        for month in (1, 2):
            table = pa.table(
                {
                    "day": pa.array([1, 2], pa.int32()),
                    "amount": pa.array([year % 100 * 10 + month, None if month == 2 else 5], pa.int64()),
                }
            )
            parquet.write_table(table, folder(f"hive/year={year}/month={month}") / "data.parquet")


def evolved():
    """Files of one table that gained a column, and has its columns in another order."""
    first = pa.table({"id": pa.array([1, 2], pa.int64()), "name": pa.array(["a", "b"], pa.string())})
    second = pa.table(
        {
            "name": pa.array(["c", None], pa.string()),
            "id": pa.array([3, 4], pa.int64()),
            "extra": pa.array([True, False], pa.bool_()),
        }
    )
    parquet.write_table(first, folder("evolved") / "a.parquet")
    parquet.write_table(second, folder("evolved") / "b.parquet")


def empty():
    nothing = PEOPLE.slice(0, 0)
    parquet.write_table(nothing, DATA / "empty.parquet")
    with pa.ipc.new_file(DATA / "empty.arrow", nothing.schema) as writer:
        writer.write_table(nothing)
    (DATA / "empty_header.csv").write_text("id,name\n")


def odd_text():
    (DATA / "quoted.csv").write_text(
        'id,text,note\n1,"a, b","say ""hi"""\n2,,""\n3,"with; semicolon",plain\n4," spaces ",end\n'
    )
    (DATA / "inference.csv").write_text(
        "whole,real,flag,day,moment,mixed\n"
        "1,1.5,true,2024-01-01,2024-01-01T10:00:00,1\n"
        "-2,2,false,1999-12-31,1999-12-31T23:59:59,x\n"
        ",,,,,\n"
    )
    (DATA / "semicolon.csv").write_text("id;price;comment\n1;2,5;# not a comment\n2;3,5;\n")
    (DATA / "rejects.csv").write_text(
        "id,name,day\n1,a,2024-01-01\nx,b,2024-01-02\n3,c\n4,d,2024-01-04,extra\n5,e,2024-13-40\n6,f,2024-01-06\n"
    )
    (DATA / "rejects.json").write_text(
        '{"id": 1, "day": "2024-01-01"}\n{"id": "x", "day": "2024-01-02"}\nno record\n{"id": 4, "day": }\n'
        '{"id": 5, "day": "2024-13-40"}\n{"id": 6, "day": "2024-01-06"}\n[7]\n'
    )
    (DATA / "comments.csv").write_text("# a remark\nid,v\n# another\n1,10\n2,20\n")
    (DATA / "nulls.csv").write_text("id,v,w\n1,NA,x\n2,5,NA\n3,,y\n")
    (DATA / "sparse.json").write_text('{"a": 1}\n{"b": "x", "a": 2}\n{"c": [1, 2], "a": null}\n')
    records()
    (DATA / "unicode.csv").write_text("id,wort\n1,größe\n2,naïve\n3,日本語\n4,🙂\n")


def records():
    """JSON files whose records are no objects, and dates that are not as in ISO 8601."""
    to = folder("records")
    for name, text in {
        "numbers": "1\n2\nnull\n",
        "kinds": '1\n"a"\n{"x": 1}\n[true]\n',
        "lists": "[1, 2]\n[3]\n",
        "array": "[1, 2, 3]\n",
        "days": '"2024-01-02"\n"2024-02-29"\n',
        "nulls": '{"a": 1}\nnull\n{"a": 2}\n',
        "arrays": '[{"a": 1}]\n[{"a": 2}, null]\n',
        "nothing": "",
        "day_first": '{"d": "31/12/2020", "t": "31/12/2020 10:11:12", "i": "2020-01-02"}\n'
        '{"d": "01\\/02\\/2021", "t": "01/02/2021 00:00:00", "i": "2021-01-02"}\n',
    }.items():
        (to / f"{name}.json").write_text(text)


def foreign():
    """Files as other programs write them."""
    to = folder("foreign")
    (to / "commented.csv").write_text(
        'id,v # names\n  # a whole line, "with a quote\n1,x # one\n2,"a#b"#two\n3,#\n#4,y\n5,"z" # five, "5\n'
    )
    (to / "texts.csv").write_text(
        "id,numbers,span,place,pairs\n"
        '1,"[1, 2]",1 day,"{\'x\': 1, \'y\': a}","{a=1, b=2}"\n'
        '2,"{3,NULL}",2 months 03:00:00,"(2,""b, c"")",{}\n'
        "3,,,,\n"
    )
    # Polars embeds integers of 128 bits, which Arrow does not have.
    schema = pa.schema([("wide", pa.int64())]).serialize().to_pybytes()
    schema = base64.b64encode(schema.replace(b"\x40\0\0\0", b"\x80\0\0\0")).decode()
    table = pa.table({"wide": pa.array([bytes([5] + [0] * 15), None], pa.binary(16))})
    with parquet.ParquetWriter(to / "wide.parquet", table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"ARROW:schema": schema})


def broken():
    """Files that must give an error that names them."""
    good = (DATA / "people.parquet").read_bytes()
    to = folder("broken")
    (to / "truncated.parquet").write_bytes(good[: len(good) // 2])
    (to / "footer.parquet").write_bytes(good[:-12] + b"\xff\xff\xff\x7f\x00\x00\x00\x00" + b"PAR1")
    (to / "text.parquet").write_text("this is not a Parquet file, although its name says so\n")
    (to / "nothing.parquet").write_bytes(b"")
    (to / "text.arrow").write_text("this is not an Arrow file either\n")
    (to / "ragged.csv").write_text("a,b\n1,2\n3\n4,5,6\n")
    (to / "late_text.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(2000)) + "oops\n")
    (to / "cut.json").write_text('{"a": 1}\n{"a": \n')


def main():
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir()
    for act in (people, types, nested, row_groups, encodings, folders, evolved, empty, odd_text, foreign, broken):
        act()
    sizes = sorted((path.stat().st_size, str(path.relative_to(DATA))) for path in DATA.rglob("*") if path.is_file())
    print(f"{len(sizes)} files, {sum(size for size, _ in sizes)} bytes; the largest: {sizes[-5:]}")


if __name__ == "__main__":
    main()
