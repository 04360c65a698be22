//! What each query of a run has of the state that it has built.

use std::sync::Arc;

use diligence_base::Result;

use super::registry::Member;
use crate::matching::merge::{Portion, Way};
use crate::matching::page::{self, PagePlace};
use crate::reuse::{SharedRows, retained};

/// One query's part of a state.
#[derive(Clone)]
pub(super) struct Share {
    pub state: Arc<SharedRows>,
    /// Which of its rows; all if `None`.
    pub portion: Option<Portion>,
}

impl Share {
    /// Those of so many queries of a run that went so far. Queries of several templates have states of their own, at
    /// these places of the run's.
    pub fn of(state: SharedRows, way: Option<Way>, queries: usize, places: &[PagePlace]) -> Result<Vec<Self>> {
        if way == Some(Way::Page) {
            let branches = page::branches_of(&state.batches, places)?;
            let states = state.divided(branches);
            let own = |place: &PagePlace| Self { state: states[place.branch].clone(), portion: place.portion };
            return Ok(places.iter().map(own).collect());
        }
        let state = Arc::new(state);
        let own = |bit| Self { state: state.clone(), portion: way.map(|way| Portion { bit, way }) };
        Ok((0..queries).map(own).collect())
    }

    /// What later queries can ask of it, that want what a member did.
    pub fn query(&self, member: &Member) -> retained::Query {
        // What rows with masks have more than one query wants is not looked for.
        let shape = member.shape.as_ref().filter(|_| self.portion.is_none_or(|portion| portion.way != Way::Rows));
        let shape = shape.map(|shape| shape.of_state(self.state.rows()));
        retained::Query { exact: member.request.exact.clone(), shape, portion: self.portion }
    }
}
