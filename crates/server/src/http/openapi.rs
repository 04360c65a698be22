//! The endpoints described for tools, as OpenAPI 3.1.

use serde_json::{Map, Value, json};

use super::endpoints::{Endpoints, Kind};

/// The description.
pub(super) fn description(endpoints: &Endpoints) -> Value {
    let mut paths = Map::new();
    for endpoint in endpoints.iter() {
        let parameters = endpoint.parameters.iter().map(|parameter| {
            let mut schema = schema(parameter.kind);
            if let Some(default) = &parameter.default {
                schema["default"] = serde_json::from_str(default).unwrap_or_else(|_| json!(default));
            }
            json!({ "name": parameter.name, "in": "query", "required": parameter.default.is_none(), "schema": schema })
        });
        let get = json!({
            "summary": endpoint.description,
            "parameters": parameters.collect::<Vec<_>>(),
            "responses": {
                "200": { "description": "The rows", "content": {
                    "application/json": { "schema": rows() },
                    "text/csv": { "schema": { "type": "string" } },
                    "application/vnd.apache.arrow.stream": { "schema": { "type": "string", "format": "binary" } },
                }},
                "304": { "description": "Nothing has changed since the answer with this ETag" },
                "400": { "description": "A parameter is missing or is no value of its type" },
                "503": { "description": "Too many queries wait; Retry-After says when to try again" },
            },
        });
        paths.insert(endpoint.path.clone(), json!({ "get": get }));
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Diligence endpoints", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
    })
}

fn rows() -> Value {
    json!({ "type": "object", "properties": {
        "query": { "type": ["integer", "null"] },
        "columns": { "type": "array", "items": { "type": "object", "properties": {
            "name": { "type": "string" }, "type": { "type": "string" },
        }}},
        "rows": { "type": "array", "items": { "type": "array" } },
        "row_count": { "type": "integer" },
    }})
}

fn schema(kind: Kind) -> Value {
    match kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Integer => json!({ "type": "integer", "format": "int64" }),
        Kind::Number => json!({ "type": "number" }),
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Date => json!({ "type": "string", "format": "date" }),
        Kind::Timestamp => json!({ "type": "string", "format": "date-time" }),
    }
}
