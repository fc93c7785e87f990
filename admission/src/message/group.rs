//! Questions that go together: those that requests of one holder ask at the same time. Numbers stand for leases,
//! and what all of them have in common is said once.

use super::{
    AdmitAnswer, AdmitRequest, Admitted, AffinityRequest, Denied, DenyReason, Operation,
    Redirected, is_false,
};
use crate::id::{
    Address, Epoch, HolderId, IdError, Incarnation, KeyHash, LeaseId, Origin, PoolName, WorkerId,
};
use serde::{Deserialize, Serialize};

pub const ADMIT_GROUP_PATH: &str = "/v1/admit/group";

/// How many questions go together at most: a script stays below a millisecond with so many.
pub const GROUP_MAX: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmitGroupRequest {
    pub pool: PoolName,
    pub holder: HolderId,
    /// As in `AdmitRequest`, for all.
    #[serde(rename = "self", default, skip_serializing_if = "Option::is_none")]
    pub own: Option<WorkerId>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub redirect: bool,
    pub questions: Vec<Question>,
}

/// What differs from one to the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The lease's, within its holder.
    pub number: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<AffinityRequest>,
}

impl AdmitGroupRequest {
    /// As if each had come by itself.
    pub fn into_each(self) -> Result<Vec<AdmitRequest>, IdError> {
        let Self {
            pool,
            holder,
            own,
            redirect,
            questions,
        } = self;
        let each = questions.into_iter().map(|question| {
            Ok(AdmitRequest {
                pool: pool.clone(),
                holder: holder.clone(),
                lease: LeaseId::numbered(holder.epoch.clone(), question.number)?,
                bytes: question.bytes,
                operation: question.operation,
                own: own.clone(),
                redirect,
                client: question.client,
                affinity: question.affinity,
            })
        });
        each.collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmitGroupAnswer {
    /// In any order. A question whose fate is not known has none.
    pub answers: Vec<Answer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Admitted,
    Denied,
    Redirected,
}

/// An `AdmitAnswer` with its question's number. All fields are in one place, so that the filter reads it in one
/// go: what differs by a tag must be read twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub number: u64,
    pub decision: Decision,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worker: Option<WorkerId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    incarnation: Option<Incarnation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<Address>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    active: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lifetime: Option<u64>,
    #[serde(default, skip_serializing_if = "is_false")]
    probe: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<KeyHash>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    affinity: Option<KeyHash>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<DenyReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
}

impl Answer {
    fn bare(number: u64, decision: Decision) -> Self {
        Self {
            number,
            decision,
            worker: None,
            incarnation: None,
            address: None,
            active: None,
            lifetime: None,
            probe: false,
            client: None,
            affinity: None,
            reason: None,
            retry_after_ms: None,
            origin: None,
        }
    }

    pub fn new(number: u64, answer: AdmitAnswer) -> Self {
        match answer {
            AdmitAnswer::Admitted(admitted) => Self {
                worker: Some(admitted.worker),
                incarnation: Some(admitted.incarnation),
                address: Some(admitted.address),
                active: Some(admitted.active),
                lifetime: Some(admitted.lifetime),
                probe: admitted.probe,
                client: admitted.client,
                affinity: admitted.affinity,
                ..Self::bare(number, Decision::Admitted)
            },
            AdmitAnswer::Denied(denied) => Self {
                reason: Some(denied.reason),
                retry_after_ms: Some(denied.retry_after_ms),
                ..Self::bare(number, Decision::Denied)
            },
            AdmitAnswer::Redirected(redirected) => Self {
                worker: Some(redirected.worker),
                origin: Some(redirected.origin),
                ..Self::bare(number, Decision::Redirected)
            },
        }
    }

    /// Nothing, where a field is missing: that is no answer.
    pub fn into_answer(self, epoch: &Epoch) -> Option<AdmitAnswer> {
        Some(match self.decision {
            Decision::Admitted => AdmitAnswer::Admitted(Admitted {
                worker: self.worker?,
                incarnation: self.incarnation?,
                address: self.address?,
                lease: LeaseId {
                    epoch: epoch.clone(),
                    seq: self.number,
                },
                active: self.active?,
                lifetime: self.lifetime?,
                probe: self.probe,
                client: self.client,
                affinity: self.affinity,
            }),
            Decision::Denied => AdmitAnswer::Denied(Denied {
                reason: self.reason?,
                retry_after_ms: self.retry_after_ms?,
            }),
            Decision::Redirected => AdmitAnswer::Redirected(Redirected {
                worker: self.worker?,
                origin: self.origin?,
            }),
        })
    }
}
