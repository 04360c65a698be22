//! Roles: what users may do, and how much of the server they may take.
//!
//! A user has one role, or none. Without one he may do everything but name the server's files; with one he may do what
//! it says and nothing else.
//!
//! ```toml
//! [roles.analyst]
//! tables = ["sales.*", "customers"]   # may read these
//! write = ["scratch.*"]               # may make, change and drop these, and read them
//! endpoints = ["/api/*"]              # may call these, whatever tables are behind them; "GET /api/*" for a method
//! files = false                       # may name files and URLs of the server
//! admin = false                       # may see and end others' queries, and change what is everybody's
//! priority = 0                        # -10 to 10: who comes first in line
//! running_max = 4                     # queries at once; more wait
//! queue_max = 20                      # queries that wait; more are refused
//! memory = "512MB"                    # that one query may reserve
//! time = "30s"                        # that one statement may take
//! result_rows_max = 1000000           # that one statement may give
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use diligence_base::{Error, Result};
use diligence_db::duration::duration;
use diligence_db::rights::{DENIED, RelationPattern, Rights, matches};
use diligence_db::{RoleDefinition, SessionOptions, memory_budget};
use serde::Deserialize;

/// Steps of priority up and down.
pub const PRIORITY_MAX: i32 = 10;

/// What users of one kind may do.
#[derive(Clone, Debug)]
pub struct Role {
    /// Its name; empty for users without one.
    pub name: Arc<str>,
    /// What they may do with tables.
    pub rights: Arc<Rights>,
    /// The endpoints that they may ask, as patterns of paths; all if `None`.
    endpoints: Option<Vec<String>>,
    /// Whether statements may name files and URLs of the server.
    pub files: bool,
    /// Whether they see and end others' queries, and change settings that are everybody's.
    pub admin: bool,
    /// Who comes first in line: more is earlier.
    pub priority: i32,
    /// Limits.
    pub limits: RoleLimits,
}

/// How much of the server the users of a role may take; `None` for as much as anybody.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoleLimits {
    /// Queries of all its users that run at once.
    pub running_max: Option<usize>,
    /// Queries of all its users that wait.
    pub queue_max: Option<usize>,
    /// Bytes that one query may reserve.
    pub memory_bytes: Option<usize>,
    /// How long a statement may take.
    pub time: Option<Duration>,
    /// Rows that a statement may give.
    pub result_rows_max: Option<u64>,
}

impl Role {
    /// The role of those who have none: everything, files only if `files` says so.
    pub fn none(files: bool) -> Self {
        Self {
            name: "".into(),
            rights: Arc::new(Rights::all()),
            endpoints: None,
            files,
            admin: true,
            priority: 0,
            limits: RoleLimits::default(),
        }
    }

    /// That of a role that statements have made: what is granted to it, and nothing of the server's own, unless it may
    /// do everything.
    pub fn of_catalog(definition: &RoleDefinition, files: bool) -> Self {
        let is_superuser = definition.is_superuser;
        let rights = if is_superuser { Rights::all() } else { Rights::only(vec![], vec![]) };
        let endpoints = (!is_superuser).then(Vec::new);
        Self { rights: Arc::new(rights), endpoints, admin: is_superuser, ..Self::none(files && is_superuser) }
    }

    /// The same role, for a user who may use files, too.
    #[must_use]
    pub fn with_files(&self) -> Self {
        Self { files: true, ..self.clone() }
    }

    /// What sessions of one of its users may do.
    pub fn options_of(&self, user: &str) -> SessionOptions {
        SessionOptions { user: Some(user.to_owned()), ..self.session_options() }
    }

    fn session_options(&self) -> SessionOptions {
        SessionOptions {
            files: self.files,
            rights: self.rights.clone(),
            engine_settings: self.admin,
            query_memory_bytes: self.limits.memory_bytes,
            user: None,
        }
    }

    /// What a session may do that answers an endpoint: its statements are of whoever runs the server, and only its
    /// parameters are of the user. Whether it `writes`, its method says.
    pub fn endpoint_options(&self, writes: bool) -> SessionOptions {
        let rights = if writes { Rights::all() } else { Rights::read_all() };
        SessionOptions { files: true, rights: Arc::new(rights), ..self.session_options() }
    }

    /// Fails with `42501` if the users may not call this endpoint: if no pattern fits its path, or its method and path.
    pub fn check_endpoint(&self, method: &str, path: &str) -> Result<()> {
        let both = format!("{method} {path}");
        let fits = |pattern: &String| matches(pattern, path) || matches(pattern, &both);
        if self.endpoints.as_ref().is_none_or(|patterns| patterns.iter().any(fits)) {
            return Ok(());
        }
        let error = Error::input(format!("the endpoint {both} is not for this user")).with_code(DENIED);
        Err(error.with_hint(format!("the server's file of users grants it to a role: endpoints = [\"{both}\"]")))
    }

    /// The shorter of the role's limit of time and another one; zero is none, of both.
    pub fn time(&self, asked: Duration) -> Duration {
        [asked, self.limits.time.unwrap_or_default()]
            .into_iter()
            .filter(|time| !time.is_zero())
            .min()
            .unwrap_or_default()
    }
}

/// A role as the file has it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RoleEntry {
    tables: Vec<String>,
    write: Vec<String>,
    endpoints: Vec<String>,
    files: bool,
    admin: bool,
    priority: i32,
    running_max: Option<usize>,
    queue_max: Option<usize>,
    memory: Option<String>,
    time: Option<String>,
    result_rows_max: Option<u64>,
}

/// The roles of a file, by name.
pub(crate) fn roles(entries: BTreeMap<String, RoleEntry>) -> Result<BTreeMap<String, Role>> {
    let roles = entries.into_iter().map(|(name, entry)| {
        let role = entry.role(&name).map_err(|error| error.context(format!("the role '{name}'")))?;
        Ok((name, role))
    });
    roles.collect()
}

impl RoleEntry {
    fn role(self, name: &str) -> Result<Role> {
        let patterns =
            |texts: &[String]| texts.iter().map(|text| text.parse()).collect::<Result<Vec<RelationPattern>>>();
        if name.is_empty() {
            return Err(Error::input("a role needs a name"));
        }
        if self.priority.abs() > PRIORITY_MAX {
            return Err(Error::input(format!("priority is from -{PRIORITY_MAX} to {PRIORITY_MAX}")));
        }
        if self.running_max == Some(0) {
            return Err(Error::input("running_max is at least 1: else its queries would wait for ever"));
        }
        let limits = RoleLimits {
            running_max: self.running_max,
            queue_max: self.queue_max,
            memory_bytes: self.memory.as_deref().map(memory_budget).transpose()?,
            time: self.time.as_deref().map(duration).transpose()?.filter(|time| !time.is_zero()),
            result_rows_max: self.result_rows_max,
        };
        Ok(Role {
            name: name.into(),
            rights: Arc::new(Rights::only(patterns(&self.tables)?, patterns(&self.write)?)),
            endpoints: Some(self.endpoints),
            files: self.files,
            admin: self.admin,
            priority: self.priority,
            limits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Users;

    #[test]
    fn who_has_a_role_may_do_what_it_says_and_nothing_else() {
        let users = Users::parse(
            "[roles.none]\n[roles.some]\ntables = ['a']\nendpoints = ['/api/*', 'POST /orders/*']\nmemory = '64MB'\ntime = '2s'\npriority = -3\n\
             [users.ann]\npassword = 'x'\nrole = 'none'\n[users.bob]\npassword = 'x'\nrole = 'some'\nfiles = true\n\
             [users.eve]\npassword = 'x'",
        )
        .unwrap();
        let role = |user: &str| users.get(user).unwrap().role.clone();
        let (ann, bob, eve) = (role("ann"), role("bob"), role("eve"));
        assert_eq!(*ann.rights, Rights::only(vec![], vec![]));
        assert!(ann.check_endpoint("GET", "/api/x").is_err() && !ann.files && !ann.admin);
        assert!(
            bob.check_endpoint("GET", "/api/x").is_ok() && bob.check_endpoint("GET", "/other").is_err() && bob.files
        );
        assert!(bob.check_endpoint("POST", "/api/x").is_ok() && bob.check_endpoint("POST", "/orders/{id}").is_ok());
        assert!(bob.check_endpoint("DELETE", "/orders/{id}").is_err());
        assert_eq!(bob.session_options().query_memory_bytes, Some(64 << 20));
        assert_eq!(bob.time(Duration::ZERO), Duration::from_secs(2));
        assert_eq!(bob.time(Duration::from_secs(1)), Duration::from_secs(1));
        assert_eq!(bob.time(Duration::from_secs(3)), Duration::from_secs(2));
        assert!(eve.admin && !eve.files && eve.check_endpoint("PUT", "/other").is_ok());
    }

    #[test]
    fn mistakes_in_roles_are_named() {
        for (wrong, why) in [
            ("priority = 11", "priority"),
            ("running_max = 0", "running_max"),
            ("memory = '1'", "memory"),
            ("time = 'soon'", "time"),
            ("tables = ['']", "tables"),
            ("tabels = ['a']", "tabels"),
        ] {
            let text = format!("[roles.r]\n{wrong}\n[users.ann]\npassword = 'x'\nrole = 'r'");
            let error = Users::parse(&text).unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
        let error = Users::parse("[users.ann]\npassword = 'x'\nrole = 'r'").unwrap_err();
        assert!(error.message().contains("no role is named 'r'"), "{error}");
    }
}
