"""Makes the tables of lakes in tests/slt/data/lakes anew: pip install deltalake pyiceberg[pyarrow,sql-sqlite] pyroaring

What the reference writers write is made by them. Neither writes deletion vectors or column mapping: there, the Parquet
files are pyarrow's and the logs are written here, as the protocol has it.
"""

import json
import os
import pathlib
import shutil
import struct
import sys
import uuid
import zlib
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "lakes"
MAGIC = 1681511377
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(data):
    text = ""
    for at in range(0, len(data), 4):
        number = int.from_bytes(data[at : at + 4], "big")
        digits = ""
        for _ in range(5):
            number, digit = divmod(number, 85)
            digits = Z85[digit] + digits
        text += digits
    return text


def bitmap(rows):
    return struct.pack("<I", MAGIC) + BitMap64(rows).serialize()


def numbers(first, count):
    rows = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(rows, pa.int64()),
            "name": pa.array([f"name {row}" if row % 7 else None for row in rows], pa.string()),
            "price": pa.array([Decimal(row) / 4 for row in rows], pa.decimal128(10, 2)),
            "day": pa.array([date(2024, 1, 1 + row % 28) for row in rows], pa.date32()),
            "at": pa.array([datetime(2024, 1, 1, 12, row % 60, tzinfo=timezone.utc) for row in rows], pa.timestamp("us", "UTC")),
        }
    )


def delta_written(path):
    """Appends, an overwrite of some rows, partitions, a column that comes later, a checkpoint, a delete."""
    from deltalake import DeltaTable, write_deltalake

    write_deltalake(path / "plain", numbers(0, 10))
    write_deltalake(path / "plain", numbers(10, 10), mode="append")
    DeltaTable(path / "plain").delete("id = 3 OR id = 15")
    write_deltalake(
        path / "plain",
        numbers(20, 5).append_column("later", pa.array([1.5] * 5, pa.float64())),
        mode="append",
        schema_mode="merge",
    )

    rows = pa.table(
        {
            "v": pa.array(range(8), pa.int32()),
            "year": pa.array([2023, 2023, 2024, 2024, 2025, 2025, None, None], pa.int32()),
            "city": pa.array(["Rom/A", "a b", "Rom/A", "ä", None, "x=y", "", "%"], pa.string()),
            "day": pa.array([date(2024, 2, 28 + row % 2) for row in range(8)], pa.date32()),
            "at": pa.array([datetime(2024, 2, 28, 1, 2, 3, 500000, tzinfo=timezone.utc)] * 8, pa.timestamp("us", "UTC")),
        }
    )
    write_deltalake(path / "parts", rows, partition_by=["year", "city", "day", "at"])

    for version in range(12):
        write_deltalake(path / "checkpointed", pa.table({"n": pa.array([version], pa.int64())}), mode="append")
        if version == 5:
            DeltaTable(path / "checkpointed").create_checkpoint()
    DeltaTable(path / "checkpointed").delete("n = 7")
    for version in range(6):
        (path / "checkpointed" / "_delta_log" / f"{version:020}.json").unlink()

    nested = pa.table(
        {
            "s": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}], pa.struct([("a", pa.int64()), ("b", pa.string())])),
            "l": pa.array([[1, 2], [], None], pa.list_(pa.int32())),
            "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        }
    )
    write_deltalake(path / "nested", nested)


def log(path, version, actions):
    folder = path / "_delta_log"
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
    (folder / f"{version:020}.json").write_text(lines)


def protocol(*features):
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": list(features), "writerFeatures": list(features)}}


def metadata(fields, configuration=None, partitions=()):
    return {
        "metaData": {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": list(partitions),
            "configuration": configuration or {},
            "createdTime": 1700000000000,
        }
    }


def field(name, kind, **metadata):
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def add(path, name, table, stats=None, vector=None, values=None):
    path.mkdir(parents=True, exist_ok=True)
    if not (path / name).exists():
        pq.write_table(table, path / name)
    action = {"path": name, "partitionValues": values or {}, "size": (path / name).stat().st_size, "modificationTime": 1700000000000, "dataChange": True}
    action["stats"] = json.dumps(stats if stats is not None else {"numRecords": table.num_rows})
    if vector:
        action["deletionVector"] = vector
    return {"add": action}


def inline(rows):
    data = bitmap(rows)
    padded = data + b"\0" * (-len(data) % 4)
    return {"storageType": "i", "pathOrInlineDv": z85(padded), "sizeInBytes": len(data), "cardinality": len(rows)}


def stored(path, name, vectors):
    """Vectors in one file; what refers to each."""
    number = uuid.UUID(name)
    content, found = b"\x01", []
    for rows in vectors:
        data = bitmap(rows)
        found.append({"storageType": "u", "pathOrInlineDv": z85(number.bytes), "offset": len(content), "sizeInBytes": len(data), "cardinality": len(rows)})
        content += struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    path.mkdir(parents=True, exist_ok=True)
    (path / f"deletion_vector_{number}.bin").write_bytes(content)
    return found


def delta_vectors(path):
    table = pa.table({"n": pa.array(range(1000), pa.int64())})
    other = pa.table({"n": pa.array(range(1000, 1010), pa.int64())})
    fields = [field("n", "long")]
    stats = {"numRecords": 1000, "minValues": {"n": 0}, "maxValues": {"n": 999}, "nullCount": {"n": 0}}
    others = {"numRecords": 10, "minValues": {"n": 1000}, "maxValues": {"n": 1009}, "nullCount": {"n": 0}}
    log(path, 0, [protocol("deletionVectors"), metadata(fields), add(path, "a.parquet", table, stats), add(path, "b.parquet", other, others)])
    first = inline([0, 5, 999])
    wide = {**stats, "tightBounds": False}
    log(path, 1, [{"remove": {"path": "a.parquet", "deletionTimestamp": 1700000001000, "dataChange": True}}, add(path, "a.parquet", table, wide, first)])
    second, third = stored(path, "d2c639aa-8816-431a-aaf6-d3fe2512ff61", [[0, 5, 999] + list(range(100, 900)), [1, 2]])
    log(
        path,
        2,
        [
            {"remove": {"path": "a.parquet", "deletionTimestamp": 1700000002000, "dataChange": True, "deletionVector": first}},
            add(path, "a.parquet", table, wide, second),
            {"remove": {"path": "b.parquet", "deletionTimestamp": 1700000002000, "dataChange": True}},
            add(path, "b.parquet", other, {**others, "tightBounds": False}, third),
        ],
    )


def delta_mapped(path, mode):
    """Columns that were renamed, in files and in structs; one dropped, one of the same name made again."""
    names = {"id": "col-1", "s": "col-2", "a": "col-3", "b": "col-4", "part": "col-5", "l": "col-7"}
    item = pa.struct([pa.field(names["a"], pa.int64(), metadata={"PARQUET:field_id": "3"})])
    schema = pa.schema(
        [
            pa.field(names["id"], pa.int64(), metadata={"PARQUET:field_id": "1"}),
            pa.field(
                names["s"],
                pa.struct(
                    [
                        pa.field(names["a"], pa.int64(), metadata={"PARQUET:field_id": "3"}),
                        pa.field("dropped", pa.int64(), metadata={"PARQUET:field_id": "99"}),
                        pa.field(names["b"], pa.string(), metadata={"PARQUET:field_id": "4"}),
                    ]
                ),
                metadata={"PARQUET:field_id": "2"},
            ),
            pa.field("gone", pa.string(), metadata={"PARQUET:field_id": "98"}),
            pa.field(names["l"], pa.list_(pa.struct([pa.field("col-8", pa.int32(), metadata={"PARQUET:field_id": "8"})])), metadata={"PARQUET:field_id": "7"}),
        ]
    )
    rows = [
        {names["id"]: n, names["s"]: {names["a"]: n * 10, "dropped": -1, names["b"]: f"b{n}"}, "gone": "x", names["l"]: [{"col-8": n}]}
        for n in range(4)
    ]
    table = pa.Table.from_pylist(rows, schema)

    def noted(name, kind, number, physical):
        return field(name, kind, **{"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical})

    inner = {"type": "struct", "fields": [noted("beta", "string", 4, names["b"]), noted("alpha", "long", 3, names["a"]), noted("new", "long", 9, "col-9")]}
    items = {"type": "array", "containsNull": True, "elementType": {"type": "struct", "fields": [noted("item", "integer", 8, "col-8")]}}
    fields = [
        noted("number", "long", 1, names["id"]),
        noted("renamed s", inner, 2, names["s"]),
        noted("Gone", "string", 10, "col-10"),
        noted("part", "integer", 5, names["part"]),
        noted("items", items, 7, names["l"]),
    ]
    configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "10"}
    stats = {"numRecords": 4, "minValues": {names["id"]: 0}, "maxValues": {names["id"]: 3}, "nullCount": {names["id"]: 0}}
    log(path, 0, [protocol("columnMapping"), metadata(fields, configuration, ["part"]), add(path, "a b.parquet", table, stats, values={names["part"]: "7"})])
    text = (path / "_delta_log" / f"{0:020}.json").read_text()
    (path / "_delta_log" / f"{0:020}.json").write_text(text.replace('"a b.parquet"', '"a%20b.parquet"'))


def delta_second_checkpoint(path):
    """A checkpoint of the second form: a file of lines, and sidecars with the files."""
    fields = [field("n", "long"), field("wide", "long")]
    actions = []
    for number in range(4):
        table = pa.table({"n": pa.array([number], pa.int64()), "wide": pa.array([number], pa.int32())})
        actions.append(add(path, f"{number}.parquet", table))
    log(path, 0, [protocol("v2Checkpoint", "typeWidening"), metadata(fields), *actions])
    log(path, 1, [{"remove": {"path": "2.parquet", "deletionTimestamp": 1700000002000, "dataChange": True}}])
    sidecars = path / "_delta_log" / "_sidecars"
    sidecars.mkdir(parents=True, exist_ok=True)
    kept = [action["add"] for number, action in enumerate(actions) if number != 2]
    kind = pa.struct(
        [("path", pa.string()), ("partitionValues", pa.map_(pa.string(), pa.string())), ("size", pa.int64()), ("modificationTime", pa.int64()), ("dataChange", pa.bool_()), ("stats", pa.string())]
    )
    names = []
    for number, part in enumerate([kept[:1], kept[1:]]):
        rows = [{**row, "partitionValues": []} for row in part]
        name = f"00000000-0000-0000-0000-00000000000{number}.parquet"
        pq.write_table(pa.table({"add": pa.array(rows, kind)}), sidecars / name)
        names.append(name)
    lines = [{"checkpointMetadata": {"version": 1}}, protocol("v2Checkpoint", "typeWidening"), metadata(fields)]
    lines += [{"sidecar": {"path": name, "sizeInBytes": (sidecars / name).stat().st_size, "modificationTime": 1700000002000}} for name in names]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (path / "_delta_log" / f"{1:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json").write_text(text)
    (path / "_delta_log" / f"{0:020}.json").unlink()
    (path / "_delta_log" / f"{1:020}.json").unlink()
    table = pa.table({"n": pa.array([9], pa.int64()), "wide": pa.array([1 << 40], pa.int64())})
    log(path, 2, [add(path, "9.parquet", table)])


def delta_times(path):
    """Commits that say when they were made."""
    fields = [field("n", "long")]
    configuration = {"delta.enableInCommitTimestamps": "true"}
    for version in range(3):
        actions = [{"commitInfo": {"inCommitTimestamp": 1700000000000 + version * 86400000, "operation": "WRITE"}}]
        if version == 0:
            actions += [protocol("vacuumProtocolCheck"), metadata(fields, configuration)]
        table = pa.table({"n": pa.array([version], pa.int64())})
        log(path, version, actions + [add(path, f"{version}.parquet", table)])


def delta_refused(path):
    fields = [field("n", "long")]
    table = pa.table({"n": pa.array([1], pa.int64())})
    log(path / "feature", 0, [protocol("deletionVectors", "catalogManaged"), metadata(fields), add(path / "feature", "a.parquet", table)])
    log(path / "version", 0, [{"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}}, metadata(fields), add(path / "version", "a.parquet", table)])
    log(path / "type", 0, [protocol(), metadata([field("n", "variant")]), add(path / "type", "a.parquet", table)])
    log(path / "vector", 0, [protocol("deletionVectors"), metadata(fields), add(path / "vector", "a.parquet", table, vector={**inline([0]), "cardinality": 2})])
    log(path / "gap", 0, [protocol(), metadata(fields), add(path / "gap", "a.parquet", table)])
    log(path / "gap", 2, [add(path / "gap", "b.parquet", table)])


def delta(path):
    delta_written(path)
    delta_vectors(path / "vectors")
    delta_mapped(path / "mapped_by_name", "name")
    delta_mapped(path / "mapped_by_id", "id")
    delta_second_checkpoint(path / "second_checkpoint")
    delta_times(path / "times")
    delta_refused(path / "refused")


def main():
    which = sys.argv[1:] or ["delta", "iceberg"]
    for name in which:
        folder = OUT / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        globals()[name](folder)
    for crc in list(OUT.rglob("*.crc")) + list(OUT.rglob("_last_checkpoint")):
        os.remove(crc)


if __name__ == "__main__":
    main()
