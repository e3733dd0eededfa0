//! `/fake/faults`, the fake's own admin route: GET shows the rules in force, POST adds one (or an
//! array of them), DELETE removes all. Only with `Options::faults_route`; 404 otherwise.

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::Call;
use crate::faults::Rule;
use crate::http::error::ApiError;
use crate::http::reply::Reply;

#[derive(Deserialize)]
#[serde(untagged)]
enum Rules {
    Many(Vec<Rule>),
    One(Box<Rule>),
}

/// Answers.
///
/// # Errors
/// 404 when the route is off, 400 for a rule that doesn't read.
pub fn handle(call: &Call<'_>, method: &Method) -> Result<Reply, ApiError> {
    if !call.node.options.faults_route {
        return Err(ApiError::NoSuchRoute);
    }
    let faults = &call.node.faults;
    match *method {
        Method::POST => {
            match call.json::<Rules>()? {
                Rules::Many(rules) => rules.into_iter().for_each(|rule| faults.add(rule)),
                Rules::One(rule) => faults.add(*rule),
            }
            Ok(Reply::json(StatusCode::NO_CONTENT, ""))
        }
        Method::DELETE => {
            faults.clear();
            Ok(Reply::json(StatusCode::NO_CONTENT, ""))
        }
        _ => {
            let rules: Vec<_> = faults
                .rules()
                .into_iter()
                .map(|(rule, seen)| json!({"rule": rule, "seen": seen}))
                .collect();
            Ok(Reply::value(&json!({ "rules": rules })))
        }
    }
}
