use admission::id::{HolderId, WorkerId};
use admission::inventory::Delivery;
use admission::message::{
    AdmitAnswer, AdmitRequest, HeartbeatRequest, Place, RegisterRequest, ReleaseRequest,
    RenewAnswer, RenewRequest, WorkerAnswer,
};
use admission::model::ledger::{Presence, Reaped};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A call of a filter VM, as long as the VM waits for its answer.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    Admit {
        stream: usize,
        request: AdmitRequest,
    },
    Release {
        delivery: Delivery,
        request: ReleaseRequest,
    },
    Renew(Box<RenewRequest>),
}

#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Admit(AdmitAnswer),
    Released,
    Renew(RenewAnswer),
    Failed,
}

/// What a sidecar asks of the store.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Admit(AdmitRequest),
    Release(ReleaseRequest),
    Renew(Box<RenewRequest>),
    Listed(HolderId, u64),
    Reassert(HolderId, u64, Place),
    Renounce(HolderId, u64, Vec<u64>),
    Presence(HolderId, u64, Presence),
    Announce(HolderId, u64),
    Reap,
    Reclaim(HolderId),
    Register(WorkerId, RegisterRequest),
    Heartbeat(WorkerId, HeartbeatRequest),
}

#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Admit(AdmitAnswer),
    Released,
    Renew(RenewAnswer),
    Listed(Option<Vec<u64>>),
    /// Whether the step was valid, or there is more to do.
    Done(bool),
    Reaped(Reaped),
    Worker(WorkerAnswer),
}

/// A comparison that a sidecar makes for a beat.
#[derive(Debug, Clone)]
pub(crate) struct Comparison {
    pub(crate) request: Box<RenewRequest>,
    pub(crate) answer: RenewAnswer,
    pub(crate) steps: Vec<Op>,
}

/// Who waits for the store's answer, and what for.
#[derive(Debug, Clone)]
pub(crate) enum Then {
    Reply {
        vm: usize,
        token: u64,
    },
    Renew {
        vm: usize,
        token: u64,
        request: Box<RenewRequest>,
    },
    Compare {
        vm: usize,
        token: u64,
        comparison: Box<Comparison>,
    },
    Reap,
    Reclaim(HolderId),
    /// News that is told until it is known to be heard.
    Owed {
        vm: usize,
        number: u64,
        presence: Owed,
    },
    Worker {
        worker: usize,
        life: u64,
    },
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owed {
    Opened,
    Announced,
    Ended,
}

#[derive(Debug, Clone)]
pub(crate) enum Event {
    Tick {
        vm: usize,
    },
    Arrive {
        envoy: usize,
    },
    Leave {
        stream: usize,
    },
    /// The worker or its connection ended the session.
    Cut {
        stream: usize,
    },
    ToSidecar {
        sidecar: usize,
        vm: usize,
        token: u64,
        call: Call,
    },
    Present {
        sidecar: usize,
        vm: usize,
        number: u64,
    },
    PresenceEnded {
        vm: usize,
        number: u64,
        answered: bool,
    },
    Eof {
        sidecar: usize,
        life: u64,
        vm: usize,
        number: u64,
    },
    ToStore {
        sidecar: usize,
        life: u64,
        run: u64,
        op: Op,
        then: Then,
    },
    FromStore {
        sidecar: usize,
        life: u64,
        answer: Answer,
        then: Then,
    },
    ToVm {
        vm: usize,
        token: u64,
        reply: Reply,
    },
    Timeout {
        vm: usize,
        token: u64,
    },
    Open {
        stream: usize,
        worker: usize,
        life: u64,
    },
    Close {
        stream: usize,
        worker: usize,
    },
    Heartbeat {
        worker: usize,
        life: u64,
    },
    Reap {
        sidecar: usize,
        life: u64,
    },
    Vouch {
        sidecar: usize,
        life: u64,
    },
    BreakPresences {
        sidecar: usize,
        life: u64,
    },
    Fault(Fault),
    Judge,
    Overlap {
        worker: usize,
        since_us: u64,
    },
    Quiet,
    CloseAll,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    CrashEnvoy {
        envoy: usize,
    },
    StartEnvoy {
        envoy: usize,
    },
    FreezeEnvoy {
        envoy: usize,
        us: u64,
    },
    Trap {
        envoy: usize,
    },
    CutPresence {
        envoy: usize,
    },
    /// Its beats are lost for a while.
    Muffle {
        envoy: usize,
        us: u64,
    },
    /// All that it says is lost for a while; its presence stands.
    Unhear {
        envoy: usize,
        us: u64,
    },
    CrashSidecar {
        sidecar: usize,
    },
    StartSidecar {
        sidecar: usize,
    },
    FreezeSidecar {
        sidecar: usize,
        us: u64,
    },
    PauseStore {
        us: u64,
    },
    /// What is in the store now is what it will come back with.
    Save,
    StopStore,
    StartStoreEmpty,
    StartStoreFromSave,
    JumpClock {
        forward: bool,
        ms: u64,
    },
    RestartWorker {
        worker: usize,
    },
}

#[derive(Debug)]
struct Entry {
    at_us: u64,
    order: u64,
    /// Boxed, because the heap moves its entries around.
    event: Box<Event>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    // The heap gives its greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_us, other.order).cmp(&(self.at_us, self.order))
    }
}

/// What will happen, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Entry>,
    order: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at_us: u64, event: Event) {
        self.order += 1;
        let order = self.order;
        let event = Box::new(event);
        self.heap.push(Entry {
            at_us,
            order,
            event,
        });
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|entry| (entry.at_us, *entry.event))
    }
}
