//! Medians and how far the rest is from them.

use std::fmt;
use std::time::Duration;

/// Measurements of one thing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample(Vec<f64>);

impl Sample {
    /// Of these values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Sample {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Sample(values)
    }

    /// In milliseconds.
    pub(crate) fn millis(times: &[Duration]) -> Sample {
        Sample::of(times.iter().map(|time| time.as_secs_f64() * 1000.0))
    }

    /// The value below which this share of all others lies.
    fn quantile(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a handful of measurements"
        )]
        let at = (last as f64 * share).round() as usize;
        self.0.get(at).copied().unwrap_or(f64::NAN)
    }

    /// Half of them are below it.
    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }
}

/// The median, and the quartiles.
impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = if self.median() < 10.0 { 2 } else { 0 };
        write!(
            f,
            "{:.places$} ({:.places$}..{:.places$}, n={})",
            self.median(),
            self.quantile(0.25),
            self.quantile(0.75),
            self.0.len()
        )
    }
}

/// Two ways to do the same, measured in turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs(Vec<(Duration, Duration)>);

impl Pairs {
    /// Measures `count` pairs. Which one comes first changes from pair to pair,
    /// so that a machine that gets faster or slower favours neither.
    pub(crate) fn measure(
        count: usize,
        mut plain: impl FnMut() -> anyhow::Result<Duration>,
        mut other: impl FnMut() -> anyhow::Result<Duration>,
    ) -> anyhow::Result<Pairs> {
        let mut pairs = Vec::with_capacity(count);
        for at in 0..count {
            if at % 2 == 0 {
                let first = plain()?;
                pairs.push((first, other()?));
            } else {
                let first = other()?;
                pairs.push((plain()?, first));
            }
        }
        Ok(Pairs(pairs))
    }

    /// The other one over the plain one.
    pub(crate) fn ratio(&self) -> Sample {
        let ratios = self.0.iter();
        Sample::of(ratios.map(|(plain, other)| other.as_secs_f64() / plain.as_secs_f64()))
    }

    /// By how many milliseconds the other one takes longer.
    pub(crate) fn difference(&self) -> Sample {
        let differences = self.0.iter();
        Sample::of(
            differences.map(|(plain, other)| (other.as_secs_f64() - plain.as_secs_f64()) * 1000.0),
        )
    }

    /// The plain one, in milliseconds.
    pub(crate) fn plain(&self) -> Sample {
        Sample::of(self.0.iter().map(|(plain, _)| plain.as_secs_f64() * 1000.0))
    }

    /// The other one, in milliseconds.
    pub(crate) fn other(&self) -> Sample {
        Sample::of(self.0.iter().map(|(_, other)| other.as_secs_f64() * 1000.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_shows_its_median_and_its_quartiles() {
        let sample = Sample::of([5.0, 1.0, 2.0, 4.0, 3.0]);
        assert_eq!(sample.to_string(), "3.00 (2.00..4.00, n=5)");
    }

    #[test]
    fn pairs_alternate_who_comes_first() {
        let order = std::cell::RefCell::new(String::new());
        let run = |name, millis| {
            order.borrow_mut().push(name);
            Ok(Duration::from_millis(millis))
        };
        let pairs = Pairs::measure(3, || run('a', 10), || run('b', 20)).unwrap();
        assert_eq!(*order.borrow(), "abbaab");
        assert!((pairs.ratio().median() - 2.0).abs() < 1e-9);
        assert!((pairs.difference().median() - 10.0).abs() < 1e-9);
    }
}
