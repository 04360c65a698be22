//! How a change is kept and seen: into the journal first, then published in order, or undone if it was lost.

use super::*;

impl Catalog {
    /// Makes a change to the names, which is published when this returns. `change` says what is told of it, and what is
    /// to be kept; where it fails, it has changed nothing.
    pub(crate) fn commit(
        &self,
        staged: Staged,
        change: impl FnOnce(&mut Arc<Root>) -> Result<(Vec<CatalogChange>, Option<Entry>)>,
    ) -> Result<()> {
        let (position, before) = self.append(vec![staged], |root| {
            let (told, entry) = change(root)?;
            Ok((told, vec![(None, entry)]))
        })?;
        drop(before);
        self.settle(position)
    }

    /// The first half of a change: the next one builds on it. Also gives what was there before, to be dropped where
    /// nobody waits for that: it may have many rows. `staged` has the rows of the first entries; others bring theirs.
    pub(crate) fn append(
        &self,
        staged: Vec<Staged>,
        change: impl FnOnce(&mut Arc<Root>) -> Result<(Vec<CatalogChange>, Vec<(Option<Staged>, Option<Entry>)>)>,
    ) -> Result<(LogPosition, Arc<Root>)> {
        let mut head = self.head.lock();
        let mut root = head.root.clone();
        let (told, entries) = change(&mut root)?;
        let mut staged = staged.into_iter();
        let with_rows = |(own, entry): (Option<Staged>, Option<Entry>)| {
            let rows = own.or_else(|| staged.next()).unwrap_or_default();
            Some((rows, entry.filter(|entry| !entry.is_temporary())?))
        };
        let entries = entries.into_iter().filter_map(with_rows).collect::<Vec<_>>();
        // What is not kept is seen with what it builds on.
        let mut position = head.pending.back().map_or(0, |last| last.position);
        if let Some(journal) = self.journal.get().filter(|_| !entries.is_empty()) {
            position = match journal.append(entries) {
                Ok(position) => position,
                Err(error) => {
                    drop(head);
                    self.lose(journal);
                    return Err(error);
                }
            };
        }
        let before = std::mem::replace(&mut head.root, root.clone());
        head.pending.push_back(PendingChange { position, root, told });
        Ok((position, before))
    }

    /// The second half: statements see the change, as soon as it is where a crash leaves it.
    pub(crate) fn settle(&self, position: LogPosition) -> Result<()> {
        if let Some(journal) = self.journal.get().filter(|_| position > 0)
            && let Err(error) = journal.sync(position)
        {
            self.lose(journal);
            return Err(error);
        }
        self.publish(position);
        Ok(())
    }

    /// Shows statements all changes up to a position.
    fn publish(&self, position: LogPosition) {
        let mut head = self.head.lock();
        let published = self.publish_locked(&mut head, position);
        drop(head);
        self.announce(published);
    }

    fn publish_locked(&self, head: &mut Head, position: LogPosition) -> Vec<PendingChange> {
        let count = head.pending.partition_point(|pending| pending.position <= position);
        let mut published = head.pending.drain(..count).collect::<Vec<_>>();
        if let Some(last) = published.last_mut() {
            head.published = head.published.max(last.position);
            let forgotten = match self.inside.is_some() {
                true => Vec::new(),
                false => self.shared.history.goes_on(micros_now, &last.root),
            };
            std::mem::swap(&mut *self.root.write(), &mut last.root);
            // Dropped with what was seen before.
            let forgotten = forgotten.into_iter();
            published.extend(forgotten.map(|root| PendingChange { position: 0, root, told: vec![] }));
        }
        published
    }

    fn announce(&self, published: Vec<PendingChange>) {
        for PendingChange { root, told, .. } in published {
            // The last one of what was seen before may go with it, and its rows.
            drop(root);
            self.tell(&told);
        }
    }

    /// Undoes all changes that the journal has lost.
    fn lose(&self, journal: &Arc<dyn Journal>) {
        let mut head = self.head.lock();
        if !journal.has_lost() {
            return;
        }
        let published = self.publish_locked(&mut head, journal.synced());
        let lost = std::mem::take(&mut head.pending);
        // Whoever has seen lost changes finds out.
        let mut root = Root::clone(&self.root.read());
        root.losses += 1;
        head.root = Arc::new(root);
        *self.root.write() = head.root.clone();
        journal.forget_lost();
        drop(head);
        drop(lost);
        self.announce(published);
    }

    /// The rows of a statement on their way into the log.
    pub(crate) fn staged(&self, rows: &[NewRows]) -> Result<Staged> {
        let Some(journal) = self.journal.get() else { return Ok(Staged::default()) };
        journal.stage(rows).inspect_err(|_| self.lose(journal))
    }

    /// Runs something while nothing changes and all changes are kept and seen. Fails if one cannot be kept, and as
    /// `body` does.
    pub fn at_rest<T>(&self, body: impl FnOnce(CatalogSnapshot) -> Result<T>) -> Result<T> {
        let mut head = self.head.lock();
        let position = head.pending.back().map_or(0, |last| last.position);
        if let Some(journal) = self.journal.get().filter(|_| position > 0)
            && let Err(error) = journal.sync(position)
        {
            drop(head);
            self.lose(journal);
            return Err(error);
        }
        let published = self.publish_locked(&mut head, position);
        let done = body(CatalogSnapshot(head.root.clone()));
        drop(head);
        self.announce(published);
        done
    }

    pub(crate) fn journal(&self) -> Option<&Arc<dyn Journal>> {
        self.journal.get()
    }

    /// The names as statements see them, if they have all changes up to a place in the log; otherwise with all changes.
    /// Also the place of the last change among them that may still be lost; 0 if there is none.
    pub(crate) fn with_changes_to(&self, position: LogPosition) -> (Arc<Root>, LogPosition) {
        let head = self.head.lock();
        match head.pending.back().filter(|_| position > head.published) {
            Some(last) => (head.root.clone(), last.position),
            None => (self.root.read().clone(), 0),
        }
    }

    /// Whether statements see all changes up to a place in the log.
    pub(crate) fn has_published(&self, position: LogPosition) -> bool {
        position == 0 || position <= self.head.lock().published
    }

    /// The names with all changes, those that may still be lost included.
    pub(crate) fn newest(&self) -> Arc<Root> {
        self.head.lock().root.clone()
    }
}
