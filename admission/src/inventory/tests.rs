use super::*;
use crate::id::{HolderId, PoolName, ProxyId, beat_of};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const BACKLOG: usize = 3;

fn inventory() -> Inventory {
    Inventory::new(Epoch::from_random([1; 16]), BACKLOG)
}

fn beat(inventory: &mut Inventory, list: bool) -> RenewRequest {
    let holder = HolderId {
        proxy: ProxyId::lossy(b"envoy"),
        epoch: inventory.epoch.clone(),
    };
    inventory.beat(&PoolName::parse("pool").unwrap(), &holder, list)
}

fn admit(inventory: &mut Inventory, worker: &str) -> LeaseId {
    admit_with(inventory, worker, None)
}

fn admit_with(inventory: &mut Inventory, worker: &str, affinity: Option<KeyHash>) -> LeaseId {
    let lease = inventory.mint();
    inventory.admitted(
        &Admitted {
            worker: worker.parse().unwrap(),
            incarnation: "a".parse().unwrap(),
            address: "10.0.0.1:80".parse().unwrap(),
            lease: lease.clone(),
            active: 1,
            lifetime: 7,
            probe: false,
            client: None,
            affinity,
        },
        0,
    );
    lease
}

#[test]
fn a_lease_number_tells_the_beat_before_it() {
    let mut inventory = inventory();
    let before = inventory.mint().seq;
    let number = beat(&mut inventory, false).beat;
    let after = inventory.mint().seq;
    assert_eq!((beat_of(before), beat_of(after)), (0, number));
    assert_ne!(inventory.mint().seq, after);
}

#[test]
fn a_beat_sorts_leases_into_asked_held_and_ended() {
    let mut inventory = inventory();
    let asked = inventory.mint();
    let held = admit(&mut inventory, "w1");
    let ended = admit(&mut inventory, "w1");
    inventory.ended(Release::unused(ended.clone()));
    let beat = beat(&mut inventory, false);
    assert_eq!(beat.asking, [asked.seq]);
    assert_eq!(beat.ended, [ended.seq]);
    let mut sum = Held::default();
    sum.add(held.seq);
    assert_eq!((beat.held, beat.leases), (Some(sum), None));
}

#[test]
fn a_refused_lease_is_in_no_list() {
    let mut inventory = inventory();
    let lease = inventory.mint();
    inventory.refused(lease.seq);
    let beat = beat(&mut inventory, false);
    assert!(beat.asking.is_empty() && beat.ended.is_empty());
}

#[test]
fn an_ended_lease_is_told_until_its_release_has_arrived() {
    let mut inventory = inventory();
    let lease = admit(&mut inventory, "w1");
    inventory.ended(Release::unused(lease.clone()));
    let delivery = inventory.take_delivery().unwrap();
    assert_eq!(beat(&mut inventory, false).ended, [lease.seq]);
    inventory.take_back(delivery);
    let delivery = inventory.take_delivery().unwrap();
    inventory.settle(delivery);
    assert!(beat(&mut inventory, false).ended.is_empty());
}

#[test]
fn a_release_that_was_dropped_is_in_no_list() {
    let mut inventory = inventory();
    for _ in 0..=BACKLOG {
        let lease = admit(&mut inventory, "w1");
        inventory.ended(Release::unused(lease));
    }
    assert_eq!(beat(&mut inventory, false).ended.len(), BACKLOG);
    assert_eq!(inventory.take_dropped(), 1);
}

#[test]
fn the_list_is_grouped_by_the_lives_of_workers() {
    let mut inventory = inventory();
    let leases = ["w1", "w2", "w1"].map(|worker| admit(&mut inventory, worker).seq);
    let places = beat(&mut inventory, true).leases.unwrap();
    let listed: Vec<_> = (places.iter())
        .map(|place| (place.worker.as_str(), place.leases.clone()))
        .collect();
    let expected = [
        ("w1", vec![(leases[0], 7), (leases[2], 7)]),
        ("w2", vec![(leases[1], 7)]),
    ];
    assert_eq!(listed, expected);
}

#[test]
fn a_life_without_leases_is_forgotten() {
    let mut inventory = inventory();
    let leases = [(); 2].map(|()| admit(&mut inventory, "w1"));
    for (lease, left) in leases.into_iter().zip([1, 0]) {
        inventory.ended(Release::unused(lease));
        assert_eq!(inventory.lives.len(), left);
    }
}

#[test]
fn with_too_much_under_way_a_beat_only_keeps_its_holder_alive() {
    let mut inventory = inventory();
    for _ in 0..=UNDER_WAY_MAX {
        inventory.mint();
    }
    let beat = beat(&mut inventory, true);
    assert_eq!((beat.held, beat.leases), (None, None));
    assert_eq!(beat.asking.len(), UNDER_WAY_MAX);
}

fn used(lease: &LeaseId) -> Release {
    Release {
        r#use: Use::Used,
        ..Release::unused(lease.clone())
    }
}

#[test]
fn a_place_is_spare_only_while_another_session_vouches_for_its_worker() {
    let mut inventory = inventory();
    let [first, second, third] = ["w1", "w1", "w2"].map(|worker| admit(&mut inventory, worker));
    inventory.set_aside(used(&third));
    assert_eq!(
        beat(&mut inventory, false).ended,
        [third.seq],
        "alone on w2"
    );
    inventory.set_aside(used(&first));
    assert_eq!(beat(&mut inventory, false).ended, [third.seq]);
    inventory.ended(used(&second));
    let ended = beat(&mut inventory, false).ended;
    assert_eq!(ended, [first.seq, second.seq, third.seq]);
    assert_eq!(inventory.take_spare(), None);
    assert!(inventory.lives.is_empty() && inventory.held.is_empty());
    assert_eq!(inventory.sum, Held::default());
}

#[test]
fn whoever_takes_a_place_vouches_for_its_worker() {
    let mut inventory = inventory();
    let [first, second] = ["w1", "w1"].map(|worker| admit(&mut inventory, worker));
    inventory.set_aside(used(&first));
    let again = inventory.take_spare().unwrap();
    inventory.admitted(&again, 0);
    inventory.set_aside(used(&second));
    assert_eq!(inventory.take_spare().unwrap().lease, second);
}

#[test]
fn a_lease_that_was_used_once_is_used() {
    let mut inventory = inventory();
    let [first, _witness] = ["w1", "w1"].map(|worker| admit(&mut inventory, worker));
    inventory.set_aside(used(&first));
    let again = inventory.take_spare().unwrap();
    inventory.admitted(&again, 0);
    inventory.ended(Release::unused(again.lease));
    let Some(Delivery::Releases(releases)) = inventory.take_delivery() else {
        panic!("no release");
    };
    assert_eq!(releases[0].r#use, Use::Used);
}

#[test]
fn what_was_asked_for_is_never_spare() {
    let mut inventory = inventory();
    admit(&mut inventory, "w1");
    let asked = inventory.mint();
    inventory.set_aside(Release::unused(asked.clone()));
    assert_eq!(beat(&mut inventory, false).ended, [asked.seq]);
    assert_eq!(inventory.take_spare(), None);
}

#[test]
fn spare_places_are_bounded() {
    let mut inventory = inventory();
    let leases: Vec<_> = (0..BACKLOG + 2)
        .map(|_| admit(&mut inventory, "w1"))
        .collect();
    for lease in &leases[1..] {
        inventory.set_aside(used(lease));
    }
    assert_eq!(inventory.spares.len(), BACKLOG);
    assert_eq!(beat(&mut inventory, false).ended, [leases[BACKLOG + 1].seq]);
}

#[test]
fn a_place_above_the_limit_is_left_to_nobody() {
    let mut inventory = inventory();
    admit(&mut inventory, "w1");
    let key = KeyHash::from_bytes([1; 8]);
    let bound = admit_with(&mut inventory, "w1", Some(key));
    inventory.set_aside(used(&bound));
    assert_eq!(beat(&mut inventory, false).ended, [bound.seq]);
}
