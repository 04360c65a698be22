//! Statements of the simple protocol that differ in constants only: from the third one on they run as a prepared
//! statement does, with the constants as its parameters.
//!
//! Only statements that take the short path get there (`Session::run_short`): of a row or a few, by key. What else is
//! written with constants is planned with them. A statement whose constants are not what its parameters would be goes
//! the usual way and says there what is wrong with it.

use std::sync::Arc;

use arrow::array::ArrayRef;
use diligence_db::plans::GenericKey;

use super::constants::{Apart, Constant, apart};
use super::deadlines::Deadline;
use super::portal::{Prepared, PreparedKind};
use super::session::PgSession;
use super::templates::{Template, is_same};
use super::trouble::{Block, Outcome};
use crate::encoding::columns::Form;
use crate::encoding::parameters::value;

impl PgSession {
    /// The prepared statement and the values by which a text can run, if others like it have come before and it is
    /// short.
    pub(super) async fn like_before(
        &mut self,
        text: &str,
        deadline: Option<Deadline>,
    ) -> Outcome<Option<(Arc<Prepared>, Vec<ArrayRef>)>> {
        if self.block == Block::Failed {
            return Ok(None);
        }
        let Some(Apart { text, constants }) = apart(text) else { return Ok(None) };
        let key = (text, self.session.planning_identity());
        let Some(known) = self.templates.get(&key).cloned() else {
            self.templates.insert(key, Template::Met);
            return Ok(None);
        };
        match known {
            Template::Unsuited => Ok(None),
            Template::Ready(prepared, generic) if self.service.execution().is_short(&generic) => {
                let values = self.values_of(&prepared, &constants);
                Ok(values.map(|values| (prepared, values)))
            }
            // A change of its tables makes another statement of it.
            Template::Met | Template::Ready(..) => {
                let found = Box::pin(self.template(&key.0, &constants, deadline)).await?;
                let (template, run) = match found {
                    Some((prepared, generic, values)) => {
                        (Template::Ready(prepared.clone(), generic), Some((prepared, values)))
                    }
                    None => (Template::Unsuited, None),
                };
                self.templates.insert(key, template);
                Ok(run)
            }
        }
    }

    /// The prepared statement of a template, and the values of one with these constants; `None` if there is none, or
    /// it is not short.
    async fn template(
        &mut self,
        text: &str,
        constants: &[Constant],
        deadline: Option<Deadline>,
    ) -> Outcome<Option<(Arc<Prepared>, GenericKey, Vec<ArrayRef>)>> {
        // What is wrong with it is said of the statement as it was sent.
        let Ok(prepared) = self.prepare(text.to_owned(), vec![], true).await else { return Ok(None) };
        let Prepared { text, kind: PreparedKind::Statement(parsed, mut description), .. } = prepared else {
            return Ok(None);
        };
        // Its client was told of no columns.
        description.schema = None;
        let kind = PreparedKind::Statement(parsed.clone(), description);
        let prepared = Prepared { text, kind, ..prepared };
        if prepared.parameters.len() != constants.len() {
            return Ok(None);
        }
        let Some(values) = self.values_of(&prepared, constants) else { return Ok(None) };
        let generic = GenericKey::of(self.session.planning_identity(), &parsed, &values);
        let Some(generic) = generic else { return Ok(None) };
        let execution = self.service.execution().clone();
        let planning = async { Ok(execution.plan_short(&self.session, &generic, &parsed).await) };
        let is_short = Self::until(&self.entry, &mut self.inbox, &self.service, deadline, planning).await?;
        Ok(is_short.then(|| (Arc::new(prepared), generic, values)))
    }

    /// The constants as values of the parameters; `None` if one is not what a parameter of this type would be.
    fn values_of(&self, prepared: &Prepared, constants: &[Constant]) -> Option<Vec<ArrayRef>> {
        let PreparedKind::Statement(_, description) = &prepared.kind else { return None };
        let zone = self.session.time_zone();
        let one = |(place, constant): (usize, &Constant)| {
            let oid = prepared.parameters[place];
            let wanted = &description.parameter_types[place];
            is_same(constant.place, wanted)
                .then(|| value(Some(constant.text.as_bytes()), oid, Form::Text, wanted, zone).ok())
                .flatten()
        };
        constants.iter().enumerate().map(one).collect()
    }
}
