//! The ids of checks that are made in many versions of an API, told in one word:
//! `wire/fetch/v4-11,13/empty`.

use std::collections::BTreeSet;

/// `wire/fetch/v12/empty` as `wire/fetch`, 12, `empty`.
pub(crate) fn versioned(check: &str) -> Option<(&str, u16, &str)> {
    let (before, rest) = check.split_once("/v")?;
    let (version, after) = rest.split_once('/')?;
    Some((before, version.parse().ok()?, after))
}

/// 4, 5, 6, 9 as `4-6,9`.
pub(crate) fn ranges(versions: &BTreeSet<u16>) -> String {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for &version in versions {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(version) => *last = version,
            _ => ranges.push((version, version)),
        }
    }
    let word = |&(first, last): &(u16, u16)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(word).collect::<Vec<_>>().join(",")
}

/// Every check that `wire/fetch/v4-6,9/empty` names.
pub(crate) fn spelt_out(checks: &str) -> Vec<String> {
    let several = || {
        let (before, rest) = checks.split_once("/v")?;
        let (versions, after) = rest.split_once('/')?;
        let mut all = Vec::new();
        for range in versions.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
            all.extend((first..=last).map(|version| format!("{before}/v{version}/{after}")));
        }
        Some(all)
    };
    several().unwrap_or_else(|| vec![checks.to_owned()])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{ranges, spelt_out};

    #[rstest]
    #[case(&[4, 5, 6, 9], "4-6,9")]
    #[case(&[0], "0")]
    #[case(&[1, 3], "1,3")]
    fn some_versions_are_one_word(#[case] versions: &[u16], #[case] expected: &str) {
        let word = ranges(&versions.iter().copied().collect());
        assert_eq!(word, expected);
        let all = spelt_out(&format!("wire/fetch/v{word}/empty"));
        let named: Vec<String> = versions
            .iter()
            .map(|version| format!("wire/fetch/v{version}/empty"))
            .collect();
        assert_eq!(all, named);
    }

    #[rstest]
    #[case("sequence/producer/003")]
    #[case("wire/key-071/unadvertised")]
    #[case("wire/very/odd")]
    fn other_ids_stand_for_themselves(#[case] check: &str) {
        assert_eq!(spelt_out(check), [check]);
    }
}
