//! Server-sent events, as far as the daemon uses them.

use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::error::ClientError;
use crate::api::Streamed;

/// A longer line is not the daemon's.
const MAX_LINE: usize = 1 << 20;

/// What happens to processes, until it is dropped or the daemon ends.
#[derive(Debug)]
pub struct EventStream {
    body: Incoming,
    parser: Parser,
}

impl EventStream {
    pub(super) fn new(body: Incoming) -> EventStream {
        EventStream {
            body,
            parser: Parser::default(),
        }
    }

    /// The next one; `None` when the daemon has ended the stream.
    pub async fn next(&mut self) -> Result<Option<Streamed>, ClientError> {
        loop {
            if let Some(streamed) = self.parser.next()? {
                return Ok(Some(streamed));
            }
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            if let Ok(data) = frame?.into_data() {
                self.parser.feed(&data)?;
            }
        }
    }
}

/// Lines `event: NAME` and `data: JSON`, ended by an empty one. A line that
/// begins with a colon is a comment, which keeps the connection alive.
#[derive(Debug, Default)]
struct Parser {
    pending: Vec<u8>,
    missed: bool,
    data: Option<String>,
}

impl Parser {
    fn feed(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() > MAX_LINE && !self.pending.contains(&b'\n') {
            return Err(ClientError::NotUnderstood("an endless line".to_owned()));
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Streamed>, ClientError> {
        while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            let line = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
            if let Some(name) = line.strip_prefix("event:") {
                self.missed = name.trim() == "missed";
            } else if let Some(data) = line.strip_prefix("data:") {
                self.data = Some(data.trim().to_owned());
            } else if line.is_empty()
                && let Some(data) = self.data.take()
            {
                return parse(std::mem::take(&mut self.missed), &data).map(Some);
            }
        }
        Ok(None)
    }
}

fn parse(missed: bool, data: &str) -> Result<Streamed, ClientError> {
    #[derive(serde::Deserialize)]
    struct Missed {
        missed: u64,
    }
    let parsed = if missed {
        serde_json::from_str::<Missed>(data).map(|missed| Streamed::Missed(missed.missed))
    } else {
        serde_json::from_str(data).map(|event| Streamed::Event(Box::new(event)))
    };
    parsed.map_err(|error| ClientError::NotUnderstood(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_whatever_the_pieces_are() {
        let text =
            b": keep-alive\n\nevent: exit\ndata: {\"kind\":\"exit\",\"time_ns\":1,\"pid\":2,\
            \"start_ticks\":3,\"session\":null}\n\nevent: missed\ndata: {\"missed\":7}\n\n";
        for size in [1, 7, text.len()] {
            let mut parser = Parser::default();
            let mut found = Vec::new();
            for piece in text.chunks(size) {
                parser.feed(piece).unwrap();
                while let Some(streamed) = parser.next().unwrap() {
                    found.push(streamed);
                }
            }
            assert!(matches!(&found[0], Streamed::Event(event) if event.id.pid.raw() == 2));
            assert_eq!(found[1], Streamed::Missed(7), "pieces of {size}");
        }
    }

    #[test]
    fn a_line_without_end_is_an_error() {
        assert!(Parser::default().feed(&vec![b'x'; MAX_LINE + 1]).is_err());
    }
}
