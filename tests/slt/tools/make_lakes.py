"""Makes the tables of lakes in tests/slt/data/lakes anew: pip install deltalake pyiceberg[pyarrow,sql-sqlite,pyiceberg-core] pyroaring fastavro duckdb

What the reference writers write is made by them. Neither writes deletion vectors or column mapping: there, the Parquet
files are pyarrow's and the logs are written here, as the protocol has it.
"""

import itertools
import json
import os
import pathlib
import random
import shutil
import struct
import sys
import time
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
    log(path / "type", 0, [protocol(), metadata([field("n", "geography")]), add(path / "type", "a.parquet", table)])
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


WAREHOUSE = pathlib.Path("/tmp/lakes")


def iceberg_table(catalog, name, schema, **arguments):
    """A new table, at a place that is the same on every machine; it is moved when all are made."""
    arguments.setdefault("properties", {"format-version": "2"})
    return catalog.create_table(f"lakes.{name}", schema=schema, location=f"file://{WAREHOUSE}/{name}", **arguments)


def iceberg_written(catalog):
    """Appends, deletes, columns that come, go, and change their names and types; partitions by transforms."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, MonthTransform, TruncateTransform
    from pyiceberg.types import (
        BinaryType, BooleanType, DateType, DecimalType, DoubleType, FixedType, FloatType, IntegerType, ListType, LongType,
        MapType, NestedField, StringType, StructType, TimestampType, TimestamptzType, TimeType, UUIDType,
    )

    table = iceberg_table(catalog, "plain", numbers(0, 1).schema)
    table.append(numbers(0, 10))
    table.append(numbers(10, 10))
    table.delete("id = 3 or id = 15")
    table.append(numbers(20, 5))

    table = iceberg_table(
        catalog,
        "evolved",
        Schema(
            NestedField(1, "id", IntegerType()),
            NestedField(2, "old", StringType()),
            NestedField(3, "price", DecimalType(6, 2)),
            NestedField(4, "s", StructType(NestedField(5, "a", IntegerType()), NestedField(6, "b", StringType()))),
            NestedField(7, "ratio", FloatType()),
        ),
    )
    first = table.schema().as_arrow()
    rows = [{"id": n, "old": f"o{n}", "price": Decimal(n), "s": {"a": n, "b": f"b{n}"}, "ratio": n / 2} for n in range(3)]
    table.append(pa.Table.from_pylist(rows, first))
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.rename_column("old", "new")
        update.update_column("id", LongType())
        update.update_column("price", DecimalType(12, 2))
        update.update_column("ratio", DoubleType())
        update.rename_column("s.a", "alpha")
        update.add_column(("s", "c"), LongType())
        update.delete_column(("s", "b"))
    with table.update_schema() as update:
        update.add_column("old", LongType())
    second = table.schema().as_arrow()
    rows = [
        {"id": n << 33, "new": f"n{n}", "price": Decimal(n), "s": {"alpha": n, "c": n}, "ratio": n / 2, "old": n} for n in range(3, 5)
    ]
    table.append(pa.Table.from_pylist(rows, second))
    with table.update_schema() as update:
        update.move_first("new")

    table = iceberg_table(
        catalog,
        "parts",
        Schema(
            NestedField(1, "id", LongType()),
            NestedField(2, "day", DateType()),
            NestedField(3, "at", TimestampType()),
            NestedField(4, "name", StringType()),
            NestedField(5, "kind", StringType()),
        ),
        partition_spec=PartitionSpec(
            PartitionField(3, 1000, DayTransform(), "at_day"),
            PartitionField(5, 1001, IdentityTransform(), "kind"),
            PartitionField(1, 1002, BucketTransform(2), "id_bucket"),
        ),
    )
    rows = [
        {"id": n, "day": date(2024, 1 + n % 3, 1), "at": datetime(2024, 1, 1 + n % 4, n), "name": f"name {n}", "kind": "xyz"[n % 3] if n % 5 else None}
        for n in range(12)
    ]
    table.append(pa.Table.from_pylist(rows, table.schema().as_arrow()))
    with table.update_spec() as update:
        update.remove_field("at_day")
        update.add_field("day", MonthTransform(), "day_month")
        update.add_field("name", TruncateTransform(6), "name_part")
    table.append(pa.Table.from_pylist([{**row, "id": row["id"] + 100} for row in rows[:4]], table.schema().as_arrow()))

    table = iceberg_table(
        catalog,
        "types",
        Schema(
            NestedField(1, "b", BooleanType()),
            NestedField(2, "i", IntegerType()),
            NestedField(3, "f", FloatType()),
            NestedField(4, "d", DoubleType()),
            NestedField(5, "day", DateType()),
            NestedField(6, "t", TimeType()),
            NestedField(7, "ts", TimestampType()),
            NestedField(8, "tz", TimestamptzType()),
            NestedField(9, "text", StringType()),
            NestedField(10, "bytes", BinaryType()),
            NestedField(11, "u", UUIDType()),
            NestedField(12, "x", FixedType(3)),
            NestedField(13, "dec", DecimalType(38, 10)),
            NestedField(14, "l", ListType(15, IntegerType(), element_required=False)),
            NestedField(16, "m", MapType(17, StringType(), 18, LongType())),
        ),
    )
    at = datetime(2024, 2, 29, 12, 30, 15, 123456)
    row = {
        "b": True, "i": -1, "f": 1.5, "d": 2.5, "day": date(1969, 12, 31), "t": at.time(), "ts": at, "tz": at.replace(tzinfo=timezone.utc), "text": "täxt",
        "bytes": b"\x00\xff", "u": uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, "x": b"abc", "dec": Decimal("-12345678901234567890.0123456789"), "l": [1, 2], "m": [("k", 2)],
    }
    table.append(pa.Table.from_pylist([row, {}], table.schema().as_arrow()))

    iceberg_table(catalog, "without_rows", pa.schema([("n", pa.int64())]))


STRUCT = {"type": "record", "name": "r102", "fields": []}


def optional(name, kind, number):
    return {"name": name, "type": ["null", kind], "default": None, "field-id": number}


def bounds(name, key, value, number):
    item = {"type": "record", "name": f"k{key}_v{value}", "fields": [{"name": "key", "type": "int", "field-id": key}, {"name": "value", "type": "bytes", "field-id": value}]}
    return optional(name, {"type": "array", "items": item, "logicalType": "map"}, number)


def deletes_added(table, made, version=2, partition=None, partition_type=STRUCT, spec=0):
    """A snapshot with files of deletes that no reference writer makes: its manifest, its list and its metadata."""
    import fastavro

    folder = pathlib.Path(table.metadata_location.removeprefix("file://")).parent
    newest = sorted(folder.glob("*.metadata.json"))[-1]
    metadata = json.loads(newest.read_text())
    last = next(s for s in metadata["snapshots"] if s["snapshot-id"] == metadata["current-snapshot-id"])
    sequence, snapshot = metadata["last-sequence-number"] + 1, last["snapshot-id"] + 1
    file = {
        "type": "record",
        "name": "r2",
        "fields": [
            {"name": "content", "type": "int", "field-id": 134},
            {"name": "file_path", "type": "string", "field-id": 100},
            {"name": "file_format", "type": "string", "field-id": 101},
            {"name": "partition", "type": partition_type, "field-id": 102},
            {"name": "record_count", "type": "long", "field-id": 103},
            {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
            bounds("lower_bounds", 126, 127, 125),
            bounds("upper_bounds", 129, 130, 128),
            optional("equality_ids", {"type": "array", "items": "int", "element-id": 136}, 135),
            optional("referenced_data_file", "string", 143),
            optional("content_offset", "long", 144),
            optional("content_size_in_bytes", "long", 145),
        ],
    }
    entry = {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            {"name": "status", "type": "int", "field-id": 0},
            optional("snapshot_id", "long", 1),
            optional("sequence_number", "long", 3),
            optional("file_sequence_number", "long", 4),
            {"name": "data_file", "type": file, "field-id": 2},
        ],
    }
    path = folder / f"deletes-{sequence}.avro"
    rows = [{"status": 1, "snapshot_id": snapshot, "sequence_number": None, "file_sequence_number": None, "data_file": {"partition": partition or {}, **one}} for one in made]
    notes = {"schema": json.dumps(metadata["schemas"][-1]), "partition-spec": "[]", "partition-spec-id": str(spec), "format-version": str(version), "content": "deletes"}
    with open(path, "wb") as out:
        fastavro.writer(out, entry, rows, codec="null" if sequence % 2 else "deflate", metadata=notes)
    with open(last["manifest-list"].removeprefix("file://"), "rb") as read:
        reader = fastavro.reader(read)
        lists, schema = list(reader), reader.writer_schema
    count = {name: 0 for name in ("added_files_count", "existing_files_count", "deleted_files_count", "added_rows_count", "existing_rows_count", "deleted_rows_count")}
    lists.append(
        {"manifest_path": f"file://{path}", "manifest_length": path.stat().st_size, "partition_spec_id": spec, "content": 1, "sequence_number": sequence,
         "min_sequence_number": sequence, "added_snapshot_id": snapshot, **count, "added_files_count": len(made), "added_rows_count": sum(one["record_count"] for one in made), "partitions": None, "key_metadata": None}
    )
    listed = folder / f"snap-{snapshot}.avro"
    with open(listed, "wb") as out:
        fastavro.writer(out, schema, lists, codec="deflate")
    metadata["snapshots"].append({**last, "snapshot-id": snapshot, "parent-snapshot-id": last["snapshot-id"], "sequence-number": sequence, "timestamp-ms": last["timestamp-ms"] + 1, "manifest-list": f"file://{listed}"})
    metadata.update({"last-sequence-number": sequence, "current-snapshot-id": snapshot, "format-version": version})
    metadata["refs"]["main"]["snapshot-id"] = snapshot
    metadata["snapshot-log"].append({"snapshot-id": snapshot, "timestamp-ms": last["timestamp-ms"] + 1})
    if version == 3:
        metadata["next-row-id"] = 0
    number = int(newest.name.split("-")[0]) + 1
    (folder / f"{number:05}-{uuid.UUID(int=number)}.metadata.json").write_text(json.dumps(metadata))


def delete_file(table, name, content, rows, **more):
    path = pathlib.Path(table.location().removeprefix("file://")) / "data" / name
    pq.write_table(rows, path)
    return {"content": content, "file_path": f"file://{path}", "file_format": "PARQUET", "record_count": rows.num_rows, "file_size_in_bytes": path.stat().st_size, **more}


def positions(pairs):
    schema = pa.schema([pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": "2147483546"}), pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": "2147483545"})])
    return pa.Table.from_pylist([{"file_path": path, "pos": row} for path, row in pairs], schema)


def vectors(table, name, by_path):
    """A Puffin file with a deletion vector for each data file."""
    path = pathlib.Path(table.location().removeprefix("file://")) / "data" / name
    content, found, blobs = b"PFA1", [], []
    for data, rows in by_path.items():
        body = bitmap(rows)
        blob = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
        found.append({"referenced_data_file": data, "content_offset": len(content), "content_size_in_bytes": len(blob), "record_count": len(rows)})
        blobs.append({"type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1, "offset": len(content), "length": len(blob), "properties": {"referenced-data-file": data, "cardinality": str(len(rows))}})
        content += blob
    footer = json.dumps({"blobs": blobs, "properties": {}}).encode()
    content += b"PFA1" + footer + struct.pack("<I", len(footer)) + b"\0\0\0\0" + b"PFA1"
    path.write_bytes(content)
    return [{"content": 1, "file_path": f"file://{path}", "file_format": "PUFFIN", "file_size_in_bytes": len(content), **one} for one in found]


def iceberg_deleted(catalog):
    table = iceberg_table(catalog, "positions", numbers(0, 1).schema)
    table.append(numbers(0, 100))
    table.append(numbers(100, 10))
    paths = sorted(task.file.file_path for task in table.scan().plan_files())
    by_rows = {task.file.record_count: task.file.file_path for task in table.scan().plan_files()}
    both = positions([(by_rows[100], row) for row in range(10, 90)] + [(by_rows[10], 9)])
    both = both.sort_by([("file_path", "ascending"), ("pos", "ascending")])
    deletes_added(table, [delete_file(table, "deletes.parquet", 1, both)])
    assert len(paths) == 2

    table = iceberg_table(catalog, "values", pa.schema([("id", pa.int64()), ("name", pa.string()), ("v", pa.int32())]))
    rows = lambda first: pa.table({"id": pa.array(range(first, first + 5), pa.int64()), "name": pa.array(["a", "b", None, "d", "e"]), "v": pa.array([1, 2, 3, 4, None], pa.int32())})
    table.append(rows(0))
    by_name = pa.schema([pa.field("name", pa.string(), metadata={"PARQUET:field_id": "2"})])
    by_both = pa.schema([pa.field("v", pa.int32(), metadata={"PARQUET:field_id": "3"}), pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    deletes_added(
        table,
        [
            delete_file(table, "by_name.parquet", 2, pa.Table.from_pylist([{"name": "b"}, {"name": None}], by_name), equality_ids=[2]),
            delete_file(table, "by_both.parquet", 2, pa.Table.from_pylist([{"v": None, "id": 4}, {"v": 1, "id": 77}], by_both), equality_ids=[3, 1]),
        ],
    )
    # What comes later stays.
    catalog.drop_table("lakes.values")
    folder = WAREHOUSE / "values" / "metadata"
    table = catalog.register_table("lakes.values", f"file://{sorted(folder.glob('*.metadata.json'))[-1]}")
    table.append(rows(10))

    table = iceberg_table(catalog, "vectors", numbers(0, 1).schema)
    table.append(numbers(0, 100))
    table.append(numbers(100, 10))
    by_rows = {task.file.record_count: task.file.file_path for task in table.scan().plan_files()}
    deletes_added(table, vectors(table, "vectors.puffin", {by_rows[100]: [0, 1, 50, 99], by_rows[10]: [3]}), version=3)


def iceberg_refused(catalog):
    for name, change in {
        "format": {"format-version": 4},
        "encryption": {"encryption-keys": [{"key-id": "a"}]},
    }.items():
        table = iceberg_table(catalog, f"refused_{name}", pa.schema([("n", pa.int64())]))
        path = pathlib.Path(table.metadata_location.removeprefix("file://"))
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    table = iceberg_table(catalog, "refused_type", pa.schema([("n", pa.int64())]))
    path = pathlib.Path(table.metadata_location.removeprefix("file://"))
    path.write_text(path.read_text().replace('"long"', '"geometry"'))


def iceberg(path):
    from pyiceberg.catalog.sql import SqlCatalog

    # The same numbers and times whenever it runs.
    numbers, clock = random.Random(1), itertools.count(1_700_000_000)
    uuid.uuid4 = lambda: uuid.UUID(int=numbers.getrandbits(128), version=4)
    time.time = lambda: float(next(clock))
    shutil.rmtree(WAREHOUSE, ignore_errors=True)
    WAREHOUSE.mkdir(parents=True)
    catalog = SqlCatalog("lakes", uri="sqlite:///:memory:", warehouse=f"file://{WAREHOUSE}")
    catalog.create_namespace("lakes")
    iceberg_written(catalog)
    iceberg_deleted(catalog)
    iceberg_refused(catalog)
    path.rmdir()
    # Each file of metadata has all states before it.
    for table in WAREHOUSE.iterdir():
        for older in sorted((table / "metadata").glob("*.metadata.json"))[:-1]:
            older.unlink()
    shutil.copytree(WAREHOUSE, path)


def variant(path):
    """Values of any type, in parts where they have some in common, by DuckDB; and a table of Delta Lake with them."""
    import duckdb

    path.mkdir(parents=True, exist_ok=True)
    values = "(1, {'a': 1, 'b': 'x'}::VARIANT), (2, [1, 2, 3]::VARIANT), (3, 'täxt'::VARIANT), (4, NULL), (5, 1.5::DOUBLE::VARIANT), (6, DATE '2024-02-29'::VARIANT), (7, {'a': 2, 'b': 'y'}::VARIANT), (8, true::VARIANT), (9, 12345678901234567890.25::DECIMAL(30, 2)::VARIANT), (10, {'a': 'text', 'c': [{'d': NULL}]}::VARIANT)"
    duckdb.sql(f"COPY (SELECT id, v FROM (VALUES {values}) t (id, v)) TO '{path}/values.parquet'")
    log(path / "delta", 0, [protocol("variantType"), metadata([field("id", "integer"), field("v", "variant")])])
    shutil.copy(path / "values.parquet", path / "delta" / "values.parquet")
    log(path / "delta", 1, [add(path / "delta", "values.parquet", pq.read_table(path / "values.parquet", columns=["id"]))])


def sqlite(path):
    """Databases of SQLite: tables of one page and of many, long texts, a write-ahead log, and what is refused."""
    import sqlite3

    with sqlite3.connect(path / "shop.db") as db:
        db.executescript(
            """
            PRAGMA page_size = 1024;
            CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL, made DATE, at DATETIME, ok BOOLEAN, image BLOB);
            INSERT INTO items VALUES (1, 'a', 1.5, '2024-02-29', '2024-02-29 12:30:00', 1, x'00ff'), (2, 'ä', 2, NULL, NULL, 0, NULL), (-7, 'c', NULL, NULL, NULL, NULL, NULL);
            ALTER TABLE items ADD COLUMN later INTEGER;
            CREATE TABLE "many rows" (n INTEGER, t VARCHAR(10), PRIMARY KEY (n));
            CREATE TABLE mixed (a, b INTEGER);
            INSERT INTO mixed VALUES (1, 2), ('x', 'y'), (2.5, NULL);
            CREATE TABLE keyed (k TEXT PRIMARY KEY, v TEXT) WITHOUT ROWID;
            CREATE TABLE computed (a INTEGER, b INTEGER GENERATED ALWAYS AS (a + 1) VIRTUAL);
            CREATE VIEW seen AS SELECT * FROM items;
            """
        )
        db.executemany("INSERT INTO [many rows] VALUES (?, ?)", [(n * 3, f"text {n}") for n in range(3000)])
        db.execute("DELETE FROM [many rows] WHERE n % 10 = 0")
        db.execute("CREATE TABLE long (id INTEGER, t TEXT)")
        db.executemany("INSERT INTO long VALUES (?, ?)", [(n, "x" * n + "y") for n in (0, 100, 986, 987, 988, 1000, 2000, 50_000)])
    db.close()
    writing = sqlite3.connect(path / "writing.db")
    writing.executescript("PRAGMA page_size = 1024; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1), (2);")
    writing.execute("PRAGMA wal_checkpoint")
    writing.executescript("INSERT INTO t VALUES (3); UPDATE t SET n = 20 WHERE n = 2;")
    writing.execute("BEGIN")
    writing.execute("INSERT INTO t VALUES (4)")
    for name in ("writing.db", "writing.db-wal"):
        shutil.copy(path / name, path / f"log_{name}")
    writing.rollback()
    writing.close()
    for name in ("writing.db", "writing.db-wal", "writing.db-shm"):
        (path / name).unlink(missing_ok=True)
    (path / "log_writing.db").rename(path / "writing.db")
    (path / "log_writing.db-wal").rename(path / "writing.db-wal")
    added = sqlite3.connect(path / "added.db")
    added.executescript(
        """
        CREATE TABLE t (a INTEGER);
        INSERT INTO t VALUES (1), (2);
        ALTER TABLE t ADD COLUMN b INTEGER NOT NULL DEFAULT -7;
        ALTER TABLE t ADD COLUMN c TEXT DEFAULT 'x, y';
        ALTER TABLE t ADD COLUMN d REAL DEFAULT 1.5e2;
        ALTER TABLE t ADD COLUMN e BLOB DEFAULT x'00ff';
        ALTER TABLE t ADD COLUMN f DATE DEFAULT '2024-02-29';
        ALTER TABLE t ADD COLUMN g TEXT;
        INSERT INTO t VALUES (3, 4, NULL, NULL, NULL, NULL, 'g');
        """
    )
    added.commit()
    added.close()
    wide = sqlite3.connect(path / "wide.db")
    wide.executescript("PRAGMA encoding = 'UTF-16le'; CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('täxt €');")
    wide.commit()
    wide.close()


def main():
    which = sys.argv[1:] or ["delta", "iceberg", "variant", "sqlite"]
    for name in which:
        folder = OUT / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        globals()[name](folder)
    for crc in list(OUT.rglob("*.crc")) + list(OUT.rglob("_last_checkpoint")):
        os.remove(crc)


if __name__ == "__main__":
    main()
