//! Functions and operators of addresses in networks (manual, section 9.12).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Int32Array, Int64Array, StringViewArray};
use arrow::datatypes::{Int32Type, Int64Type};
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::catalog::Catalog;
use super::columns::Columns;
use super::errors::{invalid_argument, value_error};
use super::{Body, Call, Kernel};
use crate::SqlType;
use crate::network_type::NetworkKind;
use crate::text::networks::{Address, mac_text, read_mac};

/// Declares the functions. A `cidr` becomes an `inet` by itself.
pub(super) fn declare(catalog: &mut Catalog) {
    internet(catalog);
    hardware(catalog);
}

fn internet(catalog: &mut Catalog) {
    let mut add = |signature: &'static str, kernel: Kernel| {
        catalog.add(signature, Body::Kernel(kernel));
    };
    add("<<(inet, inet) -> boolean", |given, call| {
        tested(given, call, |left, right| right.contains(left) && right.length < left.length)
    });
    add("<<=(inet, inet) -> boolean", |given, call| tested(given, call, |left, right| right.contains(left)));
    add(">>(inet, inet) -> boolean", |given, call| {
        tested(given, call, |left, right| left.contains(right) && left.length < right.length)
    });
    add(">>=(inet, inet) -> boolean", |given, call| tested(given, call, Address::contains));
    add("&&(inet, inet) -> boolean", |given, call| {
        tested(given, call, |left, right| left.contains(right) || right.contains(left))
    });
    add("inet_same_family(inet, inet) -> boolean", |given, call| {
        tested(given, call, |left, right| left.is_long == right.is_long)
    });
    add("~(inet) -> inet", |given, call| {
        changed(given, call, |one| Address { bits: !one.bits & one.all_bits(), ..one })
    });
    add("&(inet, inet) -> inet", |given, call| combined(given, call, "AND", |left, right| left & right));
    add("|(inet, inet) -> inet", |given, call| combined(given, call, "OR", |left, right| left | right));
    add("+(inet, bigint) -> inet", |given, call| moved(given, call, (0, 1), 1));
    add("+(bigint, inet) -> inet", |given, call| moved(given, call, (1, 0), 1));
    add("-(inet, bigint) -> inet", |given, call| moved(given, call, (0, 1), -1));
    add("-(inet, inet) -> bigint", distance);
    add("abbrev(inet) -> text", |given, call| texts(given, call, |one| one.text(NetworkKind::Inet)));
    add("abbrev(cidr) -> text", |given, call| texts(given, call, |one| one.short_text()));
    add("host(inet) -> text", |given, call| {
        texts(given, call, |one| {
            let mut out = String::new();
            one.write_host(&mut out);
            out
        })
    });
    add("text(inet) -> text", |given, call| {
        texts(given, call, |one| {
            let mut out = String::new();
            one.write_whole(&mut out);
            out
        })
    });
    add("family(inet) -> integer", |given, call| numbers(given, call, |one| if one.is_long { 6 } else { 4 }));
    add("masklen(inet) -> integer", |given, call| numbers(given, call, |one| one.length.into()));
    add("broadcast(inet) -> inet", |given, call| {
        changed(given, call, |one| Address { bits: one.bits | (!one.mask() & one.all_bits()), ..one })
    });
    add("network(inet) -> cidr", |given, call| changed(given, call, |one| one.network()));
    add("netmask(inet) -> inet", |given, call| {
        changed(given, call, |one| Address { bits: one.mask(), length: one.width(), ..one })
    });
    add("hostmask(inet) -> inet", |given, call| {
        changed(given, call, |one| Address { bits: !one.mask() & one.all_bits(), length: one.width(), ..one })
    });
    add("set_masklen(inet, integer) -> inet", with_length);
    add("set_masklen(cidr, integer) -> cidr", with_length);
    add("inet_merge(inet, inet) -> cidr", merged);
    add("inet_order_key(inet) -> bytea", keys);
    add("inet_order_key(cidr) -> bytea", keys);
    for sign in ["=", "<>", "<", "<=", ">", ">="] {
        let signature = Box::leak(format!("{sign}(inet, inet) -> boolean").into_boxed_str());
        catalog.add(signature, super::comparisons::kernel_of_sign(sign));
    }
}

fn hardware(catalog: &mut Catalog) {
    for name in ["macaddr", "macaddr8"] {
        let mut add = |text: String, kernel: Kernel| {
            catalog.add(Box::leak(text.into_boxed_str()), Body::Kernel(kernel));
        };
        add(format!("~({name}) -> {name}"), |given, call| hardware_changed(given, call, |byte, _| !byte));
        add(format!("trunc({name}) -> {name}"), |given, call| {
            hardware_changed(given, call, |byte, index| if index < 3 { byte } else { 0 })
        });
        add(format!("&({name}, {name}) -> {name}"), |given, call| hardware_combined(given, call, |a, b| a & b));
        add(format!("|({name}, {name}) -> {name}"), |given, call| hardware_combined(given, call, |a, b| a | b));
    }
    catalog.add(
        "macaddr8_set7bit(macaddr8) -> macaddr8",
        Body::Kernel(|given, call| {
            hardware_changed(given, call, |byte, index| if index == 0 { byte | 2 } else { byte })
        }),
    );
}

/// The addresses of an argument.
struct Addresses {
    texts: StringViewArray,
    kind: NetworkKind,
}

impl Addresses {
    fn of(columns: &Columns<'_>, call: &Call<'_>, argument: usize) -> Result<Self> {
        let texts = columns.arrays().get(argument).and_then(|array| array.as_string_view_opt().cloned());
        let texts = texts.ok_or_else(|| Error::bug("addresses are held as texts"))?;
        match call.arguments.get(argument) {
            Some(SqlType::Network(kind)) => Ok(Self { texts, kind: *kind }),
            _ => Err(Error::bug("no address in a function of addresses")),
        }
    }

    /// The text of a row.
    fn text(&self, row: usize) -> Option<&str> {
        let row = if self.texts.len() == 1 { 0 } else { row };
        self.texts.is_valid(row).then(|| self.texts.value(row))
    }

    fn at(&self, row: usize) -> Result<Option<Address>> {
        // A network is an address, too.
        self.text(row).map(|text| Address::read(text, NetworkKind::Inet)).transpose()
    }

    fn bytes(&self, row: usize) -> Result<Option<Vec<u8>>> {
        self.text(row).map(|text| read_mac(text, self.kind)).transpose()
    }
}

/// What is told of each address of the first argument.
fn singles<T>(columns: &Columns<'_>, call: &Call<'_>, of: impl Fn(Address) -> T) -> Result<Vec<Option<T>>> {
    let all = Addresses::of(columns, call, 0)?;
    (0..columns.rows()).map(|row| Ok(all.at(row)?.map(&of))).collect()
}

/// What is told of two addresses; `None` where one is NULL.
fn pairs<T>(
    columns: &Columns<'_>,
    call: &Call<'_>,
    of: impl Fn(&Address, &Address) -> Result<T>,
) -> Result<Vec<Option<T>>> {
    let (left, right) = (Addresses::of(columns, call, 0)?, Addresses::of(columns, call, 1)?);
    let row = |row: usize| match (left.at(row)?, right.at(row)?) {
        (Some(left), Some(right)) => of(&left, &right).map(Some),
        _ => Ok(None),
    };
    (0..columns.rows()).map(row).collect()
}

/// The type of what a call gives.
fn given_kind(call: &Call<'_>) -> NetworkKind {
    match call.returns {
        SqlType::Network(kind) => *kind,
        _ => NetworkKind::Inet,
    }
}

/// Addresses as an array of what the call gives.
fn addresses(columns: &Columns<'_>, call: &Call<'_>, rows: Vec<Option<Address>>) -> Result<ColumnarValue> {
    let kind = given_kind(call);
    let texts = rows.into_iter().map(|one| one.map(|one| one.text(kind)));
    columns.result(Arc::new(texts.collect::<StringViewArray>()))
}

fn tested(
    given: &[ColumnarValue],
    call: &Call<'_>,
    test: impl Fn(&Address, &Address) -> bool,
) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = pairs(&columns, call, |left, right| Ok(test(left, right)))?;
    columns.result(Arc::new(rows.into_iter().collect::<BooleanArray>()))
}

fn changed(given: &[ColumnarValue], call: &Call<'_>, of: impl Fn(Address) -> Address) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = singles(&columns, call, of)?;
    addresses(&columns, call, rows)
}

fn texts(given: &[ColumnarValue], call: &Call<'_>, of: impl Fn(Address) -> String) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = singles(&columns, call, of)?;
    columns.result(Arc::new(rows.into_iter().collect::<StringViewArray>()))
}

fn numbers(given: &[ColumnarValue], call: &Call<'_>, of: impl Fn(Address) -> i32) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = singles(&columns, call, of)?;
    columns.result(Arc::new(rows.into_iter().collect::<Int32Array>()))
}

fn keys(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = singles(&columns, call, |one| one.order_key())?;
    columns.result(Arc::new(rows.into_iter().collect::<BinaryViewArray>()))
}

/// The bits of two addresses of one version. Fails with 22023 if they are of two.
fn combined(
    given: &[ColumnarValue],
    call: &Call<'_>,
    what: &str,
    of: impl Fn(u128, u128) -> u128,
) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = pairs(&columns, call, |left, right| match left.is_long == right.is_long {
        true => Ok(Address {
            bits: of(left.bits, right.bits),
            length: left.length.max(right.length),
            is_long: left.is_long,
        }),
        false => Err(invalid_argument(format!("cannot {what} inet values of different sizes"))),
    })?;
    addresses(&columns, call, rows)
}

fn out_of_range() -> Error {
    value_error("result is out of range", "22003")
}

/// Numbers of an argument.
fn bigints(array: Option<&ArrayRef>) -> Result<Int64Array> {
    let numbers = array.and_then(|array| array.as_primitive_opt::<Int64Type>().cloned());
    numbers.ok_or_else(|| Error::bug("no numbers to move addresses by"))
}

/// Addresses some places on, or back. `places` are those of the address and the number among the arguments.
fn moved(
    given: &[ColumnarValue],
    call: &Call<'_>,
    (address, number): (usize, usize),
    direction: i128,
) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let all = Addresses::of(&columns, call, address)?;
    let numbers = bigints(columns.arrays().get(number))?;
    let row = |row: usize| {
        let at = if numbers.len() == 1 { 0 } else { row };
        let Some(one) = all.at(row)?.filter(|_| numbers.is_valid(at)) else { return Ok(None) };
        let by = i128::from(numbers.value(at)) * direction;
        let bits = match by < 0 {
            true => one.bits.checked_sub(by.unsigned_abs()),
            false => one.bits.checked_add(by.unsigned_abs()),
        };
        let bits = bits.filter(|bits| *bits <= one.all_bits()).ok_or_else(out_of_range)?;
        Ok(Some(Address { bits, ..one }))
    };
    let rows = (0..columns.rows()).map(row).collect::<Result<Vec<_>>>()?;
    addresses(&columns, call, rows)
}

fn distance(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = pairs(&columns, call, |left, right| {
        if left.is_long != right.is_long {
            return Err(invalid_argument("cannot subtract inet values of different sizes"));
        }
        let (most, least) = (left.bits.max(right.bits), left.bits.min(right.bits));
        let distance = i128::try_from(most - least).map_err(|_| out_of_range())?;
        let distance = if left.bits < right.bits { -distance } else { distance };
        i64::try_from(distance).map_err(|_| out_of_range())
    })?;
    columns.result(Arc::new(rows.into_iter().collect::<Int64Array>()))
}

/// `set_masklen`: -1 is all bits. A network loses the bits behind its length. Fails with 22023 for other lengths.
fn with_length(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let all = Addresses::of(&columns, call, 0)?;
    let lengths = columns.arrays().get(1).and_then(|array| array.as_primitive_opt::<Int32Type>());
    let lengths = lengths.ok_or_else(|| Error::bug("no lengths of networks"))?;
    let kind = given_kind(call);
    let row = |row: usize| {
        let at = if lengths.len() == 1 { 0 } else { row };
        let Some(one) = all.at(row)?.filter(|_| lengths.is_valid(at)) else { return Ok(None) };
        let length = match lengths.value(at) {
            -1 => one.width(),
            given => u8::try_from(given)
                .ok()
                .filter(|length| *length <= one.width())
                .ok_or_else(|| invalid_argument(format!("invalid mask length: {given}")))?,
        };
        let one = Address { length, ..one };
        Ok(Some(if kind == NetworkKind::Cidr { one.network() } else { one }))
    };
    let rows = (0..columns.rows()).map(row).collect::<Result<Vec<_>>>()?;
    addresses(&columns, call, rows)
}

/// The least network that has both in it.
fn merged(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let rows = pairs(&columns, call, |left, right| {
        if left.is_long != right.is_long {
            return Err(invalid_argument("cannot merge addresses from different families"));
        }
        let differing = left.bits ^ right.bits;
        let common = differing.leading_zeros() - (128 - u32::from(left.width()));
        let length = u8::try_from(common).unwrap_or(u8::MAX).min(left.length).min(right.length);
        Ok(Address { length, ..*left }.network())
    })?;
    addresses(&columns, call, rows)
}

fn hardware_changed(given: &[ColumnarValue], call: &Call<'_>, of: impl Fn(u8, usize) -> u8) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let all = Addresses::of(&columns, call, 0)?;
    let row = |row: usize| {
        let bytes = all.bytes(row)?;
        let changed = bytes.map(|bytes| bytes.iter().enumerate().map(|(at, byte)| of(*byte, at)).collect::<Vec<_>>());
        Ok(changed.map(|bytes| mac_text(&bytes)))
    };
    columns.result(Arc::new((0..columns.rows()).map(row).collect::<Result<StringViewArray>>()?))
}

fn hardware_combined(given: &[ColumnarValue], call: &Call<'_>, of: impl Fn(u8, u8) -> u8) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let (left, right) = (Addresses::of(&columns, call, 0)?, Addresses::of(&columns, call, 1)?);
    let row = |row: usize| {
        let (Some(left), Some(right)) = (left.bytes(row)?, right.bytes(row)?) else { return Ok(None) };
        let bytes = left.iter().zip(&right).map(|(left, right)| of(*left, *right)).collect::<Vec<_>>();
        Ok(Some(mac_text(&bytes)))
    };
    columns.result(Arc::new((0..columns.rows()).map(row).collect::<Result<StringViewArray>>()?))
}
