//! Casts of addresses in networks.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringViewArray};
use diligence_base::{Error, Result};

use super::Cast;
use crate::network_type::NetworkKind;
use crate::text;
use crate::text::networks::{Address, mac_text, read_mac};

fn held(array: &ArrayRef) -> Result<&StringViewArray> {
    array.as_string_view_opt().ok_or_else(|| Error::bug("addresses are held as texts"))
}

/// The texts of addresses, always with the length of the network.
pub(super) fn texts(cast: &Cast<'_>, array: &ArrayRef) -> Result<ArrayRef> {
    let whole = |text: &str| {
        let mut out = String::new();
        Address::read(text, NetworkKind::Inet)?.write_whole(&mut out);
        Ok(out)
    };
    let texts = held(array)?.iter().map(|text| text.map(whole).transpose());
    let texts = texts.collect::<Result<StringViewArray>>()?;
    text::parse_array(&texts, cast.to, &cast.read_options())
}

/// The addresses as those of another type. Fails with 22003 where eight bytes are not what six become.
pub(super) fn others(array: &ArrayRef, to: NetworkKind) -> Result<ArrayRef> {
    let other = |text: &str| match to {
        NetworkKind::Inet => Ok(Address::read(text, NetworkKind::Inet)?.text(to)),
        NetworkKind::Cidr => Ok(Address::read(text, NetworkKind::Inet)?.network().text(to)),
        NetworkKind::LongMac => Ok(mac_text(&read_mac(text, to)?)),
        NetworkKind::Mac => match read_mac(text, NetworkKind::LongMac)?.as_slice() {
            [a, b, c, 0xff, 0xfe, d, e, f] => Ok(mac_text(&[*a, *b, *c, *d, *e, *f])),
            _ => {
                let error = Error::value("macaddr8 data out of range to convert to macaddr").with_code("22003");
                let hint = "Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, for \
                            example xx:xx:xx:ff:fe:xx:xx:xx, are eligible to be converted from macaddr8 to macaddr.";
                Err(error.with_hint(hint))
            }
        },
    };
    let texts = held(array)?.iter().map(|text| text.map(other).transpose());
    Ok(Arc::new(texts.collect::<Result<StringViewArray>>()?))
}
