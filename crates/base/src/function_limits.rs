//! What a function in another language may take, where that is less than all functions may.
//!
//! A function has limits of its own (`CREATE FUNCTION … SET`), and so has a role (`ALTER ROLE … SET`). Whoever calls a
//! function gets the least of both, and of what the settings allow everybody.

use std::time::Duration;

use crate::duration::duration;
use crate::units::bytes;
use crate::{Error, Result};

/// The least memory that a function can have, in bytes: below, nothing that it makes has room.
const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// The least number of steps that a module of WebAssembly can have.
const FUEL_MIN: u64 = 1000;

/// Limits of a function's calls; none of its own by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FunctionLimits {
    /// How long it may work on the rows that it gets at once.
    pub time: Option<Duration>,
    /// Bytes of memory: those of a module of WebAssembly, or those that a call adds to an interpreter.
    pub memory_bytes: Option<u64>,
    /// Steps that a module of WebAssembly may take for the rows that it gets at once.
    pub fuel: Option<u64>,
    /// Whether it is kept from all files but the libraries of its interpreter.
    pub has_no_files: bool,
    /// Whether it can open no connections.
    pub has_no_network: bool,
}

impl FunctionLimits {
    /// The settings that limit functions.
    pub const NAMES: [&str; 5] =
        ["function_time", "function_memory", "function_fuel", "function_files", "function_network"];

    /// Whether a setting limits functions.
    pub fn is_one(name: &str) -> bool {
        Self::NAMES.contains(&name)
    }

    /// Reads one of the settings. Gives false for any other. Fails with code 22023 if this is no value of it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        let is_none = value.trim().eq_ignore_ascii_case("none");
        match name {
            "function_time" => self.time = Some(function_time(value)?),
            "function_memory" if is_none => self.memory_bytes = None,
            "function_memory" => {
                let bytes = bytes(value).map_err(|error| error.with_code("22023"))? as u64;
                if bytes < MEMORY_BYTES_MIN {
                    let error = Error::input("a function needs more memory than that: 1 MiB at least");
                    return Err(error.with_code("22023").with_hint("write it like 64MB"));
                }
                self.memory_bytes = Some(bytes);
            }
            "function_fuel" if is_none => self.fuel = None,
            "function_fuel" => {
                let fuel = value.trim().replace('_', "").parse().ok().filter(|fuel| *fuel >= FUEL_MIN);
                let wrong = || Error::input(format!("expected a number from {FUEL_MIN}, found '{value}'"));
                self.fuel = Some(fuel.ok_or_else(|| wrong().with_code("22023"))?);
            }
            "function_files" => self.has_no_files = !is_on(value)?,
            "function_network" => self.has_no_network = !is_on(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Those among settings that limit functions. Values that are none are left out: they were refused when they were
    /// set.
    pub fn of<'s>(settings: impl IntoIterator<Item = (&'s String, &'s String)>) -> Self {
        let mut limits = Self::default();
        for (name, value) in settings {
            let _ = limits.set(name, value);
        }
        limits
    }

    /// What both allow.
    pub fn least(self, other: Self) -> Self {
        fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            one.into_iter().chain(other).min()
        }
        Self {
            time: least(self.time, other.time),
            memory_bytes: least(self.memory_bytes, other.memory_bytes),
            fuel: least(self.fuel, other.fuel),
            has_no_files: self.has_no_files || other.has_no_files,
            has_no_network: self.has_no_network || other.has_no_network,
        }
    }
}

/// How long a function may work. Fails with code 22023 if the text is no time, or none at all.
pub fn function_time(value: &str) -> Result<Duration> {
    let time = duration(value)?;
    if time.is_zero() {
        let error = Error::input("a function needs more time than none").with_code("22023");
        return Err(error.with_hint("write it like 5min"));
    }
    Ok(time)
}

/// Whether a switch is on. Fails with code 22023 if the text is neither on nor off.
pub fn is_on(value: &str) -> Result<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(Error::input(format!("expected on or off, found '{value}'")).with_code("22023")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(settings: &[(&str, &str)]) -> Result<FunctionLimits> {
        let mut limits = FunctionLimits::default();
        for (name, value) in settings {
            assert!(limits.set(name, value)?, "{name}");
        }
        Ok(limits)
    }

    #[test]
    fn settings_are_read_and_the_least_holds() {
        let own = limits(&[("function_time", "2s"), ("function_memory", "64MB"), ("function_files", "off")]).unwrap();
        assert_eq!((own.time, own.memory_bytes), (Some(Duration::from_secs(2)), Some(64 << 20)));
        let role = limits(&[("function_time", "5s"), ("function_memory", "32MB"), ("function_fuel", "1_000")]).unwrap();
        let both = own.least(role);
        assert_eq!(both, role.least(own));
        assert_eq!((both.time, both.memory_bytes, both.fuel), (own.time, role.memory_bytes, Some(1000)));
        assert!(both.has_no_files && !both.has_no_network);
        assert_eq!(own.least(FunctionLimits::default()), own);
        let none = limits(&[("function_memory", "none"), ("function_fuel", "NONE"), ("function_network", "on")]);
        assert_eq!(none.unwrap(), FunctionLimits::default());
        assert!(!FunctionLimits::default().set("search_path", "public").unwrap());
        let settings = [("function_time", "soon"), ("function_network", "off")]
            .map(|(name, value): (&str, &str)| (name.to_owned(), value.to_owned()));
        let read = FunctionLimits::of(settings.iter().map(|(name, value)| (name, value)));
        assert_eq!(read, FunctionLimits { has_no_network: true, ..FunctionLimits::default() });
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for (name, value) in [
            ("function_time", "soon"),
            ("function_time", "0"),
            ("function_memory", "much"),
            ("function_memory", "1000"),
            ("function_fuel", "999"),
            ("function_fuel", "-1"),
            ("function_files", "some"),
            ("function_network", ""),
        ] {
            assert_eq!(limits(&[(name, value)]).unwrap_err().code(), Some("22023"), "{name} = {value}");
        }
    }
}
