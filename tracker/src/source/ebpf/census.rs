//! Everybody who is there now, from the kernel's own list of tasks: with start
//! times to the nanosecond, which `/proc` rounds away.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, Read};

use aya::programs::Iter;
use tracker_ebpf::CensusRow;

use super::decode::{self, RowBytes};
use super::error::system_call;
use crate::source::SourceError;

/// The rows by thread group id.
pub(super) type Rows = HashMap<u32, CensusRow>;

/// Starts a walk with a program that this process holds.
pub(super) fn start(program: &mut Iter) -> io::Result<File> {
    let link = program.attach().map_err(io_error)?;
    let link = program.take_link(link).map_err(io_error)?;
    link.into_file().map_err(io_error)
}

fn io_error(error: impl Error + Send + Sync + 'static) -> io::Error {
    system_call(&error).unwrap_or_else(|| io::Error::other(error))
}

/// Reads a walk to its end.
pub(super) fn read(mut walk: impl Read) -> Result<Rows, SourceError> {
    let mut bytes = Vec::with_capacity(1 << 16);
    loop {
        match walk.read_to_end(&mut bytes) {
            Ok(_) => break,
            // The kernel pauses a walk that goes on for long without a row.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(SourceError::Census(error)),
        }
    }
    let (rows, rest): (&[RowBytes], &[u8]) = bytes.as_chunks();
    if !rest.is_empty() {
        let error = "it ends in the middle of a row";
        return Err(SourceError::Census(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            error,
        )));
    }
    Ok(rows
        .iter()
        .filter_map(decode::row)
        .map(|row| (row.pid, row))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails once in the middle, as the kernel does.
    struct Pausing(Vec<Option<Vec<u8>>>);

    impl Read for Pausing {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            match self.0.pop() {
                None => Ok(0),
                Some(None) => Err(io::ErrorKind::WouldBlock.into()),
                Some(Some(bytes)) => {
                    to[..bytes.len()].copy_from_slice(&bytes);
                    Ok(bytes.len())
                }
            }
        }
    }

    fn row(pid: u32) -> Vec<u8> {
        let mut bytes = vec![0; 16];
        bytes.extend_from_slice(&pid.to_ne_bytes());
        bytes.extend_from_slice(&[0; 12]);
        bytes
    }

    #[test]
    fn a_pause_loses_no_row() {
        let rows = read(Pausing(vec![Some(row(2)), None, Some(row(1))])).unwrap();
        assert_eq!(rows.len(), 2);
    }

    #[test]
    fn half_a_row_is_an_error() {
        assert!(read(&row(1)[..31]).is_err());
    }
}
