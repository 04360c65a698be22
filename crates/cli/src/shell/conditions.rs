//! `\if`, `\elif`, `\else` and `\endif`: which parts of a text run.

/// Where in a condition the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Branch {
    /// In the branch that runs.
    Runs,
    /// No branch has run yet.
    Waits,
    /// Another branch has run, or the condition itself stands where nothing runs.
    Over,
    /// Behind `\else`, and whether that runs.
    Else(bool),
}

/// The conditions around a place of a text, the innermost last.
#[derive(Debug, Default)]
pub struct Conditions(Vec<Branch>);

impl Conditions {
    /// Whether what stands here runs.
    pub fn is_active(&self) -> bool {
        matches!(self.0.last(), None | Some(Branch::Runs | Branch::Else(true)))
    }

    /// Whether `\elif` must look at its condition, since no branch has run yet.
    pub fn awaits_branch(&self) -> bool {
        self.0.last() == Some(&Branch::Waits)
    }

    /// Whether there is an `\if` without its `\endif`.
    pub fn is_open(&self) -> bool {
        !self.0.is_empty()
    }

    /// Enters a condition, which does not count where nothing runs.
    pub fn begin(&mut self, holds: bool) {
        let branch = match (self.is_active(), holds) {
            (false, _) => Branch::Over,
            (true, true) => Branch::Runs,
            (true, false) => Branch::Waits,
        };
        self.0.push(branch);
    }

    /// Goes on to the next condition, which counts if no branch has run. Fails with a message if it cannot stand here.
    pub fn turn(&mut self, holds: bool) -> Result<(), String> {
        let branch = self.0.last_mut().ok_or("\\elif: there is no \\if before it")?;
        *branch = match *branch {
            Branch::Else(_) => return Err("\\elif cannot stand behind \\else".to_owned()),
            Branch::Waits if holds => Branch::Runs,
            Branch::Waits => Branch::Waits,
            Branch::Runs | Branch::Over => Branch::Over,
        };
        Ok(())
    }

    /// Goes on to what runs if nothing has. Fails with a message if it cannot stand here.
    pub fn otherwise(&mut self) -> Result<(), String> {
        let branch = self.0.last_mut().ok_or("\\else: there is no \\if before it")?;
        *branch = match *branch {
            Branch::Else(_) => return Err("\\else cannot stand behind \\else".to_owned()),
            other => Branch::Else(other == Branch::Waits),
        };
        Ok(())
    }

    /// Leaves the innermost condition. Fails with a message if there is none.
    pub fn end(&mut self) -> Result<(), String> {
        self.0.pop().map(|_| ()).ok_or_else(|| "\\endif: there is no \\if before it".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_branch_runs() {
        let mut conditions = Conditions::default();
        conditions.begin(false);
        assert!(!conditions.is_active() && conditions.awaits_branch());
        // A condition where nothing runs has no branch that does.
        conditions.begin(true);
        assert!(!conditions.is_active());
        conditions.turn(true).unwrap();
        assert!(!conditions.is_active());
        conditions.otherwise().unwrap();
        assert!(!conditions.is_active());
        conditions.end().unwrap();
        conditions.turn(true).unwrap();
        assert!(conditions.is_active());
        conditions.turn(true).unwrap();
        assert!(!conditions.is_active());
        conditions.otherwise().unwrap();
        assert!(!conditions.is_active());
        assert!(conditions.otherwise().is_err() && conditions.turn(true).is_err());
        conditions.end().unwrap();
        assert!(conditions.is_active() && !conditions.is_open());
        assert!(conditions.end().is_err() && conditions.turn(true).is_err() && conditions.otherwise().is_err());
        conditions.begin(false);
        conditions.otherwise().unwrap();
        assert!(conditions.is_active());
    }
}
