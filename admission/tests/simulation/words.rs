//! How history says what messages carry.

use admission::id::{BEAT_SHIFT, beat_of};
use admission::message::{ReleaseRequest, RenewAnswer, RenewRequest};

/// A lease number as `beat:count`.
pub(crate) fn number(number: u64) -> String {
    format!("{}:{}", beat_of(number), number & ((1 << BEAT_SHIFT) - 1))
}

pub(crate) fn numbers(all: &[u64]) -> String {
    let words: Vec<String> = all.iter().map(|one| number(*one)).collect();
    format!("[{}]", words.join(" "))
}

pub(crate) fn beat(request: &RenewRequest) -> String {
    let count = request.held.map_or(0, |held| held.count);
    let mut words = format!("{} holding {count}", request.beat);
    if !request.asking.is_empty() {
        words += &format!(", asking {}", numbers(&request.asking));
    }
    if !request.ended.is_empty() {
        words += &format!(", ended {}", numbers(&request.ended));
    }
    if let Some(places) = &request.leases {
        let listed: Vec<u64> = (places.iter())
            .flat_map(|place| place.leases.iter().map(|lease| lease.0))
            .collect();
        words += &format!(", listing {}", numbers(&listed));
    }
    words
}

pub(crate) fn releases(request: &ReleaseRequest) -> String {
    let all: Vec<u64> = request.releases.iter().map(|one| one.lease.seq).collect();
    numbers(&all)
}

pub(crate) fn renewed(answer: RenewAnswer) -> String {
    let lost = if answer.lost { ", lost" } else { "" };
    let rebuilding = if answer.rebuild.is_some() {
        ", rebuilding"
    } else {
        ""
    };
    format!("{}{lost}{rebuilding}", answer.verdict.as_str())
}
