//! Instants as Queen prints them: ISO 8601 in UTC. Pure arithmetic on epoch units, no clock.

use crate::json;

const DAY_S: i64 = 86_400;

/// Appends `YYYY-MM-DDTHH:MM:SS.ffffffZ` (fetch records).
pub fn micros(out: &mut Vec<u8>, epoch_us: i64) {
    seconds(out, epoch_us.div_euclid(1_000_000));
    out.push(b'.');
    padded(out, epoch_us.rem_euclid(1_000_000), 6);
    out.push(b'Z');
}

/// Appends `YYYY-MM-DDTHH:MM:SS.mmmZ` (everything else).
pub fn millis(out: &mut Vec<u8>, epoch_ms: i64) {
    seconds(out, epoch_ms.div_euclid(1000));
    out.push(b'.');
    padded(out, epoch_ms.rem_euclid(1000), 3);
    out.push(b'Z');
}

/// [`millis`] as a string.
pub fn millis_string(epoch_ms: i64) -> String {
    let mut out = Vec::with_capacity(24);
    millis(&mut out, epoch_ms);
    String::from_utf8_lossy(&out).into_owned()
}

/// An instant as HTTP's headers print it: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn http_date(epoch_ms: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let epoch_s = epoch_ms.div_euclid(1000);
    let (days, second) = (epoch_s.div_euclid(DAY_S), epoch_s.rem_euclid(DAY_S));
    let (year, month, day) = civil_from_days(days);
    // Both remainders are within their tables.
    let week_day = DAYS[days.rem_euclid(7).unsigned_abs() as usize];
    let month = MONTHS[(month - 1).unsigned_abs() as usize];
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!(
        "{week_day}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{:02} GMT",
        second % 60
    )
}

/// Reads `YYYY-MM-DD` with an optional `THH:MM[:SS[.fff]]` and an optional `Z` or `±HH:MM`, as
/// epoch milliseconds.
pub fn parse_ms(text: &str) -> Option<i64> {
    let number = |text: &str| -> Option<i64> {
        (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
            .then(|| text.parse().ok())
            .flatten()
    };
    let (date, clock) = match text.split_once(['T', ' ']) {
        Some((date, clock)) => (date, clock),
        None => (text, ""),
    };
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (
        number(parts.next()?)?,
        number(parts.next()?)?,
        number(parts.next()?)?,
    );
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (clock, zone_minutes) = match clock.find(['Z', 'z', '+', '-']) {
        None => (clock, 0),
        Some(at) => {
            let (clock, zone) = clock.split_at(at);
            let minutes = if zone.eq_ignore_ascii_case("z") {
                0
            } else {
                let (hours, minutes) = zone[1..].split_once(':').unwrap_or((&zone[1..], "0"));
                let total = number(hours)? * 60 + number(minutes)?;
                if zone.starts_with('-') { -total } else { total }
            };
            (clock, minutes)
        }
    };
    let mut ms = days_from_civil(year, month, day) * DAY_S * 1000;
    if !clock.is_empty() {
        let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
        let mut parts = clock.splitn(3, ':');
        let (hour, minute) = (number(parts.next()?)?, number(parts.next()?)?);
        let second = parts.next().map_or(Some(0), number)?;
        if hour > 23 || minute > 59 || second > 60 || fraction.len() > 9 {
            return None;
        }
        let digits = u32::try_from(fraction.len()).ok()?;
        let fraction_ms = number(fraction)? * 1000 / 10_i64.pow(digits);
        ms += ((hour * 60 + minute) * 60 + second) * 1000 + fraction_ms;
    }
    Some(ms - zone_minutes * 60_000)
}

fn seconds(out: &mut Vec<u8>, epoch_s: i64) {
    let (days, second) = (epoch_s.div_euclid(DAY_S), epoch_s.rem_euclid(DAY_S));
    let (year, month, day) = civil_from_days(days);
    padded(out, year, 4);
    out.push(b'-');
    padded(out, month, 2);
    out.push(b'-');
    padded(out, day, 2);
    out.push(b'T');
    padded(out, second / 3600, 2);
    out.push(b':');
    padded(out, second / 60 % 60, 2);
    out.push(b':');
    padded(out, second % 60, 2);
}

fn padded(out: &mut Vec<u8>, value: i64, width: usize) {
    let mut digits = Vec::with_capacity(width);
    json::int(&mut digits, value);
    out.extend(std::iter::repeat_n(
        b'0',
        width.saturating_sub(digits.len()),
    ));
    out.extend_from_slice(&digits);
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar, counted in 400-year eras
/// that start on the first of March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, "1970-01-01T00:00:00.000Z")]
    #[case(951_782_400_123, "2000-02-29T00:00:00.123Z")]
    #[case(1_794_052_799_999, "2026-11-07T11:59:59.999Z")]
    #[case(-1, "1969-12-31T23:59:59.999Z")]
    fn prints_and_reads_back(#[case] epoch_ms: i64, #[case] text: &str) {
        assert_eq!(millis_string(epoch_ms), text);
        assert_eq!(parse_ms(text), Some(epoch_ms));
    }

    #[test]
    fn http_dates_are_those_of_the_rfc() {
        assert_eq!(http_date(784_111_777_000), "Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn microseconds_have_six_digits() {
        let mut out = Vec::new();
        micros(&mut out, 1_000_042);
        assert_eq!(out, b"1970-01-01T00:00:01.000042Z");
    }

    #[rstest]
    #[case("1970-01-02", Some(86_400_000))]
    #[case("1970-01-01T01:00:00+01:00", Some(0))]
    #[case("1970-01-01T00:00:00.5Z", Some(500))]
    #[case("yesterday", None)]
    #[case("1970-13-01", None)]
    #[case("1970-01-01T99:00:00Z", None)]
    fn reads_iso_forms(#[case] text: &str, #[case] expected: Option<i64>) {
        assert_eq!(parse_ms(text), expected);
    }
}
