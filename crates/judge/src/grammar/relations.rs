//! FROM: tables, derived tables, functions and VALUES, joined in all ways.

use super::generator::{Generator, NamedRelation, ScopeColumn};
use super::types::SqlType;

/// A FROM whose columns are the innermost scope of the generator.
pub struct From {
    /// The text after FROM.
    pub text: String,
    /// Columns that together tell all rows apart.
    pub ids: Vec<String>,
}

/// One relation of a FROM. Its column `id` tells its rows apart.
struct Relation {
    text: String,
    alias: String,
    columns: Vec<(String, SqlType)>,
}

impl Relation {
    fn scope(&self) -> impl Iterator<Item = ScopeColumn> + '_ {
        let column = |(name, sql_type): &(String, SqlType)| ScopeColumn {
            text: format!("{}.{name}", self.alias),
            sql_type: *sql_type,
        };
        self.columns.iter().map(column)
    }

    fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|(column, sql_type)| column == name && *sql_type == SqlType::Int4)
    }

    fn id(&self) -> String {
        format!("{}.id", self.alias)
    }
}

impl Generator<'_> {
    /// A FROM of at most so many relations, which opens a scope.
    pub fn from(&mut self, relations_max: usize) -> From {
        let first = self.relation();
        let mut from = From { text: first.text.clone(), ids: vec![first.id()] };
        self.scopes.push(first.scope().collect());
        let mut relations = vec![first];
        let count = 1 + self.random.below(relations_max);
        while relations.len() < count {
            let (join, relation) = self.join(&relations);
            from.text.push_str(&join);
            from.ids.push(relation.id());
            relations.push(relation);
        }
        from
    }

    /// A join to what stands before it, and the relation that it adds to the scope.
    fn join(&mut self, before: &[Relation]) -> (String, Relation) {
        if self.subqueries_left > 0 && self.random.chance(15) {
            return self.lateral();
        }
        let relation = self.relation();
        let text = &relation.text;
        let shares = |name| before.len() == 1 && before[0].has(name) && relation.has(name);
        let kind = self.random.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "INNER JOIN", "LEFT OUTER JOIN"]);
        let is_natural = shares("k")
            && before[0].columns.iter().all(|(name, _)| {
                ["id", "k"].contains(&name.as_str()) || !relation.columns.iter().any(|(other, _)| other == name)
            });
        let joined = match self.random.below(10) {
            0 => format!(" CROSS JOIN {text}"),
            1 => format!(", {text}"),
            2 if is_natural && relation.has("id") && before[0].has("id") => format!(" NATURAL {kind} {text}"),
            2 | 3 if shares("k") => format!(" {kind} {text} USING (k)"),
            _ => {
                let key = |relation: &Relation| if relation.has("k") { "k" } else { "id" };
                let left = &before[self.random.below(before.len())];
                let mut condition = format!("{}.{} = {}.{}", left.alias, key(left), relation.alias, key(&relation));
                // A FULL JOIN of PostgreSQL needs an equation, and a comma before hides what is left of it.
                let both: Vec<_> = relation.scope().collect();
                if let Some(scope) = self.scopes.last_mut() {
                    scope.extend(both.iter().cloned());
                }
                if kind != "FULL JOIN" && self.random.chance(50) {
                    let other = self.condition(1);
                    condition = match self.random.below(3) {
                        0 => other,
                        1 => format!("{condition} OR {other}"),
                        _ => format!("{condition} AND {other}"),
                    };
                }
                return (format!(" {kind} {text} ON {condition}"), relation);
            }
        };
        if let Some(scope) = self.scopes.last_mut() {
            scope.extend(relation.scope());
        }
        (joined, relation)
    }

    /// A derived table that may use what stands before it.
    fn lateral(&mut self) -> (String, Relation) {
        let mut derived = self.derived(true);
        derived.text = match self.random.below(3) {
            0 => format!(" CROSS JOIN LATERAL {}", derived.text),
            1 => format!(", LATERAL {}", derived.text),
            _ => format!(" LEFT JOIN LATERAL {} ON {}", derived.text, self.random.pick(&["true", "true", "1 = 1"])),
        };
        if let Some(scope) = self.scopes.last_mut() {
            scope.extend(derived.scope());
        }
        (derived.text.clone(), derived)
    }

    fn relation(&mut self) -> Relation {
        match self.random.below(20) {
            0..3 if self.subqueries_left > 0 => self.derived(false),
            3 => self.values(),
            4 => {
                let alias = self.name('r');
                let (from, to, step) = (self.random.below(3), 2 + self.random.below(4), 1 + self.random.below(2));
                let text = format!("generate_series({from}, {to}, {step}) AS {alias}(id)");
                Relation { text, alias, columns: vec![("id".to_owned(), SqlType::Int4)] }
            }
            5 => {
                let alias = self.name('r');
                let text = format!("unnest(ARRAY['b', 'a', NULL, 'a']) WITH ORDINALITY AS {alias}(e, id)");
                Relation {
                    text,
                    alias,
                    columns: vec![("e".to_owned(), SqlType::Text), ("id".to_owned(), SqlType::Int8)],
                }
            }
            6..10 if !self.named.is_empty() => {
                let NamedRelation { name, columns } = self.random.pick(&self.named);
                let alias = self.name('r');
                Relation { text: format!("{name} AS {alias}"), alias, columns }
            }
            _ => {
                let table = self.random.pick(self.tables);
                let alias = self.name('r');
                let columns = table.columns.iter().map(|(name, sql_type)| ((*name).to_owned(), *sql_type)).collect();
                Relation { text: format!("{} AS {alias}", table.name), alias, columns }
            }
        }
    }

    fn values(&mut self) -> Relation {
        let alias = self.name('r');
        let (column, sql_type) = (self.name('c'), self.any_type());
        let count = 1 + self.random.below(4);
        let rows = (0..count).map(|row| format!("({}, {})", row + 1, self.typed_literal(sql_type)));
        let text = format!("(VALUES {}) AS {alias}(id, {column})", rows.collect::<Vec<_>>().join(", "));
        Relation { text, alias, columns: vec![("id".to_owned(), SqlType::Int4), (column, sql_type)] }
    }

    /// A literal that tells its type: a column of nothing but NULL would be text.
    fn typed_literal(&mut self, sql_type: SqlType) -> String {
        match self.literal(sql_type) {
            null if null == "NULL" => format!("NULL::{}", sql_type.name()),
            literal => literal,
        }
    }

    /// A subquery as a relation; if it is lateral, it may use what is in reach.
    fn derived(&mut self, is_lateral: bool) -> Relation {
        let hidden = if is_lateral { Vec::new() } else { std::mem::take(&mut self.scopes) };
        let (text, columns) = self.within_subquery(Self::query_with_id);
        if !is_lateral {
            self.scopes = hidden;
        }
        let alias = self.name('r');
        Relation { text: format!("({text}) AS {alias}"), alias, columns }
    }

    /// A query with a column `id` that tells its rows apart.
    pub fn query_with_id(&mut self) -> (String, Vec<(String, SqlType)>) {
        let from = self.from(1);
        let filter = self.where_clause(50);
        let count = 1 + self.random.below(2);
        if self.random.chance(35) {
            let key = self.column(SqlType::Int4).unwrap_or_else(|| from.ids[0].clone());
            let mut items = vec![format!("{key} AS id")];
            let mut columns = vec![("id".to_owned(), SqlType::Int4)];
            for _ in 0..count {
                let sql_type = self.aggregate_type();
                if let Some(aggregate) = self.aggregate(sql_type, 1) {
                    let name = self.name('c');
                    items.push(format!("{aggregate} AS {name}"));
                    columns.push((name, sql_type));
                }
            }
            return (format!("SELECT {} FROM {}{filter} GROUP BY {key}", items.join(", "), from.text), columns);
        }
        let mut items = vec![format!("{} AS id", from.ids[0])];
        let id_type = self.scopes.last().and_then(|scope| scope.iter().find(|column| column.text == from.ids[0]));
        let mut columns = vec![("id".to_owned(), id_type.map_or(SqlType::Int4, |column| column.sql_type))];
        for _ in 0..count {
            let (sql_type, name) = (self.any_type(), self.name('c'));
            items.push(format!("{} AS {name}", self.value(sql_type, 2)));
            columns.push((name, sql_type));
        }
        let limit = match self.random.chance(25) {
            true => format!(" ORDER BY {} LIMIT {}", from.ids[0], 1 + self.random.below(4)),
            false => String::new(),
        };
        (format!("SELECT {} FROM {}{filter}{limit}", items.join(", "), from.text), columns)
    }

    /// An expression that is not a bare NULL, whose type nobody could tell.
    pub fn value(&mut self, sql_type: SqlType, depth: usize) -> String {
        match self.expression(sql_type, depth) {
            null if null == "NULL" => format!("NULL::{}", sql_type.name()),
            value => value,
        }
    }
}
