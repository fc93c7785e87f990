use super::extract::Body;
use super::{ApiError, App, Json};
use admission::id::BEAT_SHIFT;
use admission::message::{RenewAnswer, RenewRequest, UNDER_WAY_MAX};
use axum::extract::State;
use std::time::Duration;

/// A comparison one by one is many scripts.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);
/// Scripts hold a lease's number as a double; its upper part is a beat.
const NUMBER_MAX: u64 = 1 << 53;

pub(super) async fn renew(
    State(app): State<App>,
    Body(request, _held): Body<RenewRequest>,
) -> Result<Json<RenewAnswer>, ApiError> {
    check(&request)?;
    app.metrics.seen(&request.holder.proxy);
    let budget = match &request.leases {
        Some(_) => LIST_TIMEOUT.max(app.answer_timeout),
        None => app.answer_timeout,
    };
    let answer = app.within(budget, app.store.renew(&request)).await?;
    Ok(Json(answer))
}

fn check(request: &RenewRequest) -> Result<(), ApiError> {
    let under_way = request.asking.len() + request.ended.len();
    if under_way > UNDER_WAY_MAX {
        return Err(ApiError::bad_request(format!(
            "asking and ended may have at most {UNDER_WAY_MAX} numbers together"
        )));
    }
    if request.beat == 0 || request.beat > NUMBER_MAX >> BEAT_SHIFT {
        return Err(ApiError::bad_request("beat is out of range"));
    }
    let mut lifetimes = (request.leases.iter().flatten())
        .flat_map(|place| place.leases.iter().map(|(_, lifetime)| *lifetime));
    if lifetimes.any(|lifetime| lifetime > u64::from(u32::MAX)) {
        return Err(ApiError::bad_request("a lifetime number is out of range"));
    }
    let listed = request.leases.iter().flatten();
    let listed = listed.flat_map(|place| place.leases.iter().map(|(number, _)| number));
    let mut numbers = request.asking.iter().chain(&request.ended).chain(listed);
    if numbers.any(|number| *number > NUMBER_MAX) {
        return Err(ApiError::bad_request("a lease number is out of range"));
    }
    Ok(())
}
