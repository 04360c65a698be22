//! The same rows with other columns, under other rules.

use super::*;

impl NativeTable {
    /// The same rows with other columns, under other rules; new indexes are those that were made `ahead`. Fails as
    /// [`with_rules`](Self::with_rules) does, and with code 23502 if a column has NULL that may not.
    pub(crate) fn altered(
        &self,
        alteration: &TableAlteration,
        ahead: Option<&IndexesAhead>,
        memory: Option<&Reservation>,
        version: TableVersion,
    ) -> Result<Self> {
        let TableAlteration { name, columns, places, rules } = alteration;
        let schema = table_schema(columns);
        let ColumnIds { ids, next } = &self.declared.columns;
        let mut ids = ColumnIds { ids: ids.clone(), next: *next };
        ids.ids = places
            .iter()
            .map(|place| place.and_then(|place| self.declared.columns.ids.get(place)).copied())
            .map(|known| {
                known.unwrap_or_else(|| {
                    ids.next += 1;
                    ids.next - 1
                })
            })
            .collect();
        let (own_name, own_rules) = (name.clone(), rules.clone());
        let (origin, key_store) = (self.declared.origin, self.declared.key_store.clone());
        let declared = Declared::new(own_name, schema.clone(), own_rules, ids, origin, key_store)?;
        let mut views = Views::default();
        let null_in = |column: &str| {
            let message = format!("column \"{column}\" of relation \"{}\" contains null values", name.name);
            let about = About {
                schema: Some(name.schema.clone()),
                table: Some(name.name.clone()),
                column: Some(column.to_owned()),
                ..About::default()
            };
            Error::value(message).with_code("23502").with_about(about)
        };
        let mut pieces = self.pieces().to_vec();
        for piece in &mut pieces {
            let stored = match piece.rows() {
                PieceRows::Memory(batch) => {
                    let batch = moved(batch, places, &schema)?;
                    let batch = conform(&batch, &schema, name).map_err(|error| match &error.about().column {
                        Some(column) => null_in(column),
                        None => error,
                    })?;
                    *piece = piece.with_rows(PieceRows::Memory(batch));
                    continue;
                }
                PieceRows::Stored(stored) => stored.clone(),
            };
            let view = views.of(stored.view.segment(), &declared);
            *piece = piece.with_rows(PieceRows::Stored(StoredRows { view, ..stored }));
            for (column, (field, place)) in schema.fields().iter().zip(places).enumerate() {
                let was_required = place.is_some_and(|place| !self.schema().field(place).is_nullable());
                if !field.is_nullable() && !was_required && piece.read_columns(&[column])?.column(0).null_count() > 0 {
                    return Err(null_in(field.name()));
                }
            }
        }
        // A key's index is that of the same columns before.
        let old = |column: &String| {
            let place = places.get(schema.index_of(column).ok()?).copied().flatten()?;
            self.schema().fields().get(place).map(|field| field.name().clone())
        };
        let mut indexes = Vec::with_capacity(rules.keys.len());
        for key in &rules.keys {
            let columns = key.columns.iter().map(old).collect::<Option<Vec<_>>>();
            // What is computed is the same only if nothing that it is computed from has got another name.
            let is_as_it_was = |known: &rules::Key| match (&known.computed, &key.computed) {
                (None, None) => Some(&known.columns) == columns.as_ref(),
                (Some(before), Some(now)) => {
                    let kept = |column: &String| old(column).as_ref() == Some(column);
                    known.columns == key.columns && before == now && now.function.columns().iter().all(kept)
                }
                _ => false,
            };
            let same = |known: &rules::Key| {
                is_as_it_was(known)
                    && known.nulls_are_equal == key.nulls_are_equal
                    && known.kind.is_unique() == key.kind.is_unique()
                    && known.operators() == key.operators()
            };
            let known = self.rules().keys.iter().position(same);
            indexes.push(match known.and_then(|place| self.rows.indexes.get(place)) {
                Some(index) => index.clone(),
                None => {
                    let ahead = ahead.map(|ahead| ahead.caught_up(key, self, &pieces, self.key_space(memory)));
                    match ahead.transpose()?.flatten() {
                        Some(index) => index,
                        None => indexed(key, &schema, name, &pieces, self.key_space(memory))?,
                    }
                }
            });
        }
        Ok(Self::of(Arc::new(declared), pieces, self.rows.next_number, version, indexes))
    }
}
