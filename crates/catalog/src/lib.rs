//! The names of a database and what they stand for: schemas, tables, views, the types that clients know, rights, oids.
//!
//! The life of a name:
//! 1. [`Catalog::create`] makes an [`Object`] of a [`Relation`]: it gets an id, which it keeps until it is dropped, a
//!    version, and an oid.
//! 2. A statement asks for a [`CatalogSnapshot`] once ([`Catalog::snapshot`]) and resolves every name against it. A
//!    session adds its system tables and its rights ([`SessionSnapshot`]).
//! 3. A plan keeps what it [`Uses`]: each name that was looked up, with the id and the version of what was found, or
//!    that nothing was.
//! 4. A change ([`Catalog::create`], [`Catalog::insert`], [`Catalog::drop`], …) gives one object another version. Plan
//!    caches are told which ([`CatalogObserver`]), and forget the plans that use it. Nothing else is obsolete.
//!
//! Not here: what a name means inside one statement (common table expressions, aliases), how text becomes a plan, and
//! functions, all of which are built in.
//!
//! Invariants:
//! * A snapshot never changes.
//! * Two versions of an object are never equal, and no two objects have had the same id.
//! * A view keeps its statement, a table what was declared: nothing here is planned, so all of it can be written down.

mod access;
mod alter;
pub mod authority;
mod block;
mod carried;
mod catalog;
mod collations;
mod composite_definition;
mod composites;
mod conformed;
mod counted;
mod declared;
mod deferral;
mod deferred;
pub mod distribution;
mod domain_definition;
mod domains;
mod enum_definition;
mod enums;
mod excluded;
mod extended_statistics;
mod files;
mod followed;
mod guard;
mod history;
mod in_the_way;
mod index;
mod index_form;
#[cfg(test)]
mod index_tests;
pub mod journal;
mod key_block;
mod key_filter;
mod key_store;
mod keyed;
mod keys;
mod lock_guard;
pub mod locks;
mod macros;
mod moment;
mod moved;
mod name;
mod object;
pub mod operator_classes;
mod parts;
mod paths;
mod pieces;
mod position;
pub mod privileges;
mod references;
mod referred;
pub mod rights;
mod routine;
mod row_places;
mod rows;
pub mod rules;
mod run;
mod run_writer;
mod sampled;
pub mod sequence;
mod session;
mod shown_default;
mod signature;
mod snapshot;
pub mod system_catalogs;
mod table;
pub mod transaction;
mod trigger;
pub mod types;
mod unbound;
mod uses;
mod view;

pub use alter::{OwnedSequence, free_name};
pub use authority::Authority;
pub use block::StatementBlock;
pub use catalog::{Catalog, CatalogChange, CatalogObserver, RenamedObject, may_change, no_schema};
pub use collations::{kept_order, order_of_kept};
pub use composite_definition::CompositeDefinition;
pub use composites::has_made_type;
pub use conformed::{failing_row, table_schema};
pub use counted::whole_name;
pub use declared::ColumnIds;
pub use domain_definition::DomainDefinition;
pub use enum_definition::EnumDefinition;
pub use enums::EnumChange;
pub use extended_statistics::{ExtendedStatistics, STATISTICS_KINDS};
pub use files::FileRelation;
pub use followed::RowRules;
pub use guard::{LockWay, RowsLocked};
pub use history::{EarlierHistory, History, HistoryState};
pub use index::IndexState;
pub use key_store::KeyStore;
pub use lock_guard::LockGuard;
pub use macros::{MACRO_BODIES, MACRO_BODY, MacroBody, MacroParameter, is_macro_unless_there, macro_bodies};
pub use moment::micros_now;
pub use moved::{FollowedSince, RowNow};
pub use name::{
    CATALOG_NAME, DEFAULT_SCHEMA, INFORMATION_SCHEMA, POSTGRES_SCHEMA, RelationName, SHOWN_FROM, SYSTEM_SCHEMA,
    declared_oid, oid_of,
};
pub use object::{Object, ObjectRef, Relation, sequence_schema};
pub use paths::looks_like_path;
pub use pieces::{NewRows, Piece, PieceRows, StoredCluster, StoredRows};
pub use rights::{RelationPattern, Rights};
pub use routine::{AGGREGATE_FOLD, Routine, settings_of};
pub use session::{ComputedTable, Isolation, Resolved, SessionCatalogs, SessionSnapshot};
pub use shown_default::shown_default;
pub use signature::{Argument, ArgumentMode, Signature};
pub use snapshot::CatalogSnapshot;
pub use table::{
    Declaration, IndexesAhead, KeyFiles, MovedKeys, NativeTable, RestoredKeys, RestoredPiece, RowChange, StoredPiece,
    TableAlteration,
};
pub use trigger::{Trigger, TriggerEvent, TriggerState};
pub use unbound::Rebinding;
pub use uses::{PlanningIdentity, Uses};
pub use view::View;
