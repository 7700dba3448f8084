//! The guest's file system: the tests, the programs that they start, and the
//! libraries of all of them, as this machine has them.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs::{self, File};
use std::io::BufWriter;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::cpio::Archive;
use super::suites::Suite;

/// What the tests, their scripts and the guest's init start.
const PROGRAMS: [&str; 48] = [
    "bash", "cat", "chmod", "chown", "cp", "cut", "date", "dd", "dmesg", "env", "false", "find",
    "grep", "head", "id", "ln", "ls", "mkdir", "mkfifo", "mount", "mv", "nohup", "nsenter",
    "pgrep", "prlimit", "ps", "readlink", "rm", "sed", "seq", "setpriv", "setsid", "sh", "sleep",
    "sort", "stat", "su", "sync", "tail", "taskset", "timeout", "touch", "tr", "true", "umount",
    "unshare", "wc", "yes",
];

/// Loaded by name while a program runs, so `ldd` does not tell of them.
const MODULES: [&str; 2] = ["pam_permit.so", "pam_rootok.so"];

/// Links that a distribution with a merged `/usr` has.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// Empty directories.
const DIRECTORIES: [&str; 12] = [
    "dev",
    "etc",
    "etc/pam.d",
    "mnt",
    "mnt/freezer",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
    "usr",
    "var",
];

const FILES: [(&str, &str); 5] = [
    (
        "etc/passwd",
        "root:*:0:0::/root:/bin/sh\nnobody:*:65534:65534::/:/bin/sh\n",
    ),
    ("etc/group", "root:*:0:\nnogroup:*:65534:\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\n"),
    (
        "etc/pam.d/su",
        "auth sufficient pam_rootok.so\naccount sufficient pam_permit.so\nsession sufficient pam_permit.so\n",
    ),
    ("init", include_str!("init.sh")),
];

/// Where the guest has what cargo has built, laid out as below `target/release`.
const BUILT: &str = "t";

/// Writes the archive.
pub(crate) fn write(to: &Path, suites: &[Suite], binaries: &[PathBuf]) -> anyhow::Result<()> {
    let file = File::create(to).with_context(|| to.display().to_string())?;
    let mut image = Image::new(file)?;
    for name in PROGRAMS {
        image.program(&which(name)?)?;
    }
    for name in MODULES {
        let module = find_module(name)?;
        image.library(&module)?;
    }
    image.python()?;
    let mut list = String::new();
    for suite in suites {
        let program = format!("{BUILT}/deps/{}", file_name(&suite.executable)?);
        image.built(&suite.executable, &program)?;
        let arguments = suite.arguments.join(" ");
        let _ = writeln!(list, "{} /{program} {arguments}", suite.name);
    }
    for binary in binaries {
        image.built(binary, &format!("{BUILT}/{}", file_name(binary)?))?;
    }
    image.put(&format!("{BUILT}/suites"), 0o644, list.as_bytes())?;
    image.archive.finish()?;
    Ok(())
}

/// An archive that has each thing once.
struct Image {
    archive: Archive<BufWriter<File>>,
    there: BTreeSet<String>,
}

impl Image {
    fn new(to: File) -> anyhow::Result<Image> {
        let mut image = Image {
            archive: Archive::new(BufWriter::new(to)),
            there: BTreeSet::new(),
        };
        for path in DIRECTORIES {
            let mode = if path == "tmp" { 0o1777 } else { 0o755 };
            image.there.insert(path.to_owned());
            image.archive.directory(path, mode)?;
        }
        for name in MERGED {
            image.there.insert(name.to_owned());
            image.archive.link(name, &format!("usr/{name}"))?;
        }
        for (path, content) in FILES {
            image.put(path, 0o755, content.as_bytes())?;
        }
        Ok(image)
    }

    /// Puts a file at a path, with the directories above it.
    fn put(&mut self, path: &str, mode: u32, content: &[u8]) -> anyhow::Result<()> {
        if !self.there.insert(path.to_owned()) {
            return Ok(());
        }
        self.above(path)?;
        self.archive.file(path, mode, content)
    }

    fn above(&mut self, path: &str) -> anyhow::Result<()> {
        for (at, _) in path.match_indices('/') {
            let (dir, _) = path.split_at(at);
            if self.there.insert(dir.to_owned()) {
                self.archive.directory(dir, 0o755)?;
            }
        }
        Ok(())
    }

    /// A program of this machine, with its libraries, and under the name by
    /// which it is called if that is another.
    fn program(&mut self, path: &Path) -> anyhow::Result<()> {
        let real = path
            .canonicalize()
            .with_context(|| path.display().to_string())?;
        self.library(&real)?;
        let called = format!("usr/bin/{}", file_name(path)?);
        if self.there.insert(called.clone()) {
            self.above(&called)?;
            self.archive.link(&called, &real.to_string_lossy())?;
        }
        Ok(())
    }

    /// A file of this machine, with the libraries that it needs.
    fn library(&mut self, path: &Path) -> anyhow::Result<()> {
        let content = fs::read(path).with_context(|| path.display().to_string())?;
        let place = merged(path)?;
        let mode = fs::metadata(path)?.permissions().mode() & 0o7777;
        self.put(&place, mode, &content)?;
        for library in libraries(path)? {
            let content = fs::read(&library).with_context(|| library.display().to_string())?;
            self.put(&merged(&library)?, 0o755, &content)?;
        }
        Ok(())
    }

    /// What cargo has built, without what only a debugger reads.
    fn built(&mut self, path: &Path, place: &str) -> anyhow::Result<()> {
        if self.there.contains(place) {
            return Ok(());
        }
        for library in libraries(path)? {
            self.library(&library)?;
        }
        let output = Command::new("strip")
            .args(["--strip-all", "-o", "/dev/stdout"])
            .arg(path)
            .output();
        let content = match output {
            Ok(output) if output.status.success() && !output.stdout.is_empty() => output.stdout,
            _ => fs::read(path).with_context(|| path.display().to_string())?,
        };
        self.put(place, 0o755, &content)
    }

    /// Debian's, which has all of its parts below one directory.
    fn python(&mut self) -> anyhow::Result<()> {
        let program = Path::new("/usr/bin/python3");
        let real = program
            .canonicalize()
            .context("python3 is not installed: apt-get install python3")?;
        self.program(program)?;
        let name = real.file_name().context("a name")?;
        let mut dirs = vec![Path::new("/usr/lib").join(name)];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
                let path = entry?.path();
                if path.is_dir() {
                    let unused = ["__pycache__", "test", "idlelib", "lib2to3"];
                    if !unused.contains(&file_name(&path)?) {
                        dirs.push(path);
                    }
                    continue;
                }
                match path.extension().and_then(|extension| extension.to_str()) {
                    Some("py") => self.put(&merged(&path)?, 0o644, &fs::read(&path)?)?,
                    Some("so") => self.library(&path)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn file_name(path: &Path) -> anyhow::Result<&str> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.with_context(|| path.display().to_string())
}

/// The path in the guest, where `/lib` is a link to `/usr/lib`.
fn merged(path: &Path) -> anyhow::Result<String> {
    let path = path.to_str().context("a path of this machine")?;
    let path = path.trim_start_matches('/');
    let first = path.split('/').next().unwrap_or_default();
    Ok(if MERGED.contains(&first) {
        format!("usr/{path}")
    } else {
        path.to_owned()
    })
}

/// The libraries that a program loads when it starts.
fn libraries(program: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("ldd")?;
    // It fails for what is linked statically, which needs none.
    Ok(parse_ldd(&String::from_utf8_lossy(&output.stdout)))
}

fn parse_ldd(text: &str) -> Vec<PathBuf> {
    let words = text.lines().filter_map(|line| {
        line.split_ascii_whitespace()
            .find(|word| word.starts_with('/'))
    });
    words
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .collect()
}

/// Where this machine has a program. Not by `PATH`: what is found there first
/// may be a script that starts another one.
fn which(name: &str) -> anyhow::Result<PathBuf> {
    ["/usr/bin", "/usr/sbin", "/bin", "/sbin"]
        .iter()
        .map(|dir| Path::new(dir).join(name))
        .find(|path| path.is_file())
        .with_context(|| format!("{name} is not installed"))
}

fn find_module(name: &str) -> anyhow::Result<PathBuf> {
    let libraries = Path::new("/usr/lib");
    let entries = fs::read_dir(libraries).context("/usr/lib")?;
    let mut found = entries
        .filter_map(|entry| Some(entry.ok()?.path().join("security").join(name)))
        .filter(|path| path.is_file());
    found
        .next()
        .with_context(|| format!("{name} is not installed"))
}

/// Fails with the name of what is missing to make a guest.
pub(crate) fn check_tools() -> anyhow::Result<()> {
    for (program, package) in [
        ("ldd", "libc-bin"),
        ("strip", "binutils"),
        ("dpkg-deb", "dpkg"),
        ("qemu-system-x86_64", "qemu-system-x86"),
    ] {
        ensure!(
            which(program).is_ok(),
            "{program} is not installed: apt-get install {package}"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_what_ldd_prints() {
        let text = "\tlinux-vdso.so.1 (0x7)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x7)\n";
        let expected = [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/ld-linux-x86-64.so.2",
        ];
        assert_eq!(parse_ldd(text), expected.map(PathBuf::from));
        assert_eq!(parse_ldd("\tstatically linked\n"), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_merged_usr_has_one_path_for_each_file() {
        let path = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
        assert_eq!(merged(path).unwrap(), "usr/lib/x86_64-linux-gnu/libc.so.6");
        assert_eq!(merged(Path::new("/usr/bin/sh")).unwrap(), "usr/bin/sh");
        assert_eq!(merged(Path::new("/opt/x")).unwrap(), "opt/x");
    }
}
