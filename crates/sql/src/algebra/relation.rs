//! What can be asked of a relation, and how one becomes another.

use std::collections::{BTreeSet, HashMap};

use super::{Apply, Column, ColumnId, Join, JoinKind, Numbers, Relation, Scalar};

impl Relation {
    /// One row without columns.
    pub(crate) fn one_row() -> Self {
        Self::Values { columns: vec![], rows: vec![vec![]] }
    }

    /// The rows for which a condition is true; the relation itself if it always is.
    pub(crate) fn filtered(self, condition: Scalar) -> Self {
        match condition.as_constant().and_then(super::Constant::as_bool) {
            Some(true) => self,
            _ => Self::Filter { input: Box::new(self), condition },
        }
    }

    /// With computed columns; the relation itself if there are none.
    pub(crate) fn mapped(self, columns: Vec<(Column, Scalar)>) -> Self {
        if columns.is_empty() { self } else { Self::Map { input: Box::new(self), columns } }
    }

    /// With computed columns of which some read others that stand before them.
    pub(crate) fn mapped_one_by_one(self, columns: Vec<(Column, Scalar)>) -> Self {
        let (mut relation, mut layer) = (self, Vec::<(Column, Scalar)>::new());
        for (column, scalar) in columns {
            let read = scalar.columns();
            if layer.iter().any(|(before, _)| read.contains(&before.id)) {
                relation = relation.mapped(std::mem::take(&mut layer));
            }
            layer.push((column, scalar));
        }
        relation.mapped(layer)
    }

    /// The relations right below.
    pub(crate) fn inputs(&self) -> Vec<&Relation> {
        match self {
            Self::Scan(_) | Self::Values { .. } | Self::With(_) => vec![],
            Self::Map { input, .. }
            | Self::Filter { input, .. }
            | Self::Distinct { input, .. }
            | Self::Sort { input, .. } => vec![input],
            Self::Join(join) => vec![&join.left, &join.right],
            Self::Apply(apply) => vec![&apply.left, &apply.right],
            Self::Aggregate(aggregate) => vec![&aggregate.input],
            Self::Window(window) => vec![&window.input],
            Self::Limit(limit) => vec![&limit.input],
            Self::Set(set) => set.inputs.iter().map(|(input, _)| input).collect(),
            Self::Recursive(recursive) => vec![&recursive.base.0, &recursive.step.0],
            Self::Definitions { definitions, input } => {
                definitions.iter().map(|(_, relation, _)| relation).chain([input.as_ref()]).collect()
            }
            Self::TableFunction(function) => vec![&function.input],
        }
    }

    /// The same, to be changed.
    pub(crate) fn inputs_mut(&mut self) -> Vec<&mut Relation> {
        match self {
            Self::Scan(_) | Self::Values { .. } | Self::With(_) => vec![],
            Self::Map { input, .. }
            | Self::Filter { input, .. }
            | Self::Distinct { input, .. }
            | Self::Sort { input, .. } => vec![input],
            Self::Join(join) => vec![&mut join.left, &mut join.right],
            Self::Apply(apply) => vec![&mut apply.left, &mut apply.right],
            Self::Aggregate(aggregate) => vec![&mut aggregate.input],
            Self::Window(window) => vec![&mut window.input],
            Self::Limit(limit) => vec![&mut limit.input],
            Self::Set(set) => set.inputs.iter_mut().map(|(input, _)| input).collect(),
            Self::Recursive(recursive) => vec![&mut recursive.base.0, &mut recursive.step.0],
            Self::Definitions { definitions, input } => {
                definitions.iter_mut().map(|(_, relation, _)| relation).chain([input.as_mut()]).collect()
            }
            Self::TableFunction(function) => vec![&mut function.input],
        }
    }

    /// The expressions of this operator, those of its inputs not included.
    pub(crate) fn scalars(&self) -> Vec<&Scalar> {
        match self {
            Self::Scan(_) | Self::With(_) | Self::Set(_) | Self::Recursive(_) | Self::Definitions { .. } => vec![],
            Self::Distinct { .. } => vec![],
            Self::Values { rows, .. } => rows.iter().flatten().collect(),
            Self::Map { columns, .. } => columns.iter().map(|(_, scalar)| scalar).collect(),
            Self::Filter { condition, .. } => vec![condition],
            Self::Join(Join { on, .. }) | Self::Apply(Apply { on, .. }) => vec![on],
            Self::Aggregate(aggregate) => {
                let groups = aggregate.groups.iter().map(|(_, scalar)| scalar);
                let items = aggregate.aggregates.iter().flat_map(|(_, item)| {
                    item.arguments.iter().chain(&item.filter).chain(item.order.iter().map(|key| &key.scalar))
                });
                groups.chain(items).collect()
            }
            Self::Window(window) => {
                let keys = window.partition.iter().chain(window.order.iter().map(|key| &key.scalar));
                let items = window.items.iter().flat_map(|(_, item)| item.scalars());
                keys.chain(items).collect()
            }
            Self::Sort { keys, .. } => keys.iter().map(|key| &key.scalar).collect(),
            Self::Limit(limit) => {
                let ties = limit.ties.iter().flatten().map(|key| &key.scalar);
                limit.skip.iter().chain(&limit.fetch).chain(ties).collect()
            }
            Self::TableFunction(function) => function.items.iter().map(|item| &item.array).collect(),
        }
    }

    /// The same, to be changed.
    pub(crate) fn scalars_mut(&mut self) -> Vec<&mut Scalar> {
        match self {
            Self::Scan(_) | Self::With(_) | Self::Set(_) | Self::Recursive(_) | Self::Definitions { .. } => vec![],
            Self::Distinct { .. } => vec![],
            Self::Values { rows, .. } => rows.iter_mut().flatten().collect(),
            Self::Map { columns, .. } => columns.iter_mut().map(|(_, scalar)| scalar).collect(),
            Self::Filter { condition, .. } => vec![condition],
            Self::Join(Join { on, .. }) | Self::Apply(Apply { on, .. }) => vec![on],
            Self::Aggregate(aggregate) => {
                let groups = aggregate.groups.iter_mut().map(|(_, scalar)| scalar);
                let items = aggregate.aggregates.iter_mut().flat_map(|(_, item)| {
                    let order = item.order.iter_mut().map(|key| &mut key.scalar);
                    item.arguments.iter_mut().chain(&mut item.filter).chain(order)
                });
                groups.chain(items).collect()
            }
            Self::Window(window) => {
                let keys = window.partition.iter_mut().chain(window.order.iter_mut().map(|key| &mut key.scalar));
                let items = window.items.iter_mut().flat_map(|(_, item)| item.scalars_mut());
                keys.chain(items).collect()
            }
            Self::Sort { keys, .. } => keys.iter_mut().map(|key| &mut key.scalar).collect(),
            Self::Limit(limit) => {
                let ties = limit.ties.iter_mut().flatten().map(|key| &mut key.scalar);
                limit.skip.iter_mut().chain(&mut limit.fetch).chain(ties).collect()
            }
            Self::TableFunction(function) => function.items.iter_mut().map(|item| &mut item.array).collect(),
        }
    }

    /// The columns that come out, in order.
    pub(crate) fn columns(&self) -> Vec<Column> {
        match self {
            Self::Scan(scan) => scan.columns.iter().map(|(_, column)| column.clone()).collect(),
            Self::Values { columns, .. } => columns.clone(),
            Self::With(table) => table.columns.clone(),
            Self::Map { input, columns } => {
                let mut all = input.columns();
                all.extend(columns.iter().map(|(column, _)| column.clone()));
                all
            }
            Self::Filter { input, .. } | Self::Sort { input, .. } | Self::Definitions { input, .. } => input.columns(),
            Self::Limit(limit) => limit.input.columns(),
            Self::Distinct { input, on, keeps_all } => {
                let columns = input.columns();
                if *keeps_all {
                    return columns;
                }
                let found = on.iter().map(|id| columns.iter().find(|column| column.id == *id).cloned());
                found.flatten().collect()
            }
            Self::Join(join) => joined_columns(&join.kind, &join.left, &join.right),
            Self::Apply(apply) => joined_columns(&apply.kind, &apply.left, &apply.right),
            Self::Aggregate(aggregate) => {
                let groups = aggregate.groups.iter().map(|(column, _)| column.clone());
                let index = aggregate.sets.iter().map(|sets| sets.set_index.clone());
                let items = aggregate.aggregates.iter().map(|(column, _)| column.clone());
                groups.chain(index).chain(items).collect()
            }
            Self::Window(window) => {
                let mut all = window.input.columns();
                all.extend(window.items.iter().map(|(column, _)| column.clone()));
                all
            }
            Self::Set(set) => set.columns.clone(),
            Self::Recursive(recursive) => recursive.columns.clone(),
            Self::TableFunction(function) => {
                let mut all = function.input.columns();
                all.extend(function.items.iter().flat_map(|item| item.columns.iter().cloned()));
                all.extend(function.ordinality.clone());
                all
            }
        }
    }

    /// The numbers of the columns that come out.
    pub(crate) fn column_ids(&self) -> BTreeSet<ColumnId> {
        self.columns().into_iter().map(|column| column.id).collect()
    }

    /// The columns that it reads from around it: those that nothing in it produces.
    pub(crate) fn free_columns(&self) -> BTreeSet<ColumnId> {
        let mut read = BTreeSet::new();
        let mut produced = BTreeSet::new();
        self.collect(&mut read, &mut produced);
        read.difference(&produced).copied().collect()
    }

    /// Whether it reads columns from around it.
    pub(crate) fn is_correlated(&self) -> bool {
        !self.free_columns().is_empty()
    }

    fn collect(&self, read: &mut BTreeSet<ColumnId>, produced: &mut BTreeSet<ColumnId>) {
        for scalar in self.scalars() {
            scalar.add_columns(read);
        }
        // Numbers are unique in a statement, so what is produced anywhere below is not read from around.
        match self {
            Self::Distinct { on, .. } => read.extend(on),
            Self::Set(set) => set.inputs.iter().for_each(|(_, columns)| read.extend(columns)),
            Self::Recursive(recursive) => read.extend(recursive.base.1.iter().chain(&recursive.step.1)),
            _ => {}
        }
        produced.extend(self.produced());
        for input in self.inputs() {
            input.collect(read, produced);
        }
    }

    /// The columns that this operator itself makes.
    pub(crate) fn produced(&self) -> Vec<ColumnId> {
        match self {
            Self::Scan(scan) => scan.columns.iter().map(|(_, column)| column.id).collect(),
            Self::Values { columns, .. } => columns.iter().map(|column| column.id).collect(),
            Self::With(table) => table.columns.iter().map(|column| column.id).collect(),
            Self::Map { columns, .. } => columns.iter().map(|(column, _)| column.id).collect(),
            Self::Join(Join { kind, .. }) | Self::Apply(Apply { kind, .. }) => match kind {
                JoinKind::Mark(mark) => vec![mark.id],
                _ => vec![],
            },
            Self::Aggregate(aggregate) => {
                let groups = aggregate.groups.iter().map(|(column, _)| column.id);
                let index = aggregate.sets.iter().map(|sets| sets.set_index.id);
                groups.chain(index).chain(aggregate.aggregates.iter().map(|(column, _)| column.id)).collect()
            }
            Self::Window(window) => window.items.iter().map(|(column, _)| column.id).collect(),
            Self::Set(set) => set.columns.iter().map(|column| column.id).collect(),
            Self::Recursive(recursive) => recursive.columns.iter().map(|column| column.id).collect(),
            Self::TableFunction(function) => {
                let columns = function.items.iter().flat_map(|item| &item.columns).chain(&function.ordinality);
                columns.map(|column| column.id).collect()
            }
            Self::Filter { .. }
            | Self::Distinct { .. }
            | Self::Sort { .. }
            | Self::Limit(_)
            | Self::Definitions { .. } => vec![],
        }
    }

    /// Replaces columns that come from around the relation by expressions, where `replacement` has one.
    pub(crate) fn substitute_free(&mut self, replacement: &dyn Fn(ColumnId) -> Option<Scalar>) {
        for scalar in self.scalars_mut() {
            let taken = std::mem::replace(scalar, Scalar::boolean(false));
            *scalar = taken.substituted(replacement);
        }
        for input in self.inputs_mut() {
            input.substitute_free(replacement);
        }
    }

    /// A copy whose columns have new numbers, and the new column of each old one.
    pub(crate) fn with_new_ids(&self, numbers: &Numbers) -> (Relation, HashMap<ColumnId, ColumnId>) {
        let mut copy = self.clone();
        let mut renamed = HashMap::new();
        copy.number_anew(numbers, &mut renamed);
        let map = renamed.clone();
        copy.rename(&map);
        (copy, renamed)
    }

    /// An expression whose subqueries have numbers by the order of their parts: those of two that are written alike are
    /// equal, though each was bound by itself.
    pub(crate) fn numbered_alike(scalar: &Scalar) -> Scalar {
        let numbers = Numbers::beyond();
        let column = numbers.named("", scalar.sql_type(), true);
        match Self::one_row().mapped(vec![(column, scalar.clone())]).with_new_ids(&numbers) {
            (Self::Map { mut columns, .. }, _) if columns.len() == 1 => columns.remove(0).1,
            _ => scalar.clone(),
        }
    }

    /// Whether two expressions are written alike: subqueries in them may have been bound one by one.
    pub(crate) fn are_alike(one: &Scalar, other: &Scalar) -> bool {
        one == other
            || one.has_subquery() && other.has_subquery() && Self::numbered_alike(one) == Self::numbered_alike(other)
    }

    /// Gives every produced column a new number, and notes which.
    fn number_anew(&mut self, numbers: &Numbers, renamed: &mut HashMap<ColumnId, ColumnId>) {
        for id in self.produced() {
            renamed.entry(id).or_insert_with(|| numbers.column());
        }
        for scalar in self.scalars() {
            scalar.visit(&mut |part| {
                if let Scalar::Subquery(subquery) = part {
                    let mut inner = subquery.relation.clone();
                    inner.number_anew(numbers, renamed);
                }
            });
        }
        for input in self.inputs_mut() {
            input.number_anew(numbers, renamed);
        }
    }

    /// Replaces the numbers of columns, produced and read, by others.
    pub(crate) fn rename(&mut self, renamed: &HashMap<ColumnId, ColumnId>) {
        let new = |id: &mut ColumnId| {
            if let Some(other) = renamed.get(id) {
                *id = *other;
            }
        };
        for scalar in self.scalars_mut() {
            rename_scalar(scalar, renamed);
        }
        match self {
            Self::Scan(scan) => scan.columns.iter_mut().for_each(|(_, column)| new(&mut column.id)),
            Self::Values { columns, .. } => columns.iter_mut().for_each(|column| new(&mut column.id)),
            Self::With(table) => table.columns.iter_mut().for_each(|column| new(&mut column.id)),
            Self::Map { columns, .. } => columns.iter_mut().for_each(|(column, _)| new(&mut column.id)),
            Self::Join(Join { kind: JoinKind::Mark(mark), .. })
            | Self::Apply(Apply { kind: JoinKind::Mark(mark), .. }) => new(&mut mark.id),
            Self::Aggregate(aggregate) => {
                aggregate.groups.iter_mut().for_each(|(column, _)| new(&mut column.id));
                aggregate.sets.iter_mut().for_each(|sets| new(&mut sets.set_index.id));
                aggregate.aggregates.iter_mut().for_each(|(column, _)| new(&mut column.id));
            }
            Self::Window(window) => window.items.iter_mut().for_each(|(column, _)| new(&mut column.id)),
            Self::Distinct { on, .. } => on.iter_mut().for_each(new),
            Self::Set(set) => {
                set.columns.iter_mut().for_each(|column| new(&mut column.id));
                set.inputs.iter_mut().for_each(|(_, columns)| columns.iter_mut().for_each(new));
            }
            Self::Recursive(recursive) => {
                recursive.columns.iter_mut().for_each(|column| new(&mut column.id));
                recursive.base.1.iter_mut().chain(&mut recursive.step.1).for_each(new);
            }
            Self::Definitions { definitions, .. } => definitions
                .iter_mut()
                .for_each(|(_, _, columns)| columns.iter_mut().for_each(|column| new(&mut column.id))),
            Self::TableFunction(function) => {
                let columns = function.items.iter_mut().flat_map(|item| &mut item.columns);
                columns.chain(&mut function.ordinality).for_each(|column| new(&mut column.id));
            }
            Self::Join(_) | Self::Apply(_) | Self::Filter { .. } | Self::Sort { .. } | Self::Limit(_) => {}
        }
        for input in self.inputs_mut() {
            input.rename(renamed);
        }
    }
}

fn rename_scalar(scalar: &mut Scalar, renamed: &HashMap<ColumnId, ColumnId>) {
    match scalar {
        Scalar::Column { id, .. } => {
            if let Some(other) = renamed.get(id) {
                *id = *other;
            }
        }
        Scalar::Subquery(subquery) => {
            subquery.relation.rename(renamed);
            for column in &mut subquery.columns {
                if let Some(other) = renamed.get(&column.id) {
                    column.id = *other;
                }
            }
        }
        _ => {}
    }
    for child in scalar.children_mut() {
        rename_scalar(child, renamed);
    }
}

fn joined_columns(kind: &JoinKind, left: &Relation, right: &Relation) -> Vec<Column> {
    let padded = |relation: &Relation| {
        relation.columns().into_iter().map(|column| Column { nullable: true, ..column }).collect::<Vec<_>>()
    };
    match kind {
        JoinKind::Inner => [left.columns(), right.columns()].concat(),
        JoinKind::Left | JoinKind::Single => [left.columns(), padded(right)].concat(),
        JoinKind::Full => [padded(left), padded(right)].concat(),
        JoinKind::Semi | JoinKind::Anti => left.columns(),
        JoinKind::Mark(mark) => [left.columns(), vec![mark.clone()]].concat(),
    }
}
