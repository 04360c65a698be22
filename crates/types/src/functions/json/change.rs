//! `jsonb` values compared, changed and put together (manual, section 9.16).

use diligence_base::Result;

use super::super::Body;
use super::super::catalog::Catalog;
use super::super::columns::{Columns, kernel};
use super::super::errors::{invalid_argument, value_error};
use super::access::Steps;
use crate::text::json::{Json, JsonKind, JsonPart, parse, unique, write};

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    declare_operators(catalog);
    declare_changes(catalog);
}

/// Operators, and functions that do the same.
fn declare_operators(catalog: &mut Catalog) {
    catalog.add(
        "@>(jsonb, jsonb) -> boolean",
        kernel!(try |whole: &str, part: &str| Ok(contains(&parse(whole)?, &parse(part)?, true))),
    );
    catalog.add(
        "<@(jsonb, jsonb) -> boolean",
        kernel!(try |part: &str, whole: &str| Ok(contains(&parse(whole)?, &parse(part)?, true))),
    );
    catalog.add_all(
        &["json_contains(text, text) -> boolean", "json_contains(json, json) -> boolean"],
        kernel!(try |whole: &str, part: &str| Ok(contains(&parse(whole)?, &parse(part)?, true))),
    );
    catalog.add("?(jsonb, text) -> boolean", kernel!(try |json: &str, key: &str| has_key(json, key)));
    catalog.add("jsonb_exists(jsonb, text) -> boolean", kernel!(try |json: &str, key: &str| has_key(json, key)));
    let any = kernel!(try |json: &str, keys: Steps| {
        keys.0.iter().flatten().try_fold(false, |found, key| Ok(found || has_key(json, key)?))
    });
    let all = kernel!(try |json: &str, keys: Steps| {
        keys.0.iter().flatten().try_fold(true, |found, key| Ok(found && has_key(json, key)?))
    });
    catalog.add_all(&["?|(jsonb, text[]) -> boolean", "jsonb_exists_any(jsonb, text[]) -> boolean"], any);
    catalog.add_all(&["?&(jsonb, text[]) -> boolean", "jsonb_exists_all(jsonb, text[]) -> boolean"], all);
    catalog
        .add("||(jsonb, jsonb) -> jsonb", kernel!(try |a: &str, b: &str| Ok(text_of(&joined(parse(a)?, parse(b)?)))));
    catalog.add(
        "-(jsonb, text) -> jsonb",
        kernel!(try |json: &str, key: &str| without(parse(json)?, &|name| name == key)),
    );
    catalog.add(
        "-(jsonb, text[]) -> jsonb",
        kernel!(try |json: &str, keys: Steps| {
            without(parse(json)?, &|name| keys.0.iter().flatten().any(|key| key == name))
        }),
    );
    catalog.add("-(jsonb, integer) -> jsonb", kernel!(try |json: &str, place: i32| without_place(parse(json)?, place)));
    for signature in ["#-(jsonb, text[]) -> jsonb", "jsonb_delete_path(jsonb, text[]) -> jsonb"] {
        catalog.add(
            signature,
            kernel!(try |json: &str, path: Steps| changed(json, path, |json, path| at_path(json, path, &Change::Delete))),
        );
    }
}

/// Functions that give the value with another part, or in another form.
fn declare_changes(catalog: &mut Catalog) {
    catalog.add(
        "jsonb_set(jsonb, text[], jsonb, boolean?) -> jsonb",
        Body::Kernel(|arguments, call| {
            let columns = Columns::new(arguments, call);
            match arguments.len() {
                3 => columns.map(|(json, path, new): (&str, Steps, &str)| set(json, path, new, true)),
                _ => columns.map(|(json, path, new, creates): (&str, Steps, &str, bool)| set(json, path, new, creates)),
            }
        }),
    );
    // SET a['b'] = …
    catalog.add(
        "jsonb_with_element(jsonb, text[], jsonb) -> jsonb",
        kernel!(try |json: &str, path: Steps, new: &str| {
            let mut steps = Vec::with_capacity(path.0.len());
            for step in path.0 {
                let error = || value_error("jsonb subscript in assignment must not be null", "22004");
                steps.push(step.ok_or_else(error)?);
            }
            let mut json = parse(json)?;
            put(&mut json, &steps, 1, parse(new)?)?;
            Ok(text_of(&json))
        }),
    );
    catalog
        .add(
            "jsonb_set_lax(jsonb, text[], jsonb, boolean?, text?) -> jsonb",
            Body::Kernel(|arguments, call| {
                let columns = Columns::new(arguments, call);
                match arguments.len() {
                    3 => columns.map(|(json, path, new): (Option<&str>, Option<Steps>, Option<&str>)| {
                        set_lax(json, path, new, Some(true), Some("use_json_null"))
                    }),
                    4 => columns.map(
                        |(json, path, new, creates): (Option<&str>, Option<Steps>, Option<&str>, Option<bool>)| {
                            set_lax(json, path, new, creates, Some("use_json_null"))
                        },
                    ),
                    _ => columns.map(
                        |(json, path, new, creates, treatment): (
                            Option<&str>,
                            Option<Steps>,
                            Option<&str>,
                            Option<bool>,
                            Option<&str>,
                        )| set_lax(json, path, new, creates, treatment),
                    ),
                }
            }),
        )
        .lenient();
    catalog.add(
        "jsonb_insert(jsonb, text[], jsonb, boolean?) -> jsonb",
        Body::Kernel(|arguments, call| {
            let columns = Columns::new(arguments, call);
            match arguments.len() {
                3 => columns.map(|(json, path, new): (&str, Steps, &str)| insert(json, path, new, false)),
                _ => columns.map(|(json, path, new, after): (&str, Steps, &str, bool)| insert(json, path, new, after)),
            }
        }),
    );
    catalog.add("jsonb_strip_nulls(jsonb) -> jsonb", kernel!(try |json: &str| Ok(text_of(&stripped(parse(json)?)))));
    catalog.add(
        "json_strip_nulls(json) -> json",
        kernel!(|json: &str| {
            let mut out = String::new();
            write_stripped(&mut out, JsonPart::new(json));
            out
        }),
    );
    catalog.add(
        "jsonb_pretty(jsonb) -> text",
        kernel!(try |json: &str| {
            let mut out = String::new();
            pretty(&mut out, &parse(json)?, 0);
            Ok(out)
        }),
    );
    catalog.add_all(
        &["json_merge_patch(json, json) -> json", "json_merge_patch(text, text) -> json"],
        kernel!(try |json: &str, patch: &str| Ok(text_of(&patched(parse(json)?, parse(patch)?)))),
    );
}

fn text_of(json: &Json) -> String {
    let mut out = String::new();
    write(&mut out, json);
    out
}

/// A number without zeros at the end behind its point.
fn number(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

fn contains(whole: &Json, part: &Json, is_top: bool) -> bool {
    match (whole, part) {
        (Json::Object(whole), Json::Object(part)) => part
            .iter()
            .all(|(key, value)| whole.iter().any(|(name, other)| name == key && contains(other, value, false))),
        (Json::Array(whole), Json::Array(part)) => {
            part.iter().all(|value| whole.iter().any(|other| contains(other, value, false)))
        }
        // An array contains a scalar as if it were in an array.
        (Json::Array(whole), part) if is_top => whole.iter().any(|other| contains(other, part, false)),
        (Json::Number(whole), Json::Number(part)) => number(whole) == number(part),
        (Json::Object(_) | Json::Array(_), _) | (_, Json::Object(_) | Json::Array(_)) => false,
        (whole, part) => whole == part,
    }
}

/// Whether an object has a member, an array a string, or a string is it.
fn has_key(json: &str, key: &str) -> Result<bool> {
    let part = JsonPart::new(json);
    let is_it = |part: JsonPart<'_>| Ok(part.kind() == JsonKind::Text && part.unquoted()? == key);
    match part.kind() {
        JsonKind::Object => Ok(part.member(key).is_some()),
        JsonKind::Array => part.elements().try_fold(false, |found, part| Ok(found || is_it(part)?)),
        _ => is_it(part),
    }
}

fn joined(left: Json, right: Json) -> Json {
    match (left, right) {
        (Json::Object(mut members), Json::Object(more)) => {
            members.extend(more);
            Json::Object(unique(members))
        }
        (left, right) => {
            let items = |json| match json {
                Json::Array(items) => items,
                one => vec![one],
            };
            let mut all = items(left);
            all.extend(items(right));
            Json::Array(all)
        }
    }
}

fn without(json: Json, is_gone: &dyn Fn(&str) -> bool) -> Result<String> {
    Ok(text_of(&match json {
        Json::Object(mut members) => {
            members.retain(|(key, _)| !is_gone(key));
            Json::Object(members)
        }
        Json::Array(mut items) => {
            items.retain(|item| !matches!(item, Json::Text(text) if is_gone(text)));
            Json::Array(items)
        }
        _ => return Err(invalid_argument("cannot delete from scalar")),
    }))
}

fn without_place(json: Json, place: i32) -> Result<String> {
    match json {
        Json::Array(mut items) => {
            if let Some(place) = place_in(&items, place) {
                items.remove(place);
            }
            Ok(text_of(&Json::Array(items)))
        }
        Json::Object(_) => Err(invalid_argument("cannot delete from object using integer index")),
        _ => Err(invalid_argument("cannot delete from scalar")),
    }
}

/// The place of an element, which is counted from the end if it is negative.
fn place_in(items: &[Json], place: i32) -> Option<usize> {
    let place = if place < 0 { i64::from(place) + items.len() as i64 } else { place.into() };
    usize::try_from(place).ok().filter(|place| *place < items.len())
}

/// Places of an array that an assignment may fill up at most: a megabyte or so of NULLs.
const ELEMENTS_MAX: usize = 1 << 18;

/// What is done where a path ends.
enum Change {
    Delete,
    Set { new: Json, creates: bool },
    Insert { new: Json, after: bool },
}

fn changed(json: &str, path: Steps, change: impl Fn(&mut Json, &[String]) -> Result<()>) -> Result<String> {
    let mut steps = Vec::with_capacity(path.0.len());
    for (index, step) in path.0.into_iter().enumerate() {
        let message = || format!("path element at position {} is null", index + 1);
        steps.push(step.ok_or_else(|| value_error(message(), "22004"))?);
    }
    let mut json = parse(json)?;
    if !matches!(json, Json::Array(_) | Json::Object(_)) {
        return Err(invalid_argument("cannot set path in scalar"));
    }
    if !steps.is_empty() {
        change(&mut json, &steps)?;
    }
    Ok(text_of(&json))
}

fn set(json: &str, path: Steps, new: &str, creates: bool) -> Result<String> {
    let change = Change::Set { new: parse(new)?, creates };
    changed(json, path, |json, path| at_path(json, path, &change))
}

/// Puts a value where a path leads, and makes what is missing on the way: arrays where a step is a number, with NULLs
/// in front, and objects elsewhere. Fails with 22023 where a scalar is in the way or a place is in front of an array,
/// and with 22P02 for a place of an array that is no number.
fn put(json: &mut Json, path: &[String], position: usize, new: Json) -> Result<()> {
    let Some((step, rest)) = path.split_first() else {
        *json = new;
        return Ok(());
    };
    match json {
        Json::Object(members) => match members.iter().position(|(key, _)| key == step) {
            Some(found) => put(&mut members[found].1, rest, position + 1, new),
            None => {
                let mut all = std::mem::take(members);
                all.push((step.clone(), nested(rest, new)));
                *members = unique(all);
                Ok(())
            }
        },
        Json::Array(items) => {
            let place: i64 = step.trim().parse().map_err(|_| {
                let message = format!("path element at position {position} is not an integer: \"{step}\"");
                value_error(message, "22P02")
            })?;
            let from_begin = if place < 0 { place + items.len() as i64 } else { place };
            let out_of_range =
                || invalid_argument(format!("path element at position {position} is out of range: {place}"));
            let from_begin = usize::try_from(from_begin).map_err(|_| out_of_range())?;
            if from_begin > ELEMENTS_MAX {
                return Err(out_of_range());
            }
            match items.get_mut(from_begin) {
                Some(item) => put(item, rest, position + 1, new),
                None => {
                    items.resize(from_begin, Json::Null);
                    items.push(nested(rest, new));
                    Ok(())
                }
            }
        }
        _ => {
            let error = invalid_argument("cannot replace existing key");
            Err(error.with_detail("The path assumes key is a composite object, but it is a scalar value."))
        }
    }
}

/// A value within what a path needs.
fn nested(path: &[String], new: Json) -> Json {
    path.iter().rev().fold(new, |inner, step| match step.trim().parse::<usize>() {
        Ok(place) if place <= ELEMENTS_MAX => {
            let mut items = vec![Json::Null; place];
            items.push(inner);
            Json::Array(items)
        }
        _ => Json::Object(vec![(step.clone(), inner)]),
    })
}

/// `jsonb_set` with what is done for a new value that is NULL. Fails with 22023 for an unknown treatment, 22004 if it
/// is to fail.
fn set_lax(
    json: Option<&str>,
    path: Option<Steps>,
    new: Option<&str>,
    creates: Option<bool>,
    treatment: Option<&str>,
) -> Result<Option<String>> {
    let (Some(json), Some(path), Some(creates)) = (json, path, creates) else { return Ok(None) };
    match (new, treatment) {
        (Some(new), Some(_)) => set(json, path, new, creates).map(Some),
        (None, Some("use_json_null")) => set(json, path, "null", creates).map(Some),
        (None, Some("delete_key")) => changed(json, path, |json, path| at_path(json, path, &Change::Delete)).map(Some),
        (None, Some("return_target")) => Ok(Some(json.to_owned())),
        (None, Some("raise_exception")) => Err(value_error("JSON value must not be null", "22004")),
        _ => Err(invalid_argument(
            "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \
             \"raise_exception\"",
        )),
    }
}

fn insert(json: &str, path: Steps, new: &str, after: bool) -> Result<String> {
    let change = Change::Insert { new: parse(new)?, after };
    changed(json, path, |json, path| at_path(json, path, &change))
}

fn at_path(json: &mut Json, path: &[String], change: &Change) -> Result<()> {
    let Some((step, rest)) = path.split_first() else { return Ok(()) };
    match json {
        Json::Object(members) => {
            let found = members.iter().position(|(key, _)| key == step);
            match (found, rest.is_empty(), change) {
                (Some(index), false, change) => at_path(&mut members[index].1, rest, change)?,
                (Some(index), true, Change::Delete) => {
                    members.remove(index);
                }
                (Some(index), true, Change::Set { new, .. }) => members[index].1 = new.clone(),
                (Some(_), true, Change::Insert { .. }) => {
                    let error = invalid_argument("cannot replace existing key");
                    return Err(error.with_hint("Try using the function jsonb_set to replace key value."));
                }
                (None, true, Change::Set { new, creates: true } | Change::Insert { new, .. }) => {
                    let mut all = std::mem::take(members);
                    all.push((step.clone(), new.clone()));
                    *members = unique(all);
                }
                (None, ..) => {}
            }
        }
        // There is nothing to delete, whatever the step is.
        Json::Array(items) if items.is_empty() && matches!(change, Change::Delete) => {}
        Json::Array(items) => {
            let place: i32 = step.trim().parse().map_err(|_| {
                let message = format!("path element at position 1 is not an integer: \"{step}\"");
                value_error(message, "22P02")
            })?;
            match (place_in(items, place), rest.is_empty(), change) {
                (Some(index), false, change) => at_path(&mut items[index], rest, change)?,
                (Some(index), true, Change::Delete) => {
                    items.remove(index);
                }
                (Some(index), true, Change::Set { new, .. }) => items[index] = new.clone(),
                (Some(index), true, Change::Insert { new, after }) => {
                    items.insert(index + usize::from(*after), new.clone());
                }
                // Beyond the borders a new element is the first or the last.
                (None, true, Change::Set { new, creates: true } | Change::Insert { new, .. }) => {
                    let index = if place < 0 { 0 } else { items.len() };
                    items.insert(index, new.clone());
                }
                (None, ..) => {}
            }
        }
        _ => {}
    }
    Ok(())
}

/// Without members that are null.
fn stripped(json: Json) -> Json {
    match json {
        Json::Object(members) => {
            let members = members.into_iter().filter(|(_, value)| *value != Json::Null);
            Json::Object(members.map(|(key, value)| (key, stripped(value))).collect())
        }
        Json::Array(items) => Json::Array(items.into_iter().map(stripped).collect()),
        other => other,
    }
}

/// The same of `json`, whose members stay in order.
fn write_stripped(out: &mut String, part: JsonPart<'_>) {
    let mut is_first = true;
    let mut comma = |out: &mut String| {
        if !std::mem::take(&mut is_first) {
            out.push(',');
        }
    };
    match part.kind() {
        JsonKind::Object => {
            out.push('{');
            for (key, value) in part.members().filter(|(_, value)| value.kind() != JsonKind::Null) {
                comma(out);
                out.push_str(key.text());
                out.push(':');
                write_stripped(out, value);
            }
            out.push('}');
        }
        JsonKind::Array => {
            out.push('[');
            for value in part.elements() {
                comma(out);
                write_stripped(out, value);
            }
            out.push(']');
        }
        _ => out.push_str(part.text()),
    }
}

/// One member or element in a line, four spaces for each level.
fn pretty(out: &mut String, json: &Json, level: usize) {
    let line = |out: &mut String, level: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("    ", level));
    };
    match json {
        Json::Object(members) => {
            out.push('{');
            for (index, (key, value)) in members.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                line(out, level + 1);
                crate::text::json::write_text(out, key);
                out.push_str(": ");
                pretty(out, value, level + 1);
            }
            line(out, level);
            out.push('}');
        }
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                line(out, level + 1);
                pretty(out, item, level + 1);
            }
            line(out, level);
            out.push(']');
        }
        other => write(out, other),
    }
}

/// RFC 7396: members of the patch replace, null removes.
fn patched(json: Json, patch: Json) -> Json {
    let Json::Object(patch) = patch else { return patch };
    let mut members = match json {
        Json::Object(members) => members,
        _ => vec![],
    };
    for (key, value) in patch {
        let old = members.iter().position(|(name, _)| *name == key).map(|index| members.remove(index).1);
        if value != Json::Null {
            members.push((key, patched(old.unwrap_or(Json::Null), value)));
        }
    }
    Json::Object(unique(members))
}
