//! The query of a target, read once and decoded: who classifies a call and who serves it must find the
//! same in it. Pure.

use crate::percent;

/// Parameters by name, in the order they were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

/// A parameter is there twice: one reader may take the first and another the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a query parameter is there twice")]
pub struct Twice;

impl Query {
    /// Reads what stands behind the `?`. A name without `=` has an empty value.
    pub fn parse(text: &str) -> Self {
        let text_of = |part: &str| percent::decode(&part.replace('+', " "));
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (text_of(name), text_of(value))
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(pairs.map(pair).collect())
    }

    /// The value of the first parameter of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Written again, so that only one reading of it is left.
    ///
    /// # Errors
    /// [`Twice`].
    pub fn encode(&self) -> Result<String, Twice> {
        let mut text = String::new();
        for (at, (name, value)) in self.0.iter().enumerate() {
            if self.0[..at].iter().any(|(known, _)| known == name) {
                return Err(Twice);
            }
            if at > 0 {
                text.push('&');
            }
            text.push_str(&percent::encode(name));
            text.push('=');
            text.push_str(&percent::encode(value));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("wait=true&timeout=5", "wait=true&timeout=5")]
    #[case("wait=%74rue", "wait=true")]
    #[case("%77ait=true", "wait=true")]
    #[case("w+a=1%2B1&&", "w%20a=1%2B1")]
    #[case("wait", "wait=")]
    #[case("q=%26a%3Db", "q=%26a%3Db")]
    fn a_query_is_written_in_one_way(#[case] sent: &str, #[case] written: &str) {
        let query = Query::parse(sent);
        assert_eq!(query.encode().as_deref(), Ok(written));
        assert_eq!(Query::parse(written), query);
    }

    #[test]
    fn what_is_there_twice_has_two_readings() {
        assert_eq!(Query::parse("wait=false&wai%74=true").encode(), Err(Twice));
        let query = Query::parse("wait=%74rue&x");
        assert_eq!((query.get("wait"), query.get("y")), (Some("true"), None));
    }
}
