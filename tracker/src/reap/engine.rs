//! The course of a reap: who is signalled when, until nothing is left.

use std::time::{Duration, Instant};

use super::book::Book;
use super::describe::Describer;
use super::look::{Look, Looks};
use super::options::{Options, Phase};
use super::priority::Priority;
use super::protect::Protected;
use super::report::Report;
use super::target::Target;
use super::verdict;
use super::wait::Watch;
use crate::process::{Cancel, Proc, ProcessId, Signal, now_boot_ns};

/// Ends what `target` owns, and reports what is proven of it.
///
/// Blocks until the last one is dead, and at most for the grace, the settle
/// time, and what the looks at the target take. It never fails: what could not
/// be done is a reason in the report, and keeps its verdict from `complete`.
///
/// - Only who is alive when a look first finds it is listed. Whoever was dead
///   by then needs nothing, and a process that forks and exits in turn leaves
///   thousands of those.
/// - It is over when a look that was begun after the last known death finds
///   nobody but the dead: only a living member can create a member.
/// - The first [`DESCRIBED`] processes are described fully. The others have
///   what [`Target::describe`] knows, and else their name: reading all that
///   `/proc` says of 8,000 processes takes longer than ending them.
pub fn reap(target: &mut dyn Target, proc: &Proc, options: &Options, cancel: &Cancel) -> Report {
    let started = Instant::now();
    let _priority = Priority::raise();
    options.progress.enter(Phase::Plan);
    let mut findings = match Engine::new(target, proc, options, cancel) {
        Ok(mut engine) => {
            engine.run();
            std::mem::take(&mut engine.findings)
        }
        Err(failure) => Findings {
            failure: Some(failure),
            ..Findings::default()
        },
    };
    let report = verdict::conclude(&mut findings, target, proc, options, started);
    options.progress.enter(Phase::Over);
    report
}

/// Of so many processes `/proc` is read before they are signalled, where the
/// target does not describe them.
pub const DESCRIBED: usize = 256;

/// Looks that fail in a row, with nobody known to be alive, before it is given up.
const LOOK_TRIES: u32 = 3;
/// Two looks are at least so far apart while somebody is known to be alive.
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// Looks in a row that find nobody but the newly dead, before they are spaced out.
const LOOKS_AT_ONCE: u32 = 8;
/// How soon to try again what failed for want of a descriptor.
const RETRY: Duration = Duration::from_millis(20);
/// The probe goes on killing forkers for so long if tracker dies in the SIGKILL phase.
const CONDEMNED_MARGIN: Duration = Duration::from_secs(5);

/// What a reap has found out so far.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) book: Book,
    pub(super) describer: Describer,
    /// Why there may be more than was found: of the last look that succeeded,
    /// for a target can prove at its end what it could not before.
    pub(super) gaps: Vec<String>,
    /// What else the last look told.
    pub(super) notes: Vec<String>,
    /// What went wrong without any bearing on the verdict.
    pub(super) troubles: Vec<String>,
    /// Why the last look, or its repetition, does not count as one.
    pub(super) failure: Option<String>,
    /// Cancelled before it was over.
    pub(super) cancelled: bool,
}

/// One reap.
pub(super) struct Engine<'a> {
    pub(super) target: &'a mut dyn Target,
    pub(super) proc: &'a Proc,
    pub(super) options: &'a Options,
    pub(super) cancel: &'a Cancel,
    pub(super) protected: Protected,
    pub(super) watch: Watch,
    pub(super) findings: Findings,
    /// Who has not been sent the signal of this phase.
    pub(super) todo: Vec<usize>,
    /// Who was created by a process that had been sent SIGTERM, and by whom:
    /// its handler may need the helper, which therefore is left alone until the
    /// creator is dead, or until the time is up.
    pub(super) helpers: Vec<(usize, ProcessId)>,
    /// The signal of this phase.
    pub(super) signal: Option<Signal>,
    pub(super) looks: Looks,
    condemned: bool,
    /// Condemned once more.
    insisted: bool,
}

/// How a phase ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Nobody is left, or nobody that can be found.
    Over,
    /// Somebody is left.
    TimeUp,
    /// Cancelled.
    Cancelled,
}

impl<'a> Engine<'a> {
    fn new(
        target: &'a mut dyn Target,
        proc: &'a Proc,
        options: &'a Options,
        cancel: &'a Cancel,
    ) -> Result<Engine<'a>, String> {
        let watch = Watch::new(cancel).map_err(|errno| format!("cannot wait: {errno}"))?;
        let protected = Protected::new(proc, &options.client)
            .map_err(|error| format!("cannot tell who is protected: {error}"))?;
        Ok(Engine {
            target,
            proc,
            options,
            cancel,
            protected,
            watch,
            findings: Findings {
                describer: Describer::new(DESCRIBED),
                ..Findings::default()
            },
            todo: Vec::new(),
            helpers: Vec::new(),
            signal: None,
            looks: Looks::none(),
            condemned: false,
            insisted: false,
        })
    }

    fn run(&mut self) {
        while self.looks.done == 0 {
            if self.look() == Look::Quiet || self.looks.failed == LOOK_TRIES {
                return;
            }
        }
        if self.options.dry_run {
            return;
        }
        let grace = self.options.grace;
        let mut ended = Ended::TimeUp;
        if !grace.is_zero() {
            self.options.progress.enter(Phase::Grace);
            ended = self.phase(Signal::Term, grace);
        }
        if ended == Ended::TimeUp {
            self.options.progress.enter(Phase::Kill);
            self.condemn();
            ended = self.phase(Signal::Kill, self.options.settle);
            self.absolve();
        }
        if ended == Ended::TimeUp && self.findings.book.alive_count() == 0 {
            let failure = "new processes were found until the time was up";
            self.findings.failure = Some(failure.to_owned());
        }
        self.findings.cancelled = ended == Ended::Cancelled;
    }

    /// Sends `signal` to everybody, and to those who come, until nobody is
    /// left. The time runs from when all that were there have been sent it.
    fn phase(&mut self, signal: Signal, limit: Duration) -> Ended {
        self.signal = Some(signal);
        self.todo = self.findings.book.alive();
        self.helpers.clear();
        self.strike(signal);
        // No end: longer than this machine will run.
        let end = Instant::now().checked_add(limit);
        let is_over = || end.is_some_and(|end| Instant::now() >= end);
        loop {
            if self.cancel.is_cancelled() {
                return Ended::Cancelled;
            }
            self.show_progress();
            if self.is_look_due() {
                let look = self.look();
                self.strike(signal);
                // A signal from here comes too late for a process that forks and
                // exits at once, and so does the next one.
                if self.condemned && !self.insisted && look == Look::Found {
                    self.insisted = true;
                    self.condemn();
                }
                if self.findings.book.alive_count() == 0 {
                    if look == Look::Quiet || self.looks.failed >= LOOK_TRIES {
                        return Ended::Over;
                    }
                    if self.is_look_due() && !is_over() {
                        continue;
                    }
                }
            }
            if is_over() {
                return Ended::TimeUp;
            }
            self.wait(end.map_or(Duration::MAX, |end| {
                end.saturating_duration_since(Instant::now())
            }));
        }
    }

    fn is_look_due(&self) -> bool {
        self.until_look().is_some_and(|pause| pause.is_zero())
    }

    /// How long until the next look; `None`: until there is news.
    fn until_look(&self) -> Option<Duration> {
        let looks = &self.looks;
        let nobody = self.findings.book.alive_count() == 0;
        let pause = if nobody && looks.failed == 0 && looks.restless < LOOKS_AT_ONCE {
            Duration::ZERO
        } else if nobody || looks.wanted {
            LOOK_PAUSE.max(looks.cost)
        } else {
            self.target.look_again()?
        };
        Some(pause.saturating_sub(looks.last.elapsed()))
    }

    /// Waits for a death, for news, for a cancellation or for the next look.
    fn wait(&mut self, mut limit: Duration) {
        if let Some(pause) = self.until_look() {
            limit = limit.min(pause);
        }
        if !self.todo.is_empty() || self.watch.is_starved() {
            limit = limit.min(RETRY);
        }
        let news = if self.looks.wanted {
            None
        } else {
            self.target.news()
        };
        let woken = self.watch.wait(limit, news);
        self.looks.wanted |= woken.news;
        for at in woken.dead {
            self.bury(at);
        }
        self.serve_queue();
        if let Some(signal) = self.signal {
            self.strike(signal);
        }
    }

    fn show_progress(&self) {
        let book = &self.findings.book;
        let alive = book.alive_count();
        let dead = book.known().len().saturating_sub(alive);
        self.options.progress.count(alive, dead);
    }

    fn condemn(&mut self) {
        let limit = self.options.settle.saturating_add(CONDEMNED_MARGIN);
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.condemned = true;
        if let Err(error) = self.target.condemn(now_boot_ns().saturating_add(limit)) {
            let trouble = format!("the kernel cannot be told to end who forks: {error}");
            self.findings.troubles.push(trouble);
        }
    }

    fn absolve(&mut self) {
        if !std::mem::take(&mut self.condemned) {
            return;
        }
        if let Err(error) = self.target.absolve() {
            let trouble = format!("the kernel still ends who forks, for some seconds: {error}");
            self.findings.troubles.push(trouble);
        }
    }
}

/// A panic of a target must not leave its members condemned.
impl Drop for Engine<'_> {
    fn drop(&mut self) {
        self.absolve();
    }
}

#[cfg(test)]
mod tests;
