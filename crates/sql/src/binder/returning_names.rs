//! The names that RETURNING has: the table's columns, and `old` and `new` as PostgreSQL 18 has them, a row before the
//! statement and after it. Of rows that come the old values are NULL, and of rows that go the new ones.

use diligence_base::{Error, Result};
use sqlparser::ast::SelectItem;

use super::Binder;
use super::changes::{Changed, alias_of, changed_name};
use super::namespace::{Namespace, Source, Withheld};
use crate::algebra::{Column, Constant, Relation, Scalar};

/// Whether RETURNING may name something by a word.
fn may_name(items: &[SelectItem], word: &str) -> bool {
    let is_behind = |letter: char| !(letter.is_alphanumeric() || letter == '_');
    items.iter().any(|item| item.to_string().split(is_behind).any(|part| part.eq_ignore_ascii_case(word)))
}

fn refuse(items: &[SelectItem], statement: &str) -> Result<()> {
    let names = |item: &SelectItem| {
        let text = item.to_string().to_ascii_lowercase();
        text.starts_with("old.") || text.starts_with("new.")
    };
    if !items.iter().any(names) {
        return Ok(());
    }
    let error = Error::unsupported(format!("old and new in RETURNING of {statement} are not supported"));
    Err(error.with_code("0A000").with_hint("name the columns without them: they are those of the row as it is then"))
}

impl Binder<'_> {
    /// What of the table that changes may not be read.
    fn withheld_of_changed(&self) -> (String, Vec<String>) {
        self.context.withheld(&changed_name())
    }

    /// The names that RETURNING has of a table's rows.
    pub(super) fn own_names(&self, columns: Vec<Column>, changed: &Changed<'_>) -> Namespace {
        let withheld = Withheld::of(self.withheld_of_changed(), &columns);
        let mut names = Namespace::of(Source::new(Some(alias_of(changed)), columns));
        names.sources[0].qualifiers.clone_from(&changed.qualifiers);
        names.sources[0].relation.clone_from(&changed.relation);
        names.sources[0].withheld = withheld;
        names
    }

    /// These names, as there are no others. Fails with code 0A000 if RETURNING names a row before the statement or
    /// after it.
    pub(super) fn without_old_and_new(&self, names: Namespace, changed: &Changed<'_>) -> Result<Namespace> {
        refuse(changed.returning.unwrap_or_default(), "MERGE and ON CONFLICT DO UPDATE").map(|()| names)
    }

    /// The names of RETURNING with those of rows before the statement and after it; what there is not is NULL. Nothing
    /// else of a statement has them. Fails with code 0A000 where triggers make other rows.
    pub(super) fn with_old_and_new(
        &self,
        mut relation: Relation,
        mut names: Namespace,
        (old, new): (Option<Vec<Column>>, Option<Vec<Column>>),
        changed: &Changed<'_>,
    ) -> Result<(Relation, Namespace)> {
        let Some(items) = changed.returning else { return Ok((relation, names)) };
        for (word, columns) in [("old", old), ("new", new)] {
            let is_taken = |source: &Source| source.name.as_deref() == Some(word);
            if !may_name(items, word) || names.sources.iter().any(is_taken) {
                continue;
            }
            if changed.later.is_some() {
                refuse(items, "a view, or a table with BEFORE triggers")?;
                continue;
            }
            let columns = columns.unwrap_or_else(|| {
                let null = |sql_type| Scalar::Constant(Constant::null(sql_type));
                let nulls = changed.targets.iter().map(|target| {
                    let null = null(target.held());
                    (self.column_for(&target.name, &null), null)
                });
                let nulls = nulls.collect::<Vec<_>>();
                let columns = nulls.iter().map(|(column, _)| column.clone()).collect();
                relation = std::mem::replace(&mut relation, Relation::one_row()).mapped(nulls);
                columns
            });
            let withheld = Withheld::of(self.withheld_of_changed(), &columns);
            let mut source = Source::new(Some(word.to_owned()), columns);
            source.withheld = withheld;
            names.add_unshown(source);
        }
        Ok((relation, names))
    }
}
