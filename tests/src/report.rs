//! Reading tracker's report as anybody else would: as JSON.

use serde_json::Value;

use crate::proc::Who;

/// A report.
#[derive(Clone, Debug, PartialEq)]
pub struct Report(pub Value);

impl Report {
    #[track_caller]
    pub(crate) fn parse(text: &[u8]) -> Report {
        match serde_json::from_slice(text) {
            Ok(value) => Report(value),
            Err(error) => panic!(
                "a report that is not JSON: {error}\n{}",
                String::from_utf8_lossy(text)
            ),
        }
    }

    /// The verdict.
    #[track_caller]
    pub fn verdict(&self) -> &str {
        text(&self.0, "verdict")
    }

    /// Its reasons, one a line.
    #[track_caller]
    pub fn reasons(&self) -> String {
        let reasons = list(&self.0, "reasons");
        let lines = reasons
            .iter()
            .map(|reason| reason.as_str().expect("a reason is text"));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Who was to be ended.
    #[track_caller]
    pub fn processes(&self) -> Vec<Entry<'_>> {
        list(&self.0, "processes").iter().map(Entry).collect()
    }

    /// Who was left alone.
    #[track_caller]
    pub fn spared(&self) -> Vec<Entry<'_>> {
        list(&self.0, "spared").iter().map(Entry).collect()
    }

    /// One of the counts.
    #[track_caller]
    pub fn count(&self, name: &str) -> u64 {
        number(&self.0["counts"], name)
    }

    /// The one entry among `processes` about this process.
    #[track_caller]
    pub fn entry(&self, who: Who) -> Entry<'_> {
        self.only(who, self.processes())
    }

    /// The one entry among `spared` about this process.
    #[track_caller]
    pub fn spared_entry(&self, who: Who) -> Entry<'_> {
        self.only(who, self.spared())
    }

    /// Whether `processes` or `spared` speak of this process.
    pub fn mentions(&self, who: Who) -> bool {
        let mut all = self.processes();
        all.append(&mut self.spared());
        all.iter().any(|entry| entry.who() == who)
    }

    /// Fails the test unless it says `complete`, names who is alive at the end
    /// nobody, and its counts are the sums of its lists.
    #[track_caller]
    pub fn assert_complete(&self) -> &Report {
        assert_eq!(self.verdict(), "complete", "{self}");
        assert_eq!(self.count("survived"), 0, "{self}");
        self.assert_consistent();
        self
    }

    /// Fails the test unless the counts are the sums of the lists and nobody is
    /// listed twice.
    #[track_caller]
    pub fn assert_consistent(&self) {
        let processes = self.processes();
        for outcome in ["exited", "terminated", "killed", "survived", "skipped"] {
            let listed = processes
                .iter()
                .filter(|entry| entry.outcome() == outcome)
                .count();
            assert_eq!(
                self.count(outcome),
                listed as u64,
                "the count of {outcome}: {self}"
            );
        }
        assert_eq!(self.count("spared"), self.spared().len() as u64, "{self}");
        let mut everybody: Vec<Who> = processes.iter().map(Entry::who).collect();
        everybody.extend(self.spared().iter().map(Entry::who));
        everybody.sort_unstable();
        let listed = everybody.len();
        everybody.dedup();
        assert_eq!(everybody.len(), listed, "somebody is listed twice: {self}");
    }

    #[track_caller]
    fn only<'a>(&self, who: Who, mut entries: Vec<Entry<'a>>) -> Entry<'a> {
        entries.retain(|entry| entry.who() == who);
        match entries.as_slice() {
            [one] => *one,
            other => panic!("{} entries about {who}, not one, in {self}", other.len()),
        }
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A crowd's report would hide what is wrong with it.
        let text = format!("{:#}", self.0);
        let mut lines = text.lines();
        for line in lines.by_ref().take(400) {
            writeln!(f, "{line}")?;
        }
        match lines.count() {
            0 => Ok(()),
            more => write!(f, "... and {more} more lines"),
        }
    }
}

/// What a report says of one process.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a>(pub &'a Value);

impl Entry<'_> {
    /// Of whom it speaks.
    #[track_caller]
    pub fn who(&self) -> Who {
        let pid = number(self.0, "pid");
        Who {
            pid: i32::try_from(pid).expect("a pid"),
            start: number(self.0, "start_ticks"),
        }
    }

    /// What became of it.
    #[track_caller]
    pub fn outcome(&self) -> &str {
        text(self.0, "outcome")
    }

    /// Why it was spared, or its outcome in words; empty when null.
    pub fn reason(&self) -> &str {
        self.0["reason"].as_str().unwrap_or_default()
    }

    /// Its name, escaped.
    #[track_caller]
    pub fn comm(&self) -> &str {
        text(self.0, "comm")
    }

    /// The signals that it got.
    #[track_caller]
    pub fn signals(&self) -> Vec<&str> {
        let signals = list(self.0, "signals").iter();
        signals
            .map(|signal| signal.as_str().expect("a signal is text"))
            .collect()
    }

    /// Details of its evidence, one a line, each after its kind.
    #[track_caller]
    pub fn evidence(&self) -> String {
        let lines = list(self.0, "evidence")
            .iter()
            .map(|evidence| format!("{}: {}", text(evidence, "kind"), text(evidence, "detail")));
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[track_caller]
fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    match &object[name] {
        Value::String(text) => text,
        other => panic!("{name} is {other}, not text, in {object:#}"),
    }
}

#[track_caller]
fn number(object: &Value, name: &str) -> u64 {
    match object[name].as_u64() {
        Some(number) => number,
        None => panic!("{name} is {}, not a number, in {object:#}", object[name]),
    }
}

#[track_caller]
fn list<'a>(object: &'a Value, name: &str) -> &'a Vec<Value> {
    match &object[name] {
        Value::Array(list) => list,
        other => panic!("{name} is {other}, not a list, in {object:#}"),
    }
}
