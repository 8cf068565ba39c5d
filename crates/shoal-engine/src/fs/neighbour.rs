//! For a run with `nice`: a lower priority for its threads, and whether other processes wait for what it uses.
//!
//! Not here: which threads call this, and what follows (`engine/run.rs`, `engine/concurrency/`).

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The nice value of the threads, as of nice(1): a busy thread with the usual value gets nine times the time of one with
/// this (`sched_prio_to_weight` in the kernel: 1024 to 110).
const NICE: i32 = 10;
/// From linux/ioprio.h, which the libc crate does not have.
const IOPRIO_WHO_PROCESS: libc::c_int = 1;
const IOPRIO_CLASS_SHIFT: u32 = 13;
const IOPRIO_CLASS_IDLE: libc::c_int = 3;

/// Time between two measurements: stalls of a shorter time are mostly noise, and each reads a file for each thread.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The part of the time for which others may wait. It is a choice, not a measurement: one busy thread more than there are
/// processors makes it nearly 1.
const SUFFERING: f64 = 0.10;

/// Lowers the priority of the calling thread, and of threads that it starts afterwards, which inherit both values: the
/// nice value to 10, the I/O class to idle. This cannot be undone without privileges, so it is only for threads that are
/// shoal's own.
///
/// # Errors
/// A note for the report about what the kernel did not allow. The other one is done.
pub fn lower_priority() -> Result<(), String> {
    let allowed = |lowered: io::Result<()>, what: &str| {
        lowered.map_err(|error| format!("`nice`: this kernel does not let shoal lower its {what}: {error}"))
    };
    // Both, even if the first fails.
    let (processor, disk) = (lower_processor_priority(), lower_io_class());
    allowed(processor, "priority").and(allowed(disk, "I/O priority"))
}

/// On Linux this is a value of the thread, not of the process (setpriority(2), "C library/kernel differences").
fn lower_processor_priority() -> io::Result<()> {
    let now = rustix::process::getpriority_process(None)?;
    if now < NICE {
        // A lower priority stays, because the kernel does not allow to raise it.
        rustix::process::setpriority_process(None, NICE)?;
    }
    Ok(())
}

fn lower_io_class() -> io::Result<()> {
    let idle = IOPRIO_CLASS_IDLE << IOPRIO_CLASS_SHIFT;
    // SAFETY: three numbers and no pointer; process 0 is the calling thread (ioprio_set(2)).
    match unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, idle) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether other processes wait for processors, memory or disks, from the kernel's pressure stall information.
///
/// A resource counts if the time in which some task waited for it has grown by more than a tenth of the time that has
/// passed, without what this process itself explains:
///
/// - Processors: less the time that threads of this process waited for one. These times are added up although they
///   overlap, so with many threads that wait, others may suffer unnoticed. The opposite cannot happen.
/// - Disks: less the stalls of this process's own cgroup, in which its neighbours do not count as others. Without a
///   cgroup of its own (version 2, not the root), the waits of others cannot be told from its own, so disks do not
///   count.
/// - Memory: all of it. A process that has to reclaim memory waits because another takes it, which may be this one.
pub(crate) struct Pressure {
    directory: PathBuf,
    /// The stalls of this process's cgroup.
    own_io: Option<PathBuf>,
    last: Option<(Instant, Stalls)>,
    suffering: bool,
}

impl Pressure {
    /// `None` if the kernel does not keep or show these statistics.
    pub fn new() -> Option<Pressure> {
        let directory = PathBuf::from("/proc/pressure");
        stalled(&directory.join("cpu"))?;
        let own_io = read("/proc/self/cgroup".as_ref()).and_then(|text| own_io(&text));
        Some(Pressure { directory, own_io, last: None, suffering: false })
    }

    /// Whether other processes wait. `own_wait` returns the time for which threads of this process have waited for a
    /// processor so far. Call this often: it measures every half a second, and calls `own_wait` only then, because that
    /// takes time.
    pub fn others_suffer(&mut self, now: Instant, own_wait: impl FnOnce() -> Duration) -> bool {
        let elapsed = self.last.map(|(last, _)| now.saturating_duration_since(last));
        if elapsed.is_some_and(|elapsed| elapsed < LOOK_EVERY) {
            return self.suffering;
        }
        let own_io = self.own_io.as_deref().and_then(stalled);
        let stalls = Stalls {
            processors: stalled(&self.directory.join("cpu")).map(|all| (all, own_wait())),
            memory: stalled(&self.directory.join("memory")).map(|all| (all, Duration::ZERO)),
            disks: own_io.and_then(|own| Some((stalled(&self.directory.join("io"))?, own))),
        };
        if let (Some((_, before)), Some(elapsed)) = (self.last, elapsed) {
            self.suffering = stalls.since(&before, elapsed);
        }
        self.last = Some((now, stalls));
        self.suffering
    }
}

/// Of each resource, how long some task of the system has waited for it so far, and how much of that is this process's
/// own. `None`: not known this time.
#[derive(Clone, Copy, Debug, Default)]
struct Stalls {
    processors: Option<(Duration, Duration)>,
    memory: Option<(Duration, Duration)>,
    disks: Option<(Duration, Duration)>,
}

impl Stalls {
    /// Whether others waited for one of them for more than a tenth of the time.
    fn since(&self, before: &Stalls, elapsed: Duration) -> bool {
        let limit = elapsed.mul_f64(SUFFERING);
        let pairs = [(self.processors, before.processors), (self.memory, before.memory), (self.disks, before.disks)];
        pairs.into_iter().filter_map(|(now, before)| now.zip(before)).any(|((all, own), (all_before, own_before))| {
            // A thread that has ended takes its wait with it, so the own time can go back.
            all.saturating_sub(all_before).saturating_sub(own.saturating_sub(own_before)) > limit
        })
    }
}

/// How long some task has waited, of a file of pressure stall information (Documentation/accounting/psi).
fn stalled(path: &Path) -> Option<Duration> {
    some_total(&read(path)?)
}

fn some_total(text: &str) -> Option<Duration> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split(' ').find_map(|field| field.strip_prefix("total="))?;
    total.trim().parse().ok().map(Duration::from_micros)
}

/// Where the kernel shows the stalls of the cgroup that `/proc/self/cgroup` names.
fn own_io(text: &str) -> Option<PathBuf> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    (!path.is_empty()).then(|| Path::new("/sys/fs/cgroup").join(path).join("io.pressure"))
}

#[allow(clippy::disallowed_methods)] // the kernel's own files: no name of the user's
fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok() // they may be there and refuse to be read: `psi=0`
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Nice value and I/O class of the calling thread, or of one by its id.
    fn priority(thread: i32) -> (i32, i32) {
        // SAFETY: two numbers and no pointer.
        let io = unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, thread) };
        let nice = rustix::process::getpriority_process(rustix::process::Pid::from_raw(thread)).unwrap();
        (nice, i32::try_from(io).unwrap() >> IOPRIO_CLASS_SHIFT)
    }

    #[test]
    fn a_lowered_thread_and_those_it_starts_are_lowered_and_no_others() {
        let before = priority(0);
        assert!(before.0 < NICE && before.1 != IOPRIO_CLASS_IDLE, "this test needs a usual priority: {before:?}");
        // SAFETY: it takes nothing and always succeeds.
        let main = unsafe { libc::gettid() };
        let lowered = (NICE, IOPRIO_CLASS_IDLE);
        std::thread::spawn(move || {
            lower_priority().unwrap();
            lower_priority().unwrap(); // not to 20
            assert_eq!(priority(0), lowered);
            assert_eq!(std::thread::spawn(|| priority(0)).join().unwrap(), lowered);
            assert_eq!(priority(main), before);
        })
        .join()
        .unwrap();
        assert_eq!(std::thread::spawn(|| priority(0)).join().unwrap(), before);
    }

    #[test]
    fn the_total_of_some_is_read() {
        let text = "some avg10=98.04 avg60=62.76 avg300=19.90 total=75583300\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=17\n";
        assert_eq!(some_total(text), Some(Duration::from_micros(75_583_300)));
        assert_eq!(some_total("full avg10=0.00 avg60=0.00 avg300=0.00 total=17\n"), None);
        assert_eq!(some_total("some avg10=0.00 total=many\n"), None);
        assert_eq!(some_total(""), None);
    }

    #[test]
    fn only_a_cgroup_below_the_root_has_stalls_of_its_own() {
        let path = "/sys/fs/cgroup/user.slice/run 7.scope/io.pressure";
        assert_eq!(own_io("1:cpu:/x\n0::/user.slice/run 7.scope\n"), Some(path.into()));
        assert_eq!(own_io("1:cpu:/x\n0::/\n"), None);
        assert_eq!(own_io("4:memory:/process_api/5\n"), None);
    }

    #[test]
    fn what_this_process_waits_for_itself_is_no_suffering_of_others() {
        let ms = |ms: u64| Duration::from_millis(ms);
        let suffer = |now: Stalls| {
            let before = Stalls {
                processors: Some((ms(5000), ms(900))),
                memory: Some((ms(70), ms(0))),
                disks: Some((ms(300), ms(200))),
            };
            now.since(&before, ms(1000))
        };
        let processors =
            |all: u64, own: u64| suffer(Stalls { processors: Some((ms(5000 + all), ms(own))), ..Stalls::default() });
        assert!(processors(101, 900));
        assert!(!processors(100, 900), "a tenth is borne");
        assert!(!processors(1000, 1800), "nine tenths of it are its own");
        assert!(!processors(500, 2900), "more threads than one wait at once");
        assert!(processors(101, 100), "threads have ended and taken their waits with them");
        assert!(suffer(Stalls { memory: Some((ms(200), ms(0))), ..Stalls::default() }));
        assert!(suffer(Stalls { disks: Some((ms(900), ms(300))), ..Stalls::default() }));
        assert!(!suffer(Stalls { disks: Some((ms(900), ms(750))), ..Stalls::default() }));
        assert!(!suffer(Stalls::default()), "what is not known is not held against anyone");
    }

    #[test]
    fn processes_that_wait_for_a_processor_suffer_and_are_looked_at_twice_a_second() {
        let Some(mut pressure) = Pressure::new() else {
            return eprintln!("skipped: this kernel has no pressure stall information");
        };
        let spin = |_| std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut others: Vec<_> = (0..2 * std::thread::available_parallelism().unwrap().get() + 2).map(spin).collect();
        let (looks, mut answers) = (Cell::new(0), Vec::new());
        let began = Instant::now();
        while began.elapsed() < 3 * LOOK_EVERY {
            let own_wait = || {
                looks.set(looks.get() + 1);
                Duration::ZERO
            };
            answers.push(pressure.others_suffer(Instant::now(), own_wait));
            std::thread::sleep(Duration::from_millis(20));
        }
        for other in &mut others {
            other.kill().unwrap();
            other.wait().unwrap();
        }
        assert!(!answers[0] && answers[answers.len() - 1], "{answers:?}");
        assert!((2..=4).contains(&looks.get()), "{} looks for {} calls", looks.get(), answers.len());
    }
}
