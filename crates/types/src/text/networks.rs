//! Addresses in networks: their texts, read and written.

use std::fmt::Write;
use std::net::Ipv6Addr;

use diligence_base::{Error, Result};

use crate::network_type::NetworkKind;

/// An address of the internet protocol, and how many of its first bits are its network's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Whether it is of version 6, which has 128 bits; of version 4 there are 32.
    pub is_long: bool,
    /// The bits, as a number.
    pub bits: u128,
    /// How many are the network's.
    pub length: u8,
}

fn invalid(kind: NetworkKind, text: &str) -> Error {
    let name = kind.name();
    Error::input(format!("invalid input syntax for type {name}: \"{text}\"")).with_code("22P02")
}

impl Address {
    /// How many bits an address has.
    pub fn width(&self) -> u8 {
        if self.is_long { 128 } else { 32 }
    }

    /// The bits that an address of this version has.
    pub fn all_bits(&self) -> u128 {
        if self.is_long { u128::MAX } else { u32::MAX.into() }
    }

    /// The bits of a network's length.
    pub fn mask(&self) -> u128 {
        let hosts = u32::from(self.width() - self.length.min(self.width()));
        match hosts {
            128 => 0,
            hosts => (u128::MAX << hosts) & self.all_bits(),
        }
    }

    /// Its network.
    pub fn network(&self) -> Self {
        Self { bits: self.bits & self.mask(), ..*self }
    }

    /// Reads a text of `inet` or `cidr`. Fails with 22P02 if it is none.
    pub fn read(text: &str, kind: NetworkKind) -> Result<Self> {
        let is_network = kind == NetworkKind::Cidr;
        let trimmed = super::trim(text);
        let address = match trimmed.contains(':') {
            true => read_long(trimmed),
            false => read_short(trimmed, is_network),
        };
        let address = address.ok_or_else(|| invalid(kind, text))?;
        if is_network && address.network() != address {
            let error = Error::input(format!("invalid cidr value: \"{text}\"")).with_code("22P02");
            return Err(error.with_detail("Value has bits set to right of mask."));
        }
        Ok(address)
    }

    /// Writes it without the length of its network.
    pub fn write_host(&self, out: &mut String) {
        if self.is_long {
            return write_long(out, self.bits);
        }
        for (index, byte) in (self.bits as u32).to_be_bytes().into_iter().enumerate() {
            let _ = write!(out, "{}{byte}", if index > 0 { "." } else { "" });
        }
    }

    /// Writes it with the length of its network.
    pub fn write_whole(&self, out: &mut String) {
        self.write_host(out);
        let _ = write!(out, "/{}", self.length);
    }

    /// A network's text without the zeros behind its length, as `abbrev` shows a `cidr`.
    pub fn short_text(&self) -> String {
        let mut out = String::new();
        match (self.is_long, self.length) {
            (false, 0) => out.push('0'),
            (true, 0) => out.push_str("::"),
            (false, length) => {
                let bytes = (self.network().bits as u32).to_be_bytes();
                for (index, byte) in bytes.iter().take(usize::from(length.div_ceil(8))).enumerate() {
                    let _ = write!(out, "{}{byte}", if index > 0 { "." } else { "" });
                }
            }
            (true, length) => write_groups(&mut out, self.network().bits, usize::from(length.div_ceil(16)).max(2)),
        }
        let _ = write!(out, "/{}", self.length);
        out
    }

    /// Its text as a value of a type. `inet` leaves out a length that is the whole address.
    pub fn text(&self, kind: NetworkKind) -> String {
        let mut out = String::new();
        match kind == NetworkKind::Inet && self.length == self.width() {
            true => self.write_host(&mut out),
            false => self.write_whole(&mut out),
        }
        out
    }

    /// Bytes that sort as addresses do: by version, network, its length, and the host.
    pub fn order_key(&self) -> Vec<u8> {
        let mut key = vec![u8::from(self.is_long)];
        key.extend(self.network().bits.to_be_bytes());
        key.push(self.length);
        key.extend(self.bits.to_be_bytes());
        key
    }

    /// Whether another is in its network.
    pub fn contains(&self, other: &Self) -> bool {
        self.is_long == other.is_long && self.length <= other.length && (self.bits ^ other.bits) & self.mask() == 0
    }
}

/// The length behind a slash, at most `most`.
fn length_of(text: &str, most: u8) -> Option<u8> {
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    text.parse::<u8>().ok().filter(|length| is_number && *length <= most)
}

/// `1.2.3.4/24`. An `inet` may leave out the last bytes if it has a length, a `cidr` always: the length is that of the
/// classes then.
fn read_short(text: &str, is_network: bool) -> Option<Address> {
    let (digits, length) = match text.split_once('/') {
        Some((digits, length)) => (digits, Some(length_of(length, 32)?)),
        None => (text, None),
    };
    let mut bytes = Vec::with_capacity(4);
    for part in digits.split('.') {
        let is_number = !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
        bytes.push(part.parse::<u8>().ok().filter(|_| is_number && bytes.len() < 4)?);
    }
    let given = u8::try_from(bytes.len() * 8).ok()?;
    let length = match (length, is_network) {
        (Some(length), _) => length,
        (None, false) => (given == 32).then_some(32)?,
        (None, true) => {
            let of_class = match bytes[0] {
                240.. => 32,
                224.. => 8,
                192.. => 24,
                128.. => 16,
                _ => 8,
            };
            match of_class.max(given) {
                8 if bytes[0] == 224 => 4,
                length => length,
            }
        }
    };
    bytes.resize(4, 0);
    let bits = u32::from_be_bytes(bytes.try_into().ok()?);
    Some(Address { is_long: false, bits: bits.into(), length })
}

fn read_long(text: &str) -> Option<Address> {
    let (digits, length) = match text.split_once('/') {
        Some((digits, length)) => (digits, length_of(length, 128)?),
        None => (text, 128),
    };
    let bits = u128::from(digits.parse::<Ipv6Addr>().ok()?);
    Some(Address { is_long: true, bits, length })
}

/// Writes an address of version 6: the longest run of zeros is left out, and what holds an address of version 4 shows
/// that.
fn write_long(out: &mut String, bits: u128) {
    let groups: [u16; 8] = std::array::from_fn(|index| (bits >> (112 - 16 * index)) as u16);
    // The first of the longest runs of at least two zeros.
    let (mut best, mut run) = (0..0, 0..0);
    for (index, group) in groups.iter().enumerate() {
        run = if *group == 0 { (if run.is_empty() { index } else { run.start })..index + 1 } else { 0..0 };
        if run.len() > best.len() && run.len() > 1 {
            best = run.clone();
        }
    }
    let holds_short = best.start == 0 && (best.len() == 6 || best.len() == 5 && groups[5] == 0xffff);
    let mut index = 0;
    while index < 8 {
        if !best.is_empty() && index == best.start {
            out.push_str("::");
            index = best.end;
            continue;
        }
        if index > 0 && index != best.end {
            out.push(':');
        }
        if index == 6 && holds_short {
            Address { is_long: false, bits: bits & u128::from(u32::MAX), length: 32 }.write_host(out);
            return;
        }
        let _ = write!(out, "{:x}", groups[index]);
        index += 1;
    }
}

/// Writes the first groups of an address of version 6, and of zeros among them the longest run not.
fn write_groups(out: &mut String, bits: u128, count: usize) {
    let groups = (0..count).map(|index| (bits >> (112 - 16 * index)) as u16).collect::<Vec<_>>();
    let (mut best, mut run) = (0..0, 0..0);
    for (index, group) in groups.iter().enumerate() {
        run = if *group == 0 { (if run.is_empty() { index } else { run.start })..index + 1 } else { 0..0 };
        if run.len() > best.len() {
            best = run.clone();
        }
    }
    for (index, group) in groups.iter().enumerate() {
        if best.contains(&index) {
            if index == best.start {
                out.push(':');
            }
            if index == count - 1 {
                out.push(':');
            }
            continue;
        }
        if !out.is_empty() {
            out.push(':');
        }
        let _ = write!(out, "{group:x}");
    }
}

/// The bytes of a `macaddr` or a `macaddr8`. One of six bytes becomes one of eight with ff and fe in the middle. Fails
/// with 22P02 if it is none.
pub fn read_mac(text: &str, kind: NetworkKind) -> Result<Vec<u8>> {
    let trimmed = super::trim(text);
    let mut bytes = mac_bytes(trimmed).ok_or_else(|| invalid(kind, text))?;
    match (kind, bytes.len()) {
        (NetworkKind::LongMac, 6) => bytes.splice(3..3, [0xff, 0xfe]).for_each(drop),
        (NetworkKind::LongMac, 8) | (NetworkKind::Mac, 6) => {}
        _ => return Err(invalid(kind, text)),
    }
    Ok(bytes)
}

/// Bytes in hex, with one kind of sign between equally many.
fn mac_bytes(text: &str) -> Option<Vec<u8>> {
    let between = text.chars().find(|letter| !letter.is_ascii_hexdigit());
    if between.is_some_and(|sign| !matches!(sign, ':' | '-' | '.')) {
        return None;
    }
    let groups = match between {
        Some(sign) => text.split(sign).collect::<Vec<_>>(),
        None => vec![text],
    };
    let digits = groups.concat();
    let is_even = match (between, groups.len(), digits.len()) {
        // Single bytes may leave out their first zero.
        (Some(':' | '-'), 6 | 8, _) => {
            let byte = |group: &&str| u8::from_str_radix(group, 16).ok().filter(|_| (1..=2).contains(&group.len()));
            return groups.iter().map(byte).collect();
        }
        (Some('.'), count, _) => groups.iter().all(|group| group.len() == 4) && matches!(count, 3 | 4),
        (Some(_), 2, 12) => groups.iter().all(|group| group.len() == 6),
        (Some(_), 3 | 4, 12 | 16) => groups.iter().all(|group| group.len() == 4),
        (None, _, 12 | 16) => true,
        _ => false,
    };
    if !is_even || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok());
    pairs.collect()
}

/// The text of a `macaddr` or a `macaddr8`.
pub fn mac_text(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 3);
    for (index, byte) in bytes.iter().enumerate() {
        let _ = write!(out, "{}{byte:02x}", if index > 0 { ":" } else { "" });
    }
    out
}

/// The text by which a value is held.
pub(crate) fn held(text: &str, kind: NetworkKind) -> Result<String> {
    match kind.is_internet() {
        true => Ok(Address::read(text, kind)?.text(kind)),
        false => Ok(mac_text(&read_mac(text, kind)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_and_shown_in_its_one_form() {
        use NetworkKind::{Cidr, Inet, LongMac, Mac};
        for (kind, text, shown) in [
            (Inet, "192.168.1.5", "192.168.1.5"),
            (Inet, "192.168.1.5/24", "192.168.1.5/24"),
            (Inet, "10/8", "10.0.0.0/8"),
            (Inet, "::1", "::1"),
            (Inet, "2001:DB8:0:0:1::1/64", "2001:db8::1:0:0:1/64"),
            (Inet, "::ffff:1.2.3.4", "::ffff:1.2.3.4"),
            (Inet, "::1.2.3.4", "::1.2.3.4"),
            (Inet, "::", "::"),
            (Inet, "1::", "1::"),
            (Inet, "1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"),
            (Cidr, "10", "10.0.0.0/8"),
            (Cidr, "192.168", "192.168.0.0/24"),
            (Cidr, "128.1", "128.1.0.0/16"),
            (Cidr, "10.1.2.3", "10.1.2.3/32"),
            (Cidr, "10.1/16", "10.1.0.0/16"),
            (Cidr, "224", "224.0.0.0/4"),
            (Cidr, "224.1", "224.1.0.0/16"),
            (Cidr, "2001:db8::/32", "2001:db8::/32"),
            (Mac, "08:00:2b:01:02:03", "08:00:2b:01:02:03"),
            (Mac, "08002B010203", "08:00:2b:01:02:03"),
            (Mac, "08002b:010203", "08:00:2b:01:02:03"),
            (Mac, "0800.2b01.0203", "08:00:2b:01:02:03"),
            (Mac, "0800-2b01-0203", "08:00:2b:01:02:03"),
            (LongMac, "08:00:2b:01:02:03", "08:00:2b:ff:fe:01:02:03"),
            (LongMac, "08002b0102030405", "08:00:2b:01:02:03:04:05"),
        ] {
            assert_eq!(held(text, kind).unwrap(), shown, "{text}");
            assert_eq!(held(shown, kind).unwrap(), shown);
        }
        for (kind, wrong) in [
            (Inet, ""),
            (Inet, "10"),
            (Inet, "1.2.3.4/33"),
            (Inet, "1.2.3.256"),
            (Inet, "1.2.3.4.5/8"),
            (Inet, "1.2.3.4/"),
            (Inet, "::1/129"),
            (Inet, "1:2"),
            (Cidr, "192.168.1.1/24"),
            (Cidr, "2001:db8::1/32"),
            (Mac, "08:00:2b:01:02"),
            (Mac, "08:00:2b:01:02:03:04:05"),
            (Mac, "0800:2b01:02"),
            (Mac, "zz:00:2b:01:02:03"),
        ] {
            assert_eq!(held(wrong, kind).unwrap_err().code(), Some("22P02"), "{wrong}");
        }
    }

    #[test]
    fn addresses_sort_by_network_and_length() {
        let sorted =
            ["0.0.0.0/0", "10.0.0.0/8", "10.255.0.0/8", "10.0.0.0/16", "10.0.0.1", "10.1.0.0/16", "::/0", "::1"];
        let keys = sorted.map(|text| Address::read(text, NetworkKind::Inet).unwrap().order_key());
        assert!(keys.is_sorted(), "{keys:?}");
    }
}
