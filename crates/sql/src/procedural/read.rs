//! A body's text becomes a block.

mod cursors;

use diligence_base::{Error, Result};

use super::words::{Kind, Word, words};
use super::{
    Block, Computed, Condition, Declaration, DeclaredType, Handler, Into, Loop, NameConflict, Over, Raise, Rows, Sql,
    Step, Target,
};

/// Blocks and loops within each other at most.
const DEPTH_MAX: usize = 256;

/// The block of a body in PL/pgSQL. Fails with 42601 where it is none.
pub fn read(body: &str) -> Result<Block> {
    let (conflict, body) = options(body)?;
    let mut reader = Reader::new(body)?;
    let block = reader.block()?;
    reader.skip(";");
    match reader.peek() {
        None => Ok(Block { conflict, has_current: may_name_current(body), ..block }),
        Some(_) => Err(reader.wrong()),
    }
}

/// Whether `CURRENT OF` stands anywhere in a body, in a text or a comment as well.
fn may_name_current(body: &str) -> bool {
    let mut before = "";
    body.split_whitespace().any(|word| {
        let is_named = before.eq_ignore_ascii_case("current") && word.eq_ignore_ascii_case("of");
        before = word;
        is_named
    })
}

/// What stands before a block: `#variable_conflict` and other lines that begin so, which change nothing here. Fails
/// with 42601 for lines that PostgreSQL does not know.
fn options(body: &str) -> Result<(NameConflict, &str)> {
    let (mut conflict, mut rest) = (NameConflict::default(), body);
    while let Some(line) = rest.trim_start().strip_prefix('#') {
        let end = line.find('\n').unwrap_or(line.len());
        let (option, behind) = line.split_at(end);
        match option.to_lowercase().split_whitespace().collect::<Vec<_>>().as_slice() {
            ["variable_conflict", "error"] => conflict = NameConflict::Refused,
            ["variable_conflict", "use_variable"] => conflict = NameConflict::Variable,
            ["variable_conflict", "use_column"] => conflict = NameConflict::Column,
            ["option", "dump"] | ["print_strict_params", "on" | "off"] => {}
            words => {
                let near = words.last().copied().unwrap_or_default();
                return Err(Error::input(format!("syntax error at or near \"{near}\"")).with_code("42601"));
            }
        }
        rest = behind;
    }
    Ok((conflict, rest))
}

/// A block of statements of SQL, of which the last gives rows if `gives` says so.
pub fn statements(texts: Vec<String>, gives: bool) -> Block {
    let count = texts.len();
    let texts = texts.into_iter().enumerate().map(|(number, text)| Sql { number, text });
    let steps = texts.map(|sql| match sql.number + 1 == count {
        true if gives => Step::ReturnRows(Rows::Of(sql)),
        _ => Step::Statement(sql, None),
    });
    let conflict = NameConflict::Column;
    Block { steps: steps.collect(), is_sql: true, conflict, ..Block::default() }
}

struct Reader<'t> {
    body: &'t str,
    words: Vec<Word<'t>>,
    at: usize,
    /// Texts of SQL so far.
    texts: usize,
    depth: usize,
    /// The cursors that have been declared.
    cursors: Vec<String>,
}

impl<'t> Reader<'t> {
    fn new(body: &'t str) -> Result<Self> {
        Ok(Self { body, words: words(body)?, at: 0, texts: 0, depth: 0, cursors: Vec::new() })
    }

    fn peek(&self) -> Option<&Word<'t>> {
        self.words.get(self.at)
    }

    /// Whether a keyword or a sign stands there.
    fn is_at(&self, at: usize, wanted: &str) -> bool {
        self.words.get(at).is_some_and(|word| match &word.kind {
            Kind::Name(name) => name == wanted,
            Kind::Sign => word.text == wanted,
            Kind::Quoted(_) | Kind::Text(_) => false,
        })
    }

    fn is(&self, wanted: &str) -> bool {
        self.is_at(self.at, wanted)
    }

    fn are(&self, wanted: &[&str]) -> bool {
        wanted.iter().enumerate().all(|(index, word)| self.is_at(self.at + index, word))
    }

    fn skip(&mut self, wanted: &str) -> bool {
        let is = self.is(wanted);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, wanted: &str) -> Result<()> {
        if self.skip(wanted) { Ok(()) } else { Err(self.wrong()) }
    }

    fn wrong(&self) -> Error {
        let message = match self.peek() {
            Some(word) => format!("syntax error at or near \"{}\"", word.text),
            None => "syntax error at end of input".to_owned(),
        };
        let line = self.body[..self.peek().map_or(self.body.len(), |word| word.at)].matches('\n').count() + 1;
        Error::input(message).with_code("42601").with_detail(format!("It is in line {line} of the function's body."))
    }

    fn name(&mut self) -> Result<String> {
        let is_place = |text: &str| text.len() > 1 && text.starts_with('$');
        let name = match self.peek().map(|word| (&word.kind, word.text)) {
            Some((Kind::Name(name) | Kind::Quoted(name), _)) => name.clone(),
            // A parameter without a name, or with one.
            Some((Kind::Sign, text)) if is_place(text) => text.to_owned(),
            _ => return Err(self.wrong()),
        };
        self.at += 1;
        Ok(name)
    }

    /// What stands between two places, as it is written.
    fn written(&self, from: usize, to: usize) -> String {
        match (self.words.get(from), self.words.get(to.wrapping_sub(1))) {
            (Some(first), Some(last)) if from < to => self.body[first.at..last.at + last.text.len()].to_owned(),
            _ => String::new(),
        }
    }

    fn sql(&mut self, text: String) -> Sql {
        self.texts += 1;
        Sql { number: self.texts, text }
    }

    /// Where the first of these words stands that is in no parentheses and in no CASE.
    fn end_at(&self, stops: &[&str]) -> Result<usize> {
        let (mut at, mut depth, mut cases) = (self.at, 0_usize, 0_usize);
        while at < self.words.len() {
            if depth == 0 && cases == 0 && stops.iter().any(|stop| self.is_at(at, stop)) {
                return Ok(at);
            }
            if ["(", "["].iter().any(|open| self.is_at(at, open)) {
                depth += 1;
            } else if [")", "]"].iter().any(|close| self.is_at(at, close)) {
                depth = depth.saturating_sub(1);
            } else if self.is_at(at, "case") {
                cases += 1;
            } else if self.is_at(at, "end") {
                cases = cases.saturating_sub(1);
            } else if self.is_at(at, ";") {
                break;
            }
            at += 1;
        }
        let end = Self { body: self.body, words: self.words.clone(), at, texts: 0, depth: 0, cursors: Vec::new() };
        Err(end.wrong())
    }

    /// The text up to one of these words. Fails with 42601 if there is none.
    fn until(&mut self, stops: &[&str]) -> Result<Sql> {
        let end = self.end_at(stops)?;
        if end == self.at {
            return Err(self.wrong());
        }
        let text = self.written(self.at, end);
        self.at = end;
        Ok(self.sql(text))
    }

    fn label(&mut self) -> Result<Option<String>> {
        if !self.skip("<<") {
            return Ok(None);
        }
        let name = self.name()?;
        self.expect(">>")?;
        Ok(Some(name))
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            return Err(Error::input("the function's body nests too deep").with_code("54001"));
        }
        self.depth += 1;
        let done = read(self);
        self.depth -= 1;
        done
    }

    fn block(&mut self) -> Result<Block> {
        let label = self.label()?;
        self.block_of(label)
    }

    fn block_of(&mut self, label: Option<String>) -> Result<Block> {
        self.deeper(|reader| {
            let mut declarations = Vec::new();
            if reader.skip("declare") {
                while !reader.is("begin") {
                    if !reader.skip("declare") {
                        declarations.push(reader.declaration()?);
                    }
                }
            }
            reader.expect("begin")?;
            let steps = reader.steps(&["end", "exception"])?;
            let mut handlers = Vec::new();
            if reader.skip("exception") {
                while reader.skip("when") {
                    handlers.push(reader.handler()?);
                }
            }
            reader.expect("end")?;
            if !reader.is(";") && reader.peek().is_some() {
                reader.name()?;
            }
            Ok(Block { label, declarations, steps, handlers, ..Block::default() })
        })
    }

    fn handler(&mut self) -> Result<Handler> {
        let mut conditions = vec![self.condition()?];
        while self.skip("or") {
            conditions.push(self.condition()?);
        }
        self.expect("then")?;
        Ok(Handler { conditions, steps: self.steps(&["when", "end"])? })
    }

    fn condition(&mut self) -> Result<Condition> {
        let name = self.name()?;
        if name == "sqlstate" {
            let Some(Kind::Text(code)) = self.peek().map(|word| word.kind.clone()) else { return Err(self.wrong()) };
            self.at += 1;
            return Ok(Condition::Code(code));
        }
        Ok(if name == "others" { Condition::Others } else { Condition::Named(name) })
    }

    fn declaration(&mut self) -> Result<Declaration> {
        let name = self.name()?;
        if self.are(&["alias", "for"]) {
            self.at += 2;
            let of = DeclaredType::Alias(match self.peek().map(|word| (&word.kind, word.text)) {
                Some((Kind::Sign, text)) if text.starts_with('$') => {
                    self.at += 1;
                    text.to_owned()
                }
                _ => self.name()?,
            });
            self.expect(";")?;
            return Ok(Declaration { name, of, is_constant: false, is_required: false, default: None });
        }
        if let Some(cursor) = self.cursor(&name)? {
            return Ok(cursor);
        }
        let is_constant = self.skip("constant");
        let end = self.end_at(&["not", "default", ":=", "=", ";", "collate"])?;
        let of = self.declared_type(end)?;
        self.at = end;
        if self.skip("collate") {
            self.name()?;
        }
        let is_required = self.are(&["not", "null"]);
        self.at += if is_required { 2 } else { 0 };
        let has_default = self.skip("default") || self.skip(":=") || self.skip("=");
        let default = if has_default { Some(self.until(&[";"])?) } else { None };
        self.expect(";")?;
        Ok(Declaration { name, of, is_constant, is_required, default })
    }

    /// The type that stands up to a place.
    fn declared_type(&self, end: usize) -> Result<DeclaredType> {
        if end == self.at {
            return Err(self.wrong());
        }
        if end == self.at + 1 && self.is("record") {
            return Ok(DeclaredType::Record);
        }
        if end > self.at + 2 && self.is_at(end - 2, "%") {
            let named = self.written(self.at, end - 2);
            if self.is_at(end - 1, "type") {
                return Ok(DeclaredType::TypeOf(named));
            }
            if self.is_at(end - 1, "rowtype") {
                return Ok(DeclaredType::RowOf(named));
            }
        }
        if end == self.at + 1 && self.is("refcursor") {
            return Ok(DeclaredType::Named("text".to_owned()));
        }
        Ok(DeclaredType::Named(self.written(self.at, end)))
    }

    /// Steps up to one of these words.
    fn steps(&mut self, ends: &[&str]) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        while !ends.iter().any(|end| self.is(end)) {
            if self.peek().is_none() {
                return Err(self.wrong());
            }
            steps.push(self.deeper(Self::step)?);
        }
        Ok(steps)
    }

    fn step(&mut self) -> Result<Step> {
        let label = self.label()?;
        if self.is("declare") || self.is("begin") {
            let block = self.block_of(label)?;
            self.expect(";")?;
            return Ok(Step::Block(block));
        }
        if ["loop", "while", "for", "foreach"].iter().any(|word| self.is(word)) {
            return self.looped(label);
        }
        if label.is_some() {
            return Err(self.wrong());
        }
        let step = self.simple()?;
        self.expect(";")?;
        Ok(step)
    }

    fn simple(&mut self) -> Result<Step> {
        if let Some(end) = self.assignment() {
            return self.assigned(end);
        }
        let keyword = match self.peek().map(|word| &word.kind) {
            Some(Kind::Name(name)) => name.clone(),
            _ => return Err(self.wrong()),
        };
        let begin = self.at;
        self.at += 1;
        Ok(match keyword.as_str() {
            "null" => Step::Nothing,
            "if" => self.choice()?,
            "case" => self.case()?,
            "exit" | "continue" => {
                let label = if self.is(";") || self.is("when") { None } else { Some(self.name()?) };
                let when = if self.skip("when") { Some(self.until(&[";"])?) } else { None };
                Step::Leave { label, is_exit: keyword == "exit", when }
            }
            "return" => self.returned()?,
            "raise" => Step::Raise(self.raise()?),
            "assert" => {
                let condition = self.until(&[",", ";"])?;
                let message = if self.skip(",") { Some(self.until(&[";"])?) } else { None };
                Step::Assert(condition, message)
            }
            "perform" => {
                let rest = self.until(&[";"])?;
                Step::Perform(Sql { text: format!("SELECT {}", rest.text), ..rest })
            }
            "execute" => {
                let text = self.until(&["into", "using", ";"])?;
                let mut into = if self.skip("into") { Some(self.into()?) } else { None };
                let using = self.using()?;
                if into.is_none() && self.skip("into") {
                    into = Some(self.into()?);
                }
                Step::Execute(Computed { text, using }, into)
            }
            "get" => self.diagnostics()?,
            "open" | "fetch" | "move" | "close" => self.cursor_step(&keyword)?,
            "commit" | "rollback" => {
                let _ = self.skip("work") || self.skip("transaction");
                let mut chains = false;
                if self.skip("and") {
                    chains = !self.skip("no");
                    self.expect("chain")?;
                }
                Step::EndTransaction { commits: keyword == "commit", chains }
            }
            _ => {
                self.at = begin;
                self.statement()?
            }
        })
    }

    /// Where the sign of an assignment stands, if this is one: `a := …`, `a.b[1] = …`.
    fn assignment(&self) -> Option<usize> {
        let mut at = self.at;
        if !matches!(self.words.get(at)?.kind, Kind::Name(_) | Kind::Quoted(_)) {
            return None;
        }
        at += 1;
        loop {
            if self.is_at(at, ".") {
                at += 2;
            } else if self.is_at(at, "[") {
                let mut depth = 0_usize;
                loop {
                    depth += usize::from(self.is_at(at, "["));
                    depth -= usize::from(self.is_at(at, "]"));
                    at += 1;
                    if depth == 0 {
                        break;
                    }
                    self.words.get(at)?;
                }
            } else {
                break;
            }
        }
        (self.is_at(at, ":=") || self.is_at(at, "=")).then_some(at)
    }

    fn assigned(&mut self, sign: usize) -> Result<Step> {
        let target = self.target()?;
        if self.at != sign {
            return Err(self.wrong());
        }
        self.at += 1;
        Ok(Step::Assign { target, value: self.until(&[";"])? })
    }

    fn target(&mut self) -> Result<Target> {
        let mut target = Target { name: self.name()?, fields: Vec::new(), elements: Vec::new() };
        while self.skip(".") {
            target.fields.push(self.name()?);
        }
        while self.skip("[") {
            let end = self.end_at(&["]"])?;
            target.elements.push(self.written(self.at, end));
            self.at = end + 1;
        }
        Ok(target)
    }

    fn targets(&mut self) -> Result<Vec<Target>> {
        let mut targets = vec![self.target()?];
        while self.skip(",") {
            targets.push(self.target()?);
        }
        Ok(targets)
    }

    fn into(&mut self) -> Result<Into> {
        let is_strict = self.skip("strict");
        Ok(Into { targets: self.targets()?, is_strict })
    }

    fn using(&mut self) -> Result<Vec<Sql>> {
        let mut values = Vec::new();
        if self.skip("using") {
            loop {
                values.push(self.until(&[",", "into", "loop", ";"])?);
                if !self.skip(",") {
                    break;
                }
            }
        }
        Ok(values)
    }

    fn choice(&mut self) -> Result<Step> {
        let mut arms = Vec::new();
        loop {
            let condition = self.until(&["then"])?;
            self.expect("then")?;
            arms.push((condition, self.steps(&["elsif", "elseif", "else", "end"])?));
            if !self.skip("elsif") && !self.skip("elseif") {
                break;
            }
        }
        let otherwise = if self.skip("else") { self.steps(&["end"])? } else { Vec::new() };
        self.expect("end")?;
        self.expect("if")?;
        Ok(Step::If { arms, otherwise: Some(otherwise) })
    }

    fn case(&mut self) -> Result<Step> {
        let subject = if self.is("when") { None } else { Some(self.until(&["when"])?.text) };
        let mut arms = Vec::new();
        while self.skip("when") {
            let given = self.until(&["then"])?;
            let condition = match &subject {
                None => given,
                Some(subject) => Sql { text: format!("({subject}) IN ({})", given.text), ..given },
            };
            self.expect("then")?;
            arms.push((condition, self.steps(&["when", "else", "end"])?));
        }
        let otherwise = if self.skip("else") { Some(self.steps(&["end"])?) } else { None };
        self.expect("end")?;
        self.expect("case")?;
        Ok(Step::If { arms, otherwise })
    }

    fn looped(&mut self, label: Option<String>) -> Result<Step> {
        let over = if self.skip("while") {
            Over::While(self.until(&["loop"])?)
        } else if self.skip("foreach") {
            let target = self.target()?;
            let mut slice = 0;
            if self.skip("slice") {
                let said = self.until(&["in"])?;
                slice = said.text.trim().parse().map_err(|_| {
                    Error::input(format!("{} is no number of dimensions", said.text.trim())).with_code("42601")
                })?;
            }
            self.expect("in")?;
            self.expect("array")?;
            Over::Elements { target, slice, array: self.until(&["loop"])? }
        } else if self.skip("for") {
            self.counted()?
        } else {
            Over::Forever
        };
        self.expect("loop")?;
        let steps = self.steps(&["end"])?;
        self.expect("end")?;
        self.expect("loop")?;
        if !self.is(";") {
            self.name()?;
        }
        self.expect(";")?;
        Ok(Step::Loop(Loop { label, over, steps }))
    }

    fn counted(&mut self) -> Result<Over> {
        let targets = self.targets()?;
        self.expect("in")?;
        if self.skip("execute") {
            let text = self.until(&["using", "loop"])?;
            return Ok(Over::Rows { targets, rows: Rows::Computed(Computed { text, using: self.using()? }) });
        }
        if self.comes_cursor() {
            let name = self.name()?;
            return Ok(Over::Rows { targets, rows: Rows::Cursor { name, arguments: self.cursor_arguments()? } });
        }
        let is_reverse = self.skip("reverse");
        let end = self.end_at(&["loop"])?;
        let is_range = (self.at..end).any(|at| self.is_at(at, ".."));
        let [Target { name, .. }] = targets.as_slice() else {
            return Ok(Over::Rows { targets, rows: Rows::Of(self.until(&["loop"])?) });
        };
        if !is_range {
            return Ok(Over::Rows { targets, rows: Rows::Of(self.until(&["loop"])?) });
        }
        let name = name.clone();
        let from = self.until(&[".."])?;
        self.expect("..")?;
        let to = self.until(&["by", "loop"])?;
        let by = if self.skip("by") { Some(self.until(&["loop"])?) } else { None };
        Ok(Over::Range { name, from, to, by, is_reverse })
    }

    fn returned(&mut self) -> Result<Step> {
        if self.skip("next") {
            return Ok(Step::ReturnNext(if self.is(";") { None } else { Some(self.until(&[";"])?) }));
        }
        if self.skip("query") {
            if self.skip("execute") {
                let text = self.until(&["using", ";"])?;
                return Ok(Step::ReturnRows(Rows::Computed(Computed { text, using: self.using()? })));
            }
            return Ok(Step::ReturnRows(Rows::Of(self.until(&[";"])?)));
        }
        Ok(Step::Return(if self.is(";") { None } else { Some(self.until(&[";"])?) }))
    }

    fn raise(&mut self) -> Result<Raise> {
        const LEVELS: [&str; 6] = ["debug", "log", "info", "notice", "warning", "exception"];
        let level = LEVELS.into_iter().find(|level| self.skip(level)).unwrap_or("exception").to_owned();
        let mut raise = Raise { level, condition: None, format: None, values: Vec::new(), options: Vec::new() };
        match self.peek().map(|word| word.kind.clone()) {
            Some(Kind::Text(format)) => {
                self.at += 1;
                raise.format = Some(format);
                while self.skip(",") {
                    raise.values.push(self.until(&[",", "using", ";"])?);
                }
            }
            Some(Kind::Name(name)) if name != "using" => raise.condition = Some(self.condition()?),
            _ => {}
        }
        if self.skip("using") {
            loop {
                let name = self.name()?;
                if !self.skip("=") {
                    self.expect(":=")?;
                }
                raise.options.push((name, self.until(&[",", ";"])?));
                if !self.skip(",") {
                    break;
                }
            }
        }
        Ok(raise)
    }

    fn diagnostics(&mut self) -> Result<Step> {
        let _ = self.skip("stacked") || self.skip("current");
        self.expect("diagnostics")?;
        let mut items = Vec::new();
        loop {
            let target = self.target()?;
            if !self.skip("=") {
                self.expect(":=")?;
            }
            items.push((target, self.name()?));
            if !self.skip(",") {
                return Ok(Step::Diagnostics(items));
            }
        }
    }

    /// A statement of SQL; what stands in INTO is taken out of it.
    fn statement(&mut self) -> Result<Step> {
        let begin = self.at;
        let end = self.end_at(&[";"])?;
        let (mut at, mut depth, mut into) = (begin, 0_usize, None);
        while at < end {
            depth += usize::from(self.is_at(at, "("));
            depth = depth.saturating_sub(usize::from(self.is_at(at, ")")));
            let is_part = at > begin && (self.is_at(at - 1, "insert") || self.is_at(at - 1, "merge"));
            if depth == 0 && self.is_at(at, "into") && !is_part && !self.is_at(begin, "create") {
                into = Some(at);
                break;
            }
            at += 1;
        }
        let Some(at) = into else {
            let text = self.written(begin, end);
            self.at = end;
            return Ok(Step::Statement(self.sql(text), None));
        };
        self.at = at + 1;
        let into = self.into()?;
        let text = format!("{} {}", self.written(begin, at), self.written(self.at, end));
        self.at = end;
        Ok(Step::Statement(self.sql(text), Some(into)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procedural::{CursorStep, CursorWay};

    #[test]
    fn statements_keep_their_text_and_lose_their_targets() {
        let block = read(
            "<<outer>> DECLARE a int := 1; r t%ROWTYPE; b CONSTANT text NOT NULL DEFAULT 'x'; c t.id%TYPE; BEGIN
               SELECT x, y INTO STRICT a, r.b FROM t WHERE z = a; INSERT INTO t VALUES (1) RETURNING id INTO a;
               r.v[a + 1] := CASE WHEN a > 1 THEN 2 END; a = 4;
               FOR i IN REVERSE 10 .. a*2 BY 2 LOOP EXIT outer WHEN i = 3; END LOOP;
               FOR r IN SELECT * FROM t LOOP CONTINUE; END LOOP;
               CASE a WHEN 1, 2 THEN NULL; ELSE PERFORM f(a); END CASE;
               RAISE NOTICE 'a % b', a USING HINT = 'h' || a;
               EXECUTE 'SELECT $1' INTO a USING a + 1, 2;
             EXCEPTION WHEN unique_violation OR SQLSTATE '22012' THEN RAISE; WHEN OTHERS THEN NULL; END outer;",
        )
        .unwrap();
        assert_eq!(block.label.as_deref(), Some("outer"));
        assert_eq!(block.declarations[1].of, DeclaredType::RowOf("t".to_owned()));
        assert_eq!(block.declarations[3].of, DeclaredType::TypeOf("t.id".to_owned()));
        assert!(block.declarations[2].is_constant && block.declarations[2].is_required);
        let Step::Statement(sql, Some(into)) = &block.steps[0] else { panic!("no SELECT INTO") };
        assert_eq!((sql.text.as_str(), into.is_strict), ("SELECT x, y FROM t WHERE z = a", true));
        assert_eq!(into.targets[1].fields, ["b"]);
        let Step::Statement(sql, Some(_)) = &block.steps[1] else { panic!("no RETURNING INTO") };
        assert_eq!(sql.text.trim(), "INSERT INTO t VALUES (1) RETURNING id");
        let Step::Assign { target, value } = &block.steps[2] else { panic!("no assignment") };
        assert_eq!((target.elements[0].as_str(), value.text.as_str()), ("a + 1", "CASE WHEN a > 1 THEN 2 END"));
        let Step::Loop(Loop { over: Over::Range { from, to, by, is_reverse, .. }, .. }) = &block.steps[4] else {
            panic!("no range")
        };
        assert_eq!((from.text.as_str(), to.text.as_str(), is_reverse), ("10", "a*2", &true));
        assert_eq!(by.as_ref().map(|by| by.text.as_str()), Some("2"));
        let Step::If { arms, .. } = &block.steps[6] else { panic!("no CASE") };
        assert_eq!(arms[0].0.text, "(a) IN (1, 2)");
        assert_eq!(block.handlers[0].conditions[1], Condition::Code("22012".to_owned()));
        assert_eq!(block.handlers[1].conditions, [Condition::Others]);
    }

    #[test]
    fn what_is_no_body_is_refused_with_its_place() {
        for wrong in
            ["SELECT 1", "BEGIN x := ; END", "BEGIN IF a THEN END", "BEGIN NULL; END; x", "DECLARE a; BEGIN END"]
        {
            assert_eq!(read(wrong).unwrap_err().code(), Some("42601"), "{wrong}");
        }
        let ends = |step: &Step| match step {
            Step::EndTransaction { commits, chains } => Some((*commits, *chains)),
            _ => None,
        };
        let block = read("BEGIN COMMIT; ROLLBACK AND CHAIN; COMMIT AND NO CHAIN; END").unwrap();
        let wanted = [Some((true, false)), Some((false, true)), Some((true, false))];
        assert_eq!(block.steps.iter().map(ends).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn cursors_are_declared_opened_and_read() {
        let text = "DECLARE c SCROLL CURSOR (a INT, b TEXT) FOR SELECT 1; d refcursor; x INT; \
                    BEGIN OPEN c(1, b := 'x'); FETCH PRIOR FROM c INTO x; FETCH RELATIVE -2 FROM c INTO x; \
                    MOVE FORWARD ALL FROM c; CLOSE c; OPEN d FOR SELECT 2; FETCH d INTO x; \
                    FOR r IN c(1, 'y') LOOP NULL; END LOOP; END";
        let block = read(text).unwrap();
        assert!(!block.has_current && read("BEGIN DELETE FROM t WHERE Current\n OF c; END").unwrap().has_current);
        let DeclaredType::Cursor { parameters, query } = &block.declarations[0].of else { panic!("no cursor") };
        assert_eq!((parameters.len(), parameters[1].1.as_str(), query.text.as_str()), (2, "TEXT", "SELECT 1"));
        let Step::Cursor(CursorStep::Open { arguments, rows: None, .. }) = &block.steps[0] else { panic!("no OPEN") };
        assert_eq!(arguments[1].0.as_deref(), Some("b"));
        let way = |step: usize| match &block.steps[step] {
            Step::Cursor(CursorStep::Fetch { way, .. } | CursorStep::Move { way, .. }) => way.clone(),
            _ => panic!("step {step} goes nowhere"),
        };
        assert!(matches!(way(1), CursorWay::By(None, -1)));
        assert!(matches!(way(2), CursorWay::By(Some(sql), 1) if sql.text == "-2"));
        assert!(matches!((way(3), way(6)), (CursorWay::All, CursorWay::By(None, 1))));
        let Step::Loop(Loop { over: Over::Rows { rows: Rows::Cursor { arguments, .. }, .. }, .. }) = &block.steps[7]
        else {
            panic!("no loop over a cursor")
        };
        assert_eq!(arguments.len(), 2);
        assert_eq!(read("BEGIN FETCH ALL FROM c INTO x; END").unwrap_err().code(), Some("42601"));
    }
}
