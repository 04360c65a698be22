//! The environment of commands that are run: that of the process, with the variables that `\setenv` has changed.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The variables that were changed; `None` for those that were removed.
static CHANGED: Mutex<BTreeMap<String, Option<String>>> = Mutex::new(BTreeMap::new());

/// Sets a variable for the commands that are run from now on, or removes it.
pub fn set(name: &str, value: Option<String>) {
    CHANGED.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), value);
}

/// The value of a variable, as commands have it; `None` if it has none, or one that is not UTF-8.
pub fn value(name: &str) -> Option<String> {
    let changed = CHANGED.lock().unwrap_or_else(PoisonError::into_inner);
    changed.get(name).cloned().unwrap_or_else(|| std::env::var(name).ok())
}

/// A command of the system's shell, to be started.
pub fn command(text: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", text]);
    for (name, value) in CHANGED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_variables_that_were_set() {
        set("DILIGENCE_ENVIRONMENT_TEST", Some("a b".to_owned()));
        let printed = || {
            let output = command("printf %s \"${DILIGENCE_ENVIRONMENT_TEST-none}\"").output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!((printed().as_str(), value("DILIGENCE_ENVIRONMENT_TEST").as_deref()), ("a b", Some("a b")));
        set("DILIGENCE_ENVIRONMENT_TEST", None);
        assert_eq!((printed().as_str(), value("DILIGENCE_ENVIRONMENT_TEST")), ("none", None));
    }
}
