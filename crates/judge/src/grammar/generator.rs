//! The state of generating one statement, and expressions.

use diligence_base::seams::Random;

use super::tables::Table;
use super::templates::{Part, Slot, TEMPLATES, Template};
use super::types::SqlType;

/// Subqueries within each other at most.
pub const SUBQUERIES_MAX: usize = 3;

/// A column that an expression may use, by the text that means it.
#[derive(Clone, Debug)]
pub struct ScopeColumn {
    /// Its text, qualified where it must be.
    pub text: String,
    /// Its type.
    pub sql_type: SqlType,
}

/// A relation with a name that FROM may use: a common table expression.
#[derive(Clone, Debug)]
pub struct NamedRelation {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<(String, SqlType)>,
}

/// Generates one statement from a seed.
pub struct Generator<'a> {
    /// Where all choices come from.
    pub random: Random,
    /// The tables.
    pub tables: &'a [Table],
    /// Common table expressions in reach.
    pub named: Vec<NamedRelation>,
    /// The columns in reach: those of the innermost query last.
    pub scopes: Vec<Vec<ScopeColumn>>,
    /// How many subqueries may still be put into each other.
    pub subqueries_left: usize,
    /// Whether values may be such that computing with them fails.
    pub is_risky: bool,
    names: usize,
}

impl<'a> Generator<'a> {
    /// The generator of the statement that belongs to a seed.
    pub fn new(seed: u64, tables: &'a [Table]) -> Self {
        Self {
            random: Random::new(seed),
            tables,
            named: Vec::new(),
            scopes: Vec::new(),
            subqueries_left: SUBQUERIES_MAX,
            is_risky: false,
            names: 0,
        }
    }

    /// A name that the statement does not have yet.
    pub fn name(&mut self, letter: char) -> String {
        self.names += 1;
        format!("{letter}{}", self.names)
    }

    /// Any type; mostly one of which there is a column.
    pub fn any_type(&mut self) -> SqlType {
        let columns = self.scopes.last().filter(|scope| !scope.is_empty()).cloned();
        match columns {
            Some(columns) if self.random.chance(70) => self.random.pick(&columns).sql_type,
            _ => self.random.pick(&SqlType::ALL),
        }
    }

    /// An expression of a type.
    pub fn expression(&mut self, wanted: SqlType, depth: usize) -> String {
        if depth == 0 || self.random.chance(12) {
            return self.leaf(wanted);
        }
        if self.subqueries_left > 0 && !self.scopes.is_empty() && self.random.chance(9) {
            return self.subquery(wanted);
        }
        let is_risky = self.is_risky;
        let fitting: Vec<&Template> = TEMPLATES
            .functions
            .iter()
            .filter(|template| template.gives(wanted) && (is_risky || !template.is_risky))
            .collect();
        if fitting.is_empty() {
            return self.leaf(wanted);
        }
        let template = fitting[self.random.below(fitting.len())];
        let text = self.of_template(template, wanted, depth - 1);
        if template.is_operator { format!("({text})") } else { text }
    }

    /// A condition.
    pub fn condition(&mut self, depth: usize) -> String {
        self.expression(SqlType::Bool, depth)
    }

    /// A value by a template, for which its variable stands for a type.
    pub fn of_template(&mut self, template: &Template, wanted: SqlType, depth: usize) -> String {
        let variable = match template.result {
            Slot::Variable(_) => wanted,
            _ if template.variable().is_empty() => wanted,
            _ => self.random.pick(template.variable()),
        };
        let mut first = None;
        let mut text = String::new();
        for part in &template.parts {
            let piece = match part {
                Part::Text(text) => text.clone(),
                Part::Choice(choices) => self.random.pick(choices),
                Part::TypeName => variable.name().to_owned(),
                Part::First => first.clone().unwrap_or_default(),
                Part::Value(slot) => {
                    let value = match slot {
                        Slot::Of(sql_type) => self.expression(*sql_type, depth),
                        Slot::Small => self.small(),
                        Slot::Variable(_) => self.expression(variable, depth),
                    };
                    first.get_or_insert_with(|| value.clone());
                    value
                }
            };
            text.push_str(&piece);
        }
        text
    }

    fn small(&mut self) -> String {
        self.random.below(6).to_string()
    }

    /// A column or a literal.
    pub fn leaf(&mut self, wanted: SqlType) -> String {
        if self.random.chance(70)
            && let Some(column) = self.column(wanted)
        {
            return column;
        }
        self.literal(wanted)
    }

    /// A column of a type, mostly of the innermost query that has one.
    pub fn column(&mut self, wanted: SqlType) -> Option<String> {
        let fitting = |scope: &Vec<ScopeColumn>| {
            let columns = scope.iter().filter(|column| column.sql_type == wanted);
            columns.map(|column| column.text.clone()).collect::<Vec<_>>()
        };
        let scopes: Vec<_> = self.scopes.iter().rev().map(fitting).filter(|columns| !columns.is_empty()).collect();
        let first = scopes.first()?;
        let columns = if self.random.chance(70) { first.clone() } else { scopes.concat() };
        Some(self.random.pick(&columns))
    }

    /// A literal, sometimes NULL.
    pub fn literal(&mut self, wanted: SqlType) -> String {
        match self.random.below(100) {
            0..2 => "NULL".to_owned(),
            2..12 => format!("NULL::{}", wanted.name()),
            _ => {
                let values = wanted.values();
                // Half of the values are ordinary ones.
                let bound = if self.random.chance(50) { values.len().min(3) } else { values.len() };
                wanted.literal(values[self.random.below(bound)])
            }
        }
    }

    /// An aggregate of a type, if there is one; with FILTER at times.
    pub fn aggregate(&mut self, wanted: SqlType, depth: usize) -> Option<String> {
        let fitting: Vec<_> = TEMPLATES.aggregates.iter().filter(|template| template.gives(wanted)).collect();
        if fitting.is_empty() {
            return None;
        }
        let template = fitting[self.random.below(fitting.len())];
        let mut text = self.of_template(template, wanted, depth);
        if self.random.chance(20) {
            text = format!("{text} FILTER (WHERE {})", self.condition(depth));
        }
        Some(text)
    }

    /// A type that aggregates give.
    pub fn aggregate_type(&mut self) -> SqlType {
        let types: Vec<_> = SqlType::ALL
            .into_iter()
            .filter(|wanted| TEMPLATES.aggregates.iter().any(|template| template.gives(*wanted)))
            .collect();
        self.random.pick(&types)
    }

    /// A subquery as a value, which may depend on the queries around it.
    fn subquery(&mut self, wanted: SqlType) -> String {
        if wanted == SqlType::Bool && self.random.chance(80) {
            return self.subquery_condition();
        }
        self.within_subquery(|generator| {
            let from = generator.from(1);
            let filter = generator.where_clause(60);
            match generator.random.chance(50).then(|| generator.aggregate(wanted, 1)).flatten() {
                Some(aggregate) => format!("(SELECT {aggregate} FROM {}{filter})", from.text),
                None => {
                    let value = generator.expression(wanted, 1);
                    format!("(SELECT {value} FROM {}{filter} ORDER BY {} LIMIT 1)", from.text, from.ids.join(", "))
                }
            }
        })
    }

    fn subquery_condition(&mut self) -> String {
        let negation = if self.random.chance(40) { "NOT " } else { "" };
        if self.random.chance(45) {
            return self.within_subquery(|generator| {
                let from = generator.from(2);
                format!("({negation}EXISTS (SELECT 1 FROM {}{}))", from.text, generator.where_clause(90))
            });
        }
        let compared = self.any_type();
        let left = self.expression(compared, 1);
        let how = match self.random.below(3) {
            0 => format!("{negation}IN"),
            1 => format!("{} ANY", self.random.pick(&["=", "<", ">=", "<>"])),
            _ => format!("{} ALL", self.random.pick(&["=", "<", ">=", "<>"])),
        };
        self.within_subquery(|generator| {
            let from = generator.from(1);
            let value = generator.expression(compared, 1);
            format!("({left} {how} (SELECT {value} FROM {}{}))", from.text, generator.where_clause(60))
        })
    }

    /// Generates a query within the one at hand; its columns are out of reach afterwards.
    pub fn within_subquery<T>(&mut self, generate: impl FnOnce(&mut Self) -> T) -> T {
        let scopes = self.scopes.len();
        let is_risky = std::mem::replace(&mut self.is_risky, false);
        self.subqueries_left = self.subqueries_left.saturating_sub(1);
        let made = generate(self);
        self.subqueries_left += 1;
        self.is_risky = is_risky;
        self.scopes.truncate(scopes);
        made
    }

    /// A WHERE in so many of 100 cases, with a space before it; often one that depends on the query around.
    pub fn where_clause(&mut self, percent: usize) -> String {
        if !self.random.chance(percent) {
            return String::new();
        }
        let scopes = self.scopes.len();
        let mut condition = self.condition(2);
        if scopes > 1 && self.random.chance(60) {
            let inner = self.scopes[scopes - 1].iter().find(|column| column.text.ends_with(".k")).cloned();
            let outer = self.scopes[scopes - 2].iter().find(|column| column.sql_type == SqlType::Int4).cloned();
            if let (Some(inner), Some(outer)) = (inner, outer) {
                let operator = self.random.pick(&["=", "=", "<", "<>", ">="]);
                let correlation = format!("{} {operator} {}", inner.text, outer.text);
                condition = match self.random.chance(50) {
                    true => correlation,
                    false => format!("{correlation} {} {condition}", self.random.pick(&["AND", "AND", "OR"])),
                };
            }
        }
        format!(" WHERE {condition}")
    }
}
