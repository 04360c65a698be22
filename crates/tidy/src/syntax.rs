//! What a Rust file declares and names: modules, types, functions, imports, paths.
//!
//! It follows braces rather than a grammar, and errs on the side of seeing too much. What only tests see
//! (`#[cfg(test)]`, `#[test]`) is left out, whatever it is.

use std::collections::BTreeSet;

use crate::lexer::{Token, TokenKind, tokens};

/// From where a declaration can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Visibility {
    /// From its module.
    #[default]
    Private,
    /// From a part of its crate.
    Restricted,
    /// From everywhere, if its module can.
    Public,
}

/// What a module holds, of one file or of one pair of braces.
#[derive(Debug, Default)]
pub struct ModuleText {
    /// Its name; of a file that is not the module of another, empty.
    pub name: String,
    /// From where it can be named.
    pub visibility: Visibility,
    /// Its line.
    pub line: usize,
    /// Its documentation.
    pub docs: String,
    /// Whether its text is in another file: `mod name;`.
    pub is_elsewhere: bool,
    /// Whether only tests see it.
    pub is_test: bool,
    /// Modules in it.
    pub modules: Vec<ModuleText>,
    /// Types, also those inside of functions.
    pub types: Vec<TypeText>,
    /// Functions, those of implementations and traits among them.
    pub functions: Vec<FunctionText>,
    /// All else that has a name: constants, statics, macros.
    pub others: Vec<(String, Visibility)>,
    /// Macros that are known at the root of the crate.
    pub exported_macros: Vec<String>,
    /// Imports.
    pub uses: Vec<UseText>,
    /// Paths of two and more segments in code.
    pub paths: Vec<PathText>,
}

/// A struct, enum, union, trait or alias.
#[derive(Debug)]
pub struct TypeText {
    /// Its name.
    pub name: String,
    /// From where it can be named.
    pub visibility: Visibility,
    /// Its line.
    pub line: usize,
    /// Whether it is a trait.
    pub is_trait: bool,
    /// Whether it is inside of a function.
    pub is_local: bool,
    /// Every word of its body: fields and variants are among them.
    pub words: BTreeSet<String>,
}

/// A function.
#[derive(Debug)]
pub struct FunctionText {
    /// Its name.
    pub name: String,
    /// The type or trait that it belongs to.
    pub owner: Option<String>,
    /// Whether it is declared by a trait: it is as visible as that.
    pub is_of_trait: bool,
    /// Whether it is inside of another function.
    pub is_local: bool,
    /// From where it can be named.
    pub visibility: Visibility,
    /// Its line.
    pub line: usize,
    /// Whether it returns a `Result`, or something made of one.
    pub is_fallible: bool,
    /// Its documentation.
    pub docs: String,
}

/// One name of a `use`.
#[derive(Clone, Debug)]
pub struct UseText {
    /// The segments of what is imported; without the `*` of a glob.
    pub path: Vec<String>,
    /// The name that it has here; `*` for all names.
    pub name: String,
    /// From where it can be named.
    pub visibility: Visibility,
    /// Its line.
    pub line: usize,
}

/// A path in code.
#[derive(Debug)]
pub struct PathText {
    /// Its segments.
    pub path: Vec<String>,
    /// Its line.
    pub line: usize,
}

/// Reads a file.
pub fn module_of(text: &str) -> ModuleText {
    let tokens: Vec<_> = tokens(text).into_iter().filter(|token| token.kind != TokenKind::Comment).collect();
    let mut module = ModuleText { line: 1, ..ModuleText::default() };
    let mut reader = Reader { tokens: &tokens, at: 0 };
    reader.read(&mut module, tokens.len(), &Inside::default());
    module
}

/// The text of a line of documentation without its slashes.
fn doc_text(token: &Token) -> String {
    let text = token.text.trim_start_matches(['/', '*', '!']).trim_end_matches(['/', '*']);
    text.strip_prefix(' ').unwrap_or(text).to_string() + "\n"
}

/// What the code being read stands in.
#[derive(Clone, Default)]
struct Inside {
    owner: Option<String>,
    is_trait: bool,
    is_function: bool,
}

/// What stands before a declaration.
#[derive(Default)]
struct Before {
    docs: String,
    visibility: Visibility,
    is_test: bool,
    is_exported: bool,
}

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
}

impl<'a> Reader<'a> {
    fn token(&self, at: usize) -> Option<&'a Token<'a>> {
        self.tokens.get(at)
    }

    fn is(&self, at: usize, text: &str) -> bool {
        self.token(at).is_some_and(|token| token.is(text))
    }

    fn word(&self, at: usize) -> Option<&'a str> {
        self.token(at).filter(|token| token.kind == TokenKind::Word).map(|token| token.text)
    }

    fn line(&self) -> usize {
        self.token(self.at).map_or(0, |token| token.line)
    }

    /// Reads up to `end` into `module`.
    fn read(&mut self, module: &mut ModuleText, end: usize, inside: &Inside) {
        let mut before = Before::default();
        while self.at < end {
            let token = &self.tokens[self.at];
            match token.kind {
                TokenKind::InnerDoc => {
                    if !inside.is_function {
                        module.docs.push_str(&doc_text(token));
                    }
                    self.at += 1;
                }
                TokenKind::OuterDoc => {
                    before.docs.push_str(&doc_text(token));
                    self.at += 1;
                }
                TokenKind::Mark if token.text == "#" && (self.is(self.at + 1, "[") || self.is(self.at + 1, "!")) => {
                    self.attribute(module, &mut before);
                }
                TokenKind::Word if token.text == "pub" => before.visibility = self.visibility(),
                TokenKind::Word if before.is_test => {
                    self.skip_tested(module, &before);
                    before = Before::default();
                }
                TokenKind::Word if self.is_modifier() => self.at += 1,
                TokenKind::Word => {
                    self.declaration(module, std::mem::take(&mut before), inside);
                }
                TokenKind::Mark => {
                    self.at += 1;
                    before = Before::default();
                }
                _ => self.at += 1,
            }
        }
    }

    /// Whether the word here stands before `fn`, `impl`, `trait` or `mod`, whose visibility and documentation go on.
    fn is_modifier(&self) -> bool {
        let next = |text| self.is(self.at + 1, text);
        match self.word(self.at) {
            Some("const" | "async" | "unsafe" | "default") => {
                next("fn") || next("unsafe") || next("async") || next("extern") || next("impl") || next("trait")
            }
            Some("extern") => next("fn") || self.token(self.at + 1).is_some_and(|t| t.kind == TokenKind::Literal),
            _ => false,
        }
    }

    /// `#[...]`: whether only tests see what follows, and whether it is a macro for everybody.
    fn attribute(&mut self, module: &mut ModuleText, before: &mut Before) {
        let inner = self.is(self.at + 1, "!");
        let open = self.at + if inner { 2 } else { 1 };
        let end = self.closing(open);
        let words: Vec<_> = (open..end).filter_map(|at| self.word(at)).collect();
        let is_test = match words.first() {
            Some(&"cfg") => words.contains(&"test") && !words.contains(&"not") && !words.contains(&"any"),
            Some(&"test") => true,
            _ => false,
        };
        match inner {
            true => module.is_test |= is_test,
            false => before.is_test |= is_test,
        }
        before.is_exported |= words.first() == Some(&"macro_export");
        self.at = end + 1;
    }

    fn visibility(&mut self) -> Visibility {
        self.at += 1;
        if !self.is(self.at, "(") {
            return Visibility::Public;
        }
        // A tuple's field can be `pub (A, B)`.
        if !matches!(self.word(self.at + 1), Some("crate" | "super" | "self" | "in")) {
            return Visibility::Public;
        }
        self.at = self.closing(self.at) + 1;
        Visibility::Restricted
    }

    /// Where the bracket that opens at `open` closes.
    fn closing(&self, open: usize) -> usize {
        let mut depth = 0;
        for at in open..self.tokens.len() {
            let token = &self.tokens[at];
            if token.kind == TokenKind::Mark {
                match token.text {
                    "(" | "[" | "{" => depth += 1,
                    ")" | "]" | "}" => depth -= 1,
                    _ => {}
                }
            }
            if depth == 0 {
                return at;
            }
        }
        self.tokens.len().saturating_sub(1)
    }

    /// The next of `marks` that is in no bracket, from here.
    fn next_of(&self, marks: &[&str]) -> usize {
        let mut at = self.at;
        while at < self.tokens.len() {
            let token = &self.tokens[at];
            if token.kind == TokenKind::Mark {
                if marks.contains(&token.text) || matches!(token.text, ")" | "]" | "}") {
                    return at;
                }
                if matches!(token.text, "(" | "[" | "{") {
                    at = self.closing(at);
                }
            }
            at += 1;
        }
        self.tokens.len()
    }

    /// Leaves out what only tests see, but notes that a module is such.
    fn skip_tested(&mut self, module: &mut ModuleText, before: &Before) {
        if self.is(self.at, "mod")
            && let Some(name) = self.word(self.at + 1)
        {
            module.modules.push(ModuleText {
                name: name.to_string(),
                line: self.line(),
                docs: before.docs.clone(),
                is_elsewhere: self.is(self.at + 2, ";"),
                is_test: true,
                ..ModuleText::default()
            });
        }
        let words =
            ["mod", "fn", "impl", "struct", "enum", "union", "trait", "type", "use", "const", "static", "unsafe"];
        let words = words.into_iter().chain(["async", "extern", "let", "macro_rules"]);
        let is_item = self.word(self.at).is_some_and(|word| words.into_iter().any(|one| one == word));
        let ends: &[&str] = if is_item { &[";", "{"] } else { &[";", ",", "{"] };
        let end = self.next_of(ends);
        self.at = match () {
            () if self.is(end, "{") => self.closing(end) + 1,
            // What closes the surrounding brackets is theirs.
            () if self.is(end, "}") || self.is(end, ")") || self.is(end, "]") => end,
            () => end + 1,
        };
    }

    /// A declaration, or a path, or a word that is neither.
    fn declaration(&mut self, module: &mut ModuleText, before: Before, inside: &Inside) {
        let (keyword, name) = (self.word(self.at).unwrap_or(""), self.word(self.at + 1));
        match (keyword, name) {
            ("mod", Some(name)) => self.module(module, before, name),
            ("use", _) => self.imports(module, before.visibility),
            ("impl", _) if self.begins_item() => self.implementation(module),
            ("fn", Some(name)) => self.function(module, before, name, inside),
            ("trait", Some(name)) => self.type_of_traits(module, before, name, inside),
            ("struct" | "enum", Some(name)) => self.type_with_body(module, before, name, inside),
            ("union", Some(name)) if self.is(self.at + 2, "{") || self.is(self.at + 2, "<") => {
                self.type_with_body(module, before, name, inside);
            }
            ("type", Some(name)) if inside.owner.is_none() || inside.is_function => {
                self.declare_type(module, &before, name, inside, false, BTreeSet::new());
                self.at += 2;
            }
            ("const" | "static", Some(name)) => {
                let name = if name == "mut" { self.word(self.at + 2).unwrap_or(name) } else { name };
                if name != "fn" {
                    self.other(module, name, before.visibility, inside);
                }
                self.at += 2;
            }
            ("macro_rules", None) if self.is(self.at + 1, "!") => {
                if let Some(name) = self.word(self.at + 2) {
                    module.others.push((name.to_string(), before.visibility));
                    if before.is_exported {
                        module.exported_macros.push(name.to_string());
                    }
                }
                self.at += 3;
            }
            _ => self.path(module),
        }
    }

    /// Constants of an implementation are members of its type rather than of the module.
    fn other(&self, module: &mut ModuleText, name: &str, visibility: Visibility, inside: &Inside) {
        match &inside.owner {
            Some(owner) if !inside.is_function => module.functions.push(FunctionText {
                name: name.to_string(),
                owner: Some(owner.clone()),
                is_of_trait: inside.is_trait,
                is_local: false,
                visibility,
                line: self.line(),
                is_fallible: false,
                docs: String::new(),
            }),
            _ => module.others.push((name.to_string(), visibility)),
        }
    }

    /// Whether what is here begins an item: it follows the end of another, or an attribute.
    fn begins_item(&self) -> bool {
        let Some(previous) = self.at.checked_sub(1).and_then(|at| self.token(at)) else { return true };
        let ends_item = previous.kind == TokenKind::Mark && matches!(previous.text, "{" | "}" | ";" | "]");
        ends_item || previous.is_comment() || matches!(previous.text, "unsafe" | "default")
    }

    fn module(&mut self, module: &mut ModuleText, before: Before, name: &str) {
        let mut child = ModuleText {
            name: name.to_string(),
            visibility: before.visibility,
            line: self.line(),
            docs: before.docs,
            is_elsewhere: self.is(self.at + 2, ";"),
            ..ModuleText::default()
        };
        if self.is(self.at + 2, "{") {
            let end = self.closing(self.at + 2);
            self.at += 3;
            self.read(&mut child, end, &Inside::default());
        }
        self.at += if child.is_elsewhere { 3 } else { 1 };
        module.modules.push(child);
    }

    fn implementation(&mut self, module: &mut ModuleText) {
        let start = self.at;
        let open = self.next_of(&["{", ";"]);
        let owner = self.implementing(start + 1, open);
        self.paths_until(module, open);
        if self.is(open, "{") {
            let end = self.closing(open);
            self.at = open + 1;
            self.read(module, end, &Inside { owner: Some(owner), ..Inside::default() });
        }
    }

    /// The last segment of the type that an implementation between these tokens is of.
    fn implementing(&self, from: usize, to: usize) -> String {
        let mut depth = 0;
        let mut name = "";
        for at in from..to {
            let token = &self.tokens[at];
            match token.text {
                "<" => depth += 1,
                ">" => depth -= 1,
                "for" if depth == 0 && !self.is(at + 1, "<") => name = "",
                "where" if depth == 0 => break,
                text if depth == 0 && token.kind == TokenKind::Word && (name.is_empty() || self.is(at - 1, "::")) => {
                    name = text;
                }
                _ => {}
            }
        }
        name.to_string()
    }

    fn function(&mut self, module: &mut ModuleText, before: Before, name: &str, inside: &Inside) {
        let line = self.line();
        self.at += 2;
        let open = self.next_of(&["{", ";"]);
        let arrow = (self.at..open).find(|at| self.is_arrow_of_function(*at, open));
        let output = arrow.map_or(open..open, |arrow| arrow..self.until_where(arrow, open));
        let is_fallible = output.into_iter().any(|at| self.is(at, "Result"));
        module.functions.push(FunctionText {
            name: name.to_string(),
            owner: inside.owner.clone().filter(|_| !inside.is_function),
            is_of_trait: inside.is_trait && !inside.is_function,
            is_local: inside.is_function,
            visibility: before.visibility,
            line,
            is_fallible,
            docs: before.docs,
        });
        self.paths_until(module, open);
        if self.is(open, "{") {
            let end = self.closing(open);
            self.at = open + 1;
            self.read(module, end, &Inside { is_function: true, ..inside.clone() });
        }
    }

    /// Whether the arrow at `at` is the function's rather than one of a closure among its parameters.
    fn is_arrow_of_function(&self, at: usize, open: usize) -> bool {
        // Parameters are in brackets, which `next_of` skips; bounds such as `F: Fn() -> A` before them are not.
        self.is(at, "->") && self.is(at - 1, ")") && {
            let parameters = (self.at..open).filter(|at| self.is(*at, "(")).find(|open| {
                let before = self.token(open - 1);
                before.is_some_and(|t| {
                    t.is(">") || t.kind == TokenKind::Word && !matches!(t.text, "Fn" | "FnMut" | "FnOnce" | "AsyncFn")
                })
            });
            parameters.is_some_and(|parameters| self.closing(parameters) + 1 == at)
        }
    }

    fn until_where(&self, from: usize, open: usize) -> usize {
        (from..open).find(|at| self.is(*at, "where")).unwrap_or(open)
    }

    fn type_of_traits(&mut self, module: &mut ModuleText, before: Before, name: &str, inside: &Inside) {
        self.declare_type(module, &before, name, inside, true, BTreeSet::new());
        self.at += 2;
        let open = self.next_of(&["{", ";"]);
        self.paths_until(module, open);
        if self.is(open, "{") {
            let end = self.closing(open);
            self.at = open + 1;
            let owner = Some(name.to_string());
            self.read(module, end, &Inside { owner, is_trait: true, is_function: false });
        }
    }

    fn type_with_body(&mut self, module: &mut ModuleText, before: Before, name: &str, inside: &Inside) {
        let open = self.next_of(&["{", ";"]);
        let end = if self.is(open, "{") { self.closing(open) } else { open };
        let words = (open..end).filter_map(|at| self.word(at)).map(str::to_string).collect();
        self.declare_type(module, &before, name, inside, false, words);
        // Its fields are read like code, for the paths in them.
        self.at += 2;
    }

    fn declare_type(
        &self,
        module: &mut ModuleText,
        before: &Before,
        name: &str,
        inside: &Inside,
        is_trait: bool,
        words: BTreeSet<String>,
    ) {
        module.types.push(TypeText {
            name: name.to_string(),
            visibility: before.visibility,
            line: self.line(),
            is_trait,
            is_local: inside.is_function,
            words,
        });
    }

    /// `use a::{b, c::d as e, f::*};`
    fn imports(&mut self, module: &mut ModuleText, visibility: Visibility) {
        let line = self.line();
        self.at += 1;
        if self.is(self.at, "<") {
            return;
        }
        let end = self.next_of(&[";"]);
        self.import_tree(&[], end, &mut |path: Vec<String>, name: String| {
            module.uses.push(UseText { path, name, visibility, line });
        });
        self.at = end + 1;
    }

    fn import_tree(&mut self, prefix: &[String], end: usize, found: &mut impl FnMut(Vec<String>, String)) {
        let mut path = prefix.to_vec();
        while self.at < end {
            let token = &self.tokens[self.at];
            self.at += 1;
            match token.text {
                "::" => {}
                "*" => return found(path, "*".to_string()),
                "{" => {
                    let close = self.closing(self.at - 1);
                    while self.at < close {
                        self.import_tree(&path, close, found);
                    }
                    self.at = close + 1;
                    // The comma behind the braces.
                    if self.is(self.at, ",") {
                        self.at += 1;
                    }
                    return;
                }
                "as" => {
                    let name = self.word(self.at).unwrap_or("_").to_string();
                    self.at += 1;
                    if self.is(self.at, ",") {
                        self.at += 1;
                    }
                    return found(path, name);
                }
                "," => break,
                "self" if !path.is_empty() => {}
                text => path.push(text.to_string()),
            }
        }
        if !path.is_empty() {
            let name = path.last().cloned().unwrap_or_default();
            found(path, name);
        }
    }

    /// Reads only paths, up to `end`.
    fn paths_until(&mut self, module: &mut ModuleText, end: usize) {
        while self.at < end {
            match self.word(self.at) {
                Some(_) => self.path(module),
                None => self.at += 1,
            }
        }
    }

    /// Goes behind the word here, and notes it if it begins a path.
    fn path(&mut self, module: &mut ModuleText) {
        let begins = self.at == 0 || !(self.is(self.at - 1, "::") || self.is(self.at - 1, "."));
        let line = self.line();
        let mut path = vec![self.word(self.at).unwrap_or("").to_string()];
        self.at += 1;
        while begins && self.is(self.at, "::") {
            let Some(next) = self.word(self.at + 1) else { break };
            path.push(next.to_string());
            self.at += 2;
        }
        if path.len() > 1 {
            module.paths.push(PathText { path, line });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_of_any_form() {
        let module = module_of("use a::{b, c::{self, d as e}, f::*};\npub use crate::g;\nuse super::h::I as _;");
        let found: Vec<_> = module.uses.iter().map(|one| (one.path.join("::"), one.name.as_str())).collect();
        let want =
            [("a::b", "b"), ("a::c", "c"), ("a::c::d", "e"), ("a::f", "*"), ("crate::g", "g"), ("super::h::I", "_")];
        assert_eq!(found, want.map(|(path, name)| (path.to_string(), name)));
        assert_eq!(module.uses[4].visibility, Visibility::Public);
    }

    #[test]
    fn functions_with_their_owners_and_outputs() {
        let module = module_of(
            "/// Opens.\npub fn open<F: Fn() -> Result<()>>(f: F) -> u64 { fn inner() -> Result<u8> { x } }
             impl<T> Read for Box<T> where T: Read { fn read(&self) -> io::Result<()> { a::b() } }
             impl Store { pub(crate) const SIZE: u8 = 1; pub async fn load(&self, (a, b): (A, B)) -> Result<A> {} }
             pub trait Table { type Rows; fn rows(&self) -> Option<Result<A>>; }",
        );
        let found: Vec<_> = module
            .functions
            .iter()
            .map(|f| (f.owner.as_deref().unwrap_or(""), f.name.as_str(), f.visibility, f.is_fallible))
            .collect();
        use Visibility::{Private, Public, Restricted};
        let want = [
            ("", "open", Public, false),
            ("", "inner", Private, true),
            ("Box", "read", Private, true),
            ("Store", "SIZE", Restricted, false),
            ("Store", "load", Public, true),
            ("Table", "rows", Private, true),
        ];
        assert_eq!(found, want);
        assert_eq!(module.functions[0].docs, "Opens.\n");
        assert_eq!(module.types.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["Table"]);
    }

    #[test]
    fn what_only_tests_see_is_left_out() {
        let module = module_of(
            "#[cfg(test)] mod tests { struct A; }\n#[cfg(test)] use crate::b;\n#[test] fn c() -> Result<()> { d::e() }
             #[cfg(all(test, unix))] impl F { fn g() {} }\nstruct H { #[cfg(test)] i: j::K, l: m::N }\nfn o() { p::q() }",
        );
        assert!(module.uses.is_empty());
        assert_eq!(module.types.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["H"]);
        assert_eq!(module.functions.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["o"]);
        assert_eq!(module.paths.iter().map(|one| one.path.join("::")).collect::<Vec<_>>(), ["m::N", "p::q"]);
        assert!(module.modules[0].is_test);
    }

    #[test]
    fn modules_within_a_file() {
        let module = module_of("//! A.\npub mod b {\n//! B.\n use super::C; }\nmod d;");
        assert_eq!(module.docs, "A.\n");
        assert_eq!((module.modules[0].docs.as_str(), module.modules[0].uses.len()), ("B.\n", 1));
        assert!(module.modules[1].is_elsewhere);
    }
}
