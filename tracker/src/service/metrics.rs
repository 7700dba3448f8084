//! Numbers for Prometheus.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::api;
use crate::reap::{Report, SpareReason, Verdict};

type Total = Counter<u64, AtomicU64>;

/// All metrics. Those of past reaps are kept here, the others are copied from
/// the status when they are asked for.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    reaps: Family<VerdictLabel, Total>,
    spared: Family<ReasonLabel, Total>,
    reaped: Family<OutcomeLabel, Total>,
    reap_seconds: Histogram,
    sessions: Gauge,
    running: Gauge,
    waiting: Gauge,
    live: Gauge,
    remembered: Gauge,
    evicted: Total,
    events: Family<EventLabel, Total>,
    losses: Family<LossLabel, Total>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabel {
    verdict: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabel {
    kind: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LossLabel {
    what: Word,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Word(&'static str);

impl EncodeLabelValue for Word {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        EncodeLabelValue::encode(&self.0, encoder)
    }
}

impl Metrics {
    pub(super) fn new() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("tracker"),
            reaps: Family::default(),
            spared: Family::default(),
            reaped: Family::default(),
            reap_seconds: Histogram::new([0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0]),
            sessions: Gauge::default(),
            running: Gauge::default(),
            waiting: Gauge::default(),
            live: Gauge::default(),
            remembered: Gauge::default(),
            evicted: Total::default(),
            events: Family::default(),
            losses: Family::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("reaps", "Reaps that are over", self.reaps.clone());
        registry.register(
            "spared",
            "Processes that reaps left alone",
            self.spared.clone(),
        );
        registry.register(
            "reap_seconds",
            "Duration of reaps",
            self.reap_seconds.clone(),
        );
        registry.register("sessions", "Open sessions", self.sessions.clone());
        registry.register("reaps_running", "Reaps under way", self.running.clone());
        registry.register(
            "reaps_waiting",
            "Reaps that have left somebody alive and will be tried again",
            self.waiting.clone(),
        );
        registry.register(
            "reaped",
            "Processes that attempts to reap found, by what became of them",
            self.reaped.clone(),
        );
        registry.register(
            "processes_live",
            "Processes not known to be dead",
            self.live.clone(),
        );
        registry.register(
            "processes_dead",
            "Dead processes remembered",
            self.remembered.clone(),
        );
        registry.register(
            "processes_evicted",
            "Dead processes forgotten",
            self.evicted.clone(),
        );
        registry.register(
            "events",
            "Events that the kernel probe saw",
            self.events.clone(),
        );
        registry.register(
            "losses",
            "What the kernel probe could not record",
            self.losses.clone(),
        );
    }

    /// Counts a reap that is over.
    pub(super) fn reaped(&self, report: &Report) {
        self.reaps
            .get_or_create(&VerdictLabel {
                verdict: verdict_word(report.verdict),
            })
            .inc();
        let counts = &report.counts;
        let outcomes = [
            ("exited", counts.exited),
            ("terminated", counts.terminated),
            ("killed", counts.killed),
            ("survived", counts.survived),
            ("skipped", counts.skipped),
        ];
        for (outcome, count) in outcomes {
            let label = OutcomeLabel {
                outcome: Word(outcome),
            };
            self.reaped.get_or_create(&label).inc_by(count);
        }
        for spared in &report.spared {
            self.spared
                .get_or_create(&ReasonLabel {
                    reason: reason_word(spared.reason),
                })
                .inc();
        }
        self.reap_seconds
            .observe(Duration::from_millis(report.duration_ms).as_secs_f64());
    }

    /// All numbers in the text format of Prometheus.
    pub(super) fn encode(&self, status: &api::Status) -> String {
        let gauge = |gauge: &Gauge, value: u64| {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        gauge(&self.sessions, status.sessions);
        gauge(&self.running, status.reaps_running);
        gauge(&self.waiting, status.reaps_waiting);
        gauge(&self.live, status.processes_live);
        gauge(&self.remembered, status.processes_dead);
        self.evicted
            .inner()
            .store(status.processes_evicted, Ordering::Relaxed);
        if let Some(kernel) = &status.kernel {
            let kinds = [
                ("fork", kernel.forks),
                ("exec", kernel.execs),
                ("exit", kernel.exits),
            ];
            for (kind, value) in kinds {
                let counter = self.events.get_or_create(&EventLabel { kind: Word(kind) });
                counter.inner().store(value, Ordering::Relaxed);
            }
            let losses = [
                ("record", kernel.ring_full),
                ("member", kernel.insert_failed),
                ("stale_entry", kernel.stale_entries),
            ];
            for (what, value) in losses {
                let counter = self.losses.get_or_create(&LossLabel { what: Word(what) });
                counter.inner().store(value, Ordering::Relaxed);
            }
        }
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn verdict_word(verdict: Verdict) -> Word {
    Word(match verdict {
        Verdict::Complete => "complete",
        Verdict::Survivors => "survivors",
        Verdict::Incomplete => "incomplete",
        Verdict::Refused => "refused",
    })
}

fn reason_word(reason: SpareReason) -> Word {
    Word(match reason {
        SpareReason::Kept => "kept",
        SpareReason::OtherSession => "other_session",
        SpareReason::Protected => "protected",
        SpareReason::Inconclusive => "inconclusive",
        SpareReason::IdentityChanged => "identity_changed",
        SpareReason::Left => "left",
        SpareReason::PermissionDenied => "permission_denied",
    })
}
