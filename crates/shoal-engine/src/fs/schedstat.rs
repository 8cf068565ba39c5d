//! How long the threads of this process have waited for a processor, from the kernel's scheduler statistics. Not here: what
//! that means (`neighbour.rs`).

use std::time::Duration;

/// The time for which all present threads of this process have waited for a processor, added up. Zero if the kernel keeps
/// no statistics.
#[allow(clippy::disallowed_methods)] // the kernel's own files: no name of the user's
pub(crate) fn waited() -> Duration {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let of_one = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        // Nanoseconds on a processor, nanoseconds waiting for one, turns (Documentation/scheduler/sched-stats).
        text.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
    };
    threads.filter_map(|thread| of_one(thread.ok()?)).sum()
}

#[cfg(test)]
mod tests {
    use std::hint::spin_loop;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Instant;

    use super::*;

    #[test]
    fn threads_that_wait_for_a_processor_are_counted() {
        if !std::path::Path::new("/proc/thread-self/schedstat").exists() {
            return eprintln!("skipped: this kernel keeps no statistics of waiting threads");
        }
        let threads = 3 * std::thread::available_parallelism().unwrap().get();
        let over = AtomicBool::new(false);
        let enough = std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while !over.load(Relaxed) {
                        spin_loop();
                    }
                });
            }
            // Threads of other tests take what they have waited for with them when they end.
            let enough = (0..10).any(|_| {
                let (began, before) = (Instant::now(), waited());
                std::thread::sleep(Duration::from_millis(400));
                let waiting = waited().saturating_sub(before).as_secs_f64() / began.elapsed().as_secs_f64();
                waiting > 0.4 * threads as f64 // two of three wait
            });
            over.store(true, Relaxed);
            enough
        });
        assert!(enough, "{threads} threads on a third as many processors");
    }
}
