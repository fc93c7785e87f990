//! The tests bite: each guard of the scripts is taken out in turn, and the test that is there for it
//! must fail. (`make mutants` does the same with what is not Lua.)

use crate::support::mutated;
use crate::{
    admit, affinity, atomic, ejection, heartbeat, limits, model, rebuild, reclaim, renew, rights,
    score,
};

/// A guard of the scripts, what stands in its place without it, and the test that notices.
struct Guard {
    name: &'static str,
    with: &'static str,
    without: &'static str,
    test: fn(),
}

const GUARDS: [Guard; 46] = [
    Guard {
        name: "whoever asks looks for what is due",
        with: "if pool.now >= pool.sweep_at then",
        without: "if false then",
        test: heartbeat::a_silent_worker_is_missed_by_the_next_who_asks_though_nobody_reaps,
    },
    Guard {
        name: "a heartbeat says when its worker is due",
        with: "Pool.sweep_by(pool, worker.heartbeat + pool.policy.heartbeat_ttl_ms)",
        without: "",
        test: heartbeat::a_silent_worker_is_missed_by_the_next_who_asks_though_nobody_reaps,
    },
    Guard {
        name: "an exile says when it is over",
        with: "Pool.sweep_by(pool, worker.ejected_until)",
        without: "",
        test: ejection::an_exile_is_over_for_the_next_who_asks_though_nobody_reaps,
    },
    Guard {
        name: "a worker's name stays with its token",
        with: "return owner == '' or worker.owner == '' or worker.owner == owner",
        without: "return true",
        test: rights::a_name_stays_with_its_token_whatever_is_said,
    },
    Guard {
        name: "a lifetime is never lowered",
        with: "worker.lifetime = math.max(worker.lifetime, tonumber(ARGV[6]))",
        without: "worker.lifetime, worker.state = tonumber(ARGV[6]), Worker.AVAILABLE",
        test: rights::no_worker_lowers_its_lifetime_by_what_it_says,
    },
    Guard {
        name: "a pool's number of workers",
        with: "Worker.count() >= pool.policy.workers_max",
        without: "false",
        test: rights::a_pool_has_no_more_workers_than_it_may_have,
    },
    Guard {
        name: "a worker's limit",
        with: "return worker.active < ",
        without: "return -1 < ",
        test: admit::gives_no_more_places_than_a_worker_has,
    },
    Guard {
        name: "an id that is held gets the same answer",
        with: "local held = Lease.of(holder, request.seq)",
        without: "local held = nil",
        test: admit::asking_twice_is_asking_once,
    },
    Guard {
        name: "tombstones",
        with: "if request.is_buried then",
        without: "if false then",
        test: admit::a_release_that_overtakes_its_admit_wins,
    },
    Guard {
        name: "every ended lease leaves a tombstone",
        with: "ended[#ended + 1] = lease_id",
        without: "",
        test: admit::an_ended_lease_is_never_admitted_again,
    },
    Guard {
        name: "what no beat asked for is cancelled",
        with: "if beat < holder.beat and not Holder.was_asking(request.seq) then",
        without: "if false then",
        test: renew::an_admit_that_arrives_after_a_beat_without_it_is_cancelled,
    },
    Guard {
        name: "except what the last beat asked for",
        with: " and not Holder.was_asking(request.seq) then",
        without: " then",
        test: renew::an_admit_that_the_last_beat_asked_for_is_given,
    },
    Guard {
        name: "a forgotten holder gets nothing",
        with: "if beat > 1 and holder.beat == Holder.UNHEARD then",
        without: "if false then",
        test: renew::who_was_forgotten_is_told_to_beat_before_it_gets_anything_new,
    },
    Guard {
        name: "a reclaimed holder gets nothing",
        with: "if holder.reclaimed_at > 0 then\n    return denied(pool, 'cancelled')",
        without: "if false then\n    return denied(pool, 'cancelled')",
        test: reclaim::a_reclaimed_holder_gets_nothing_until_it_beats_and_hears_that_it_lost,
    },
    Guard {
        name: "an earlier beat changes nothing",
        with: "not compares and beat <= holder.beat",
        without: "false",
        test: renew::a_beat_that_is_not_above_the_last_changes_nothing,
    },
    Guard {
        name: "what is under way is left out of the comparison",
        with: "Holder.add(rest, number, -1)",
        without: "",
        test: renew::what_is_on_its_way_is_left_out_of_the_comparison,
    },
    Guard {
        name: "what has ended is not re-asserted",
        with: " and not Lease.is_buried(epoch .. '.' .. number)",
        without: "",
        test: renew::an_ended_lease_is_not_reasserted,
    },
    Guard {
        name: "a list counts only while its beat is the last",
        with: "if holder.beat ~= tonumber(ARGV[1]) or holder.reclaimed_at > 0 then\n  \
               return { 'stale' }\nend\n\nlocal crew, count, over",
        without: "local crew, count, over",
        test: renew::a_list_counts_only_while_its_beat_is_the_last,
    },
    Guard {
        name: "the end of an earlier presence is no end",
        with: "if number < holder.presence or",
        without: "if",
        test: reclaim::the_end_of_an_earlier_presence_does_not_count,
    },
    Guard {
        name: "an ended presence stays ended",
        with: "(over and word ~= 'ended')",
        without: "false",
        test: reclaim::late_words_of_a_presence_that_ended_do_not_revive_it,
    },
    Guard {
        name: "a moment's grace",
        with: "pool.now - holder.closed_at >= Holder.GRACE_MS",
        without: "true",
        test: reclaim::a_holder_whose_presence_ended_has_a_moment_to_say_that_it_lives,
    },
    Guard {
        name: "no grace ends while a rebuild has just begun",
        with: " and not rebuild_began_lately(pool)",
        without: "",
        test: rebuild::what_spoke_against_an_end_may_have_been_lost,
    },
    Guard {
        name: "what a quarantined holder releases waits",
        with: "lease and holder.quarantined == 1",
        without: "false",
        test: reclaim::what_a_quarantined_holder_releases_waits_for_its_beat,
    },
    Guard {
        name: "only who has heard of a rebuild has told what it holds",
        with: "elseif count and tonumber(ARGV[6]) == pool.rebuild then",
        without: "elseif count then",
        test: rebuild::a_beat_that_has_not_heard_of_the_rebuild_is_no_report,
    },
    Guard {
        name: "whoever is vouched for is kept",
        with: "holder.open == 1 and pool.now - holder.vouched_at < ttl",
        without: "false",
        test: reclaim::a_holder_that_is_present_but_silent_keeps_its_leases_and_is_told_of,
    },
    Guard {
        name: "whoever does not beat is reclaimed",
        with: "return 'ttl'",
        without: "return nil",
        test: reclaim::a_holder_without_a_beat_is_reclaimed_after_its_time,
    },
    Guard {
        name: "what may be on its way to a worker is left alone",
        with: "lease.since < worker.previous and ",
        without: "",
        test: reclaim::leases_since_the_heartbeat_before_last_are_on_their_way,
    },
    Guard {
        name: "another server begins a rebuild",
        with: "pool and pool.store_id ~= Keys.server",
        without: "false",
        test: rebuild::another_server_than_the_last_begins_a_rebuild_and_the_same_does_not,
    },
    Guard {
        name: "a rebuild waits for whoever is present",
        with: "redis.call('ZCARD', Keys.awaited) > 0",
        without: "false",
        test: rebuild::whoever_was_announced_is_waited_for_until_it_has_told_what_it_holds,
    },
    Guard {
        name: "the clock takes short steps",
        with: "elseif step > CLOCK_STEP_MS_MAX then",
        without: "elseif false then",
        test: reclaim::nothing_expires_while_redis_stands_still,
    },
    Guard {
        name: "a count's limit",
        with: "if count.total >= limit then",
        without: "if false then",
        test: atomic::a_count_grows_to_its_limit_and_no_further,
    },
    Guard {
        name: "nobody gives back what another holds",
        with: "if share.held == 0 then\n  return answer('unheld')",
        without: "if count.total == 0 then\n  return answer('unheld')",
        test: atomic::nobody_gives_back_what_another_holds,
    },
    Guard {
        name: "an owner's time ends",
        with: "'-inf', count.now, 'BYSCORE'",
        without: "'-inf', 0, 'BYSCORE'",
        test: atomic::more_lost_owners_than_one_script_sweeps_are_swept_all_the_same,
    },
    Guard {
        name: "what has no owner has no end",
        with: "if stays then",
        without: "if false then",
        test: atomic::what_has_no_owner_stays_until_it_is_given_back,
    },
    Guard {
        name: "a count has so many owners",
        with: " and Count.is_crowded(count) then",
        without: " and false then",
        test: atomic::a_count_has_only_so_many_owners,
    },
    Guard {
        name: "who is refused uses up nothing of a rate",
        with: "if requests >= limit then",
        without: "if false then",
        test: atomic::a_window_has_no_more_requests_than_its_limit,
    },
    Guard {
        name: "a pool's rate",
        with: "wait > 0 and not is_shadowed(pool, 'requests.rate')",
        without: "false",
        test: limits::a_rate_of_one_a_second_is_never_two_in_one,
    },
    Guard {
        name: "a client's sessions",
        with: "client.count >= clients.max_concurrent",
        without: "false",
        test: limits::fifty_racing_for_three_places_of_a_client_get_three,
    },
    Guard {
        name: "a client's place comes back",
        with: "redis.call('HINCRBY', Keys.keys, Visit.CLIENT .. name, '-1') <= 0",
        without: "false",
        test: limits::a_clients_place_comes_back_with_its_lease,
    },
    Guard {
        name: "clients are told apart up to a number",
        with: "Visit.number(visit, Visit.CLIENTS) >= pool.policy.client.keys_max",
        without: "false",
        test: limits::beyond_the_keys_that_are_kept_all_share_one_place,
    },
    Guard {
        name: "while there are others, whoever is new may be one of them",
        with: "(others or Visit.number",
        without: "(Visit.number",
        test: limits::who_was_among_the_others_gets_no_second_share,
    },
    Guard {
        name: "a pool's sessions",
        with: "pool.connections >= most",
        without: "false",
        test: limits::the_pool_has_a_limit_of_its_own,
    },
    Guard {
        name: "keys are bound up to a number",
        with: "Visit.number(visit, Visit.BINDINGS) < pool.policy.affinity.keys_max",
        without: "true",
        test: affinity::no_more_keys_are_bound_than_may_be,
    },
    Guard {
        name: "a load is figures",
        with: "if type(figure) ~= 'number' or not (figure >= 0 and figure < INFINITY) then",
        without: "if false then",
        test: score::a_load_with_a_figure_that_is_none_is_refused_whole,
    },
    Guard {
        name: "there are three operations",
        with: "if not OPERATIONS[operation] then",
        without: "if false then",
        test: score::an_operation_that_there_is_not_is_refused_whole,
    },
    Guard {
        name: "a key of the client's making opens nothing",
        with: "affinity.required and not request.bind",
        without: "affinity.required",
        test: affinity::a_key_that_a_client_made_up_opens_no_limit_but_the_workers,
    },
];

/// What seldom changes of a record is kept packed, and whoever changes it must say so. Here it is packed each
/// time, and a script breaks if the kept text is another.
fn nothing_kept_is_old(with: &'static str, without: &'static str) {
    for guard in &GUARDS {
        mutated(with, without, guard.test);
    }
    mutated(with, without, model::random_agrees_with_its_model);
    mutated(with, without, model::score_agrees_with_its_model);
}

#[test]
fn what_is_kept_packed_of_a_worker_is_never_old() {
    nothing_kept_is_old(
        "worker.rest = worker.rest or pack_rest(worker)",
        "assert(not worker.rest or worker.rest == pack_rest(worker)) worker.rest = pack_rest(worker)",
    );
}

#[test]
fn what_is_kept_packed_of_a_pool_is_never_old() {
    nothing_kept_is_old(
        "head.rest = head.rest or pack_rest(head)",
        "assert(not head.rest or head.rest == pack_rest(head)) head.rest = pack_rest(head)",
    );
}

#[test]
fn without_any_one_guard_its_test_fails() {
    let missed: Vec<&str> = (GUARDS.iter())
        .filter(|guard| {
            mutated(guard.with, guard.without, || {
                std::panic::catch_unwind(guard.test).is_ok()
            })
        })
        .map(|guard| guard.name)
        .collect();
    assert!(missed.is_empty(), "nobody noticed without: {missed:?}");
}
