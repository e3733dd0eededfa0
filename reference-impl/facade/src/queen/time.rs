//! Queen's timestamps: `YYYY-MM-DDTHH:MM:SS`, a fraction of any length, `Z`.

/// Milliseconds since the Unix epoch, the fraction cut (not rounded); `None` for anything else.
pub(super) fn parse_ms(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        bytes.get(from..to)?.iter().try_fold(0, |value, byte| {
            byte.is_ascii_digit()
                .then(|| value * 10 + i64::from(byte - b'0'))
        })
    };
    let mark = |at: usize, byte: u8| (bytes.get(at) == Some(&byte)).then_some(());
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    mark(4, b'-')?;
    mark(7, b'-')?;
    mark(10, b'T')?;
    mark(13, b':')?;
    mark(16, b':')?;
    if !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    let fraction = match bytes.get(19)? {
        b'Z' if bytes.len() == 20 => 0,
        b'.' if bytes.ends_with(b"Z") && bytes.len() > 21 => {
            let digits = &bytes[20..bytes.len() - 1];
            if !digits.iter().all(u8::is_ascii_digit) {
                return None;
            }
            [100, 10, 1]
                .iter()
                .zip(digits)
                .map(|(weight, digit)| weight * i64::from(digit - b'0'))
                .sum()
        }
        _ => return None,
    };
    let seconds = days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some(seconds * 1000 + fraction)
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar, counted in years that begin in March.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::parse_ms;
    use rstest::rstest;

    #[rstest]
    #[case("1970-01-01T00:00:00.000000Z", 0)]
    #[case("1970-01-01T00:00:00Z", 0)]
    #[case("1969-12-31T23:59:59.999999Z", -1)]
    #[case("2000-02-29T12:00:00.5Z", 951_825_600_500)]
    #[case("2026-09-11T08:30:15.123999Z", 1_789_115_415_123)]
    #[case("2100-03-01T00:00:00.000001Z", 4_107_542_400_000)]
    fn reads(#[case] text: &str, #[case] ms: i64) {
        assert_eq!(parse_ms(text), Some(ms));
    }

    #[rstest]
    #[case("")]
    #[case("2026-09-11")]
    #[case("2026-09-11 08:30:15Z")]
    #[case("2026-09-11T08:30:15")]
    #[case("2026-09-11T08:30:15.Z")]
    #[case("2026-09-11T08:30:15.12aZ")]
    #[case("2026-13-11T08:30:15Z")]
    #[case("2026-09-11T24:30:15Z")]
    #[case("2026-09-11T08:30:15+02:00")]
    fn refuses(#[case] text: &str) {
        assert_eq!(parse_ms(text), None);
    }
}
