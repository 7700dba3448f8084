//! How a request names a process.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};

use crate::process::{ParseProcessIdError, Pid, ProcessId};

/// A process: whoever has a pid now, or exactly one identity. In JSON a number,
/// or a text `PID`, `PID@START` or `self`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessRef {
    /// The process that opened the connection.
    Caller,
    /// Whoever has this pid now.
    Pid(Pid),
    /// This one and no other.
    Exact(ProcessId),
}

impl FromStr for ProcessRef {
    type Err = ParseProcessIdError;

    fn from_str(text: &str) -> Result<ProcessRef, ParseProcessIdError> {
        if text == "self" {
            return Ok(ProcessRef::Caller);
        }
        if text.contains('@') {
            return text.parse().map(ProcessRef::Exact);
        }
        text.parse().map(ProcessRef::Pid)
    }
}

impl fmt::Display for ProcessRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessRef::Caller => f.write_str("self"),
            ProcessRef::Pid(pid) => pid.fmt(f),
            ProcessRef::Exact(id) => id.fmt(f),
        }
    }
}

impl Serialize for ProcessRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ProcessRef::Pid(pid) => pid.serialize(serializer),
            ProcessRef::Caller | ProcessRef::Exact(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for ProcessRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ProcessRef, D::Error> {
        deserializer.deserialize_any(Visitor)
    }
}

struct Visitor;

impl serde::de::Visitor<'_> for Visitor {
    type Value = ProcessRef;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pid, a text PID@START, or \"self\"")
    }

    fn visit_u64<E: serde::de::Error>(self, raw: u64) -> Result<ProcessRef, E> {
        self.visit_i64(i64::try_from(raw).unwrap_or(i64::MAX))
    }

    fn visit_i64<E: serde::de::Error>(self, raw: i64) -> Result<ProcessRef, E> {
        Pid::try_from(raw).map(ProcessRef::Pid).map_err(E::custom)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ProcessRef, E> {
        text.parse().map_err(E::custom)
    }
}

impl utoipa::PartialSchema for ProcessRef {
    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1));
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^([0-9]+(@[0-9]+)?|self)$"));
        OneOfBuilder::new()
            .item(number)
            .item(text)
            .description(Some(
                "Whoever has a pid now, exactly one PID@START (START is field 22 of \
                 /proc/PID/stat), or `self`: the process that opened the connection.",
            ))
            .into()
    }
}

impl utoipa::ToSchema for ProcessRef {
    fn schemas(_: &mut Vec<(String, RefOr<Schema>)>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<ProcessRef, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn a_process_is_a_number_a_text_or_the_caller() {
        let pid = Pid::new(7).unwrap();
        assert_eq!(read("7"), Ok(ProcessRef::Pid(pid)));
        assert_eq!(read("\"7\""), Ok(ProcessRef::Pid(pid)));
        assert_eq!(
            read("\"7@8\""),
            Ok(ProcessRef::Exact("7@8".parse().unwrap()))
        );
        assert_eq!(read("\"self\""), Ok(ProcessRef::Caller));
        for json in ["7", "\"7@8\"", "\"self\""] {
            assert_eq!(serde_json::to_string(&read(json).unwrap()).unwrap(), json);
        }
    }

    #[test]
    fn what_no_process_can_be_is_refused() {
        for json in [
            "0",
            "-1",
            "2147483648",
            "18446744073709551615",
            "1.5",
            "null",
            "\"x\"",
            "{}",
        ] {
            assert!(read(json).is_err(), "{json}");
        }
    }
}
