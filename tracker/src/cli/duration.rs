//! Durations as they are typed: `5s`, `250ms`, `0`.

use std::time::Duration;

/// The longest duration that is taken: more than 31 years, and far from where
/// a deadline would overflow.
const MAX: Duration = Duration::from_secs(1_000_000_000);

/// Units, in milliseconds.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// A number with a unit, or `0`. The number may have a fraction (`1.5s`), but
/// neither sign nor exponent.
pub(super) fn parse(text: &str) -> Result<Duration, DurationError> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let unit_at = text
        .find(|char: char| char.is_ascii_alphabetic())
        .ok_or(DurationError::Malformed)?;
    let (number, unit) = text.split_at(unit_at);
    let (_, scale) = UNITS
        .into_iter()
        .find(|(name, _)| *name == unit)
        .ok_or(DurationError::Malformed)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if !is_digits(whole) || !is_digits(fraction) {
        return Err(DurationError::Malformed);
    }
    // A millionth of a millisecond is a nanosecond.
    let nanos = whole
        .parse::<u64>()
        .ok()
        .and_then(|whole| whole.checked_mul(1_000_000))
        .and_then(|whole| whole.checked_add(millionths(fraction)))
        .and_then(|millionths| millionths.checked_mul(scale))
        .ok_or(DurationError::TooLong)?;
    Some(Duration::from_nanos(nanos))
        .filter(|duration| *duration <= MAX)
        .ok_or(DurationError::TooLong)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Digits behind the point as millionths. What lies behind the sixth is cut off.
fn millionths(fraction: &str) -> u64 {
    fraction
        .bytes()
        .chain(std::iter::repeat(b'0'))
        .take(6)
        .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'))
}

/// A text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DurationError {
    /// It is not a number with a unit.
    #[error("a duration is a number with a unit, such as 5s, 250ms, 2m or 1h, or 0")]
    Malformed,
    /// It is longer than anything makes sense.
    #[error("this duration is too long")]
    TooLong,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_people_type_is_understood() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("5s", 5_000),
            ("250ms", 250),
            ("1.5s", 1_500),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("0.001s", 1),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_could_mean_two_things_is_refused() {
        for text in [
            "",
            "banana",
            "5",
            "s",
            "-1s",
            "+1s",
            "1e3s",
            "1 s",
            " 1s",
            "1s ",
            "1.s",
            ".5s",
            "1.2.3s",
            "1S",
            "1sec",
            "1m30s",
            "1,5s",
            "\u{0665}s",
            "5µs",
            "infs",
            "nans",
        ] {
            assert_eq!(parse(text), Err(DurationError::Malformed), "{text:?}");
        }
    }

    #[test]
    fn what_would_overflow_is_refused() {
        for text in [
            "1000000001s",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert_eq!(parse(text), Err(DurationError::TooLong), "{text}");
        }
    }

    proptest! {
        #[test]
        fn milliseconds_read_back(millis in 0..1_000_000_000_000_u64) {
            let expected = Ok(Duration::from_millis(millis));
            prop_assert_eq!(parse(&format!("{millis}ms")), expected);
            let seconds = format!("{}.{:03}s", millis / 1000, millis % 1000);
            prop_assert_eq!(parse(&seconds), expected);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9.]{0,40}(ms|s|m|h|x)?|.{0,20}") {
            let _ = parse(&text);
        }
    }
}
