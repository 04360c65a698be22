//! Whole statements.

use super::generator::{Generator, NamedRelation, ScopeColumn};
use super::templates::TEMPLATES;
use super::types::SqlType;

impl Generator<'_> {
    /// A statement, with common table expressions at times.
    pub fn statement(&mut self) -> String {
        let mut with = Vec::new();
        if self.random.chance(12) {
            for _ in 0..1 + self.random.below(2) {
                with.push(self.common_table());
            }
        }
        if self.random.chance(4) {
            return self.recursive();
        }
        let query = match self.random.below(20) {
            0..6 => self.values_of_rows(),
            6..10 => self.plain(),
            10..13 => self.grouped(),
            13..16 => self.windows(),
            16 | 17 => self.set_operation(),
            18 => self.distinct(),
            _ => self.plain_values(),
        };
        if with.is_empty() { query } else { format!("WITH {} {query}", with.join(", ")) }
    }

    fn common_table(&mut self) -> String {
        let name = self.name('q');
        let scopes = std::mem::take(&mut self.scopes);
        let (query, columns) = self.within_subquery(Self::query_with_id);
        self.scopes = scopes;
        self.named.push(NamedRelation { name: name.clone(), columns });
        let how = self.random.pick(&["", "", "MATERIALIZED ", "NOT MATERIALIZED "]);
        format!("{name} AS {how}({query})")
    }

    /// A list of expressions, some with names.
    fn items(&mut self, count: usize, depth: usize) -> Vec<String> {
        (0..count)
            .map(|_| {
                let sql_type = self.any_type();
                let value = self.expression(sql_type, depth);
                if self.random.chance(50) { format!("{value} AS {}", self.name('c')) } else { value }
            })
            .collect()
    }

    /// Expressions over the rows of one table, or of none: every one is computed once for each row, so an error is one
    /// for both servers.
    fn values_of_rows(&mut self) -> String {
        self.is_risky = self.random.chance(30);
        self.subqueries_left = 0;
        let (count, depth) = (1 + self.random.below(2), 1 + self.random.below(3));
        if self.random.chance(25) {
            return format!("SELECT {}", self.items(count, depth).join(", "));
        }
        let table = self.random.pick(self.tables);
        let alias = self.name('r');
        let column =
            |(name, sql_type): &(&str, SqlType)| ScopeColumn { text: format!("{alias}.{name}"), sql_type: *sql_type };
        self.scopes.push(table.columns.iter().map(column).collect());
        let items = self.items(count, depth);
        format!("SELECT {alias}.id, {} FROM {} AS {alias} ORDER BY 1", items.join(", "), table.name)
    }

    fn direction(&mut self) -> &'static str {
        self.random.pick(&["", "", " DESC", " ASC", " NULLS FIRST", " DESC NULLS LAST"])
    }

    /// ORDER BY of all columns up to a number, by position, and a LIMIT or OFFSET.
    fn ordered(&mut self, columns: usize, may_limit: bool) -> String {
        let keys = (1..=columns).map(|position| format!("{position}{}", self.direction())).collect::<Vec<_>>();
        let limit = match self.random.below(4) {
            _ if !may_limit => String::new(),
            0 => format!(" LIMIT {}", self.random.below(6)),
            1 => format!(" LIMIT {} OFFSET {}", 1 + self.random.below(4), self.random.below(3)),
            2 => format!(" OFFSET {}", self.random.below(4)),
            _ => format!(" FETCH FIRST {} ROWS ONLY", 1 + self.random.below(4)),
        };
        format!(" ORDER BY {}{limit}", keys.join(", "))
    }

    fn plain(&mut self) -> String {
        let from = self.from(3);
        if self.random.chance(6) {
            return format!("SELECT * FROM {}{}", from.text, self.where_clause(60));
        }
        let count = 1 + self.random.below(3);
        let mut items = self.items(count, 2);
        let filter = self.where_clause(70);
        let order = match self.random.below(4) {
            0 => {
                let names: Vec<_> = from.ids.iter().map(|id| format!("{id} AS {}", self.name('i'))).collect();
                items.extend(names);
                self.ordered(items.len(), true)
            }
            1 => self.ordered(1, false),
            _ => String::new(),
        };
        format!("SELECT {} FROM {}{filter}{order}", items.join(", "), from.text)
    }

    fn distinct(&mut self) -> String {
        let from = self.from(2);
        let filter = self.where_clause(50);
        if self.random.chance(40) {
            let key = self.column(SqlType::Int4).unwrap_or_else(|| from.ids[0].clone());
            let items = self.items(2, 2).join(", ");
            let (text, ids, direction) = (&from.text, from.ids.join(", "), self.direction());
            return format!(
                "SELECT DISTINCT ON ({key}) {key}, {items} FROM {text}{filter} ORDER BY {key}{direction}, {ids}"
            );
        }
        let items = self.items(2, 1);
        let order = if self.random.chance(50) { self.ordered(items.len(), true) } else { String::new() };
        format!("SELECT DISTINCT {} FROM {}{filter}{order}", items.join(", "), from.text)
    }

    /// GROUP BY in all forms; expressions over keys and aggregates; HAVING.
    fn grouped(&mut self) -> String {
        let from = self.from(2);
        let filter = self.where_clause(50);
        let mut outputs = Vec::new();
        for _ in 0..self.random.below(3) {
            let sql_type = self.any_type();
            let column = self.column(sql_type);
            let key = match (column, self.random.chance(30)) {
                (Some(column), true) => format!("COALESCE({column}, {})", self.leaf(sql_type)),
                (Some(column), false) => column,
                (None, _) => continue,
            };
            outputs.push(ScopeColumn { text: key, sql_type });
        }
        outputs.dedup_by(|left, right| left.text == right.text);
        let keys: Vec<_> = outputs.iter().map(|output| output.text.clone()).collect();
        for _ in 0..1 + self.random.below(3) {
            let sql_type = self.aggregate_type();
            if let Some(text) = self.aggregate(sql_type, 1) {
                outputs.push(ScopeColumn { text, sql_type });
            }
        }
        let all = keys.join(", ");
        let (group, has_sets) = match (keys.as_slice(), self.random.below(8)) {
            ([], _) => (String::new(), false),
            (_, 0) => (format!(" GROUP BY ROLLUP ({all})"), true),
            (_, 1) => (format!(" GROUP BY CUBE ({all})"), true),
            (_, 2) => (format!(" GROUP BY GROUPING SETS (({all}), ({}), ())", keys[0]), true),
            ([first, second], 3) => (format!(" GROUP BY {first}, ROLLUP ({second})"), true),
            (_, _) => (format!(" GROUP BY {all}"), false),
        };
        let mut items: Vec<_> = outputs.iter().map(|output| output.text.clone()).collect();
        if has_sets {
            items.push(format!("GROUPING({all})"));
        }
        // What follows sees groups, not rows.
        let depth = self.subqueries_left;
        (self.scopes, self.subqueries_left) = (vec![outputs], 0);
        if self.random.chance(40) {
            items.extend(self.items(1, 1));
        }
        let having = if self.random.chance(25) { format!(" HAVING {}", self.condition(1)) } else { String::new() };
        self.subqueries_left = depth;
        let order = if self.random.chance(30) { self.ordered(items.len(), true) } else { String::new() };
        format!("SELECT {} FROM {}{filter}{group}{having}{order}", items.join(", "), from.text)
    }

    fn windows(&mut self) -> String {
        let from = self.from(2);
        let filter = self.where_clause(30);
        let ids = from.ids.join(", ");
        let mut items: Vec<_> = from.ids.clone();
        let mut definition = String::new();
        for _ in 0..1 + self.random.below(2) {
            let window = match self.random.below(10) {
                0..4 => self.ordered_window(&ids),
                4 | 5 => {
                    let template = &TEMPLATES.ranks[self.random.below(TEMPLATES.ranks.len())];
                    let function = self.of_template(template, SqlType::Int8, 1);
                    format!("{function} OVER ({}ORDER BY {})", self.partition(), self.sort_key())
                }
                6 if definition.is_empty() => {
                    definition = format!(" WINDOW w AS ({}ORDER BY {})", self.partition(), self.sort_key());
                    format!("{} OVER w", self.window_aggregate())
                }
                _ => {
                    let frame = self.frame(&ids);
                    format!("{} OVER ({}{frame})", self.window_aggregate(), self.partition())
                }
            };
            items.push(window);
        }
        format!("SELECT {} FROM {}{filter}{definition}", items.join(", "), from.text)
    }

    /// A function for which the order of all rows counts.
    fn ordered_window(&mut self, ids: &str) -> String {
        let template = &TEMPLATES.windows[self.random.below(TEMPLATES.windows.len())];
        let sql_type = self.any_type();
        let function = self.of_template(template, sql_type, 1);
        let (partition, key, direction) = (self.partition(), self.sort_key(), self.direction());
        let frame = if self.random.chance(30) { self.rows_frame() } else { String::new() };
        format!("{function} OVER ({partition}ORDER BY {key}{direction}, {ids}{frame})")
    }

    fn partition(&mut self) -> String {
        match self.random.chance(50) {
            true => format!("PARTITION BY {} ", self.sort_key()),
            false => String::new(),
        }
    }

    /// A column to sort or group by: a literal would be a position.
    fn sort_key(&mut self) -> String {
        let sql_type = self.any_type();
        let column = self.column(sql_type).or_else(|| self.column(SqlType::Int4));
        column.unwrap_or_else(|| "NULL::int4".to_owned())
    }

    fn window_aggregate(&mut self) -> String {
        let fitting: Vec<_> = TEMPLATES.aggregates.iter().filter(|template| template.is_for_windows()).collect();
        let template = fitting[self.random.below(fitting.len())];
        let sql_type = self.random.pick(&SqlType::ORDERED);
        let text = self.of_template(template, sql_type, 1);
        match self.random.chance(15) {
            true => format!("{text} FILTER (WHERE {})", self.condition(1)),
            false => text,
        }
    }

    fn rows_frame(&mut self) -> String {
        let from = ["UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW"];
        let to = ["CURRENT ROW", "1 FOLLOWING", "2 FOLLOWING", "UNBOUNDED FOLLOWING"];
        let (from, to, exclusion) = (self.random.pick(&from), self.random.pick(&to), self.exclusion());
        format!(" ROWS BETWEEN {from} AND {to}{exclusion}")
    }

    fn exclusion(&mut self) -> &'static str {
        let none = ["", "", ""];
        let some = [" EXCLUDE CURRENT ROW", " EXCLUDE GROUP", " EXCLUDE TIES", " EXCLUDE NO OTHERS"];
        if self.random.chance(70) { self.random.pick(&none) } else { self.random.pick(&some) }
    }

    /// The order and the frame of an aggregate over a window.
    fn frame(&mut self, ids: &str) -> String {
        match self.random.below(6) {
            0 => String::new(),
            1 => format!("ORDER BY {}{}", self.sort_key(), self.direction()),
            2 => format!("ORDER BY {}{}, {ids}{}", self.sort_key(), self.direction(), self.rows_frame()),
            3 => {
                let (key, direction, exclusion) = (self.sort_key(), self.direction(), self.exclusion());
                let from = self.random.pick(&["1 PRECEDING", "UNBOUNDED PRECEDING", "CURRENT ROW"]);
                let to = self.random.pick(&["1 FOLLOWING", "CURRENT ROW", "UNBOUNDED FOLLOWING"]);
                format!("ORDER BY {key}{direction} GROUPS BETWEEN {from} AND {to}{exclusion}")
            }
            _ => {
                let distances = [
                    (SqlType::Int4, "2"),
                    (SqlType::Numeric, "1.5"),
                    (SqlType::Float8, "1.0::float8"),
                    (SqlType::Date, "INTERVAL '40 days'"),
                    (SqlType::Timestamp, "INTERVAL '1 mon'"),
                ];
                let (sql_type, distance) = self.random.pick(&distances);
                let column = self.column(sql_type);
                let (key, distance) = match column {
                    Some(column) => (column, distance),
                    None => (self.column(SqlType::Int4).unwrap_or_else(|| ids.to_owned()), "1"),
                };
                let (direction, exclusion) = (self.direction(), self.exclusion());
                let to = self.random.pick(&["FOLLOWING", "FOLLOWING", ""]);
                let to = if to.is_empty() { "CURRENT ROW".to_owned() } else { format!("{distance} {to}") };
                format!("ORDER BY {key}{direction} RANGE BETWEEN {distance} PRECEDING AND {to}{exclusion}")
            }
        }
    }

    fn set_operation(&mut self) -> String {
        let types: Vec<_> = (0..1 + self.random.below(2)).map(|_| self.any_type()).collect();
        let mut text = String::new();
        for arm in 0..2 + self.random.below(2) {
            if arm > 0 {
                let operation = self.random.pick(&["UNION", "INTERSECT", "EXCEPT"]);
                text.push_str(&format!(" {operation}{} ", self.random.pick(&["", " ALL"])));
            }
            let scopes = self.scopes.len();
            let from = self.from(1);
            let items: Vec<_> = types.iter().map(|sql_type| self.value(*sql_type, 1)).collect();
            let filter = self.where_clause(40);
            self.scopes.truncate(scopes);
            let query = format!("SELECT {} FROM {}{filter}", items.join(", "), from.text);
            text.push_str(&if self.random.chance(30) { format!("({query})") } else { query });
        }
        if self.random.chance(50) {
            text.push_str(&self.ordered(types.len(), true));
        }
        text
    }

    fn plain_values(&mut self) -> String {
        let types: Vec<_> = (0..1 + self.random.below(3)).map(|_| self.any_type()).collect();
        let rows: Vec<_> = (0..1 + self.random.below(3))
            .map(|_| {
                let values = types.iter().map(|sql_type| self.value(*sql_type, 1)).collect::<Vec<_>>();
                format!("({})", values.join(", "))
            })
            .collect();
        format!("VALUES {}", rows.join(", "))
    }

    /// A recursive query: a counter with a value that each round computes from the last, or a walk along a table.
    fn recursive(&mut self) -> String {
        self.subqueries_left = 0;
        let (name, sql_type) = (self.name('q'), self.random.pick(&SqlType::ORDERED));
        let (cast, rounds) = (sql_type.name(), 2 + self.random.below(4));
        let start = self.expression(sql_type, 1);
        let column = |text: &str, sql_type| ScopeColumn { text: text.to_owned(), sql_type };
        let (union, table) = (self.random.pick(&["UNION ALL", "UNION"]), self.random.pick(self.tables).name);
        let walks = self.random.chance(40);
        self.scopes.push(match walks {
            true => vec![column("r.k", SqlType::Int4), column("q.x", sql_type), column("q.i", SqlType::Int4)],
            false => vec![column("i", SqlType::Int4), column("x", sql_type)],
        });
        let step = self.expression(sql_type, 2);
        let body = match walks {
            true => format!(
                "SELECT q.i + 1, ({step})::{cast} FROM {name} AS q JOIN {table} AS r ON r.id = q.i WHERE q.i < {rounds}"
            ),
            false => format!("SELECT i + 1, ({step})::{cast} FROM {name} WHERE i < {rounds}"),
        };
        format!(
            "WITH RECURSIVE {name}(i, x) AS (SELECT 1, ({start})::{cast} {union} {body}) SELECT i, x FROM {name} ORDER BY 1"
        )
    }
}
