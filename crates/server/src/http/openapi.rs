//! The endpoints described for tools, as OpenAPI 3.1.

use serde_json::{Map, Value, json};

use super::endpoints::{Endpoint, Endpoints, Kind};

/// The description.
pub(super) fn description(endpoints: &Endpoints) -> Value {
    let mut paths = Map::new();
    for endpoint in endpoints.iter() {
        let operations = paths.entry(endpoint.path.clone()).or_insert_with(|| json!({}));
        operations[endpoint.method.as_str().to_ascii_lowercase()] = operation(endpoint);
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Diligence endpoints", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": { "schemas": { "Error": error() } },
    })
}

fn operation(endpoint: &Endpoint) -> Value {
    let in_path = endpoint.path_parameters().collect::<Vec<_>>();
    let (mut parameters, mut properties, mut required) = (Vec::new(), Map::new(), Vec::new());
    for parameter in &endpoint.parameters {
        let mut schema = schema(parameter.kind);
        if parameter.is_list {
            schema = json!({ "type": "array", "items": schema });
        }
        if let Some(default) = &parameter.default {
            schema["default"] = serde_json::from_str(default).unwrap_or_else(|_| json!(default));
        }
        let is_in_path = in_path.contains(&parameter.name.as_str());
        let is_required = parameter.default.is_none();
        if is_in_path || endpoint.is_reading() {
            let place = if is_in_path { "path" } else { "query" };
            let required = is_required || is_in_path;
            parameters.push(json!({ "name": parameter.name, "in": place, "required": required, "schema": schema }));
        } else {
            properties.insert(parameter.name.clone(), schema);
            required.extend(is_required.then(|| parameter.name.clone()));
        }
    }
    let mut operation = json!({
        "summary": endpoint.description,
        "parameters": parameters,
        "responses": responses(endpoint),
    });
    if !properties.is_empty() {
        let is_required = !required.is_empty();
        let object = json!({ "schema": { "type": "object", "properties": properties, "required": required } });
        operation["requestBody"] = json!({ "required": is_required, "content": {
            "application/json": object, "application/x-www-form-urlencoded": object,
        }});
    }
    operation
}

fn responses(endpoint: &Endpoint) -> Value {
    let status = endpoint.status.map_or(200, |status| status.as_u16());
    let answer = match status {
        204 => json!({ "description": "It is done" }),
        _ => json!({ "description": "The rows", "content": {
            "application/json": { "schema": if endpoint.is_reading() { rows() } else { json!({ "oneOf": [rows(), done()] }) } },
            "text/csv": { "schema": { "type": "string" } },
            "application/vnd.apache.arrow.stream": { "schema": { "type": "string", "format": "binary" } },
        }}),
    };
    let mut responses = Map::from_iter([(status.to_string(), answer)]);
    let mut refusals = vec![
        ("400", "A parameter is missing, unknown or no value of its type, or the statement fails for another value"),
        ("503", "Too many queries wait, or others were in the way; Retry-After says when to try again"),
    ];
    match endpoint.is_reading() {
        true => {
            let unchanged = json!({ "description": "Nothing has changed since the answer with this ETag" });
            responses.insert("304".to_owned(), unchanged);
        }
        false => refusals.extend([
            ("403", "A page of another site has sent the request"),
            ("409", "A key is there already, or a row that is referred to is not, or is referred to"),
            ("413", "The body is too large"),
            ("415", "The body is neither JSON nor a form"),
            ("422", "A value is NULL where it must not be, or fails a check"),
        ]),
    }
    for (status, why) in refusals {
        let content = json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } });
        responses.insert(status.to_owned(), json!({ "description": why, "content": content }));
    }
    Value::Object(responses)
}

fn done() -> Value {
    json!({ "type": "object", "properties": {
        "command": { "type": "string" }, "rows": { "type": ["integer", "null"] }, "notices": notices(),
    }})
}

fn notices() -> Value {
    let text = json!({ "type": ["string", "null"] });
    json!({ "type": "array", "items": { "type": "object", "properties": {
        "severity": { "type": "string" }, "code": { "type": "string", "description": "SQLSTATE" },
        "message": { "type": "string" }, "detail": text, "hint": text,
    }}})
}

fn error() -> Value {
    let text = json!({ "type": ["string", "null"] });
    json!({ "type": "object", "properties": { "error": { "type": "object", "properties": {
        "code": { "type": "string", "description": "SQLSTATE" }, "message": { "type": "string" },
        "detail": text, "hint": text, "schema": text, "table": text, "column": text, "constraint": text,
    }}}})
}

fn rows() -> Value {
    json!({ "type": "object", "properties": {
        "query": { "type": ["integer", "null"] },
        "columns": { "type": "array", "items": { "type": "object", "properties": {
            "name": { "type": "string" }, "type": { "type": "string" },
        }}},
        "rows": { "type": "array", "items": { "type": "array" } },
        "row_count": { "type": "integer" },
        "notices": notices(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_of_a_path_are_described_together() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            (
                "a.sql",
                "-- endpoint: GET /api/items/{id}\n-- param: id integer\n-- param: short boolean = f\nSELECT $id, $short",
            ),
            (
                "b.sql",
                "-- endpoint: PUT /api/items/{id}\n-- param: id integer\n-- param: name text\n-- param: price number = 1\n\
                 -- status: 204\nUPDATE items SET name = $name, price = $price WHERE id = $id",
            ),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let description = description(&Endpoints::read(Some(folder.path())).unwrap());
        let path = &description["paths"]["/api/items/{id}"];
        let places = |method: &str| {
            let parameters = path[method]["parameters"].as_array().unwrap().iter();
            parameters.map(|parameter| parameter["in"].as_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!((places("get"), places("put")), (vec!["path", "query"], vec!["path"]));
        assert_eq!(path["get"]["requestBody"], Value::Null);
        let body = &path["put"]["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(body["required"], json!(["name"]));
        assert_eq!(body["properties"]["price"]["default"], json!(1));
        assert!(path["put"]["responses"]["204"].is_object() && path["put"]["responses"]["409"].is_object());
        assert!(path["get"]["responses"]["304"].is_object() && path["get"]["responses"]["409"].is_null());
    }
}
