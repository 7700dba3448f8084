#![expect(
    unsafe_code,
    reason = "the environment is read as it is, entries without `=` included"
)]
//! What is to be executed, prepared so that the child need not allocate:
//! between `fork` and `execve` only async-signal-safe calls are allowed
//! (`signal-safety(7)`).

use std::ffi::{CStr, CString, OsStr, OsString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use super::gate::LaunchError;
use super::inherited::Inherited;

/// Where programs are looked for when there is no `PATH`, as in the C library.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

/// A command that is to be started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program: looked for in `PATH` unless there is a slash in it.
    pub program: OsString,
    /// Its arguments, without the name that comes first.
    pub args: Vec<OsString>,
    /// A variable of its environment that [`super::Gated::release`] gives a value.
    pub variable: &'static str,
    /// How long that value will be, in bytes.
    pub value_len: usize,
    /// What it must get back: [`Inherited::at_start`].
    pub inherited: Inherited,
}

/// The arguments of `execve`, with everything they point to.
pub(super) struct Image {
    /// What to try to execute, in this order.
    pub(super) candidates: Vec<*const c_char>,
    /// `/bin/sh`, a slot for the script, then the arguments of the program,
    /// then null. The program's own `argv` begins at the slot.
    pub(super) argv: Vec<*const c_char>,
    /// `NAME=VALUE`..., a slot for `variable`, then null.
    pub(super) envp: Vec<*const c_char>,
    /// `NAME=` and room for the value and a NUL.
    variable: Vec<u8>,
    /// Where in `variable` the value begins.
    value_at: usize,
    _strings: Vec<CString>,
}

impl Image {
    /// Puts the variable, which has its value by now, into the environment.
    pub(super) fn set_variable(&mut self) {
        let variable = self.variable.as_ptr().cast();
        if let [.., slot, _null] = self.envp.as_mut_slice() {
            *slot = variable;
        }
    }

    /// Where the value of the variable goes.
    pub(super) fn value(&mut self) -> &mut [u8] {
        let end = self.variable.len().saturating_sub(1);
        self.variable
            .get_mut(self.value_at..end)
            .unwrap_or_default()
    }

    pub(super) fn new(launch: &Launch) -> Result<Image, LaunchError> {
        let mut strings = Vec::new();
        let mut keep = |bytes: Vec<u8>| {
            let string = CString::new(bytes).map_err(|_| LaunchError::Nul)?;
            let pointer = string.as_ptr();
            strings.push(string);
            Ok::<_, LaunchError>(pointer)
        };
        let path = std::env::var_os("PATH");
        let candidates = candidates(&launch.program, path.as_deref())
            .into_iter()
            .map(&mut keep)
            .collect::<Result<_, _>>()?;
        let mut argv = vec![
            keep(b"/bin/sh".to_vec())?,
            keep(launch.program.as_bytes().to_vec())?,
        ];
        for arg in &launch.args {
            argv.push(keep(arg.as_bytes().to_vec())?);
        }
        argv.push(ptr::null());

        let mut variable = launch.variable.as_bytes().to_vec();
        variable.push(b'=');
        let value_at = variable.len();
        variable.resize(value_at + launch.value_len + 1, 0);
        let name = variable.get(..value_at).unwrap_or_default();
        let mut envp = environment()
            .into_iter()
            .filter(|entry| !entry.as_bytes().starts_with(name))
            .map(|entry| keep(entry.into_bytes()))
            .collect::<Result<Vec<_>, _>>()?;
        envp.extend([ptr::null(), ptr::null()]);
        Ok(Image {
            candidates,
            argv,
            envp,
            variable,
            value_at,
            _strings: strings,
        })
    }
}

/// The environment, entry by entry.
fn environment() -> Vec<CString> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: `environ` is null or points to pointers to strings, up to a null
    // pointer. Whoever changes it while other threads run has to exclude every
    // reader, which `std::env::set_var` demands of its caller.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            entries.push(CStr::from_ptr(*at).to_owned());
            at = at.add(1);
        }
    }
    entries
}

/// The paths that `execvp(3)` would try.
fn candidates(program: &OsStr, path: Option<&OsStr>) -> Vec<Vec<u8>> {
    let program = program.as_bytes();
    if program.is_empty() || program.contains(&b'/') {
        return vec![program.to_vec()];
    }
    path.map_or(DEFAULT_PATH, OsStr::as_bytes)
        .split(|byte| *byte == b':')
        .map(|directory| match directory {
            b"" => [b"./", program].concat(),
            _ => [directory, b"/", program].concat(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(program: &str, path: Option<&str>) -> Vec<String> {
        candidates(OsStr::new(program), path.map(OsStr::new))
            .into_iter()
            .map(|path| String::from_utf8(path).unwrap())
            .collect()
    }

    #[test]
    fn programs_are_looked_for_as_execvp_does() {
        assert_eq!(paths("x", Some("/a:/b")), ["/a/x", "/b/x"]);
        assert_eq!(paths("x", Some(":/b:")), ["./x", "/b/x", "./x"]);
        assert_eq!(paths("x", Some("")), ["./x"]);
        assert_eq!(paths("x", None), ["/bin/x", "/usr/bin/x"]);
        assert_eq!(paths("./x", Some("/a")), ["./x"]);
        assert_eq!(paths("", Some("/a")), [""]);
    }
}
