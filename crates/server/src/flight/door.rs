//! The calls of Arrow Flight, and what each means for a session.

use std::pin::Pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{
    Any, Command, CommandGetSqlInfo, CommandGetXdbcTypeInfo, CommandPreparedStatementQuery,
    CommandPreparedStatementUpdate, CommandStatementQuery, DoPutPreparedStatementResult, DoPutUpdateResult,
    ProstMessageExt, TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use diligence_base::{Error, Result};
use futures::Stream;
use futures::future::BoxFuture;
use prost::Message;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

use super::access::Access;
use super::actions;
use super::connection::Connection;
use super::incoming::Incoming;
use super::info;
use super::metadata::Question;
use super::parameters::{Parameters, converted};
use super::prepared::{Kind, Offer, Offered, handle_of, number_of};
use super::rows::{Rows, known_rows, rows};
use super::session::{FlightSession, Running};
use super::status::{malformed, status, told};
use crate::encoding::flight::{schema_bytes, told_schema};
use crate::service::Service;
use crate::sqlstate;

type Answer<T> = std::result::Result<Response<T>, Status>;
type Answers<T> = Pin<Box<dyn Stream<Item = std::result::Result<T, Status>> + Send>>;

/// What serves the calls.
#[derive(Clone)]
pub(super) struct Door {
    access: Arc<Access>,
}

/// The command of a descriptor or a ticket.
fn command_of(bytes: &[u8]) -> Result<Command> {
    let any = Any::decode(bytes).map_err(malformed)?;
    Command::try_from(any).map_err(malformed)
}

fn unsupported(what: &str) -> Error {
    Error::unsupported(format!("{what} is not offered")).with_code(sqlstate::UNSUPPORTED)
}

/// What is asked that needs no statement of the client's.
enum Asked {
    Catalog(Question),
    Info(CommandGetSqlInfo),
    Types(CommandGetXdbcTypeInfo),
}

impl Asked {
    /// The question of a command, if it is one.
    fn of(command: Command) -> std::result::Result<Self, Box<Command>> {
        Ok(match command {
            Command::CommandGetCatalogs(asked) => Self::Catalog(Question::Catalogs(asked)),
            Command::CommandGetDbSchemas(asked) => Self::Catalog(Question::Schemas(asked)),
            Command::CommandGetTables(asked) => Self::Catalog(Question::Tables(asked)),
            Command::CommandGetTableTypes(asked) => Self::Catalog(Question::TableTypes(asked)),
            Command::CommandGetPrimaryKeys(asked) => Self::Catalog(Question::PrimaryKeys(asked)),
            Command::CommandGetExportedKeys(asked) => Self::Catalog(Question::ExportedKeys(asked)),
            Command::CommandGetImportedKeys(asked) => Self::Catalog(Question::ImportedKeys(asked)),
            Command::CommandGetCrossReference(asked) => Self::Catalog(Question::CrossReference(asked)),
            Command::CommandGetSqlInfo(asked) => Self::Info(asked),
            Command::CommandGetXdbcTypeInfo(asked) => Self::Types(asked),
            other => return Err(Box::new(other)),
        })
    }

    /// What it is called where calls are listed.
    fn name(&self) -> &'static str {
        match self {
            Self::Catalog(Question::Catalogs(_)) => "GetCatalogs",
            Self::Catalog(Question::Schemas(_)) => "GetDbSchemas",
            Self::Catalog(Question::Tables(_)) => "GetTables",
            Self::Catalog(Question::TableTypes(_)) => "GetTableTypes",
            Self::Catalog(Question::PrimaryKeys(_)) => "GetPrimaryKeys",
            Self::Catalog(Question::ExportedKeys(_)) => "GetExportedKeys",
            Self::Catalog(Question::ImportedKeys(_)) => "GetImportedKeys",
            Self::Catalog(Question::CrossReference(_)) => "GetCrossReference",
            Self::Info(_) => "GetSqlInfo",
            Self::Types(_) => "GetXdbcTypeInfo",
        }
    }

    fn schema(&self) -> Result<SchemaRef> {
        match self {
            Self::Catalog(question) => Ok(question.schema()),
            Self::Info(_) => info::sql_info_schema(),
            Self::Types(_) => info::type_info_schema(),
        }
    }

    async fn answer(&self, session: &FlightSession, call: &Running) -> Result<RecordBatch> {
        match self {
            Self::Catalog(question) => session.answer(question, &call.cancellation).await,
            Self::Info(asked) => info::sql_info(&asked.info),
            Self::Types(asked) => info::type_info(asked.data_type),
        }
    }
}

impl Door {
    pub(super) fn new(access: Arc<Access>) -> Self {
        Self { access }
    }

    /// The session and the connection of a call.
    async fn caller<T>(
        &self,
        request: &Request<T>,
    ) -> std::result::Result<(Arc<FlightSession>, Arc<Connection>), Status> {
        let connection = connection_of(request)?;
        let session = self.access.session(request.metadata(), &connection).await?;
        Ok((session, connection))
    }

    async fn session<T>(&self, request: &Request<T>) -> std::result::Result<Arc<FlightSession>, Status> {
        self.caller(request).await.map(|(session, _)| session)
    }
}

fn connection_of<T>(request: &Request<T>) -> std::result::Result<Arc<Connection>, Status> {
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    connection.ok_or_else(|| status(&Error::bug("a call without a connection")))
}

/// What a client learns of a statement before it fetches the rows.
struct Learned {
    /// In the form of messages; empty if it is not known before the statement runs.
    schema: bytes::Bytes,
    ticket: Ticket,
}

impl Learned {
    fn info(self, descriptor: FlightDescriptor) -> FlightInfo {
        let endpoint = FlightEndpoint::new().with_ticket(self.ticket);
        let mut info = FlightInfo::new().with_endpoint(endpoint).with_descriptor(descriptor);
        info.schema = self.schema;
        info
    }
}

/// Makes a statement ready to be fetched; one without rows is run.
async fn learn(
    session: &Arc<FlightSession>,
    text: &str,
    kind: Kind,
    values: Parameters,
    call: &Running,
) -> Result<Learned> {
    let cancellation = &call.cancellation;
    let query = session.columns_of_query(&kind, &values, cancellation).await?;
    let (what, schema) = match query {
        Some(schema) => {
            let told = told_schema(&schema);
            let bytes = schema_bytes(&told)?;
            (Offered::Rows(kind, values, Some(told)), bytes)
        }
        None => {
            let given = values.types().into_iter().map(Some).collect();
            let description = session.describe(&kind, given, cancellation).await?;
            match description.schema {
                // Without a row of values nothing is run that could tell.
                Some(schema) if values.count() == 0 => {
                    let told = told_schema(&schema);
                    let bytes = schema_bytes(&told)?;
                    (Offered::Rows(kind, values, Some(told)), bytes)
                }
                // It is told no columns, so its client does not go on before it has begun.
                Some(_) => (Offered::Rows(kind, values, None), bytes::Bytes::new()),
                None => {
                    session.run_each(&kind, &values, cancellation).await?;
                    (Offered::Done, schema_bytes(&Schema::empty())?)
                }
            }
        }
    };
    let number = session.number();
    session.offer(number, Offer { text: text.to_owned(), what });
    let ticket = TicketStatementQuery { statement_handle: handle_of(number).into() };
    Ok(Learned { schema, ticket: Ticket { ticket: ticket.as_any().encode_to_vec().into() } })
}

async fn learn_statement(session: &Arc<FlightSession>, asked: &CommandStatementQuery) -> Result<Learned> {
    session.check_transaction(asked.transaction_id.as_deref())?;
    let call = session.begins(session.number(), &asked.query);
    let kind = session.read(&asked.query, &call.cancellation).await?;
    learn(session, &asked.query, kind, Parameters::none(), &call).await
}

async fn learn_prepared(session: &Arc<FlightSession>, asked: &CommandPreparedStatementQuery) -> Result<Learned> {
    let (text, kind, values) = bound(session, &asked.prepared_statement_handle)?;
    let call = session.begins(session.number(), &text);
    learn(session, &text, kind, values, &call).await
}

/// A prepared statement with the values that were bound to it. Fails with code 08P01 if it wants values and has none.
fn bound(session: &FlightSession, handle: &[u8]) -> Result<(String, Kind, Parameters)> {
    let prepared = session.prepared(number_of(handle).unwrap_or_default())?;
    let values = match &prepared.bound {
        Some(values) => values.clone(),
        None if prepared.parameters.is_empty() => Parameters::none(),
        None => {
            let wanted = prepared.parameters.len();
            let error =
                Error::input(format!("the statement has {wanted} parameters, and no values were bound to them"));
            return Err(error.with_code(sqlstate::PROTOCOL));
        }
    };
    Ok((prepared.text.clone(), prepared.kind.clone(), values))
}

/// The columns of a statement, without running it.
async fn columns(session: &Arc<FlightSession>, command: Command) -> Result<SchemaRef> {
    let schema = match command {
        Command::CommandStatementQuery(asked) => {
            let call = session.begins(session.number(), &asked.query);
            let kind = session.read(&asked.query, &call.cancellation).await?;
            session.describe(&kind, vec![], &call.cancellation).await?.schema
        }
        Command::CommandPreparedStatementQuery(asked) => {
            session.prepared(number_of(&asked.prepared_statement_handle).unwrap_or_default())?.schema.clone()
        }
        other => return Err(unsupported(other.type_url())),
    };
    Ok(schema.map_or_else(|| Arc::new(Schema::empty()), |schema| told_schema(&schema)))
}

/// The rows behind a ticket.
async fn fetch(session: &Arc<FlightSession>, ticket: &[u8]) -> Result<Rows> {
    let (number, offer) = match command_of(ticket)? {
        Command::TicketStatementQuery(asked) => {
            let number = number_of(&asked.statement_handle).unwrap_or_default();
            (number, session.take_offer(number)?)
        }
        Command::CommandPreparedStatementQuery(asked) => {
            let (text, kind, values) = bound(session, &asked.prepared_statement_handle)?;
            (session.number(), Offer { text, what: Offered::Rows(kind, values, None) })
        }
        other => {
            let asked = Asked::of(other).map_err(|other| unsupported(other.type_url()))?;
            let call = session.begins(session.number(), asked.name());
            let batch = asked.answer(session, &call).await?;
            return known_rows(session, asked.schema()?, Some(batch)).await;
        }
    };
    match offer.what {
        Offered::Done => known_rows(session, Arc::new(Schema::empty()), None).await,
        Offered::Rows(kind, values, schema) => {
            let call = session.begins(number, &offer.text);
            rows(session, kind, values, schema, call).await
        }
    }
}

/// Binds values to a prepared statement.
async fn bind(session: &Arc<FlightSession>, handle: &[u8], incoming: &mut Incoming) -> Result<()> {
    let number = number_of(handle).unwrap_or_default();
    let prepared = session.prepared(number)?;
    let call = session.begins(session.number(), &prepared.text);
    let cancellation = &call.cancellation;
    let Some(sent) = incoming.schema(session, cancellation).await? else { return Ok(()) };
    let types = session.types_for(&prepared, &sent, cancellation).await?;
    let mut batches = Vec::new();
    while let Some(batch) = incoming.next(session, cancellation).await? {
        let types = types.clone();
        batches.push(session.execution().compute(move || converted(&batch, &types)).await?);
        Parameters::check(&batches)?;
    }
    session.replace(number, Some(prepared.with(Parameters::new(batches))));
    Ok(())
}

/// Runs a prepared statement with each row of values that comes: all of them or none.
async fn update_prepared(
    session: &Arc<FlightSession>,
    asked: &CommandPreparedStatementUpdate,
    incoming: &mut Incoming,
) -> Result<Option<u64>> {
    let handle = &asked.prepared_statement_handle;
    let prepared = session.prepared(number_of(handle).unwrap_or_default())?;
    let call = session.begins(session.number(), &prepared.text);
    let cancellation = &call.cancellation;
    let sent = incoming.schema(session, cancellation).await?;
    let Some(sent) = sent.filter(|sent| !sent.fields().is_empty()) else {
        let (_, kind, values) = bound(session, handle)?;
        return session.run_each(&kind, &values, cancellation).await;
    };
    let types = session.types_for(&prepared, &sent, cancellation).await?;
    let mut next = incoming.next(session, cancellation).await?;
    let mut after = match &next {
        Some(_) => incoming.next(session, cancellation).await?,
        None => None,
    };
    // Several rows are one change.
    let is_many = after.is_some() || next.as_ref().is_some_and(|batch| batch.num_rows() > 1);
    let own = if is_many { session.begin_own()? } else { None };
    let mut rows = None;
    while let Some(batch) = next {
        let types = types.clone();
        let batch = session.execution().compute(move || converted(&batch, &types)).await?;
        let concerned = session.run_each(&prepared.kind, &Parameters::new(vec![batch]), cancellation).await?;
        rows = rows.map_or(concerned, |rows: u64| Some(rows + concerned.unwrap_or(0)));
        next = after;
        after = if next.is_some() { incoming.next(session, cancellation).await? } else { None };
    }
    if let Some(own) = own {
        own.commit().await?;
    }
    Ok(rows)
}

/// Does what a client's rows are for; what it is told.
async fn put(session: &Arc<FlightSession>, mut first: FlightData, messages: Streaming<FlightData>) -> Result<Vec<u8>> {
    let descriptor = first.flight_descriptor.take().ok_or_else(|| malformed("rows come without a command"))?;
    let command = command_of(&descriptor.cmd)?;
    let mut incoming = Incoming::new(first, messages);
    let rows = match command {
        Command::CommandStatementUpdate(asked) => {
            session.check_transaction(asked.transaction_id.as_deref())?;
            let call = session.begins(session.number(), &asked.query);
            session.update(&asked.query, &call).await?
        }
        Command::CommandStatementIngest(asked) => {
            session.check_transaction(asked.transaction_id.as_deref())?;
            let call = session.begins(session.number(), &format!("COPY {} FROM STDIN", asked.table));
            Some(session.ingest(&asked, &mut incoming, &call.cancellation).await?)
        }
        Command::CommandPreparedStatementUpdate(asked) => update_prepared(session, &asked, &mut incoming).await?,
        Command::CommandPreparedStatementQuery(asked) => {
            bind(session, &asked.prepared_statement_handle, &mut incoming).await?;
            let handle = Some(asked.prepared_statement_handle);
            return Ok(DoPutPreparedStatementResult { prepared_statement_handle: handle }.encode_to_vec());
        }
        other => return Err(unsupported(other.type_url())),
    };
    // Below zero is what is not counted.
    let record_count = rows.map_or(-1, |rows| i64::try_from(rows).unwrap_or(i64::MAX));
    Ok(DoPutUpdateResult { record_count }.encode_to_vec())
}

fn one<T: Send + 'static>(answer: T) -> Answers<T> {
    Box::pin(futures::stream::iter([Ok(answer)]))
}

/// Each call.
impl Door {
    async fn handshake(self, request: Request<Streaming<HandshakeRequest>>) -> Answer<Answers<HandshakeResponse>> {
        let connection = connection_of(&request)?;
        let token = self.access.log_in(request.metadata(), &connection).await?;
        let answer = HandshakeResponse { protocol_version: 0, payload: token.clone().into() };
        let mut response = Response::new(one(answer));
        let header = MetadataValue::try_from(format!("Bearer {token}"));
        let header = header.map_err(|error| status(&Error::bug(format!("a token is no header: {error}"))))?;
        response.metadata_mut().insert("authorization", header);
        Ok(response)
    }

    async fn list_flights(self, request: Request<Criteria>) -> Answer<Answers<FlightInfo>> {
        self.session(&request).await?;
        Ok(Response::new(Box::pin(futures::stream::empty())))
    }

    async fn get_flight_info(self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        let session = self.session(&request).await?;
        let descriptor = request.into_inner();
        let learned = async {
            let command = command_of(&descriptor.cmd)?;
            match command {
                Command::CommandStatementQuery(asked) => session.noted(learn_statement(&session, &asked).await),
                Command::CommandPreparedStatementQuery(asked) => session.noted(learn_prepared(&session, &asked).await),
                other => {
                    let asked = Asked::of(other).map_err(|other| unsupported(other.type_url()))?;
                    let schema = schema_bytes(&*asked.schema()?)?;
                    Ok(Learned { schema, ticket: Ticket { ticket: descriptor.cmd.clone() } })
                }
            }
        };
        let learned = told(learned.await)?;
        Ok(Response::new(learned.info(descriptor)))
    }

    async fn poll_flight_info(self, request: Request<FlightDescriptor>) -> Answer<PollInfo> {
        self.session(&request).await?;
        Err(status(&unsupported("PollFlightInfo").with_hint("GetFlightInfo answers before the statement runs")))
    }

    async fn get_schema(self, request: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        let session = self.session(&request).await?;
        let schema = async {
            let schema = match Asked::of(command_of(&request.get_ref().cmd)?) {
                Ok(asked) => asked.schema()?,
                Err(command) => session.noted(columns(&session, *command).await)?,
            };
            schema_bytes(&schema)
        };
        Ok(Response::new(SchemaResult { schema: told(schema.await)? }))
    }

    async fn do_get(self, request: Request<Ticket>) -> Answer<Rows> {
        let session = self.session(&request).await?;
        let rows = session.noted(fetch(&session, &request.get_ref().ticket).await);
        Ok(Response::new(told(rows)?))
    }

    async fn do_put(self, request: Request<Streaming<FlightData>>) -> Answer<Answers<PutResult>> {
        let session = self.session(&request).await?;
        let mut messages = request.into_inner();
        let first = messages.message().await?;
        let first = first.ok_or_else(|| status(&malformed("there is no message")))?;
        let app_metadata = told(session.noted(put(&session, first, messages).await))?.into();
        Ok(Response::new(one(PutResult { app_metadata })))
    }

    async fn do_exchange(self, request: Request<Streaming<FlightData>>) -> Answer<Answers<FlightData>> {
        self.session(&request).await?;
        Err(status(&unsupported("DoExchange")))
    }

    async fn do_action(self, request: Request<Action>) -> Answer<Answers<arrow_flight::Result>> {
        let (session, connection) = self.caller(&request).await?;
        let action = request.into_inner();
        let answers = told(actions::act(&self.access, &session, &connection, &action).await)?;
        let answers = answers.into_iter().map(|body| Ok(arrow_flight::Result { body: body.into() }));
        Ok(Response::new(Box::pin(futures::stream::iter(answers))))
    }

    async fn list_actions(self, request: Request<Empty>) -> Answer<Answers<ActionType>> {
        self.session(&request).await?;
        let named =
            |(name, about): (&str, &str)| Ok(ActionType { r#type: name.to_owned(), description: about.to_owned() });
        Ok(Response::new(Box::pin(futures::stream::iter(actions::ACTIONS.map(named)))))
    }
}

/// The calls as the library wants them: each is a future of its own type that may move between threads. That is proven
/// outside of the library's trait: within it, whose lifetimes are in each proof, the compiler would do it for every
/// call anew, which took four minutes.
macro_rules! calls {
    ($($call:ident($request:ty) -> $answer:ty;)*) => {$(
        fn $call<'life0, 'async_trait>(
            &'life0 self,
            request: Request<$request>,
        ) -> BoxFuture<'async_trait, Answer<$answer>>
        where
            'life0: 'async_trait,
            Self: 'async_trait,
        {
            fn boxed(door: Door, request: Request<$request>) -> BoxFuture<'static, Answer<$answer>> {
                Box::pin(door.$call(request))
            }
            boxed(self.clone(), request)
        }
    )*};
}

impl FlightService for Door {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = Rows;
    type DoPutStream = Answers<PutResult>;
    type DoExchangeStream = Answers<FlightData>;
    type DoActionStream = Answers<arrow_flight::Result>;
    type ListActionsStream = Answers<ActionType>;

    calls! {
        handshake(Streaming<HandshakeRequest>) -> Answers<HandshakeResponse>;
        list_flights(Criteria) -> Answers<FlightInfo>;
        get_flight_info(FlightDescriptor) -> FlightInfo;
        poll_flight_info(FlightDescriptor) -> PollInfo;
        get_schema(FlightDescriptor) -> SchemaResult;
        do_get(Ticket) -> Rows;
        do_put(Streaming<FlightData>) -> Answers<PutResult>;
        do_exchange(Streaming<FlightData>) -> Answers<FlightData>;
        do_action(Action) -> Answers<arrow_flight::Result>;
        list_actions(Empty) -> Answers<ActionType>;
    }
}

/// Bytes of a message that the door takes.
pub(super) fn message_bytes_max(service: &Service) -> usize {
    service.options().limits.flight_message_bytes_max
}
