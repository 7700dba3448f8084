//! Which session a process belongs to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tracker_ebpf::{TAG_EXEMPT, TAG_NONE};

/// Names a session: 48 random bits, printed as twelve hexadecimal digits.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String)]
pub struct SessionId(u64);

impl SessionId {
    /// From a number; `None` for 0 and for what does not fit in 48 bits.
    pub fn new(raw: u64) -> Option<SessionId> {
        (raw != TAG_NONE && raw < TAG_EXEMPT).then_some(SessionId(raw))
    }

    /// An id that no other session has, but with a chance of one in 2^48.
    pub fn random() -> std::io::Result<SessionId> {
        loop {
            let mut bytes = [0; 8];
            rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
            if let Some(id) = SessionId::new(u64::from_ne_bytes(bytes) % TAG_EXEMPT) {
                return Ok(id);
            }
        }
    }

    /// The number.
    pub fn raw(self) -> u64 {
        self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for SessionId {
    type Err = ParseSessionIdError;

    fn from_str(text: &str) -> Result<SessionId, ParseSessionIdError> {
        if text.len() != 12 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ParseSessionIdError);
        }
        u64::from_str_radix(text, 16)
            .ok()
            .and_then(SessionId::new)
            .ok_or(ParseSessionIdError)
    }
}

impl TryFrom<String> for SessionId {
    type Error = ParseSessionIdError;

    fn try_from(text: String) -> Result<SessionId, ParseSessionIdError> {
        text.parse()
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> String {
        id.to_string()
    }
}

/// The text is no session id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a session id is twelve hexadecimal digits")]
pub struct ParseSessionIdError;

/// What a process inherits from its creator: the innermost session that owns
/// it, and whether a keep rule spares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// The session.
    pub session: SessionId,
    /// Kept, as its descendants are.
    pub exempt: bool,
}

impl Tag {
    /// The tag of an ordinary member.
    pub fn member(session: SessionId) -> Tag {
        Tag {
            session,
            exempt: false,
        }
    }

    /// As the kernel's maps have it.
    pub fn to_kernel(tag: Option<Tag>) -> u64 {
        tag.map_or(TAG_NONE, |tag| {
            tag.session.0 | if tag.exempt { TAG_EXEMPT } else { 0 }
        })
    }

    /// From the kernel's maps.
    pub fn from_kernel(raw: u64) -> Option<Tag> {
        let session = SessionId::new(raw & !TAG_EXEMPT)?;
        Some(Tag {
            session,
            exempt: raw & TAG_EXEMPT != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_as_it_was_printed() {
        let id = SessionId::new(0xab).unwrap();
        assert_eq!(id.to_string(), "0000000000ab");
        assert_eq!("0000000000ab".parse(), Ok(id));
        for text in [
            "",
            "0",
            "000000000000",
            "+000000000ab",
            "0000000000abc",
            "0000000000ag",
        ] {
            assert_eq!(
                text.parse::<SessionId>(),
                Err(ParseSessionIdError),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_tag_survives_the_kernel() {
        let session = SessionId::random().unwrap();
        for tag in [
            None,
            Some(Tag::member(session)),
            Some(Tag {
                session,
                exempt: true,
            }),
        ] {
            assert_eq!(Tag::from_kernel(Tag::to_kernel(tag)), tag);
        }
    }
}
