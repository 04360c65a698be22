//! Files of Avro, as Iceberg lists its files in them: blocks of records, behind the schema that they were written with.
//!
//! Values come as a tree with the names of fields, whatever schema the writer had; fields that are not there are none.
//! How many values a block may have follows from its length, so that a damaged count asks for no memory.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use diligence_base::Result;
use serde_json::Value as Json;

use crate::external::parquet::unpack_snappy;
use crate::external::source::Source;

/// Types within types at most.
const DEPTH_MAX: usize = 64;

/// Bytes of a block when it is unpacked, at most.
const BLOCK_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Values that a byte of a block may be, at most: one of no bytes is in few places.
const VALUES_PER_BYTE_MAX: usize = 8;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Truth(bool),
    Whole(i64),
    Float(f64),
    Bytes(Vec<u8>),
    Text(String),
    Record(Vec<(Arc<str>, Value)>),
    Array(Vec<Value>),
}

impl Value {
    /// A field of a record, that is not NULL.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let Value::Record(fields) = self else { return None };
        let (_, value) = fields.iter().find(|(field, _)| field.as_ref() == name)?;
        (*value != Value::Null).then_some(value)
    }

    pub fn whole(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Value::Whole(number) => Some(*number),
            _ => None,
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn array(&self, name: &str) -> &[Value] {
        match self.get(name) {
            Some(Value::Array(values)) => values,
            _ => &[],
        }
    }
}

/// How values are written.
#[derive(Clone, Debug)]
enum Schema {
    Null,
    Boolean,
    Whole,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    Record(Arc<[(Arc<str>, Schema)]>),
    Array(Arc<Schema>),
    Map(Arc<Schema>),
    Union(Arc<[Schema]>),
}

/// What a file has.
pub(super) struct AvroFile {
    /// What its writer has noted.
    pub notes: HashMap<String, Vec<u8>>,
    pub records: Vec<Value>,
}

/// Reads a file. Fails with kind `File` if it is damaged.
pub(super) fn read(source: &Source, bytes: &Bytes) -> Result<AvroFile> {
    file(bytes).map_err(|what| source.error(format!("the Avro file cannot be read: {what}")))
}

type Parsed<T> = std::result::Result<T, &'static str>;

fn file(bytes: &[u8]) -> Parsed<AvroFile> {
    let mut input = Input { bytes, values_left: bytes.len() };
    if input.take(4)? != b"Obj\x01" {
        return Err("it does not begin like one");
    }
    let mut notes = HashMap::new();
    input.blocks(|input| {
        let (key, value) = (input.text()?, input.sized()?.to_vec());
        notes.insert(key, value);
        Ok(())
    })?;
    let schema = notes.get("avro.schema").ok_or("it has no schema")?;
    let schema: Json = serde_json::from_slice(schema).map_err(|_| "its schema is no JSON")?;
    let schema = parsed(&schema, &mut HashMap::new(), 0)?;
    let codec = notes.get("avro.codec").cloned().unwrap_or_else(|| b"null".to_vec());
    let sync = input.take(16)?.to_vec();
    let mut records = Vec::new();
    while !input.bytes.is_empty() {
        let count = usize::try_from(input.long()?).map_err(|_| "a block has a count that makes no sense")?;
        let packed = input.sized()?;
        let block = unpacked(&codec, packed)?;
        let mut block = Input { bytes: &block, values_left: block.len().saturating_mul(VALUES_PER_BYTE_MAX) };
        for _ in 0..count {
            records.push(block.value(&schema)?);
        }
        if input.take(16)? != sync {
            return Err("a block does not end like one");
        }
    }
    Ok(AvroFile { notes, records })
}

fn unpacked(codec: &[u8], packed: &[u8]) -> Parsed<Vec<u8>> {
    let mut block = Vec::new();
    let mut reader: Box<dyn Read> = match codec {
        b"null" => return Ok(packed.to_vec()),
        b"snappy" => {
            // A checksum of four bytes stands behind.
            let (packed, checksum) = packed.split_at_checked(packed.len().wrapping_sub(4)).ok_or("a block is short")?;
            let block = unpack_snappy(packed, BLOCK_BYTES_MAX as usize).ok_or("a block cannot be unpacked")?;
            let is_right = crc32fast::hash(&block).to_be_bytes() == checksum;
            return if is_right { Ok(block) } else { Err("the checksum of a block is wrong") };
        }
        b"deflate" => Box::new(flate2::read::DeflateDecoder::new(packed)),
        b"zstandard" => {
            Box::new(zstd::stream::read::Decoder::with_buffer(packed).map_err(|_| "a block cannot be unpacked")?)
        }
        b"bzip2" => Box::new(bzip2::bufread::BzDecoder::new(packed)),
        b"xz" => Box::new(liblzma::bufread::XzDecoder::new(packed)),
        _ => return Err("its compression is not known"),
    };
    let read = reader.by_ref().take(BLOCK_BYTES_MAX + 1).read_to_end(&mut block);
    match read {
        Ok(bytes) if bytes as u64 <= BLOCK_BYTES_MAX => Ok(block),
        Ok(_) => Err("a block is too long"),
        Err(_) => Err("a block cannot be unpacked"),
    }
}

fn parsed(schema: &Json, named: &mut HashMap<String, Schema>, depth: usize) -> Parsed<Schema> {
    if depth > DEPTH_MAX {
        return Err("its types are nested too deeply");
    }
    let plain = |name: &str, named: &HashMap<String, Schema>| match name {
        "null" => Ok(Schema::Null),
        "boolean" => Ok(Schema::Boolean),
        "int" | "long" => Ok(Schema::Whole),
        "float" => Ok(Schema::Float),
        "double" => Ok(Schema::Double),
        "bytes" => Ok(Schema::Bytes),
        "string" => Ok(Schema::String),
        other => named.get(other).cloned().ok_or("its schema has a type that is not known"),
    };
    match schema {
        Json::String(name) => plain(name, named),
        Json::Array(types) => {
            let types = types.iter().map(|ty| parsed(ty, named, depth + 1)).collect::<Parsed<Vec<_>>>()?;
            Ok(Schema::Union(types.into()))
        }
        Json::Object(object) => {
            let inner = |key: &str| object.get(key).ok_or("a type of its schema is not whole");
            let found = match inner("type")? {
                Json::String(name) => match name.as_str() {
                    "record" => {
                        let fields = inner("fields")?.as_array().ok_or("a record of its schema has no fields")?;
                        let fields = fields.iter().map(|field| {
                            let name = field.get("name").and_then(Json::as_str).ok_or("a field has no name")?;
                            let ty = field.get("type").ok_or("a field has no type")?;
                            Ok((Arc::from(name), parsed(ty, named, depth + 1)?))
                        });
                        Schema::Record(fields.collect::<Parsed<Vec<_>>>()?.into())
                    }
                    "array" => Schema::Array(Arc::new(parsed(inner("items")?, named, depth + 1)?)),
                    "map" => Schema::Map(Arc::new(parsed(inner("values")?, named, depth + 1)?)),
                    "fixed" => {
                        let size = inner("size")?.as_u64().and_then(|size| usize::try_from(size).ok());
                        Schema::Fixed(size.ok_or("a fixed type has no size")?)
                    }
                    "enum" => Schema::Whole,
                    other => plain(other, named)?,
                },
                other => parsed(other, named, depth + 1)?,
            };
            if let Some(name) = object.get("name").and_then(Json::as_str) {
                named.insert(name.to_owned(), found.clone());
            }
            Ok(found)
        }
        _ => Err("its schema has a type that is none"),
    }
}

/// What is left of a text to read.
struct Input<'a> {
    bytes: &'a [u8],
    values_left: usize,
}

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Parsed<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or("it ends too early")?;
        self.bytes = rest;
        Ok(taken)
    }

    /// A number of seven bits a byte, the sign in the lowest bit.
    fn long(&mut self) -> Parsed<i64> {
        let mut number = 0u64;
        for place in 0..10 {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Ok((number >> 1) as i64 ^ -((number & 1) as i64));
            }
        }
        Err("a number has too many bytes")
    }

    fn sized(&mut self) -> Parsed<&'a [u8]> {
        let length = usize::try_from(self.long()?).map_err(|_| "a length makes no sense")?;
        self.take(length)
    }

    fn text(&mut self) -> Parsed<String> {
        String::from_utf8(self.sized()?.to_vec()).map_err(|_| "a text is not UTF-8")
    }

    /// The items of an array or a map.
    fn blocks(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<()> {
        loop {
            let mut count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                // The bytes of the block follow, for whoever skips it.
                self.long()?;
                count = count.checked_neg().ok_or("a count makes no sense")?;
            }
            for _ in 0..count {
                self.values_left = self.values_left.checked_sub(1).ok_or("it has more values than bytes")?;
                item(self)?;
            }
        }
    }

    fn value(&mut self, schema: &Schema) -> Parsed<Value> {
        self.values_left = self.values_left.checked_sub(1).ok_or("it has more values than bytes")?;
        Ok(match schema {
            Schema::Null => Value::Null,
            Schema::Boolean => Value::Truth(self.take(1)?[0] != 0),
            Schema::Whole => Value::Whole(self.long()?),
            Schema::Float => {
                let bytes = self.take(4)?.try_into().map_err(|_| "a number is not whole")?;
                Value::Float(f64::from(f32::from_le_bytes(bytes)))
            }
            Schema::Double => {
                let bytes = self.take(8)?.try_into().map_err(|_| "a number is not whole")?;
                Value::Float(f64::from_le_bytes(bytes))
            }
            Schema::Bytes => Value::Bytes(self.sized()?.to_vec()),
            Schema::String => Value::Text(self.text()?),
            Schema::Fixed(size) => Value::Bytes(self.take(*size)?.to_vec()),
            Schema::Record(fields) => {
                let values = fields.iter().map(|(name, schema)| Ok((name.clone(), self.value(schema)?)));
                Value::Record(values.collect::<Parsed<Vec<_>>>()?)
            }
            Schema::Array(items) => {
                let mut values = Vec::new();
                self.blocks(|input| {
                    values.push(input.value(items)?);
                    Ok(())
                })?;
                Value::Array(values)
            }
            Schema::Map(items) => {
                let mut values = Vec::new();
                self.blocks(|input| {
                    let key = Value::Text(input.text()?);
                    values.push(Value::Record(vec![("key".into(), key), ("value".into(), input.value(items)?)]));
                    Ok(())
                })?;
                Value::Array(values)
            }
            Schema::Union(types) => {
                let number = usize::try_from(self.long()?).ok();
                let schema = number.and_then(|number| types.get(number)).ok_or("a value is of no type of its union")?;
                self.value(schema)?
            }
        })
    }
}
