//! A child process that writes its log to a file and does not outlive whoever started it.

use crate::ports;
use crate::wait::eventually;
use nix::time::ClockId;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit,
    set_parent_process_death_signal,
};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub struct Process {
    name: String,
    pid: Pid,
    child: Mutex<Child>,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with its output in `log`; a later process may go on with the same file.
    ///
    /// The child dies with the thread that calls this, so call it from a thread that stays.
    pub fn start(name: &str, command: &mut Command, log: PathBuf) -> Self {
        let open = || File::options().create(true).append(true).open(&log);
        let (output, errors) = match (open(), open()) {
            (Ok(output), Ok(errors)) => (output, errors),
            (Err(error), _) | (_, Err(error)) => panic!("{name}: {}: {error}", log.display()),
        };
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        // Ctrl-C at a terminal reaches a whole group: whoever started this ends it, in its order.
        command.process_group(0);
        die_with_parent(command);
        let child = match spawn(command) {
            Ok(child) => child,
            Err(error) => panic!("{name}: cannot start {command:?}: {error}"),
        };
        Self {
            name: name.to_owned(),
            pid: Pid::from_child(&child),
            child: Mutex::new(child),
            log,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// How the process ended, if it did.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.child().try_wait().ok().flatten()
    }

    /// Whoever waits for a process that is no more would wait for nothing.
    pub fn expect_running(&self) {
        if let Some(status) = self.ended() {
            panic!("{} ended with {status}\n{}", self.name, self.log_tail());
        }
    }

    /// Ends it without a chance to tidy up, and waits until it is gone.
    pub fn kill(&self) {
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Stops it where it stands: its sockets stay open, and nobody answers.
    ///
    /// The signal alone is not enough: on a busy machine a thread goes on for tens of milliseconds
    /// before it gets to hear of it, time enough for an answer.
    pub async fn freeze(&self) {
        self.signal(Signal::STOP);
        let what = format!("every thread of {} has stopped", self.name);
        eventually(&what, async || self.is_frozen()).await;
    }

    fn is_frozen(&self) -> bool {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.pid)) else {
            return false;
        };
        threads.flatten().all(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat"));
            stat.is_ok_and(|stat| thread_state(&stat) == Some("T"))
        })
    }

    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, signal: Signal) {
        if let Err(error) = kill_process(self.pid, signal) {
            panic!("{}: cannot send {signal:?}: {error}", self.name);
        }
    }

    /// Limits what it may have from now on; returns the former limit.
    pub fn limit(&self, resource: Resource, current: Option<u64>) -> Option<u64> {
        let former = prlimit(
            Some(self.pid),
            resource,
            Rlimit {
                current,
                // As it was: it has the same as this process.
                maximum: getrlimit(resource).maximum,
            },
        );
        match former {
            Ok(former) => former.current,
            Err(error) => panic!("{}: cannot limit {resource:?}: {error}", self.name),
        }
    }

    /// Files and sockets it has open.
    pub fn descriptors(&self) -> u64 {
        let open = fs::read_dir(format!("/proc/{}/fd", self.pid));
        open.map_or(0, |open| open.count() as u64)
    }

    /// A file that the kernel keeps about it, empty when it is gone: `stat`, `status`, `smaps`.
    pub fn kernel_file(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.pid)).unwrap_or_default()
    }

    /// The CPU time that all its threads have had so far, those that have ended among them.
    pub fn cpu(&self) -> Duration {
        let pid = nix::unistd::Pid::from_raw(self.pid.as_raw_pid());
        match ClockId::pid_cpu_clock_id(pid).and_then(ClockId::now) {
            Ok(time) => time.into(),
            Err(error) => panic!("{}: its CPU time cannot be read: {error}", self.name),
        }
    }

    /// Its memory, in KiB: `VmRSS`, what it uses, or `VmData`, what it has asked for.
    pub fn memory_kib(&self, kind: &str) -> u64 {
        let status = self.kernel_file("status");
        let line = status.lines().find_map(|line| line.strip_prefix(kind));
        let figure = line.and_then(|line| line.trim_matches(':').split_whitespace().next());
        figure.and_then(|figure| figure.parse().ok()).unwrap_or(0)
    }

    /// All that it has said.
    pub fn log(&self) -> Vec<u8> {
        fs::read(&self.log).unwrap_or_default()
    }

    /// How many lines of its log contain this.
    pub fn logged(&self, part: &str) -> usize {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.lines().filter(|line| line.contains(part)).count()
    }

    /// The last lines of its log, for whoever has to find out what went wrong.
    pub fn log_tail(&self) -> String {
        const LINES: usize = 30;
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(LINES)..];
        format!(
            "--- {} ({})\n{}",
            self.name,
            self.log.display(),
            tail.join("\n")
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn spawn(command: &mut Command) -> std::io::Result<Child> {
    let _alone = ports::while_none_is_probed();
    command.spawn()
}

/// A stat line reads `PID (NAME) STATE …`, and the name may itself contain blanks and brackets.
fn thread_state(stat: &str) -> Option<&str> {
    stat.rsplit_once(')')?.1.split_whitespace().next()
}

/// The CPU time of this very process.
pub fn own_cpu() -> Duration {
    match ClockId::CLOCK_PROCESS_CPUTIME_ID.now() {
        Ok(time) => time.into(),
        Err(error) => panic!("the CPU time of this process cannot be read: {error}"),
    }
}

/// A test that is killed runs no destructor: the kernel ends its children.
fn die_with_parent(command: &mut Command) {
    #[expect(unsafe_code, reason = "nothing safe runs between fork and exec")]
    // SAFETY: the closure makes one system call and touches no memory of the parent.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
}
