//! The archive that the kernel unpacks as its first file system: "newc", see
//! the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.

use std::fmt::Write as _;
use std::io::{self, Write};

use anyhow::Context;

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// Writes an archive. A file's directories have to come before it.
pub(crate) struct Archive<W> {
    to: W,
    entries: u32,
}

impl<W: Write> Archive<W> {
    /// An empty one.
    pub(crate) fn new(to: W) -> Archive<W> {
        Archive { to, entries: 0 }
    }

    /// A directory, by its path without the first slash.
    pub(crate) fn directory(&mut self, path: &str, mode: u32) -> anyhow::Result<()> {
        self.entry(path, DIRECTORY | mode, &[])
    }

    /// A file.
    pub(crate) fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> anyhow::Result<()> {
        self.entry(path, FILE | mode, content)
    }

    /// A symbolic link.
    pub(crate) fn link(&mut self, path: &str, target: &str) -> anyhow::Result<()> {
        self.entry(path, LINK | 0o777, target.as_bytes())
    }

    /// Writes the end.
    pub(crate) fn finish(mut self) -> anyhow::Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) -> anyhow::Result<()> {
        self.entries += 1;
        let inode = self.entries;
        let size = u32::try_from(content.len()).with_context(|| format!("{path} is too large"))?;
        let name_size = path.len() + 1;
        let links = if mode & DIRECTORY == 0 { 1 } else { 2 };
        let fields = [
            inode,
            mode,
            0,
            0,
            links,
            0,
            size,
            0,
            0,
            0,
            0,
            u32::try_from(name_size)?,
            0,
        ];
        let mut header = String::from("070701");
        for field in fields {
            let _ = write!(header, "{field:08X}");
        }
        let written = header.len() + name_size;
        self.to.write_all(header.as_bytes())?;
        self.to.write_all(path.as_bytes())?;
        self.to.write_all(&[0])?;
        self.pad(written)?;
        self.to.write_all(content)?;
        self.pad(content.len())?;
        Ok(())
    }

    /// Everything begins at a multiple of four.
    fn pad(&mut self, written: usize) -> io::Result<()> {
        let missing = written.next_multiple_of(4) - written;
        self.to.write_all([0; 4].get(..missing).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_as_the_kernel_reads_it() {
        let mut archive = Archive::new(Vec::new());
        archive.directory("etc", 0o755).unwrap();
        archive.file("etc/x", 0o644, b"hello").unwrap();
        archive.link("y", "etc/x").unwrap();
        let bytes = archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8(bytes).unwrap();
        let names = ["etc\0", "etc/x\0", "y\0", "TRAILER!!!\0"];
        let mut rest = text.as_str();
        for name in names {
            let at = rest.find("070701").unwrap();
            rest = &rest[at..];
            assert_eq!(&rest[110..110 + name.len()], name);
            rest = &rest[110..];
        }
        // The fields are mode and size.
        assert_eq!(&text[14..22], "000041ED");
        let file = &text[text.find("etc/x").unwrap() - 110..];
        assert_eq!((&file[14..22], &file[54..62]), ("000081A4", "00000005"));
        assert!(text.contains("hello\x00\x00\x00070701"));
    }
}
