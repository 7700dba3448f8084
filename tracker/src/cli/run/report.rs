//! Where the report goes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cli::output;
use crate::reap::Report;

/// What `--report` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// `-`
    Stdout,
    /// Anything else. Absolute: the command cannot change what it means.
    File(PathBuf),
}

impl Destination {
    /// Checks what can be checked before the command runs.
    pub(super) fn new(path: &Path) -> Result<Destination> {
        if path == Path::new("-") {
            return Ok(Destination::Stdout);
        }
        let path = std::path::absolute(path)
            .with_context(|| format!("cannot write the report to {}", path.display()))?;
        if path.is_dir() {
            bail!(
                "cannot write the report to {}: it is a directory",
                path.display()
            );
        }
        match path.parent() {
            Some(parent) if parent.is_dir() => Ok(Destination::File(path)),
            _ => bail!(
                "cannot write the report to {}: its directory does not exist",
                path.display()
            ),
        }
    }

    /// Writes the report as JSON.
    pub(super) fn write(&self, report: &Report) -> Result<()> {
        match self {
            Destination::Stdout => match output::print_json(report) {
                Err(error) if error.is_broken_pipe() => Ok(()),
                answer => Ok(answer?),
            },
            Destination::File(path) => write_file(path, report)
                .with_context(|| format!("cannot write the report to {}", path.display())),
        }
    }
}

fn write_file(path: &Path, report: &Report) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => replace(path, report),
        // A device, a pipe, a link: the name has to go on meaning what it does.
        Ok(_) => write_through(path, report),
        Err(error) if error.kind() == io::ErrorKind::NotFound => replace(path, report),
        Err(error) => Err(error),
    }
}

/// A reader finds the old file or the whole new one.
fn replace(path: &Path, report: &Report) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".tracker-{}", std::process::id()));
    let temporary = path.with_file_name(name);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&temporary)?;
    let done = write_to(file, report).and_then(|()| fs::rename(&temporary, path));
    if done.is_err() {
        // The reason why it could not be written is worth more than this one.
        let _ = fs::remove_file(&temporary);
    }
    done
}

/// What `/dev/stderr` leads to may be a file that others write to as well, so
/// nothing in it is overwritten.
fn write_through(path: &Path, report: &Report) -> io::Result<()> {
    let is_shared = path.starts_with("/dev") || path.starts_with("/proc");
    let mut options = OpenOptions::new();
    if is_shared {
        options.append(true);
    } else {
        options.write(true).create(true).truncate(true);
    }
    write_to(options.open(path)?, report)
}

fn write_to(file: File, report: &Report) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    serde_json::to_writer_pretty(&mut out, report)?;
    out.write_all(b"\n")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reap::TargetEntry;
    use crate::source::SourceKind;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{MetadataExt, symlink};

    fn report() -> Report {
        let path = "/w".to_owned();
        let target = TargetEntry::Directory { path };
        Report {
            reap_id: "x".to_owned(),
            ..Report::refused(target, SourceKind::Ebpf, String::new())
        }
    }

    fn write(path: &Path) {
        Destination::new(path).unwrap().write(&report()).unwrap();
    }

    fn read(path: &Path) -> Report {
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report");
        fs::write(&path, "old").unwrap();
        let old = File::open(&path).unwrap();
        write(&path);
        assert_eq!(read(&path), report());
        assert_ne!(
            old.metadata().unwrap().ino(),
            fs::metadata(&path).unwrap().ino()
        );
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            1,
            "nothing is left"
        );
    }

    #[test]
    fn a_link_stays_one() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        symlink("file", &link).unwrap();
        write(&link);
        fs::write(&file, "x".repeat(10_000)).unwrap();
        write(&link);
        assert!(link.is_symlink());
        assert_eq!(read(&file), report());
    }

    #[test]
    fn an_open_file_is_appended_to() {
        let mut log = tempfile::tempfile().unwrap();
        log.write_all(b"line\n").unwrap();
        write(Path::new(&format!("/proc/self/fd/{}", log.as_raw_fd())));
        let mut text = String::new();
        io::Seek::rewind(&mut log).unwrap();
        log.read_to_string(&mut text).unwrap();
        let document = text.strip_prefix("line\n").unwrap();
        assert_eq!(serde_json::from_str::<Report>(document).unwrap(), report());
    }

    #[test]
    fn a_pipe_gets_the_report() {
        let (mut reader, writer) = io::pipe().unwrap();
        write(Path::new(&format!("/dev/fd/{}", writer.as_raw_fd())));
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report());
    }

    #[test]
    fn what_cannot_be_written_is_refused_before_the_command_runs() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Destination::new(dir.path()).is_err());
        assert!(Destination::new(&dir.path().join("none/report")).is_err());
        assert_eq!(
            Destination::new(Path::new("-")).unwrap(),
            Destination::Stdout
        );
    }
}
