//! Conversions of timestamps: `SystemTime`, and `chrono` and `jiff` behind features of their names.

use super::Timestamp;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Distance from the Unix epoch to the latest time that every platform represents, in the year 29,999.
const PLATFORM_LATEST: Duration = Duration::from_secs(884_541_340_800);
/// Distance from the earliest time that every platform represents, in the year 1601, to the Unix epoch.
const PLATFORM_EARLIEST: Duration = Duration::from_secs(11_644_473_600);

impl From<SystemTime> for Timestamp {
    /// Rounds down to whole milliseconds.
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self::EPOCH + after,
            Err(before) => {
                let before = before.duration();
                let up = Duration::from_nanos(999_999);
                Self::EPOCH - before.checked_add(up).unwrap_or(before)
            }
        }
    }
}

impl From<Timestamp> for SystemTime {
    /// A time that the platform cannot represent becomes the year 29,999, or 1601.
    fn from(time: Timestamp) -> Self {
        let ms = time.as_millis();
        let distance = Duration::from_millis(ms.unsigned_abs());
        if ms >= 0 {
            UNIX_EPOCH.checked_add(distance).unwrap_or(UNIX_EPOCH + PLATFORM_LATEST)
        } else {
            UNIX_EPOCH.checked_sub(distance).unwrap_or(UNIX_EPOCH - PLATFORM_EARLIEST)
        }
    }
}

#[cfg(feature = "chrono")]
impl<Z: chrono::TimeZone> From<chrono::DateTime<Z>> for Timestamp {
    /// Rounds down to whole milliseconds.
    fn from(time: chrono::DateTime<Z>) -> Self {
        Self::from_millis(time.timestamp_millis())
    }
}

#[cfg(feature = "chrono")]
impl From<Timestamp> for chrono::DateTime<chrono::Utc> {
    /// A time that chrono cannot represent becomes its latest or earliest one.
    fn from(time: Timestamp) -> Self {
        let outside = if time < Timestamp::EPOCH { Self::MIN_UTC } else { Self::MAX_UTC };
        Self::from_timestamp_millis(time.as_millis()).unwrap_or(outside)
    }
}

#[cfg(feature = "jiff")]
impl From<jiff::Timestamp> for Timestamp {
    /// Rounds down to whole milliseconds.
    fn from(time: jiff::Timestamp) -> Self {
        let ms = time.as_nanosecond().div_euclid(1_000_000);
        Self::from_millis(i64::try_from(ms).unwrap_or(i64::MAX))
    }
}

#[cfg(feature = "jiff")]
impl From<jiff::Zoned> for Timestamp {
    /// Rounds down to whole milliseconds.
    fn from(time: jiff::Zoned) -> Self {
        time.timestamp().into()
    }
}

#[cfg(feature = "jiff")]
impl From<Timestamp> for jiff::Timestamp {
    /// A time that jiff cannot represent becomes its latest or earliest one.
    fn from(time: Timestamp) -> Self {
        let outside = if time < Timestamp::EPOCH { Self::MIN } else { Self::MAX };
        Self::from_millisecond(time.as_millis()).unwrap_or(outside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// Times before and after the epoch, in the past and in the future.
    const TIMES: [i64; 5] = [0, 1, 1_800_000_000_123, -1, -11_644_473_600_000];

    #[test]
    fn it_converts_from_and_to_system_time() {
        for ms in TIMES {
            let time = Timestamp::from_millis(ms);
            assert_eq!(Timestamp::from(SystemTime::from(time)), time);
        }
        let just_before = UNIX_EPOCH - Duration::from_nanos(1);
        assert_eq!(Timestamp::from(just_before), Timestamp::from_millis(-1));
        assert!(SystemTime::from(Timestamp::MAX) > UNIX_EPOCH + PLATFORM_LATEST - HOUR);
    }

    #[test]
    #[cfg(feature = "chrono")]
    fn it_converts_from_and_to_chrono() {
        for ms in TIMES {
            let time = Timestamp::from_millis(ms);
            assert_eq!(Timestamp::from(chrono::DateTime::from(time)), time);
        }
        assert_eq!(
            chrono::DateTime::from(Timestamp::MAX),
            chrono::DateTime::<chrono::Utc>::MAX_UTC
        );
    }

    #[test]
    #[cfg(feature = "jiff")]
    fn it_converts_from_and_to_jiff() {
        for ms in TIMES {
            let time = Timestamp::from_millis(ms);
            assert_eq!(Timestamp::from(jiff::Timestamp::from(time)), time);
        }
        assert_eq!(jiff::Timestamp::from(Timestamp::MAX), jiff::Timestamp::MAX);
    }
}
