//! `docs/checks.schema.json` says what `checks.jsonl` holds: no less, and no more.

use std::path::Path;

use reports::jsonl;
use rstest::rstest;
use serde_json::{Map, Value, json};

use crate::sample::checks;

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn schema() -> Value {
    let path = root().join("docs/checks.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// What a schema may say here. A word that is not read would be a rule that nobody keeps.
const WORDS: [&str; 13] = [
    "$schema",
    "$defs",
    "$ref",
    "title",
    "description",
    "type",
    "additionalProperties",
    "required",
    "properties",
    "items",
    "enum",
    "minimum",
    "oneOf",
];

fn fits(value: &Value, schema: &Value, whole: &Value) -> Result<(), String> {
    let rules = schema.as_object().ok_or("a schema that is no object")?;
    if let Some(word) = rules.keys().find(|word| !WORDS.contains(&word.as_str())) {
        return Err(format!("a word that this test does not read: {word}"));
    }
    if let Some(to) = rules.get("$ref").and_then(Value::as_str) {
        let to = whole
            .pointer(to.trim_start_matches('#'))
            .ok_or("a reference to nothing")?;
        return fits(value, to, whole);
    }
    let all = |key: &str| rules.get(key).and_then(Value::as_array);
    if let Some(kind) = rules.get("type") {
        let is = |kind: &Value| match kind.as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("boolean") => value.is_boolean(),
            Some("null") => value.is_null(),
            _ => false,
        };
        if !kind
            .as_array()
            .map_or_else(|| is(kind), |kinds| kinds.iter().any(is))
        {
            return Err(format!("{value} is not {kind}"));
        }
    }
    if all("enum").is_some_and(|words| !words.contains(value)) {
        return Err(format!("{value} is none of the words"));
    }
    let least = rules.get("minimum").and_then(Value::as_i64);
    if let (Some(least), Some(number)) = (least, value.as_i64())
        && number < least
    {
        return Err(format!("{number} is less than {least}"));
    }
    if let Some(forms) = all("oneOf") {
        let fitting = forms.iter().filter(|form| fits(value, form, whole).is_ok());
        if fitting.count() != 1 {
            return Err(format!("{value} is not one of the forms"));
        }
    }
    if let (Some(items), Some(list)) = (rules.get("items"), value.as_array()) {
        list.iter().try_for_each(|item| fits(item, items, whole))?;
    }
    match value.as_object() {
        Some(fields) => properties(fields, rules, whole),
        None => Ok(()),
    }
}

fn properties(
    fields: &Map<String, Value>,
    rules: &Map<String, Value>,
    whole: &Value,
) -> Result<(), String> {
    let required = rules.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            return Err(format!("{name} is missing"));
        }
    }
    let closed = rules.get("additionalProperties") == Some(&Value::Bool(false));
    for (name, value) in fields {
        match rules.get("properties").and_then(|known| known.get(name)) {
            Some(rule) => fits(value, rule, whole).map_err(|why| format!("{name}: {why}"))?,
            None if closed => return Err(format!("{name} is not known")),
            None => {}
        }
    }
    Ok(())
}

fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn what_is_written_fits_the_schema() {
    let schema = schema();
    let published = std::fs::read_to_string(root().join("reports/published/checks.jsonl")).unwrap();
    let sample = jsonl::render(&checks());
    for check in lines(&published).iter().chain(&lines(&sample)) {
        assert_eq!(fits(check, &schema, &schema), Ok(()), "{}", check["id"]);
    }
}

#[rstest]
#[case::missing(|check: &mut Value| { check.as_object_mut().unwrap().remove("id"); }, "id is missing")]
#[case::unknown(|check: &mut Value| check["more"] = json!(1), "more is not known")]
#[case::kind(|check: &mut Value| check["title"] = json!(1), "title: 1 is not")]
#[case::word(|check: &mut Value| check["outcome"] = json!("good"), "none of the words")]
#[case::number(|check: &mut Value| check["kips"] = json!([0]), "less than 1")]
#[case::deep(|check: &mut Value| check["evidence"]["exchanges"][0]["received"] = json!({}), "one of the forms")]
#[case::reference(|check: &mut Value| check["apis"][0]["name"] = json!(null), "name: null is not")]
fn what_is_not_written_does_not_fit(#[case] spoil: impl FnOnce(&mut Value), #[case] why: &str) {
    let schema = schema();
    let all = lines(&jsonl::render(&checks()));
    let mut check = all
        .into_iter()
        .find(|check| check["evidence"]["exchanges"].is_array())
        .unwrap();
    assert_eq!(fits(&check, &schema, &schema), Ok(()));
    spoil(&mut check);
    let told = fits(&check, &schema, &schema).unwrap_err();
    assert!(told.contains(why), "{told}");
}
