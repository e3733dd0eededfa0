//! A decoded message against what a probe expects of it.
//!
//! An expectation is JSON. Only what it names is compared; a field that the version lacks is passed
//! over; a field that no version has is a difference. Scalars are equal or not; an array has exactly
//! these elements. Error codes are written by name. Besides that:
//!
//! | Written | Holds for |
//! |---|---|
//! | `"<any>"` | everything that is present |
//! | `"<not null>"` | everything but null |
//! | `"<not empty>"` | text, bytes, arrays that are not empty; a uuid that is not zero |
//! | `"<at least N>"` | integers from N up |
//! | `"A \| B"` on an error code | either code |
//! | `{"<each>": E}` | arrays whose every element fits E |
//! | `{"<some>": E}` | arrays of which some element fits E |
//! | `{"<count>": N}` | arrays of N elements |

use kafka_wire::schema::{Field, Kind, Message, Struct};
use reports::Difference;
use serde_json::Value as Json;

use super::value::{Value, code_name};

/// How a difference ends that is a mistake of the expectation.
const PROBE_IS_WRONG: &str = "the probe is wrong";
/// Characters of a structure that a difference shows.
const SHOWN_CHARACTERS: usize = 200;

/// The first difference, in the order of the wire, between `got` and what `expected` says.
pub fn compare(
    message: &Message,
    version: i16,
    expected: &Json,
    got: &Value,
) -> Result<(), Difference> {
    fields(
        &Place {
            path: String::new(),
            of: message.name,
            fields: message.fields,
            version,
        },
        expected,
        got,
    )
}

struct Place<'a> {
    path: String,
    of: &'a str,
    fields: &'a [Field],
    version: i16,
}

fn fields(place: &Place<'_>, expected: &Json, got: &Value) -> Result<(), Difference> {
    let Json::Object(expected) = expected else {
        return Err(differ(&place.path, expected.to_string(), "a structure"));
    };
    if let Some(name) = expected
        .keys()
        .find(|name| !place.fields.iter().any(|field| field.name == *name))
    {
        return Err(differ(
            &join(&place.path, name),
            "a field of the schema",
            &format!("no version of {} has it: {PROBE_IS_WRONG}", place.of),
        ));
    }
    for field in place.fields {
        let Some(wanted) = expected.get(field.name) else {
            continue;
        };
        if !field.versions.contains(place.version) {
            continue;
        }
        let path = join(&place.path, field.name);
        let present = match got {
            Value::Fields(fields) => fields.iter().find(|(name, _)| *name == field.name),
            _ => None,
        };
        match present {
            Some((_, value)) => one(&path, place.version, field, wanted, value)?,
            // A tagged field that is not there has its default, which is null or nothing.
            None if wanted.is_null() => {}
            None => return Err(differ(&path, wanted.to_string(), "absent")),
        }
    }
    Ok(())
}

fn one(
    path: &str,
    version: i16,
    field: &Field,
    expected: &Json,
    got: &Value,
) -> Result<(), Difference> {
    if let Some(special) = expected.as_str().filter(|text| text.starts_with('<')) {
        return special_text(path, special, got);
    }
    let holds = match (expected, got) {
        (Json::Null, Value::Null) => true,
        (Json::Bool(expected), Value::Bool(got)) => expected == got,
        (Json::Number(expected), Value::Int(got)) => expected.as_i64() == Some(*got),
        (Json::Number(expected), Value::Float(got)) => expected.as_f64() == Some(*got),
        (Json::Number(expected), Value::Code(got)) => expected.as_i64() == Some(i64::from(*got)),
        (Json::String(expected), Value::Code(got)) => expected
            .split('|')
            .any(|name| name.trim() == code_name(*got)),
        (Json::String(expected), Value::Text(got)) => expected == got,
        (Json::String(expected), Value::Uuid(got)) => *expected == super::encode_uuid(got),
        (Json::String(expected), Value::Bytes(got)) => expected.as_bytes() == got,
        (Json::Array(expected), Value::List(got)) => {
            return list(path, version, field, expected, got);
        }
        (Json::Object(expected), Value::List(got)) => {
            return special_list(path, version, field, expected, got);
        }
        (Json::Object(_), Value::Fields(_)) => {
            return nested(path, version, field, expected, got);
        }
        _ => false,
    };
    if holds {
        Ok(())
    } else {
        Err(differ(path, text(expected), &shown(got)))
    }
}

fn nested(
    path: &str,
    version: i16,
    field: &Field,
    expected: &Json,
    got: &Value,
) -> Result<(), Difference> {
    let Kind::Struct(Struct { name, fields: of }) = field.kind else {
        return Err(differ(path, expected.to_string(), &shown(got)));
    };
    let place = Place {
        path: path.to_owned(),
        of: name,
        fields: of,
        version,
    };
    fields(&place, expected, got)
}

fn list(
    path: &str,
    version: i16,
    field: &Field,
    expected: &[Json],
    got: &[Value],
) -> Result<(), Difference> {
    for (at, (expected, got)) in expected.iter().zip(got).enumerate() {
        one(&format!("{path}[{at}]"), version, field, expected, got)?;
    }
    if expected.len() == got.len() {
        return Ok(());
    }
    let elements = |n: usize| format!("{n} elements");
    Err(differ(path, elements(expected.len()), &elements(got.len())))
}

fn special_list(
    path: &str,
    version: i16,
    field: &Field,
    expected: &serde_json::Map<String, Json>,
    got: &[Value],
) -> Result<(), Difference> {
    for (word, wanted) in expected {
        match word.as_str() {
            "<each>" => {
                for (at, got) in got.iter().enumerate() {
                    one(&format!("{path}[{at}]"), version, field, wanted, got)?;
                }
            }
            "<some>" => {
                let mut fits = false;
                for got in got {
                    match one(path, version, field, wanted, got) {
                        Ok(()) => fits = true,
                        // A mistake in the expectation fits no element, and must not be taken for one.
                        Err(difference) if difference.got.ends_with(PROBE_IS_WRONG) => {
                            return Err(difference);
                        }
                        Err(_) => {}
                    }
                }
                if !fits {
                    let shown: Vec<String> = got.iter().take(3).map(shown).collect();
                    return Err(differ(
                        path,
                        shortened(format!("some element like {wanted}")),
                        &format!("none of {}: {}", got.len(), shown.join(", ")),
                    ));
                }
            }
            "<count>" => {
                if wanted.as_u64() != u64::try_from(got.len()).ok() {
                    return Err(differ(
                        path,
                        format!("{wanted} elements"),
                        &format!("{} elements", got.len()),
                    ));
                }
            }
            other => return Err(unknown_word(path, other)),
        }
    }
    Ok(())
}

fn special_text(path: &str, special: &str, got: &Value) -> Result<(), Difference> {
    let holds = match special {
        "<any>" => true,
        "<not null>" => *got != Value::Null,
        "<not empty>" => match got {
            Value::Text(text) => !text.is_empty(),
            Value::Bytes(bytes) | Value::Records(bytes) => !bytes.is_empty(),
            Value::List(list) => !list.is_empty(),
            Value::Uuid(uuid) => *uuid != [0; 16],
            _ => false,
        },
        other => {
            let least = other
                .strip_prefix("<at least ")
                .and_then(|rest| rest.strip_suffix('>'))
                .and_then(|number| number.parse::<i64>().ok());
            match least {
                Some(least) => got.int().is_some_and(|got| got >= least),
                None => return Err(unknown_word(path, other)),
            }
        }
    };
    if holds {
        Ok(())
    } else {
        Err(differ(path, special, &shown(got)))
    }
}

fn unknown_word(path: &str, word: &str) -> Difference {
    differ(
        path,
        "a word that expectations know",
        &format!("{word}: {PROBE_IS_WRONG}"),
    )
}

fn text(json: &Json) -> String {
    match json {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Code(code) => code_name(*code),
        Value::Text(text) => shortened(text.clone()),
        // A value is made of strings, numbers, lists and maps: it has a JSON form.
        other => shortened(serde_json::to_string(other).unwrap_or_default()),
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn differ(path: &str, expected: impl Into<String>, got: &str) -> Difference {
    Difference {
        path: path.to_owned(),
        expected: expected.into(),
        got: got.to_owned(),
    }
}
