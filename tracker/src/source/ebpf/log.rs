//! What the probe itself has to say: anomalies that its counters only count.

use aya::Ebpf;
use aya_log::{EbpfLogger, Level};

use super::error::LoadError;

/// The level of the probe's own log, which is compiled away where nobody listens.
pub(super) fn level() -> u8 {
    if tracing::enabled!(tracing::Level::WARN) {
        Level::Warn as u8
    } else {
        0
    }
}

/// Reads the probe's log.
pub(super) struct Log(EbpfLogger<Forward>);

impl Log {
    /// Of a probe that is loaded.
    pub(super) fn of(ebpf: &mut Ebpf) -> Result<Log, LoadError> {
        EbpfLogger::init_with_logger(ebpf, Forward)
            .map(Log)
            .map_err(|error| LoadError::of("opening the probe's log", &error))
    }

    /// Hands over what has been said.
    pub(super) fn forward(&mut self) {
        self.0.flush();
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Log")
    }
}

/// Into this program's log.
struct Forward;

impl log::Log for Forward {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        // The probe formats numbers only.
        tracing::warn!(target: "tracker::probe", "{}", record.args());
    }

    fn flush(&self) {}
}
