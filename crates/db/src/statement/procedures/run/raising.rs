//! RAISE: an error, or a message to whoever sent the statement.

use diligence_base::About;
use diligence_engine::stages::{Level, Message};

use super::*;

impl Run<'_> {
    pub(super) fn raise(&mut self, raise: &Raise) -> Result<()> {
        let mut values = Vec::with_capacity(raise.values.len());
        for value in &raise.values {
            let value = self.value_of(value)?.put_out(&self.zone)?;
            values.push(value.unwrap_or_else(|| "<NULL>".to_owned()));
        }
        let (mut text, mut code, mut detail, mut hint) = (None, None, None, None);
        let mut about = About::default();
        if let Some(format) = &raise.format {
            text = Some(raised::message(format, &values)?);
        }
        if let Some(condition) = &raise.condition {
            use diligence_sql::procedural::Condition;
            code = Some(match condition {
                Condition::Named(name) => raised::code_of(name)?,
                Condition::Code(given) => raised::code(given)?,
                Condition::Others => raised::code_of("others")?,
            });
            text = text.or_else(|| Some(raise.condition.as_ref().map(named).unwrap_or_default()));
        }
        for (name, value) in &raise.options {
            let value = self.value_of(value)?.shown(&self.zone)?.unwrap_or_default();
            match name.as_str() {
                "message" => text = Some(value),
                "errcode" => code = Some(raised::code(&value)?),
                "detail" => detail = Some(value),
                "hint" => hint = Some(value),
                "column" => about.column = Some(value),
                "constraint" => about.constraint = Some(value),
                "table" => about.table = Some(value),
                "schema" => about.schema = Some(value),
                "datatype" => {}
                other => {
                    let message = format!("unrecognized RAISE statement option \"{other}\"");
                    return Err(Error::input(message).with_code("42601"));
                }
            }
        }
        let is_bare = text.is_none() && code.is_none() && raise.options.is_empty();
        if is_bare {
            return Err(self.handled.last().cloned().unwrap_or_else(|| {
                Error::input("RAISE without parameters cannot be used outside an exception handler").with_code("0Z002")
            }));
        }
        let text = text.unwrap_or_else(|| code.unwrap_or("P0001").to_owned());
        let explained = |mut error: Error| {
            error = if let Some(detail) = detail { error.with_detail(detail) } else { error };
            error = if let Some(hint) = hint { error.with_hint(hint) } else { error };
            error.with_about(about)
        };
        match raise.level.as_str() {
            "exception" => Err(explained(Error::value(text).with_code(code.unwrap_or("P0001")))),
            "debug" | "log" => Ok(()),
            level => {
                let level = match level {
                    "warning" => Level::Warning,
                    "info" => Level::Info,
                    _ => Level::Notice,
                };
                let usual = if level == Level::Warning { "01000" } else { "00000" };
                let said = explained(Error::input(text).with_code(code.unwrap_or(usual)));
                self.caller.printed(Message { level, said });
                Ok(())
            }
        }
    }
}

fn named(condition: &diligence_sql::procedural::Condition) -> String {
    use diligence_sql::procedural::Condition;
    match condition {
        Condition::Named(text) | Condition::Code(text) => text.clone(),
        Condition::Others => "others".to_owned(),
    }
}
