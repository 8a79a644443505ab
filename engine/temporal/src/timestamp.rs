//! One instant, to the millisecond, in Coordinated Universal Time.
//!
//! Purpose: the one type for time, its one parser and its one printed form.
//!
//! Invariants:
//! * the value is milliseconds since 1970-01-01T00:00:00Z, proleptic Gregorian, without leap
//!   seconds;
//! * [`Timestamp::parse`] yields years -9999..=9999 only, and what it yields prints to a text
//!   that parses back to the same instant;
//! * `i64::MIN` and `i64::MAX` are the open ends [`Timestamp::NEG_INF`] and
//!   [`Timestamp::POS_INF`] and never come out of the parser.
//!
//! The grammar is RFC 3339 (Klyne and Newman 2002), with ISO 8601 expanded years for dates
//! before the year 0000, which RFC 3339 leaves out.

use std::fmt;

use time::{Date, Month};

const MS_PER_SECOND: i64 = 1_000;
const MS_PER_MINUTE: i64 = 60 * MS_PER_SECOND;
const MS_PER_DAY: i64 = 24 * 60 * MS_PER_MINUTE;
/// The Julian day number of 1970-01-01.
const EPOCH_JULIAN_DAY: i64 = 2_440_588;

/// An instant: milliseconds since 1970-01-01T00:00:00Z.
///
/// ```
/// use mnemolith_temporal::Timestamp;
///
/// let met = Timestamp::parse("2023-05-08T15:56:00+02:00")?;
/// assert_eq!(met.to_string(), "2023-05-08T13:56:00Z");
/// assert_eq!(met, Timestamp::from_millis(1_683_554_160_000));
/// assert!(met.in_memory_range());
/// # Ok::<(), mnemolith_temporal::TimeError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// No beginning: only ever the start of an interval.
    pub const NEG_INF: Self = Self(i64::MIN);
    /// No end: only ever the end of an interval.
    pub const POS_INF: Self = Self(i64::MAX);
    /// The first instant a memory may carry: 0001-01-01T00:00:00Z.
    pub const MIN_MEMORY: Self = Self(-62_135_596_800_000);
    /// The last instant a memory may carry: 9999-12-31T23:59:59.999Z.
    pub const MAX_MEMORY: Self = Self(253_402_300_799_999);
    /// The first instant a fact may carry: -9999-01-01T00:00:00Z.
    pub const MIN_FACT: Self = Self(-377_705_116_800_000);
    /// The last instant a fact may carry: 9999-12-31T23:59:59.999Z.
    pub const MAX_FACT: Self = Self::MAX_MEMORY;

    /// The instant `millis` milliseconds after (or, negative, before) 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whether a memory may carry this instant: years 0001..=9999.
    #[must_use]
    pub const fn in_memory_range(self) -> bool {
        self.0 >= Self::MIN_MEMORY.0 && self.0 <= Self::MAX_MEMORY.0
    }

    /// Whether a fact may carry this instant: years -9999..=9999. The open ends are not instants.
    #[must_use]
    pub const fn in_fact_range(self) -> bool {
        self.0 >= Self::MIN_FACT.0 && self.0 <= Self::MAX_FACT.0
    }

    /// Milliseconds from `earlier` to this instant: negative if `earlier` is the later one, and
    /// saturating at the ends of `i64`.
    #[must_use]
    pub const fn millis_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This instant moved by `millis`, or `None` where that leaves `i64`.
    #[must_use]
    pub const fn checked_add_millis(self, millis: i64) -> Option<Self> {
        match self.0.checked_add(millis) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// Reads an RFC 3339 time with any offset, a date (which means 00:00Z), or an integer of
    /// milliseconds since 1970-01-01T00:00:00Z.
    ///
    /// Surrounding white space is ignored. Digits below the millisecond are cut off. A leap
    /// second (`23:59:60` in UTC) is the last millisecond before the minute ends. Years before
    /// 0000 are written with a minus sign and four digits.
    ///
    /// # Errors
    ///
    /// [`TimeError`] says what is wrong and what to write instead. A time without an offset is
    /// an error, because guessing one would move the memory by hours.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(TimeError::Empty);
        }
        let parsed = match integer(trimmed) {
            Some(Ok(millis)) => Self(millis),
            Some(Err(())) => {
                return Err(TimeError::OutOfRange { input: quoted(trimmed) });
            }
            None => calendar(trimmed)?,
        };
        if parsed.in_fact_range() { Ok(parsed) } else { Err(TimeError::OutOfRange { input: quoted(trimmed) }) }
    }
}

impl std::str::FromStr for Timestamp {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        Self::parse(text)
    }
}

/// RFC 3339 in UTC: `2023-05-08T13:56:00Z`, with `.mmm` only where the milliseconds are not 0.
/// The open ends print as `-inf` and `inf`; other instants outside years -9999..=9999 print as
/// their milliseconds.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NEG_INF => return f.write_str("-inf"),
            Self::POS_INF => return f.write_str("inf"),
            _ => {}
        }
        let days = self.0.div_euclid(MS_PER_DAY);
        let of_day = self.0.rem_euclid(MS_PER_DAY);
        let date = i32::try_from(days + EPOCH_JULIAN_DAY)
            .ok()
            .filter(|_| self.in_fact_range())
            .and_then(|julian| Date::from_julian_day(julian).ok());
        let Some(date) = date else {
            return write!(f, "{}", self.0);
        };
        let sign = if date.year() < 0 { "-" } else { "" };
        write!(
            f,
            "{sign}{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            date.year().unsigned_abs(),
            u8::from(date.month()),
            date.day(),
            of_day / (60 * MS_PER_MINUTE),
            of_day / MS_PER_MINUTE % 60,
            of_day / MS_PER_SECOND % 60,
        )?;
        match of_day % MS_PER_SECOND {
            0 => f.write_str("Z"),
            ms => write!(f, ".{ms:03}Z"),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({self})")
    }
}

/// Why a text is not an instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeError {
    /// The text is empty or blank.
    #[error("the time is empty; write one like 2023-05-08T13:56:00Z, or leave it out")]
    Empty,
    /// The text has none of the three accepted shapes.
    #[error(
        "{input} is not a time; write 2023-05-08T13:56:00Z, 2023-05-08T15:56:00+02:00, \
         2023-05-08, or milliseconds since 1970 as an integer"
    )]
    Unrecognised {
        /// The text, quoted and shortened.
        input: String,
    },
    /// A date and a time of day, and no offset.
    #[error("{input} has no offset; add Z for UTC or an offset like +02:00, for no time zone is assumed")]
    MissingOffset {
        /// The text, quoted and shortened.
        input: String,
    },
    /// A number is outside what its place allows.
    #[error("the {field} {value} in {input} is out of range; it must be {min} to {max}")]
    FieldOutOfRange {
        /// The text, quoted and shortened.
        input: String,
        /// `month`, `hour`, `minute`, `second`, `offset hour` or `offset minute`.
        field: &'static str,
        /// The number found.
        value: u32,
        /// The least number allowed.
        min: u32,
        /// The greatest number allowed.
        max: u32,
    },
    /// The month has no such day.
    #[error("{input} names a day that its month does not have")]
    NoSuchDay {
        /// The text, quoted and shortened.
        input: String,
    },
    /// Second 60 outside the last minute of a day in UTC.
    #[error("{input} has second 60, which only a leap second at 23:59:60 UTC may have")]
    NotALeapSecond {
        /// The text, quoted and shortened.
        input: String,
    },
    /// The instant is outside years -9999..=9999.
    #[error("{input} is outside the years -9999 to 9999 in UTC")]
    OutOfRange {
        /// The text, quoted and shortened.
        input: String,
    },
}

/// The text for an error message: quoted, control characters escaped, at most 64 characters.
fn quoted(text: &str) -> String {
    const SHOWN: usize = 64;
    let head: String = text.chars().take(SHOWN).collect();
    let tail = if text.chars().nth(SHOWN).is_some() { "..." } else { "" };
    format!("{head:?}{tail}")
}

/// `Some` if the text is an optional sign and digits alone; `Some(Err)` if it leaves `i64`.
fn integer(text: &str) -> Option<Result<i64, ()>> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().map_err(|_| ()))
}

/// A cursor over the text; every method either consumes what it names or leaves it in place.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    fn eat(&mut self, wanted: &[u8]) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        wanted.contains(&first).then(|| {
            self.rest = rest;
            first
        })
    }

    /// Exactly `count` decimal digits.
    fn digits(&mut self, count: usize) -> Option<u32> {
        let (head, rest) = self.rest.split_at_checked(count)?;
        let mut value = 0_u32;
        for byte in head {
            value = value * 10 + char::from(*byte).to_digit(10)?;
        }
        self.rest = rest;
        Some(value)
    }

    /// One or more digits after the decimal point, cut to milliseconds.
    fn fraction_ms(&mut self) -> Option<i64> {
        let mut millis = 0_i64;
        let mut scale = 100_i64;
        let mut seen = false;
        while let Some((byte, rest)) = self.rest.split_first() {
            let Some(digit) = char::from(*byte).to_digit(10) else {
                break;
            };
            millis += i64::from(digit) * scale;
            scale /= 10;
            seen = true;
            self.rest = rest;
        }
        seen.then_some(millis)
    }
}

/// A date, or a date with a time of day and an offset.
fn calendar(text: &str) -> Result<Timestamp, TimeError> {
    let unrecognised = || TimeError::Unrecognised { input: quoted(text) };
    let in_range = |field, value: u32, min, max| {
        if (min..=max).contains(&value) {
            Ok(i64::from(value))
        } else {
            Err(TimeError::FieldOutOfRange { input: quoted(text), field, value, min, max })
        }
    };
    let mut cursor = Cursor { rest: text.as_bytes() };
    let before_zero = cursor.eat(b"-").is_some();
    let year = cursor.digits(4).ok_or_else(unrecognised)?;
    cursor.eat(b"-").ok_or_else(unrecognised)?;
    let month = cursor.digits(2).ok_or_else(unrecognised)?;
    cursor.eat(b"-").ok_or_else(unrecognised)?;
    let day = cursor.digits(2).ok_or_else(unrecognised)?;
    if before_zero && year == 0 {
        return Err(unrecognised());
    }
    in_range("month", month, 1, 12)?;
    let year = i32::try_from(year).map_err(|_| unrecognised())?;
    let midnight =
        midnight_ms(if before_zero { -year } else { year }, month, day).ok_or_else(|| TimeError::NoSuchDay { input: quoted(text) })?;
    if cursor.rest.is_empty() {
        return Ok(Timestamp(midnight));
    }

    cursor.eat(b"Tt ").ok_or_else(unrecognised)?;
    let hour = in_range("hour", cursor.digits(2).ok_or_else(unrecognised)?, 0, 23)?;
    cursor.eat(b":").ok_or_else(unrecognised)?;
    let minute = in_range("minute", cursor.digits(2).ok_or_else(unrecognised)?, 0, 59)?;
    // RFC 3339 requires the seconds; a time that stops at the minute and still has its offset is
    // unambiguous, so it is taken as second 0.
    let (mut second, mut fraction) = (0, 0);
    if cursor.eat(b":").is_some() {
        second = in_range("second", cursor.digits(2).ok_or_else(unrecognised)?, 0, 60)?;
        if cursor.eat(b".,").is_some() {
            fraction = cursor.fraction_ms().ok_or_else(unrecognised)?;
        }
    }
    let offset_minutes = match cursor.eat(b"Zz+-") {
        None if cursor.rest.is_empty() => {
            return Err(TimeError::MissingOffset { input: quoted(text) });
        }
        None => return Err(unrecognised()),
        Some(b'Z' | b'z') => 0,
        Some(sign) => {
            let hours = cursor.digits(2).ok_or_else(unrecognised)?;
            let hours = in_range("offset hour", hours, 0, 23)?;
            cursor.eat(b":").ok_or_else(unrecognised)?;
            let minutes = cursor.digits(2).ok_or_else(unrecognised)?;
            let minutes = hours * 60 + in_range("offset minute", minutes, 0, 59)?;
            if sign == b'-' { -minutes } else { minutes }
        }
    };
    if !cursor.rest.is_empty() {
        return Err(unrecognised());
    }
    let minute_ms = midnight + (hour * 60 + minute - offset_minutes) * MS_PER_MINUTE;
    if second == 60 {
        if minute_ms.rem_euclid(MS_PER_DAY) != MS_PER_DAY - MS_PER_MINUTE {
            return Err(TimeError::NotALeapSecond { input: quoted(text) });
        }
        return Ok(Timestamp(minute_ms + MS_PER_MINUTE - 1));
    }
    Ok(Timestamp(minute_ms + second * MS_PER_SECOND + fraction))
}

/// Midnight UTC of a calendar day, or `None` where the calendar has no such day.
fn midnight_ms(year: i32, month: u32, day: u32) -> Option<i64> {
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date = Date::from_calendar_date(year, month, u8::try_from(day).ok()?).ok()?;
    Some((i64::from(date.to_julian_day()) - EPOCH_JULIAN_DAY) * MS_PER_DAY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn offsets_dates_and_integers_name_the_same_instant() {
        let met = Timestamp::from_millis(1_683_554_160_000);
        for text in [
            "2023-05-08T13:56:00Z",
            "2023-05-08t13:56:00z",
            "2023-05-08 13:56:00Z",
            "2023-05-08T13:56Z",
            "2023-05-08T15:56:00+02:00",
            "2023-05-08T08:26:00-05:30",
            "2023-05-09T13:55:00.000+23:59",
            " 1683554160000\n",
            "+1683554160000",
        ] {
            assert_eq!(parse(text), met, "{text}");
        }
        assert_eq!(parse("1970-01-01"), Timestamp::from_millis(0));
        assert_eq!(parse("2024-02-29"), parse("2024-02-29T00:00:00Z"));
        assert_eq!(parse("-1"), parse("1969-12-31T23:59:59.999Z"));
    }

    #[test]
    fn the_fraction_shows_only_where_there_is_one() {
        assert_eq!(parse("2023-05-08T13:56:00Z").to_string(), "2023-05-08T13:56:00Z");
        assert_eq!(parse("2023-05-08T13:56:00.25Z").to_string(), "2023-05-08T13:56:00.250Z");
        assert_eq!(parse("2023-05-08T13:56:00.0019Z").to_string(), "2023-05-08T13:56:00.001Z");
        // Cut towards the past on both sides of 1970.
        assert_eq!(parse("1969-12-31T23:59:59.9999Z").to_string(), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn the_limits_are_the_years_they_say() {
        assert_eq!(parse("0001-01-01"), Timestamp::MIN_MEMORY);
        assert_eq!(parse("9999-12-31T23:59:59.999Z"), Timestamp::MAX_MEMORY);
        assert_eq!(parse("-9999-01-01"), Timestamp::MIN_FACT);
        assert_eq!(Timestamp::MIN_FACT.to_string(), "-9999-01-01T00:00:00Z");
        assert!(!parse("0000-12-31T23:59:59.999Z").in_memory_range());
        assert!(parse("0001-01-01T00:00:00Z").in_memory_range());
        assert!(parse("-0044-03-15").in_fact_range());
        assert!(!Timestamp::NEG_INF.in_fact_range() && !Timestamp::POS_INF.in_fact_range());
        assert!(!Timestamp::from_millis(Timestamp::MAX_MEMORY.millis() + 1).in_memory_range());
        assert!(!Timestamp::from_millis(Timestamp::MIN_MEMORY.millis() - 1).in_memory_range());
    }

    #[test]
    fn each_mistake_has_its_own_error() {
        let kind = |text: &str| match Timestamp::parse(text).unwrap_err() {
            TimeError::Empty => "empty",
            TimeError::Unrecognised { .. } => "unrecognised",
            TimeError::MissingOffset { .. } => "offset",
            TimeError::FieldOutOfRange { field, .. } => field,
            TimeError::NoSuchDay { .. } => "day",
            TimeError::NotALeapSecond { .. } => "leap",
            TimeError::OutOfRange { .. } => "range",
        };
        for (text, wanted) in [
            ("", "empty"),
            ("  ", "empty"),
            ("yesterday", "unrecognised"),
            ("2023-5-8", "unrecognised"),
            ("2023-05-08T13:56:00+02", "unrecognised"),
            ("2023-05-08T13:56:00.Z", "unrecognised"),
            ("2023-05-08T13:56:00Zz", "unrecognised"),
            ("2023-05-08T13:56:00 Z", "unrecognised"),
            ("2023-05-08T", "unrecognised"),
            ("-0000-01-01", "unrecognised"),
            ("1.5", "unrecognised"),
            ("٢٠٢٣-05-08", "unrecognised"),
            ("2023-05-08T13:56:00", "offset"),
            ("2023-05-08T13:56:00.5", "offset"),
            ("2023-05-08T13:56", "offset"),
            ("2023-13-08", "month"),
            ("2023-00-08", "month"),
            ("2023-05-08T24:00:00Z", "hour"),
            ("2023-05-08T13:60:00Z", "minute"),
            ("2023-05-08T13:56:61Z", "second"),
            ("2023-05-08T13:56:00+24:00", "offset hour"),
            ("2023-05-08T13:56:00+01:60", "offset minute"),
            ("2023-02-29", "day"),
            ("2023-04-31", "day"),
            ("2023-05-00", "day"),
            ("2023-05-08T13:59:60Z", "leap"),
            ("9999-12-31T23:59:59-00:01", "range"),
            ("-9999-01-01T00:00:00+00:01", "range"),
            ("9223372036854775807", "range"),
            ("-9223372036854775808", "range"),
            ("92233720368547758080", "range"),
            ("253402300800000", "range"),
        ] {
            assert_eq!(kind(text), wanted, "{text:?}");
        }
        let message = Timestamp::parse("2023-05-08T13:56:00").unwrap_err().to_string();
        assert!(message.contains("add Z"), "{message}");
    }

    #[test]
    fn a_leap_second_is_the_end_of_its_minute() {
        assert_eq!(parse("2016-12-31T23:59:60Z"), parse("2016-12-31T23:59:59.999Z"));
        assert_eq!(parse("2017-01-01T00:59:60.5+01:00"), parse("2016-12-31T23:59:59.999Z"));
    }

    #[test]
    fn what_cannot_be_a_calendar_time_still_prints() {
        assert_eq!(Timestamp::NEG_INF.to_string(), "-inf");
        assert_eq!(Timestamp::POS_INF.to_string(), "inf");
        assert_eq!(Timestamp::from_millis(i64::MAX - 1).to_string(), "9223372036854775806");
        assert_eq!(Timestamp::from_millis(i64::MIN + 1).to_string(), "-9223372036854775807");
    }

    #[test]
    fn arithmetic_does_not_wrap() {
        assert_eq!(Timestamp::POS_INF.millis_since(Timestamp::NEG_INF), i64::MAX);
        assert_eq!(Timestamp::POS_INF.checked_add_millis(1), None);
        assert_eq!(parse("1970-01-02").millis_since(parse("1970-01-01")), 86_400_000);
    }

    proptest! {
        #[test]
        fn printing_then_parsing_gives_the_instant_back(
            millis in Timestamp::MIN_FACT.millis()..=Timestamp::MAX_FACT.millis()
        ) {
            let instant = Timestamp::from_millis(millis);
            prop_assert_eq!(Timestamp::parse(&instant.to_string()), Ok(instant));
            prop_assert_eq!(Timestamp::parse(&millis.to_string()), Ok(instant));
        }

        #[test]
        fn an_offset_only_moves_the_clock_face(
            millis in 0_i64..=4_102_444_800_000,
            offset in -1439_i64..=1439,
        ) {
            let local = Timestamp::from_millis(millis + offset * 60_000).to_string();
            let sign = if offset < 0 { '-' } else { '+' };
            let text = format!(
                "{}{sign}{:02}:{:02}",
                local.trim_end_matches('Z'), offset.abs() / 60, offset.abs() % 60,
            );
            prop_assert_eq!(Timestamp::parse(&text), Ok(Timestamp::from_millis(millis)));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = Timestamp::parse(&text);
        }

        #[test]
        fn no_nearly_right_text_panics(text in "[-+0-9TtZz:., ]{0,32}") {
            if let Ok(instant) = Timestamp::parse(&text) {
                prop_assert!(instant.in_fact_range());
            }
        }
    }
}
