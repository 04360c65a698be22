//! Actions: prepared statements, transactions, the end of a statement, options of a session.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionBeginTransactionResult, ActionCancelQueryRequest,
    ActionCancelQueryResult, ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult, ActionEndSavepointRequest, ActionEndTransactionRequest, Any, Command,
    EndTransaction, ProstMessageExt,
};
use arrow_flight::{Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightInfo};
use diligence_base::{Error, Result};
use prost::Message;

use super::access::Access;
use super::connection::Connection;
use super::messages::{
    CloseSessionResult, GetSessionOptionsResult, OptionError, OptionValue, SessionOptionValue,
    SetSessionOptionsRequest, SetSessionOptionsResult,
};
use super::parameters::told;
use super::prepared::{Prepared, handle_of, number_of};
use super::session::FlightSession;
use super::status::malformed;
use crate::encoding::flight::{schema_bytes, told_schema};
use crate::session::commands::{Lasts, TransactionMode};
use crate::sqlstate;

/// The actions, and what they are for.
pub(super) const ACTIONS: [(&str, &str); 11] = [
    ("CreatePreparedStatement", "Prepares a statement"),
    ("ClosePreparedStatement", "Forgets a prepared statement"),
    ("BeginTransaction", "Begins the session's transaction"),
    ("EndTransaction", "Commits the session's transaction, or rolls it back"),
    ("BeginSavepoint", "Sets a savepoint in the transaction"),
    ("EndSavepoint", "Releases a savepoint, or rolls back to it"),
    ("CancelFlightInfo", "Ends the statement of a FlightInfo"),
    ("CancelQuery", "As CancelFlightInfo, for older clients"),
    ("SetSessionOptions", "Changes settings of the session, its catalog or its schema"),
    ("GetSessionOptions", "The session's catalog and schema, and the settings that were changed"),
    ("CloseSession", "Ends the session: what is open is rolled back, and its token is good no more"),
];

/// The option for the catalog, and that for the schema where names are looked for first.
const CATALOG: &str = "catalog";
const SCHEMA: &str = "schema";
/// What the schema is among the settings.
const SEARCH_PATH: &str = "search_path";

/// A message of Flight SQL within an action.
fn packed<T: ProstMessageExt>(action: &Action) -> Result<T> {
    let any = Any::decode(action.body.clone()).map_err(malformed)?;
    any.unpack().map_err(malformed)?.ok_or_else(|| malformed(format!("{} has another body", action.r#type)))
}

/// Does what an action says. Fails with code 0A000 if it is not known.
pub(super) async fn act(
    access: &Access,
    session: &Arc<FlightSession>,
    connection: &Connection,
    action: &Action,
) -> Result<Vec<Vec<u8>>> {
    Ok(match action.r#type.as_str() {
        "CreatePreparedStatement" => {
            let asked: ActionCreatePreparedStatementRequest = packed(action)?;
            let prepared = session.noted(prepare(session, &asked).await)?;
            vec![prepared.as_any().encode_to_vec()]
        }
        "ClosePreparedStatement" => {
            let asked: ActionClosePreparedStatementRequest = packed(action)?;
            if let Some(number) = number_of(&asked.prepared_statement_handle) {
                session.replace(number, None);
            }
            vec![]
        }
        "BeginTransaction" => {
            let number = session.begin(TransactionMode::default())?;
            let begun = ActionBeginTransactionResult { transaction_id: handle_of(number).into() };
            vec![begun.as_any().encode_to_vec()]
        }
        "EndTransaction" => {
            end_transaction(session, &packed(action)?).await?;
            vec![]
        }
        "BeginSavepoint" => {
            let asked: ActionBeginSavepointRequest = packed(action)?;
            session.check_transaction(Some(&asked.transaction_id))?;
            session.savepoint(&asked.name)?;
            let number = session.number();
            session.state.lock().savepoints.insert(number, asked.name);
            let begun = ActionBeginSavepointResult { savepoint_id: handle_of(number).into() };
            vec![begun.as_any().encode_to_vec()]
        }
        "EndSavepoint" => {
            end_savepoint(session, &packed(action)?)?;
            vec![]
        }
        "CancelFlightInfo" => {
            let asked = CancelFlightInfoRequest::decode(action.body.clone()).map_err(malformed)?;
            let is_cancelled = cancel(session, asked.info.as_ref());
            let status = if is_cancelled { CancelStatus::Cancelled } else { CancelStatus::NotCancellable };
            vec![CancelFlightInfoResult { status: status as i32 }.encode_to_vec()]
        }
        "CancelQuery" => {
            let asked: ActionCancelQueryRequest = packed(action)?;
            let info = FlightInfo::decode(asked.info).map_err(malformed)?;
            // As the result has them: cancelled, or not to be cancelled.
            let result = if cancel(session, Some(&info)) { 1 } else { 3 };
            vec![ActionCancelQueryResult { result }.as_any().encode_to_vec()]
        }
        "SetSessionOptions" => {
            let asked = SetSessionOptionsRequest::decode(action.body.clone()).map_err(malformed)?;
            vec![set_options(session, asked).encode_to_vec()]
        }
        "GetSessionOptions" => vec![options(session)?.encode_to_vec()],
        "CloseSession" => {
            access.close(session, connection);
            vec![CloseSessionResult { status: CloseSessionResult::CLOSED }.encode_to_vec()]
        }
        other => {
            let error = Error::unsupported(format!("the action '{other}' is not offered"));
            return Err(error.with_code(sqlstate::UNSUPPORTED).with_hint("ListActions tells which are"));
        }
    })
}

async fn prepare(
    session: &Arc<FlightSession>,
    asked: &ActionCreatePreparedStatementRequest,
) -> Result<ActionCreatePreparedStatementResult> {
    session.check_transaction(asked.transaction_id.as_deref())?;
    let call = session.begins(session.number(), &asked.query);
    let kind = session.read(&asked.query, &call.cancellation).await?;
    let description = session.describe(&kind, vec![], &call.cancellation).await?;
    let schema = description.schema.as_deref().map(told_schema);
    let dataset_schema = schema.as_ref().map(|schema| schema_bytes(schema)).transpose()?.unwrap_or_default();
    let parameter_schema = schema_bytes(&told(&description.parameters))?;
    let text = asked.query.clone();
    let number = session.keep(Prepared { text, kind, parameters: description.parameters, schema, bound: None })?;
    let prepared_statement_handle = handle_of(number).into();
    Ok(ActionCreatePreparedStatementResult { prepared_statement_handle, dataset_schema, parameter_schema })
}

async fn end_transaction(session: &FlightSession, asked: &ActionEndTransactionRequest) -> Result<()> {
    if asked.transaction_id.is_empty() {
        return Err(malformed("no transaction is named"));
    }
    let action = EndTransaction::try_from(asked.action);
    if action == Ok(EndTransaction::Rollback) && session.has_lost(&asked.transaction_id) {
        return Ok(());
    }
    session.check_transaction(Some(&asked.transaction_id))?;
    match action {
        Ok(EndTransaction::Commit) => session.commit().await,
        Ok(EndTransaction::Rollback) => {
            session.roll_back();
            Ok(())
        }
        Ok(EndTransaction::Unspecified) | Err(_) => Err(malformed("a transaction is committed or rolled back")),
    }
}

fn end_savepoint(session: &FlightSession, asked: &ActionEndSavepointRequest) -> Result<()> {
    let number = number_of(&asked.savepoint_id).unwrap_or_default();
    let name = session.state.lock().savepoints.get(&number).cloned();
    let name = name.ok_or_else(|| Error::input("no savepoint has this number").with_code("3B001"))?;
    // As the request has them.
    const RELEASE: i32 = 1;
    const ROLLBACK: i32 = 2;
    match asked.action {
        RELEASE => session.release(&name)?,
        ROLLBACK => session.back_to(&name)?,
        _ => return Err(malformed("a savepoint is released or rolled back to")),
    }
    if asked.action == RELEASE {
        session.state.lock().savepoints.remove(&number);
    }
    Ok(())
}

/// Ends the statements of a FlightInfo; false if none of them runs or waits.
fn cancel(session: &FlightSession, info: Option<&FlightInfo>) -> bool {
    let tickets = info.into_iter().flat_map(|info| &info.endpoint).filter_map(|endpoint| endpoint.ticket.as_ref());
    let numbers =
        tickets.filter_map(|ticket| match Command::try_from(Any::decode(ticket.ticket.clone()).ok()?).ok()? {
            Command::TicketStatementQuery(asked) => number_of(&asked.statement_handle),
            _ => None,
        });
    numbers.filter(|number| session.cancel(*number)).count() > 0
}

fn set_options(session: &FlightSession, asked: SetSessionOptionsRequest) -> SetSessionOptionsResult {
    let mut errors = HashMap::new();
    for (name, option) in asked.options {
        let value = option.value.map(|value| match value {
            OptionValue::Text(text) => text,
            OptionValue::Flag(flag) => if flag { "on" } else { "off" }.to_owned(),
            OptionValue::Whole(number) => number.to_string(),
            OptionValue::Number(number) => number.to_string(),
            OptionValue::Texts(texts) => texts.values.join(", "),
        });
        let set = match (name.as_str(), value) {
            (CATALOG, value) => session.check_catalog(value.as_deref()),
            (SCHEMA, value) => {
                let value = value.map(|schema| format!("\"{}\"", schema.replace('"', "\"\"")));
                session.change_setting(SEARCH_PATH, value.as_deref(), Lasts::Session)
            }
            (name, value) => session.change_setting(name, value.as_deref(), Lasts::Session),
        };
        if let Err(error) = set {
            let value = if sqlstate::of(&error) == "42704" { OptionError::NAME } else { OptionError::VALUE };
            errors.insert(name, OptionError { value });
        }
    }
    SetSessionOptionsResult { errors }
}

fn options(session: &FlightSession) -> Result<GetSessionOptionsResult> {
    let client = session.state.lock().settings.changed().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let changed = client.into_iter().chain(session.session.changed_settings());
    let mut options = HashMap::new();
    for name in changed {
        let value = session.setting(&name)?;
        options.insert(name, value);
    }
    let path = session.setting(SEARCH_PATH)?;
    let first = path.split(',').map(str::trim).find(|name| *name != "\"$user\"").unwrap_or_default();
    options.insert(SCHEMA.to_owned(), first.trim_matches('"').to_owned());
    options.insert(CATALOG.to_owned(), session.catalog().to_owned());
    let shown = |(name, value)| (name, SessionOptionValue { value: Some(OptionValue::Text(value)) });
    Ok(GetSessionOptionsResult { options: options.into_iter().map(shown).collect() })
}
