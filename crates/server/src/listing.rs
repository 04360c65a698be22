//! `system.server` and `system.sessions`: the server as tables.

use std::fmt;
use std::sync::{Arc, Weak};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use diligence_base::{Error, Result};
use diligence_db::plans::PLANS_MAX;
use diligence_db::{ComputedTable, SessionSnapshot};

use crate::service::Service;

/// Adds the tables to the database.
pub(crate) fn install(service: &Arc<Service>) {
    let database = service.database();
    let table = |rows: Source, columns: &[(&str, DataType)]| {
        let fields = columns.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Arc::new(Listing { service: Arc::downgrade(service), schema, rows }) as Arc<dyn ComputedTable>
    };
    let (number, text) = (DataType::Int64, DataType::Utf8View);
    let counted = ["queued", "queue_max", "waiting", "running", "running_max", "done_total", "refused_total"];
    let timed = ["wait_us_total", "service_us_total"];
    let mut columns = vec![("stage", text.clone())];
    columns.extend(counted.into_iter().chain(timed).map(|name| (name, number.clone())));
    database.add_system_table("server", table(stages, &columns));
    let columns = [
        ("id", number.clone()),
        ("user_name", text.clone()),
        ("door", text.clone()),
        ("peer", text.clone()),
        ("application", text.clone()),
        ("statement", text),
        ("elapsed_us", number),
    ];
    database.add_system_table("sessions", table(sessions, &columns));
}

type Source = fn(&Service) -> Vec<ArrayRef>;

struct Listing {
    service: Weak<Service>,
    schema: SchemaRef,
    rows: Source,
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listing")
    }
}

impl ComputedTable for Listing {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn rows(&self, _: &SessionSnapshot) -> Result<RecordBatch> {
        let Some(service) = self.service.upgrade() else { return Ok(RecordBatch::new_empty(self.schema.clone())) };
        RecordBatch::try_new(self.schema.clone(), (self.rows)(&service)).map_err(|error| Error::bug(error.to_string()))
    }
}

/// A row of `system.server`.
struct Stage {
    name: &'static str,
    numbers: [Option<u64>; 9],
}

fn stages(service: &Service) -> Vec<ArrayRef> {
    let registry = service.registry();
    let limits = service.options().limits;
    let load = |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    let connecting = registry.connecting.load(std::sync::atomic::Ordering::Relaxed);
    let mut rows = vec![Stage {
        name: "connect",
        numbers: [
            None,
            None,
            None,
            Some(connecting as u64),
            Some(limits.connecting_max as u64),
            Some(load(&registry.sessions_total)),
            Some(load(&registry.refused_total)),
            None,
            None,
        ],
    }];
    rows.extend(service.execution().stages().into_iter().map(|stage| Stage {
        name: stage.name,
        numbers: [
            Some(stage.queued as u64),
            Some(stage.limit as u64),
            Some(stage.waiting as u64),
            Some(stage.running as u64),
            Some(stage.threads as u64),
            Some(stage.done_total),
            None,
            Some(stage.wait_ns_total / 1000),
            Some(stage.service_ns_total / 1000),
        ],
    }));
    let admission = service.execution().admission().info();
    let lanes = [("admission", admission.total()), ("cheap lane", admission.cheap), ("heavy lane", admission.heavy)];
    rows.extend(lanes.map(|(name, lane)| Stage {
        name,
        numbers: [
            Some(lane.waiting as u64),
            Some(lane.queue_max as u64),
            None,
            Some(lane.running as u64),
            Some(lane.running_max as u64),
            Some(lane.admitted_total),
            Some(lane.refused_total),
            Some(lane.waited_total.as_micros() as u64),
            None,
        ],
    }));
    let cache = service.execution().plan_cache().info();
    rows.push(Stage {
        name: "plan cache",
        numbers: [
            Some(cache.plans as u64),
            Some(PLANS_MAX as u64),
            None,
            None,
            None,
            Some(cache.hits_total),
            Some(cache.misses_total),
            None,
            None,
        ],
    });
    let mut columns: Vec<ArrayRef> = vec![Arc::new(StringViewArray::from_iter_values(rows.iter().map(|row| row.name)))];
    for index in 0..9 {
        let numbers = rows.iter().map(|row| row.numbers[index].map(|number| i64::try_from(number).unwrap_or(i64::MAX)));
        columns.push(Arc::new(Int64Array::from_iter(numbers)));
    }
    columns
}

fn sessions(service: &Service) -> Vec<ArrayRef> {
    let list = service.registry().list();
    let text = |value: fn(&crate::registry::SessionInfo) -> Option<&str>| {
        Arc::new(StringViewArray::from_iter(list.iter().map(value))) as ArrayRef
    };
    vec![
        Arc::new(Int64Array::from_iter_values(list.iter().map(|session| i64::from(session.id)))),
        text(|session| Some(&session.user)),
        text(|session| Some(session.door)),
        text(|session| Some(&session.peer)),
        text(|session| Some(&session.application)),
        text(|session| session.statement.as_deref()),
        Arc::new(Int64Array::from_iter_values(list.iter().map(|session| session.elapsed_us as i64))),
    ]
}
