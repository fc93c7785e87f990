/// The rules that keep the ledger right, each of which a test may switch off, to show that its absence
/// is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guards {
    /// A release leaves a tombstone, and an admit looks for it.
    pub tombstones: bool,
    /// An admit from before the last beat is cancelled.
    pub beat_mark: bool,
    /// … unless that beat was still asking for it.
    pub asking_exception: bool,
    /// A reclaimed holder gets nothing.
    pub reclaimed_denied: bool,
    pub stale_beats_ignored: bool,
    pub reassert_checks_tombstone: bool,
    pub reassert_needs_last_beat: bool,
    /// The end of a presence counts only if no higher number was opened.
    pub presence_numbers: bool,
    /// A holder whose presence ended has a while to beat.
    pub grace: bool,
    /// A holder that is vouched for is kept, even if it is silent.
    pub vouching: bool,
    /// A holder that is neither heard nor vouched for is reclaimed.
    pub ttl: bool,
    pub rebuild_denies: bool,
    pub rebuild_waits_for_announced: bool,
    /// Another run id begins a rebuild; otherwise only a new pool does.
    pub rebuild_by_run_id: bool,
    pub clock_step_capped: bool,
    /// What is released twice is given back once.
    pub release_idempotent: bool,
}

impl Guards {
    pub const ALL: Self = Self {
        tombstones: true,
        beat_mark: true,
        asking_exception: true,
        reclaimed_denied: true,
        stale_beats_ignored: true,
        reassert_checks_tombstone: true,
        reassert_needs_last_beat: true,
        presence_numbers: true,
        grace: true,
        vouching: true,
        ttl: true,
        rebuild_denies: true,
        rebuild_waits_for_announced: true,
        rebuild_by_run_id: true,
        clock_step_capped: true,
        release_idempotent: true,
    };

    /// All guards but one, for each of them, with its name.
    pub fn each_off() -> Vec<(&'static str, Self)> {
        macro_rules! off {
            ($($guard:ident),*) => {
                vec![$((stringify!($guard), Self { $guard: false, ..Self::ALL })),*]
            };
        }
        off![
            tombstones,
            beat_mark,
            asking_exception,
            reclaimed_denied,
            stale_beats_ignored,
            reassert_checks_tombstone,
            reassert_needs_last_beat,
            presence_numbers,
            grace,
            vouching,
            ttl,
            rebuild_denies,
            rebuild_waits_for_announced,
            rebuild_by_run_id,
            clock_step_capped,
            release_idempotent
        ]
    }
}
