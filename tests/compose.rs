//! Containers, raised by compose.yaml as users raise them, killed, stopped, cut off and replaced:
//! `make test-compose`. What must hold is what must hold for processes; most of it is in `harness::scenario`.

mod compose {
    mod limits;
    mod partitions;
    mod parts;
    mod rolling;
    mod sentinel;
}
