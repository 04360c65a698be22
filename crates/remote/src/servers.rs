//! Servers that are attached, by the names that statements call them.

use std::collections::BTreeMap;
use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_storage::Table;
use parking_lot::Mutex;

use crate::address;
use crate::describe;
use crate::link::{Link, Place, wait};
use crate::moment::Moment;
use crate::scan::RemoteTable;

/// The schema of a server whose tables need none in their names, unless ATTACH says another.
const SCHEMA: &str = "public";

/// A server that is attached.
#[derive(Debug)]
pub struct Server {
    place: Arc<Place>,
    schema: String,
}

impl Server {
    /// A server by its connection string, to be called `name`; by the name of its database, if that is `None`. It is
    /// connected to, so that mistakes show at once.
    ///
    /// Fails with 22023 for a string that is none, 08001 if the server cannot be reached, 28P01 for a wrong password.
    pub fn attach(name: Option<&str>, address: &str, schema: Option<String>) -> Result<Self> {
        let url = address::parse(address)?;
        let name = name.map_or_else(|| url.database.clone(), str::to_owned);
        let place = Place::new(&name, url);
        let own = place.clone();
        wait(async move {
            Link::open(&own).await?.keep();
            Ok(())
        })?;
        Ok(Self { place, schema: schema.unwrap_or_else(|| SCHEMA.to_owned()) })
    }

    /// What statements call it.
    pub fn name(&self) -> &str {
        &self.place.name
    }

    /// Its address, without the password.
    pub fn address(&self) -> String {
        self.place.address()
    }

    /// The schema whose tables need none in their names.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// A snapshot of it for a statement.
    pub fn moment(&self) -> Arc<Moment> {
        Moment::new(self.place.clone())
    }

    /// A table or a view of it, as it is in that snapshot. Blocks while the server is asked for its columns. Fails with
    /// 42P01 if there is none, and as the server does.
    pub fn table(&self, schema: Option<&str>, table: &str, moment: &Arc<Moment>) -> Result<Arc<dyn Table>> {
        let (place, schema) = (self.place.clone(), schema.unwrap_or(&self.schema).to_owned());
        let described = wait(describe::table(place, schema.clone(), table.to_owned()))?;
        let name = self.name();
        let described = described.ok_or_else(|| {
            let error = Error::input(format!("the server \"{name}\" has no table \"{schema}\".\"{table}\""));
            error.with_code("42P01").with_hint(format!("SELECT * FROM {name}.information_schema.tables lists them"))
        })?;
        moment.reads(1);
        Ok(Arc::new(RemoteTable::new(self.place.clone(), moment.clone(), described)))
    }

    /// A query in its SQL, as a table. Fails as the server does.
    pub fn query(&self, sql: &str, moment: &Arc<Moment>) -> Result<Arc<dyn Table>> {
        let described = wait(describe::query(self.place.clone(), sql.to_owned()))?;
        moment.reads(1);
        Ok(Arc::new(RemoteTable::new(self.place.clone(), moment.clone(), described)))
    }
}

/// The servers that are attached to a database.
#[derive(Debug, Default)]
pub struct Servers(Mutex<BTreeMap<String, Arc<Server>>>);

impl Servers {
    /// The server of a name.
    pub fn get(&self, name: &str) -> Option<Arc<Server>> {
        self.0.lock().get(name).cloned()
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<Arc<Server>> {
        self.0.lock().values().cloned().collect()
    }

    /// Has a server, in the place of one that has its name.
    pub fn put(&self, server: Arc<Server>) {
        self.0.lock().insert(server.name().to_owned(), server);
    }

    /// Has no server of a name any more; whether there was one. Statements that read it go on.
    pub fn remove(&self, name: &str) -> bool {
        self.0.lock().remove(name).is_some()
    }
}
