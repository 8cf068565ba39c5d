//! The path of the search, for the report: which numbers were tried, from when, and what they brought.

use std::time::Duration;

use super::window::Window;
use crate::report::{Report, Step};

#[derive(Default)]
pub(super) struct Path(Vec<Step>);

impl Path {
    /// From now on, `workers` are in force.
    pub fn enter(&mut self, at: Duration, workers: usize) {
        if self.0.last().is_some_and(|last| last.workers == workers) {
            return;
        }
        // A long run probes on and on: the beginning and the end tell most.
        if self.0.len() == Report::STEPS_MAX - 1 {
            self.0.remove(Report::STEPS_MAX / 2);
        }
        self.0.push(Step { at, workers, ..Step::default() });
    }

    /// Whether `workers` were in force before the last number.
    pub fn has_before_last(&self, workers: usize) -> bool {
        self.0.len() >= 2 && self.0[self.0.len() - 2].workers == workers
    }

    /// What `workers` have brought in a window.
    pub fn measured(&mut self, workers: usize, window: &Window) {
        if window.seconds > 0.0
            && let Some(step) = self.0.iter_mut().rev().take(2).find(|step| step.workers == workers)
        {
            step.objects_per_second = window.objects / window.seconds;
            step.bytes_per_second = window.bytes / window.seconds;
        }
    }

    /// All steps, and as the last one the number that was chosen, if the run has ended in the middle of a trial.
    pub fn steps(&self, elapsed: Duration, chosen: usize) -> Vec<Step> {
        let mut steps = self.0.clone();
        if let Some(&last) = steps.last().filter(|last| last.workers != chosen) {
            let same = steps.iter().rfind(|step| step.workers == chosen).copied().unwrap_or_default();
            steps.push(Step { at: elapsed.max(last.at), workers: chosen, ..same });
        }
        steps
    }
}
