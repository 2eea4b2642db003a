//! Conversions between setting values and their Rust types. It must not know which settings exist.

use super::value::{Value, Wrong, time};
use crate::values;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use windlass::Url;
use windlass_core::limits::AGE_MAX_MS;
use windlass_core::model::{Name, Order};
use windlass_core::policy::{Backoff, Missed};
use windlass_core::time::millis;

/// A Rust type that stores a setting.
pub(crate) trait Held: Sized {
    /// Converts a value of the setting's kind to this type.
    fn from_value(value: &Value) -> Result<Self, Wrong>;
    /// Converts this type to a value.
    fn value(&self) -> Value;
}

/// The error for a setting whose kind does not fit its type: a bug in a table of settings, which a test finds
/// by reading every default back.
fn unfit<T>() -> Result<T, Wrong> {
    Err("this version does not support such a value; leave it out".into())
}

macro_rules! held_number {
    ($($number:ty),+) => {$(
        impl Held for $number {
            fn from_value(value: &Value) -> Result<Self, Wrong> {
                match value {
                    Value::Number(number) => Self::try_from(*number).or_else(|_| unfit()),
                    _ => unfit(),
                }
            }

            fn value(&self) -> Value {
                Value::Number(*self as u64)
            }
        }
    )+};
}

held_number!(u8, u32, u64, usize);

impl Held for i32 {
    fn from_value(value: &Value) -> Result<Self, Wrong> {
        match value {
            Value::Signed(number) => Ok(*number),
            _ => unfit(),
        }
    }

    fn value(&self) -> Value {
        Value::Signed(*self)
    }
}

impl Held for Duration {
    fn from_value(value: &Value) -> Result<Self, Wrong> {
        u64::from_value(value).map(Self::from_millis)
    }

    fn value(&self) -> Value {
        Value::Number(millis(*self))
    }
}

impl Held for bool {
    fn from_value(value: &Value) -> Result<Self, Wrong> {
        match value {
            Value::Flag(flag) => Ok(*flag),
            _ => unfit(),
        }
    }

    fn value(&self) -> Value {
        Value::Flag(*self)
    }
}

impl Held for String {
    fn from_value(value: &Value) -> Result<Self, Wrong> {
        match value {
            Value::Text(text) => Ok(text.clone()),
            _ => unfit(),
        }
    }

    fn value(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl Held for PathBuf {
    fn from_value(value: &Value) -> Result<Self, Wrong> {
        match String::from_value(value)? {
            empty if empty.is_empty() => Err("write the path of a file".into()),
            path => Ok(path.into()),
        }
    }

    fn value(&self) -> Value {
        Value::Text(self.to_string_lossy().into_owned())
    }
}

/// A user-defined value, as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Json(pub(crate) String);

impl Held for Json {
    fn from_value(value: &Value) -> Result<Self, Wrong> {
        match value {
            Value::Json(text) => Ok(Self(text.clone())),
            _ => unfit(),
        }
    }

    fn value(&self) -> Value {
        Value::Json(self.0.clone())
    }
}

impl Held for Vec<String> {
    fn from_value(value: &Value) -> Result<Self, Wrong> {
        match value {
            Value::List(items) => Ok(items.clone()),
            _ => unfit(),
        }
    }

    fn value(&self) -> Value {
        Value::List(self.clone())
    }
}

impl<T: Held> Held for Option<T> {
    fn from_value(value: &Value) -> Result<Self, Wrong> {
        match value {
            Value::None => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }

    fn value(&self) -> Value {
        self.as_ref().map_or(Value::None, T::value)
    }
}

impl Held for SocketAddr {
    fn from_value(value: &Value) -> Result<Self, Wrong> {
        let wrong = "write an address and a port, as in 127.0.0.1:7474 or [::1]:7474";
        String::from_value(value)?.parse().map_err(|_| wrong.into())
    }

    fn value(&self) -> Value {
        Value::Text(self.to_string())
    }
}

impl Held for Url {
    fn from_value(value: &Value) -> Result<Self, Wrong> {
        let (Value::Text(text) | Value::Secret { whole: text, .. }) = value else { return unfit() };
        text.parse::<Self>().map_err(|error| match error {
            windlass::Error::Connect { url, reason } => {
                Wrong { shown: Some(url), expected: reason }
            }
            _ => Wrong { shown: Some("***".to_owned()), expected: "it is not a URL".to_owned() },
        })
    }

    fn value(&self) -> Value {
        Value::Secret { whole: self.clone().into(), shown: self.to_string() }
    }
}

impl Held for Order {
    fn from_value(value: &Value) -> Result<Self, Wrong> {
        let order = values::order(&String::from_value(value)?);
        match order.map_err(|_| Wrong::from("use strict, lifo, fair, or ageing=TIME"))? {
            Self::Ageing { quantum_ms } if !(1..=AGE_MAX_MS).contains(&quantum_ms) => {
                Err(format!("the time must be between 1ms and {}", time(AGE_MAX_MS)).into())
            }
            order => Ok(order),
        }
    }

    fn value(&self) -> Value {
        Value::Text(match self {
            Self::Ageing { quantum_ms } => format!("ageing={}", time(*quantum_ms)),
            Self::Lifo => "lifo".to_owned(),
            Self::Fair => "fair".to_owned(),
            _ => "strict".to_owned(),
        })
    }
}

impl Held for Backoff {
    fn from_value(value: &Value) -> Result<Self, Wrong> {
        let backoff = values::backoff(&String::from_value(value)?);
        let backoff =
            backoff.map_err(|_| Wrong::from("write it like 10s, 10s..1h or 10s..1h~5s"))?;
        backoff.check()?;
        Ok(backoff)
    }

    fn value(&self) -> Value {
        let (delay, jitter_ms) = match *self {
            Self::Exponential { base_ms, cap_ms, jitter_ms } => {
                (format!("{}..{}", time(base_ms), time(cap_ms)), jitter_ms)
            }
            Self::Fixed { delay_ms, jitter_ms } => (time(delay_ms), jitter_ms),
            // Core may add variants; show the delay after the first failure.
            other => (time(other.delay_max_ms(1)), 0),
        };
        let jitter = if jitter_ms > 0 { format!("~{}", time(jitter_ms)) } else { String::new() };
        Value::Text(delay + &jitter)
    }
}

/// A number per period, as in `100/1m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PerTime {
    pub(crate) amount: u32,
    pub(crate) per_ms: u64,
}

impl fmt::Display for PerTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.amount, time(self.per_ms))
    }
}

impl Held for PerTime {
    fn from_value(value: &Value) -> Result<Self, Wrong> {
        let (amount, per_ms) = values::rate(&String::from_value(value)?)
            .map_err(|_| Wrong::from("write a number and a period, like 100/1m"))?;
        Ok(Self { amount, per_ms })
    }

    fn value(&self) -> Value {
        Value::Text(self.to_string())
    }
}

impl Held for Vec<Name> {
    fn from_value(value: &Value) -> Result<Self, Wrong> {
        Ok(Vec::<String>::from_value(value)?.into_iter().map(Into::into).collect())
    }

    fn value(&self) -> Value {
        Value::List(self.iter().map(ToString::to_string).collect())
    }
}

impl Held for Missed {
    fn from_value(value: &Value) -> Result<Self, Wrong> {
        match &*String::from_value(value)? {
            "skip" => Ok(Self::Skip),
            "once" => Ok(Self::Once),
            "all" => Ok(Self::All),
            _ => unfit(),
        }
    }

    fn value(&self) -> Value {
        Value::Text(match self {
            Self::Skip => "skip".to_owned(),
            Self::All => "all".to_owned(),
            _ => "once".to_owned(),
        })
    }
}
