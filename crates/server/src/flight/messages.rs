//! Messages of Flight and gRPC that the library does not have: options of sessions, and the details of errors.

use std::collections::HashMap;

/// What a session option is.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SessionOptionValue {
    /// Nothing, for the option's default.
    #[prost(oneof = "OptionValue", tags = "1, 2, 3, 4, 5")]
    pub(super) value: Option<OptionValue>,
}

/// The value by its type.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum OptionValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Flag(bool),
    #[prost(sfixed64, tag = "3")]
    Whole(i64),
    #[prost(double, tag = "4")]
    Number(f64),
    #[prost(message, tag = "5")]
    Texts(TextList),
}

/// Several texts.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TextList {
    #[prost(string, repeated, tag = "1")]
    pub(super) values: Vec<String>,
}

/// The action `SetSessionOptions`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SetSessionOptionsRequest {
    #[prost(map = "string, message", tag = "1")]
    pub(super) options: HashMap<String, SessionOptionValue>,
}

/// Its result: the options that were not set.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SetSessionOptionsResult {
    #[prost(map = "string, message", tag = "1")]
    pub(super) errors: HashMap<String, OptionError>,
}

/// Why an option was not set.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OptionError {
    /// One of the constants.
    #[prost(int32, tag = "1")]
    pub(super) value: i32,
}

impl OptionError {
    /// There is no such option.
    pub(super) const NAME: i32 = 1;
    /// This is no value of it.
    pub(super) const VALUE: i32 = 2;
}

/// The result of the action `GetSessionOptions`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GetSessionOptionsResult {
    #[prost(map = "string, message", tag = "1")]
    pub(super) options: HashMap<String, SessionOptionValue>,
}

/// The result of the action `CloseSession`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CloseSessionResult {
    /// One of the constants.
    #[prost(int32, tag = "1")]
    pub(super) status: i32,
}

impl CloseSessionResult {
    /// The session has ended.
    pub(super) const CLOSED: i32 = 1;
}

/// `google.rpc.Status`: what gRPC's clients find in the details of an error.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) message: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) details: Vec<arrow_flight::sql::Any>,
}

/// `google.rpc.ErrorInfo`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ErrorInfo {
    /// The SQLSTATE.
    #[prost(string, tag = "1")]
    pub(super) reason: String,
    #[prost(string, tag = "2")]
    pub(super) domain: String,
    /// What else is known: detail, hint, schema, table, column, constraint, line and column of the text.
    #[prost(map = "string, string", tag = "3")]
    pub(super) metadata: HashMap<String, String>,
}

impl ErrorInfo {
    /// Its name among all messages.
    pub(super) const TYPE_URL: &str = "type.googleapis.com/google.rpc.ErrorInfo";
}
