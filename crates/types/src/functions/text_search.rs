//! Functions and operators of full text search (manual, section 9.13).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int16Array, Int32Array, ListArray, StringViewArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field};
use datafusion_expr::ColumnarValue;
use diligence_base::{Error, Result};

use super::catalog::Catalog;
use super::columns::{Columns, List, kernel, too_large};
use super::errors::{invalid_argument, value_error};
use super::{Body, Call};
use crate::SqlType;
use crate::search::dictionaries::{Dictionary, Lexized};
use crate::search::headline::{HeadlineOptions, headline};
use crate::search::query::{Item, QuerySyntax, too_far};
use crate::search::ranking::{self, WEIGHT_VALUES};
use crate::search::vector::{JsonParts, Weight};
use crate::search::words::{WordClass, Words};
use crate::search::{Configuration, Query, SearchKind, Vector};
use crate::sql_type::RecordField;
use crate::text::json::{self, Json, JsonKind, JsonPart};

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    vectors(catalog);
    queries(catalog);
    matches(catalog);
    made(catalog);
    headlines(catalog);
    tables(catalog);
    for sign in ["=", "<>", "<", "<=", ">", ">="] {
        for kind in ["tsvector", "tsquery"] {
            let signature = Box::leak(format!("{sign}({kind}, {kind}) -> boolean").into_boxed_str());
            catalog.add(signature, super::comparisons::kernel_of_sign(sign));
        }
    }
    for (signature, key) in [
        (
            "search_order_key(tsvector) -> bytea",
            kernel!(try |text: &str| super::comparisons::search_key(text, SearchKind::Vector)),
        ),
        (
            "search_order_key(tsquery) -> bytea",
            kernel!(try |text: &str| super::comparisons::search_key(text, SearchKind::Query)),
        ),
    ] {
        catalog.add(signature, key);
    }
}

/// A function that makes queries of texts, with a configuration and without one.
macro_rules! to_queries {
    ($catalog:expr, $name:literal, $syntax:expr) => {
        $catalog.add(
            concat!($name, "(regconfig, text) -> tsquery"),
            kernel!(try |configuration: &str, text: &str| to_query(configuration, text, $syntax)),
        );
        $catalog
            .add(
                concat!($name, "(text) -> tsquery"),
                kernel!(try |text: &str, configuration: &str| to_query(configuration, text, $syntax)),
            )
            .configured();
    };
}

/// `ts_headline` of a type, with a configuration and options, and without one of them.
macro_rules! headlines {
    ($catalog:expr, $type:literal, |$configuration:ident, $text:ident, $query:ident, $options:ident| $made:expr) => {
        $catalog.add(
            concat!("ts_headline(regconfig, ", $type, ", tsquery) -> ", $type),
            kernel!(with queries: LatestRead<Query>; |$configuration: &str, $text: &str, query: &str| {
                let ($query, $options) = (queries.of(query, Query::read)?, &HeadlineOptions::default());
                $made
            }),
        );
        $catalog.add(
            concat!("ts_headline(regconfig, ", $type, ", tsquery, text) -> ", $type),
            kernel!(with queries: LatestRead<Query>; |$configuration: &str, $text: &str, query: &str, options: &str| {
                let ($query, $options) = (queries.of(query, Query::read)?, &HeadlineOptions::read(options)?);
                $made
            }),
        );
        $catalog
            .add(
                concat!("ts_headline(", $type, ", tsquery) -> ", $type),
                kernel!(with queries: LatestRead<Query>; |$text: &str, query: &str, $configuration: &str| {
                    let ($query, $options) = (queries.of(query, Query::read)?, &HeadlineOptions::default());
                    $made
                }),
            )
            .configured();
        $catalog
            .add(
                concat!("ts_headline(", $type, ", tsquery, text) -> ", $type),
                kernel!(with queries: LatestRead<Query>; |$text: &str, query: &str, options: &str, $configuration: &str| {
                    let ($query, $options) = (queries.of(query, Query::read)?, &HeadlineOptions::read(options)?);
                    $made
                }),
            )
            .configured();
    };
}

/// What a text was read as before: in a call the same one often comes again.
struct LatestRead<T> {
    latest: Option<(String, T)>,
}

impl<T> Default for LatestRead<T> {
    fn default() -> Self {
        Self { latest: None }
    }
}

impl<T> LatestRead<T> {
    fn of(&mut self, text: &str, read: impl FnOnce(&str) -> Result<T>) -> Result<&T> {
        if self.latest.as_ref().is_none_or(|(known, _)| known != text) {
            self.latest = Some((text.to_owned(), read(text)?));
        }
        self.latest.as_ref().map(|(_, value)| value).ok_or_else(|| Error::bug("what was read is gone"))
    }
}

fn weight(text: &str) -> Result<Weight> {
    let letter = text.chars().next().unwrap_or('\0');
    Weight::of_letter(letter).ok_or_else(|| invalid_argument(format!("unrecognized weight: \"{letter}\"")))
}

fn words(list: &ArrayRef) -> Result<Vec<Option<&str>>> {
    let texts = list.as_string_view_opt().ok_or_else(|| Error::bug("an array of no texts"))?;
    Ok(texts.iter().collect())
}

fn vectors(catalog: &mut Catalog) {
    catalog.add("length(tsvector) -> integer", kernel!(try |text: &str| Ok(Vector::read(text)?.lexemes.len() as i32)));
    catalog.add("strip(tsvector) -> tsvector", kernel!(try |text: &str| Ok(Vector::read(text)?.stripped().text())));
    catalog.add(
        "||(tsvector, tsvector) -> tsvector",
        kernel!(try |left: &str, right: &str| Ok(Vector::read(left)?.joined(Vector::read(right)?)?.text())),
    );
    catalog.add(
        "setweight(tsvector, text) -> tsvector",
        kernel!(try |text: &str, letter: &str| Ok(Vector::read(text)?.with_weight(weight(letter)?, None).text())),
    );
    catalog.add(
        "setweight(tsvector, text, text[]) -> tsvector",
        kernel!(try |text: &str, letter: &str, only: ArrayRef| {
            let weight = weight(letter)?;
            let only = words(&only)?.into_iter().flatten().collect::<Vec<_>>();
            Ok(Vector::read(text)?.with_weight(weight, Some(&only)).text())
        }),
    );
    catalog.add(
        "ts_delete(tsvector, text) -> tsvector",
        kernel!(try |text: &str, word: &str| Ok(Vector::read(text)?.without(&[word]).text())),
    );
    catalog.add(
        "ts_delete(tsvector, text[]) -> tsvector",
        kernel!(try |text: &str, left_out: ArrayRef| {
            let left_out = words(&left_out)?.into_iter().flatten().collect::<Vec<_>>();
            Ok(Vector::read(text)?.without(&left_out).text())
        }),
    );
    catalog.add(
        "ts_filter(tsvector, text[]) -> tsvector",
        kernel!(try |text: &str, weights: ArrayRef| {
            let null = || value_error("weight array may not contain nulls", "22004");
            let weights = words(&weights)?.into_iter().map(|letter| weight(letter.ok_or_else(null)?));
            let weights = weights.collect::<Result<Vec<_>>>()?;
            Ok(Vector::read(text)?.of_weights(&weights).text())
        }),
    );
    catalog.add(
        "tsvector_to_array(tsvector) -> text[]",
        kernel!(try |text: &str| {
            let lexemes = Vector::read(text)?.lexemes;
            Ok(List(lexemes.into_iter().map(|lexeme| lexeme.word).collect()))
        }),
    );
    catalog.add(
        "array_to_tsvector(text[]) -> tsvector",
        kernel!(try |list: ArrayRef| Ok(Vector::of_words(words(&list)?.into_iter())?.text())),
    );
}

fn distance(given: i32) -> Result<Item> {
    let distance = u16::try_from(given).ok().filter(|distance| *distance <= crate::search::query::DISTANCE_MAX);
    distance.map(Item::Phrase).ok_or_else(too_far)
}

fn combined(left: &str, right: &str, operator: Item) -> Result<String> {
    Ok(Query::read(left)?.combined(Query::read(right)?, operator).text())
}

fn queries(catalog: &mut Catalog) {
    catalog.add_all(
        &["&&(tsquery, tsquery) -> tsquery", "tsquery_and(tsquery, tsquery) -> tsquery"],
        kernel!(try |left: &str, right: &str| combined(left, right, Item::And)),
    );
    catalog.add_all(
        &["||(tsquery, tsquery) -> tsquery", "tsquery_or(tsquery, tsquery) -> tsquery"],
        kernel!(try |left: &str, right: &str| combined(left, right, Item::Or)),
    );
    catalog.add_all(
        &["!!(tsquery) -> tsquery", "tsquery_not(tsquery) -> tsquery"],
        kernel!(try |text: &str| Ok(Query::read(text)?.negated().text())),
    );
    catalog.add_all(
        &["<->(tsquery, tsquery) -> tsquery", "tsquery_phrase(tsquery, tsquery) -> tsquery"],
        kernel!(try |left: &str, right: &str| combined(left, right, Item::Phrase(1))),
    );
    catalog.add(
        "tsquery_phrase(tsquery, tsquery, integer) -> tsquery",
        kernel!(try |left: &str, right: &str, given: i32| combined(left, right, distance(given)?)),
    );
    catalog.add(
        "@>(tsquery, tsquery) -> boolean",
        kernel!(try |left: &str, right: &str| Ok(Query::read(left)?.contains(&Query::read(right)?))),
    );
    catalog.add(
        "<@(tsquery, tsquery) -> boolean",
        kernel!(try |left: &str, right: &str| Ok(Query::read(right)?.contains(&Query::read(left)?))),
    );
    catalog.add(
        "ts_rewrite(tsquery, tsquery, tsquery) -> tsquery",
        kernel!(try |text: &str, target: &str, substitute: &str| {
            Ok(Query::read(text)?.rewritten(&Query::read(target)?, &Query::read(substitute)?).text())
        }),
    );
    catalog.add("numnode(tsquery) -> integer", kernel!(try |text: &str| Ok(Query::read(text)?.items.len() as i32)));
    catalog.add(
        "querytree(tsquery) -> text",
        kernel!(try |text: &str| {
            let query = Query::read(text)?;
            Ok(match query.searchable() {
                _ if query.is_empty() => String::new(),
                Some(searchable) => searchable.text(),
                None => "T".to_owned(),
            })
        }),
    );
}

fn matches(catalog: &mut Catalog) {
    catalog.add_all(
        &["@@(tsvector, tsquery) -> boolean", "ts_match_vq(tsvector, tsquery) -> boolean"],
        kernel!(with queries: LatestRead<Query>; |vector: &str, query: &str| {
            Ok(queries.of(query, Query::read)?.matches(&Vector::read(vector)?))
        }),
    );
    catalog.add_all(
        &["@@(tsquery, tsvector) -> boolean", "ts_match_qv(tsquery, tsvector) -> boolean"],
        kernel!(with queries: LatestRead<Query>; |query: &str, vector: &str| {
            Ok(queries.of(query, Query::read)?.matches(&Vector::read(vector)?))
        }),
    );
    let of_text = kernel!(with queries: LatestRead<Query>; |text: &str, query: &str, configuration: &str| {
        let vector = Vector::of_text(Configuration::of_name(configuration)?, text)?;
        Ok(queries.of(query, Query::read)?.matches(&vector))
    });
    let of_texts = kernel!(with queries: LatestRead<Query>; |text: &str, query: &str, configuration: &str| {
        let configuration = Configuration::of_name(configuration)?;
        let query = queries.of(query, |query| Query::of_text(configuration, query, QuerySyntax::Plain))?;
        Ok(query.matches(&Vector::of_text(configuration, text)?))
    });
    for (name, query, body) in [
        ("@@", "tsquery", &of_text),
        ("ts_match_tq", "tsquery", &of_text),
        ("@@", "text", &of_texts),
        ("ts_match_tt", "text", &of_texts),
    ] {
        let signature = Box::leak(format!("{name}(text, {query}) -> boolean").into_boxed_str());
        catalog.add(signature, body.clone()).configured();
    }
    ranks(catalog);
}

/// Ranks by a function of values of weights, a document, a query, and what they are divided by.
macro_rules! ranks {
    ($catalog:expr, $name:literal, $rank:path) => {
        $catalog.add(
            concat!($name, "(tsvector, tsquery) -> real"),
            kernel!(with queries: LatestRead<Query>; |vector: &str, query: &str| {
                Ok($rank(&WEIGHT_VALUES, &Vector::read(vector)?, queries.of(query, Query::read)?, 0))
            }),
        );
        $catalog.add(
            concat!($name, "(tsvector, tsquery, integer) -> real"),
            kernel!(with queries: LatestRead<Query>; |vector: &str, query: &str, divisors: i32| {
                Ok($rank(&WEIGHT_VALUES, &Vector::read(vector)?, queries.of(query, Query::read)?, divisors))
            }),
        );
        $catalog.add(
            concat!($name, "(real[], tsvector, tsquery) -> real"),
            kernel!(with queries: LatestRead<Query>; |values: ArrayRef, vector: &str, query: &str| {
                Ok($rank(&values_of(&values)?, &Vector::read(vector)?, queries.of(query, Query::read)?, 0))
            }),
        );
        $catalog.add(
            concat!($name, "(real[], tsvector, tsquery, integer) -> real"),
            kernel!(with queries: LatestRead<Query>; |values: ArrayRef, vector: &str, query: &str, divisors: i32| {
                Ok($rank(&values_of(&values)?, &Vector::read(vector)?, queries.of(query, Query::read)?, divisors))
            }),
        );
    };
}

fn ranks(catalog: &mut Catalog) {
    ranks!(catalog, "ts_rank", ranking::rank);
    ranks!(catalog, "ts_rank_cd", ranking::rank_covers);
}

fn values_of(list: &ArrayRef) -> Result<ranking::WeightValues> {
    let values = list.as_primitive_opt::<arrow::datatypes::Float32Type>();
    let values = values.ok_or_else(|| Error::bug("weights that are no floats"))?;
    ranking::weight_values(&values.iter().collect::<Vec<_>>())
}

/// Which values of JSON documents are searched. Fails with 22023 if the document does not say so.
fn json_parts(text: &str) -> Result<JsonParts> {
    let wrong = || {
        let error = invalid_argument("wrong flag type, only arrays and scalars are allowed");
        error.with_hint("Possible values are: \"string\", \"numeric\", \"boolean\", \"key\", and \"all\".")
    };
    let items = match json::parse(text)? {
        Json::Array(items) => items,
        Json::Object(_) => return Err(wrong()),
        scalar => vec![scalar],
    };
    let mut parts = JsonParts::default();
    for item in items {
        let Json::Text(name) = item else { return Err(invalid_argument("flag array element is not a string")) };
        let all = name.eq_ignore_ascii_case("all");
        let is = |known: &str| all || name.eq_ignore_ascii_case(known);
        parts.texts |= is("string");
        parts.numbers |= is("numeric");
        parts.booleans |= is("boolean");
        parts.keys |= is("key");
        let known = ["all", "string", "numeric", "boolean", "key"];
        if !known.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            let hint = "Possible values are: \"string\", \"numeric\", \"boolean\", \"key\", and \"all\".";
            return Err(invalid_argument(format!("wrong flag in flag array: \"{name}\"")).with_hint(hint));
        }
    }
    Ok(parts)
}

fn of_json(configuration: &str, text: &str, parts: JsonParts) -> Result<String> {
    Ok(Vector::of_json(Configuration::of_name(configuration)?, JsonPart::new(text), parts)?.text())
}

const TEXTS: JsonParts = JsonParts { texts: true, numbers: false, booleans: false, keys: false };

fn made(catalog: &mut Catalog) {
    catalog.add(
        "to_tsvector(regconfig, text) -> tsvector",
        kernel!(try |configuration: &str, text: &str| {
            Ok(Vector::of_text(Configuration::of_name(configuration)?, text)?.text())
        }),
    );
    catalog
        .add(
            "to_tsvector(text) -> tsvector",
            kernel!(try |text: &str, configuration: &str| {
                Ok(Vector::of_text(Configuration::of_name(configuration)?, text)?.text())
            }),
        )
        .configured();
    for kind in ["json", "jsonb"] {
        let signature = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        catalog.add(
            signature(format!("to_tsvector(regconfig, {kind}) -> tsvector")),
            kernel!(try |configuration: &str, text: &str| of_json(configuration, text, TEXTS)),
        );
        catalog
            .add(
                signature(format!("to_tsvector({kind}) -> tsvector")),
                kernel!(try |text: &str, configuration: &str| of_json(configuration, text, TEXTS)),
            )
            .configured();
        catalog.add(
            signature(format!("{kind}_to_tsvector(regconfig, {kind}, jsonb) -> tsvector")),
            kernel!(try |configuration: &str, text: &str, parts: &str| of_json(configuration, text, json_parts(parts)?)),
        );
        catalog
            .add(
                signature(format!("{kind}_to_tsvector({kind}, jsonb) -> tsvector")),
                kernel!(try |text: &str, parts: &str, configuration: &str| {
                    of_json(configuration, text, json_parts(parts)?)
                }),
            )
            .configured();
    }
    to_queries!(catalog, "to_tsquery", QuerySyntax::Operators);
    to_queries!(catalog, "plainto_tsquery", QuerySyntax::Plain);
    to_queries!(catalog, "phraseto_tsquery", QuerySyntax::Phrase);
    to_queries!(catalog, "websearch_to_tsquery", QuerySyntax::Web);
    catalog.add("get_current_ts_config() -> regconfig", Body::Kernel(|given, _| current(given))).configured();
    catalog.add(
        "ts_lexize(regdictionary, text) -> text[]",
        kernel!(try |dictionary: &str, word: &str| {
            Ok(match Dictionary::of_name(dictionary)?.lexize(word) {
                Lexized::Stop => List(vec![]),
                Lexized::Lexeme(lexeme) => List(vec![lexeme]),
            })
        }),
    );
}

/// The session's configuration, which is the only argument.
fn current(given: &[ColumnarValue]) -> Result<ColumnarValue> {
    given.first().cloned().ok_or_else(|| Error::bug("no configuration of the session"))
}

fn to_query(configuration: &str, text: &str, syntax: QuerySyntax) -> Result<String> {
    Ok(Query::of_text(Configuration::of_name(configuration)?, text, syntax)?.text())
}

/// Headlines of a text, or of the texts of a JSON document.
fn headline_of(configuration: &str, text: &str, query: &Query, options: &HeadlineOptions) -> Result<String> {
    Ok(headline(Configuration::of_name(configuration)?, text, query, options))
}

fn json_headline(
    configuration: &str,
    text: &str,
    query: &Query,
    options: &HeadlineOptions,
    is_binary: bool,
) -> Result<String> {
    let configuration = Configuration::of_name(configuration)?;
    let mut out = String::new();
    let mut change = |text: &str| headline(configuration, text, query, options);
    if is_binary {
        let mut document = json::parse(text)?;
        change_texts(&mut document, &mut change);
        json::write(&mut out, &document);
    } else {
        write_changed(&mut out, JsonPart::new(text), &mut change)?;
    }
    Ok(out)
}

fn change_texts(document: &mut Json, change: &mut dyn FnMut(&str) -> String) {
    match document {
        Json::Text(text) => *text = change(text),
        Json::Array(items) => items.iter_mut().for_each(|item| change_texts(item, change)),
        Json::Object(members) => members.iter_mut().for_each(|(_, value)| change_texts(value, change)),
        _ => {}
    }
}

/// The same of a document that keeps its order and its repeated keys.
fn write_changed(out: &mut String, part: JsonPart<'_>, change: &mut dyn FnMut(&str) -> String) -> Result<()> {
    match part.kind() {
        JsonKind::Text => json::write_text(out, &change(&part.unquoted()?)),
        JsonKind::Array => {
            out.push('[');
            for (index, element) in part.elements().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write_changed(out, element, change)?;
            }
            out.push(']');
        }
        JsonKind::Object => {
            out.push('{');
            for (index, (key, value)) in part.members().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                json::write_text(out, &key.unquoted()?);
                out.push(':');
                write_changed(out, value, change)?;
            }
            out.push('}');
        }
        _ => out.push_str(part.text()),
    }
    Ok(())
}

fn headlines(catalog: &mut Catalog) {
    headlines!(catalog, "text", |configuration, text, query, options| headline_of(configuration, text, query, options));
    headlines!(catalog, "json", |configuration, text, query, options| {
        json_headline(configuration, text, query, options, false)
    });
    headlines!(catalog, "jsonb", |configuration, text, query, options| {
        json_headline(configuration, text, query, options, true)
    });
}

/// A column of rows that a function gives.
enum Cells {
    Texts(Vec<Option<String>>),
    Integers(Vec<i32>),
    TextLists(Vec<Option<Vec<String>>>),
    SmallLists(Vec<Option<Vec<i16>>>),
}

impl Cells {
    fn array(self, data_type: &DataType) -> Result<ArrayRef> {
        fn list<T>(
            rows: Vec<Option<Vec<T>>>,
            data_type: &DataType,
            elements: impl FnOnce(Vec<T>) -> ArrayRef,
        ) -> Result<ArrayRef> {
            let DataType::List(item) = data_type else { return Err(Error::bug("a list that is none")) };
            let nulls = NullBuffer::from(rows.iter().map(Option::is_some).collect::<Vec<_>>());
            let lengths = rows.iter().map(|row| row.as_ref().map_or(0, Vec::len)).collect::<Vec<_>>();
            let elements = elements(rows.into_iter().flatten().flatten().collect());
            let list = ListArray::try_new(item.clone(), OffsetBuffer::from_lengths(lengths), elements, Some(nulls));
            Ok(Arc::new(list.map_err(|error| Error::bug(error.to_string()))?))
        }
        Ok(match self {
            Self::Texts(texts) => Arc::new(texts.into_iter().collect::<StringViewArray>()),
            Self::Integers(numbers) => Arc::new(Int32Array::from(numbers)),
            Self::TextLists(rows) => {
                list(rows, data_type, |texts| Arc::new(texts.into_iter().map(Some).collect::<StringViewArray>()))?
            }
            Self::SmallLists(rows) => list(rows, data_type, |numbers| Arc::new(Int16Array::from(numbers)))?,
        })
    }
}

/// The rows of a function as lists of records: `lengths` tells how many each row of the arguments has. NULL among the
/// arguments gives NULL.
fn record_lists(
    columns: &Columns<'_>,
    call: &Call<'_>,
    lengths: Vec<usize>,
    cells: Vec<Cells>,
) -> Result<ColumnarValue> {
    let DataType::List(item) = call.returns.arrow() else { return Err(Error::bug("rows are a list")) };
    let DataType::Struct(fields) = item.data_type().clone() else { return Err(Error::bug("rows are records")) };
    let arrays =
        cells.into_iter().zip(&fields).map(|(cells, field): (Cells, &Arc<Field>)| cells.array(field.data_type()));
    let bug = |error: arrow::error::ArrowError| Error::bug(error.to_string());
    let records = StructArray::try_new(fields.clone(), arrays.collect::<Result<_>>()?, None).map_err(bug)?;
    i32::try_from(records.len()).map_err(|_| too_large())?;
    let is_given =
        |row: usize| columns.arrays().iter().all(|array| array.is_valid(if array.len() == 1 { 0 } else { row }));
    let nulls = NullBuffer::from((0..columns.rows()).map(is_given).collect::<Vec<bool>>());
    let offsets = OffsetBuffer::from_lengths(lengths);
    let list = ListArray::try_new(item, offsets, Arc::new(records), Some(nulls)).map_err(bug)?;
    columns.result(Arc::new(list))
}

fn records(fields: &[(&str, SqlType)]) -> SqlType {
    let field =
        |(name, sql_type): &(&str, SqlType)| RecordField { name: (*name).to_owned(), sql_type: sql_type.clone() };
    SqlType::array_of(SqlType::Record(fields.iter().map(field).collect::<Vec<_>>().into()))
}

/// The texts of an argument.
fn texts<'a>(columns: &'a Columns<'_>, argument: usize) -> Result<&'a StringViewArray> {
    let array = columns.arrays().get(argument).and_then(|array| array.as_string_view_opt());
    array.ok_or_else(|| Error::bug("an argument that is no text"))
}

fn at(texts: &StringViewArray, row: usize) -> Option<&str> {
    let row = if texts.len() == 1 { 0 } else { row };
    texts.is_valid(row).then(|| texts.value(row))
}

/// Functions that give rows.
fn tables(catalog: &mut Catalog) {
    catalog.add("tsvector_lexemes(tsvector) -> text", Body::Kernel(lexeme_rows)).gives(|_, _| {
        let texts = SqlType::array_of(SqlType::Text);
        let numbers = SqlType::array_of(SqlType::SmallInt);
        Ok(records(&[("lexeme", SqlType::Text), ("positions", numbers), ("weights", texts)]))
    });
    catalog
        .add("ts_parse(text, text) -> text", Body::Kernel(parsed_rows))
        .gives(|_, _| Ok(records(&[("tokid", SqlType::Integer), ("token", SqlType::Text)])));
    catalog.add("ts_token_type(text) -> text", Body::Kernel(class_rows)).gives(|_, _| {
        Ok(records(&[("tokid", SqlType::Integer), ("alias", SqlType::Text), ("description", SqlType::Text)]))
    });
    catalog
        .add("ts_debug(regconfig, text) -> text", Body::Kernel(|given, call| debug_rows(given, call, (0, 1))))
        .gives(|_, _| Ok(debug_type()));
    catalog
        .add("ts_debug(text) -> text", Body::Kernel(|given, call| debug_rows(given, call, (1, 0))))
        .configured()
        .gives(|_, _| Ok(debug_type()));
}

fn debug_type() -> SqlType {
    let dictionary = SqlType::Search(SearchKind::Dictionary);
    records(&[
        ("alias", SqlType::Text),
        ("description", SqlType::Text),
        ("token", SqlType::Text),
        ("dictionaries", SqlType::array_of(dictionary.clone())),
        ("dictionary", dictionary),
        ("lexemes", SqlType::array_of(SqlType::Text)),
    ])
}

fn lexeme_rows(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let vectors = texts(&columns, 0)?;
    let (mut lengths, mut words, mut positions, mut weights) = (vec![], vec![], vec![], vec![]);
    for row in 0..columns.rows() {
        let vector = at(vectors, row).map(Vector::read).transpose()?.unwrap_or_default();
        lengths.push(vector.lexemes.len());
        for lexeme in vector.lexemes {
            words.push(Some(lexeme.word.into_owned()));
            let known = Some(&lexeme.positions).filter(|positions| !positions.is_empty());
            positions.push(known.map(|known| known.iter().map(|one| one.at as i16).collect()));
            weights.push(known.map(|known| known.iter().map(|one| one.weight.letter().to_string()).collect()));
        }
    }
    let cells = vec![Cells::Texts(words), Cells::SmallLists(positions), Cells::TextLists(weights)];
    record_lists(&columns, call, lengths, cells)
}

/// Fails with 42704 if the parser is not the default one.
fn check_parser(name: &str) -> Result<()> {
    match name.trim() {
        "default" | "pg_catalog.default" | "3722" => Ok(()),
        other => Err(value_error(format!("text search parser \"{other}\" does not exist"), "42704")),
    }
}

fn parsed_rows(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let (parsers, documents) = (texts(&columns, 0)?, texts(&columns, 1)?);
    let (mut lengths, mut numbers, mut words) = (vec![], vec![], vec![]);
    for row in 0..columns.rows() {
        let before = words.len();
        if let (Some(parser), Some(document)) = (at(parsers, row), at(documents, row)) {
            check_parser(parser)?;
            for word in Words::new(document) {
                numbers.push(word.class.number());
                words.push(Some(word.text.to_owned()));
            }
        }
        lengths.push(words.len() - before);
    }
    record_lists(&columns, call, lengths, vec![Cells::Integers(numbers), Cells::Texts(words)])
}

fn class_rows(given: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let parsers = texts(&columns, 0)?;
    let (mut lengths, mut numbers, mut names, mut descriptions) = (vec![], vec![], vec![], vec![]);
    for row in 0..columns.rows() {
        let parser = at(parsers, row);
        parser.map(check_parser).transpose()?;
        let classes = parser.map_or(&[][..], |_| &WordClass::ALL);
        lengths.push(classes.len());
        for (class, name, description) in classes {
            numbers.push(class.number());
            names.push(Some((*name).to_owned()));
            descriptions.push(Some((*description).to_owned()));
        }
    }
    let cells = vec![Cells::Integers(numbers), Cells::Texts(names), Cells::Texts(descriptions)];
    record_lists(&columns, call, lengths, cells)
}

/// The words of texts with what becomes of them; `places` are those of the configuration and the text.
fn debug_rows(given: &[ColumnarValue], call: &Call<'_>, places: (usize, usize)) -> Result<ColumnarValue> {
    let columns = Columns::new(given, call);
    let (configurations, documents) = (texts(&columns, places.0)?, texts(&columns, places.1)?);
    let (mut lengths, mut names, mut descriptions, mut words) = (vec![], vec![], vec![], vec![]);
    let (mut dictionaries, mut chosen, mut lexemes) = (vec![], vec![], vec![]);
    for row in 0..columns.rows() {
        let before = words.len();
        if let (Some(configuration), Some(document)) = (at(configurations, row), at(documents, row)) {
            let configuration = Configuration::of_name(configuration)?;
            for word in Words::new(document) {
                let known = WordClass::ALL.iter().find(|(class, ..)| *class == word.class);
                names.push(known.map(|(_, name, _)| (*name).to_owned()));
                descriptions.push(known.map(|(.., description)| (*description).to_owned()));
                words.push(Some(word.text.to_owned()));
                let dictionary = configuration.dictionary(word.class);
                dictionaries.push(Some(dictionary.map(|one| one.name()).into_iter().collect::<Vec<_>>()));
                chosen.push(dictionary.map(|one| one.name()));
                lexemes.push(dictionary.map(|one| match one.lexize(word.text) {
                    Lexized::Stop => vec![],
                    Lexized::Lexeme(lexeme) => vec![lexeme],
                }));
            }
        }
        lengths.push(words.len() - before);
    }
    let cells = vec![
        Cells::Texts(names),
        Cells::Texts(descriptions),
        Cells::Texts(words),
        Cells::TextLists(dictionaries),
        Cells::Texts(chosen),
        Cells::TextLists(lexemes),
    ];
    record_lists(&columns, call, lengths, cells)
}
