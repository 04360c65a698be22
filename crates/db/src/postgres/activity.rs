//! `pg_stat_activity`, `pg_locks` and who waits for whom.

use std::collections::BTreeMap;
use std::sync::Arc;

use diligence_catalog::authority::READ_ALL_STATS;
use diligence_catalog::locks::{AdvisoryKey, Locks, ShownLock};
use diligence_catalog::privileges::{DATABASE_OID, OWNER_OID};
use diligence_catalog::{CATALOG_NAME, ComputedTable, RelationName, SYSTEM_SCHEMA, SessionSnapshot};

use super::rows::{CatalogTable, Cell};
use crate::activity::{Activities, Activity};

const ACTIVITY: &str = "datid:p datname:n pid:i leader_pid:i usesysid:p usename:n application_name client_addr client_hostname client_port:i \
                        backend_start:z xact_start:z query_start:z state_change:z wait_event_type wait_event state backend_xid:x \
                        backend_xmin:x query_id:o query backend_type";
const LOCKS: &str = "locktype database:p relation:p page:i tuple:s virtualxid transactionid:x classid:p objid:p objsubid:s \
                     virtualtransaction pid:i mode granted:b fastpath:b waitstart:z";
/// What `pg_blocking_pids` looks into.
const WAITS: &str = "waiting_pid:i blocking_pid:i";

/// What others may not read of a session.
const HIDDEN: &str = "<insufficient privilege>";

/// The tables.
pub(super) fn tables(locks: &Arc<Locks>, activities: &Arc<Activities>) -> BTreeMap<String, Arc<dyn ComputedTable>> {
    let table = |name: &str, line, rows: fn(&SessionSnapshot, &Locks, &Activities) -> Vec<Vec<Cell>>| {
        let (locks, activities) = (locks.clone(), activities.clone());
        let source = move |snapshot: &SessionSnapshot| rows(snapshot, &locks, &activities);
        (name.to_owned(), CatalogTable::computed(line, Arc::new(source)))
    };
    BTreeMap::from([
        table("pg_stat_activity", ACTIVITY, sessions),
        table("pg_locks", LOCKS, shown_locks),
        table("pg_lock_waits", WAITS, waits),
    ])
}

fn sessions(snapshot: &SessionSnapshot, locks: &Locks, activities: &Activities) -> Vec<Vec<Cell>> {
    // Others' statements are for whoever may read them in `system.sessions`, and for members of `pg_read_all_stats`.
    let may_read = snapshot.rights.may_read(&RelationName::new(SYSTEM_SCHEMA, "sessions"));
    let sees_all = may_read || snapshot.rights.has_role(READ_ALL_STATS);
    let waiting = locks.shown().into_iter().filter(|lock| !lock.is_granted);
    let waiting = waiting.filter_map(|lock| Some((activities.process_of(lock.owner.number())?, lock.kind)));
    let waiting = waiting.collect::<BTreeMap<_, _>>();
    let row = |session: Activity| {
        let seen = |cell: Cell| if sees_all { cell } else { Cell::Null };
        let wait = match waiting.get(&session.process_id) {
            Some(kind) => [Cell::from("Lock"), Cell::from(*kind)],
            None if session.state != "active" => [Cell::from("Client"), Cell::from("ClientRead")],
            None => [Cell::Null, Cell::Null],
        };
        let statement = if sees_all { session.statement.unwrap_or_default() } else { HIDDEN.to_owned() };
        let mut row = vec![
            DATABASE_OID.into(),
            CATALOG_NAME.into(),
            session.process_id.into(),
            Cell::Null,
            OWNER_OID.into(),
            session.user.into(),
            session.application.into(),
            seen(session.address.map_or(Cell::Null, Cell::from)),
            Cell::Null,
            seen(session.port.map_or(Cell::Null, |port| Cell::Number(i64::from(port)))),
            seen(Cell::Number(session.began_us)),
            seen(session.transaction_began_us.map_or(Cell::Null, Cell::Number)),
            seen(session.statement_began_us.map_or(Cell::Null, Cell::Number)),
            seen(Cell::Number(session.changed_us)),
        ];
        row.extend(wait.map(seen));
        row.extend([seen(session.state.into()), Cell::Null, Cell::Null, Cell::Null, statement.into()]);
        row.push("client backend".into());
        row
    };
    activities.all().into_iter().map(row).collect()
}

fn shown_locks(_: &SessionSnapshot, locks: &Locks, activities: &Activities) -> Vec<Vec<Cell>> {
    let row = |lock: ShownLock| {
        let number = |number: u32| Cell::from(number);
        let advisory = match lock.advisory {
            // Of a number of 64 bits the upper and the lower half, as PostgreSQL has them.
            Some(AdvisoryKey::One(key)) => {
                let key = key.cast_unsigned();
                [number((key >> 32) as u32), number(key as u32), Cell::Number(1)]
            }
            Some(AdvisoryKey::Two(class, object)) => {
                [number(class.cast_unsigned()), number(object.cast_unsigned()), Cell::Number(2)]
            }
            None => [Cell::Null, Cell::Null, Cell::Null],
        };
        let owner = lock.owner.number();
        let mut row = vec![lock.kind.into(), DATABASE_OID.into()];
        row.push(lock.table.map_or(Cell::Null, |table| diligence_catalog::oid_of(table).into()));
        row.extend([Cell::Null, Cell::Null, Cell::Null, Cell::Null]);
        row.extend(advisory);
        row.push(format!("{owner}/1").into());
        row.push(activities.process_of(owner).map_or(Cell::Null, Cell::from));
        row.extend([lock.mode.into(), lock.is_granted.into(), false.into()]);
        row
    };
    locks.shown().into_iter().map(row).collect()
}

fn waits(_: &SessionSnapshot, locks: &Locks, activities: &Activities) -> Vec<Vec<Cell>> {
    let row = |lock: ShownLock| {
        let process = |owner| activities.process_of(owner).map(Cell::from);
        Some(vec![process(lock.owner.number())?, process(lock.behind?.number())?])
    };
    locks.shown().into_iter().filter_map(row).collect()
}
