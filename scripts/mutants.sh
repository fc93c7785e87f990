#!/usr/bin/env bash
# Shows that the tests of the core bite: removes one guard at a time from a copy of `admission`, and
# expects its tests to fail. (The guards of the scripts are removed by redis-sidecar/tests/mutants.rs.)
# Ends with the line "N guards, N missed".
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "$0")/env.sh"

copy=$target_dir/mutants/tree
export CARGO_TARGET_DIR=$target_dir/mutants/target CARGO_TERM_COLOR=never

mkdir -p "$copy"
rm -rf "$copy/admission"
cp -r admission "$copy/"
cp Cargo.lock rust-toolchain.toml clippy.toml "$copy/"
sed -e 's/^members = .*/members = ["admission"]/' -e '/^default-members/d' Cargo.toml >"$copy/Cargo.toml"

guards=0
missed=0

# run_tests: in the copy, quietly.
run_tests() {
    (cd "$copy" && cargo test --quiet --offline -p admission --lib "$@") >"$target_dir/mutants/log" 2>&1
}

# mutant WHAT FILE FROM TO: without the guard, some test must fail.
mutant() {
    local what=$1 file=$copy/admission/src/$2 from=$3 to=$4 text
    guards=$((guards + 1))
    cp "admission/src/$2" "$file"
    text=$(<"$file")
    case $text in
        *"$from"*"$from"*) from_count=2 ;;
        *"$from"*) from_count=1 ;;
        *) from_count=0 ;;
    esac
    if [ "$from_count" -ne 1 ]; then
        echo "mutants: $2 must have this once, not $from_count times: $from" >&2
        exit 2
    fi
    printf '%s\n' "${text/"$from"/"$to"}" >"$file"
    if ! run_tests --no-run; then
        echo "mutants: $what: does not compile" >&2
        tail -20 "$target_dir/mutants/log" >&2
        exit 2
    fi
    if run_tests; then
        missed=$((missed + 1))
        echo "  missed  $what"
    else
        echo "  caught  $what: $(sed -n 's/^---- \(.*\) stdout ----$/\1/p' "$target_dir/mutants/log" | head -1)"
    fi
    cp "admission/src/$2" "$file"
}

echo "the core as it is"
if ! run_tests; then
    tail -40 "$target_dir/mutants/log" >&2
    echo "mutants: the tests fail without any mutant" >&2
    exit 2
fi

echo "and without"
mutant 'the list of what is asked' inventory.rs \
    'self.asking.insert(number);' ''
mutant 'the list of what is ending' inventory.rs \
    'self.ending.insert(number);' ''
mutant 'a number of its own for every beat' inventory.rs \
    'self.next_beat();
        let comparable' 'let comparable'
mutant 'the limit of what one beat may carry' inventory.rs \
    'self.asking.len().saturating_add(self.ending.len()) <= UNDER_WAY_MAX' 'true'
mutant 'the sum without what has ended' inventory.rs \
    'self.sum.remove(number);' ''
mutant 'only the answer to the last beat counts' holder.rs \
    'take_if(|sent| sent.beat == beat)' 'take()'
mutant 'a failed beat is repeated soon, not at once' holder.rs \
    'self.beat_due_us = sent.at_us.saturating_add(RETRY_US);' ''
mutant 'the list when it is asked for' holder.rs \
    'self.list = answer.verdict == Verdict::List;' 'self.list = false;'
mutant 'the end of an earlier presence is no end' holder.rs \
    'if number != self.presences {' 'if false {'
mutant 'the fence before places are given away' holder.rs \
    'self.closing = self.inventory.held().collect();
        }
        let closing' '}
        let closing'
mutant 'news that failed is sent again' holder.rs \
    'self.inventory.take_back(delivery);' 'self.inventory.settle(delivery);'
mutant 'the release of a stream that left while it asked' lifecycle.rs \
    'vec![Effect::Release(Release::unused(asking.lease))]' 'Vec::new()'
mutant 'an answer about another lease is none' lifecycle.rs \
    'AdmitAnswer::Admitted(admitted) if admitted.lease != asking.lease =>' \
    'AdmitAnswer::Admitted(admitted) if admitted.lease.epoch != asking.lease.epoch =>'
mutant 'the release of what was refused without an answer' lifecycle.rs \
    'Effect::Refuse(refusal),
        Effect::Release(Release::unused(asking.lease)),' 'Effect::Refuse(refusal),'
mutant 'a session that vouches for the worker of a spare place' inventory/spare.rs \
    'lease.life.sessions.get() > 1' 'lease.life.sessions.get() > 0'
mutant 'spare places end with the last session on their worker' inventory.rs \
    'self.end_unwitnessed();' ''
mutant 'a limit for spare places' inventory/spare.rs \
    'self.spares.len() < self.spares_max' 'true'
mutant 'what was used once is used' inventory/spare.rs \
    'lease.used |= release.r#use == Use::Used;' ''
mutant 'places are shared only while the holder is believed' holder/outage.rs \
    'now_us < until_us' 'until_us > 0'
mutant 'places are shared only while the presence is not in doubt' holder/outage.rs \
    'self.presence_broken_us.is_none_or(sure)' '(self.presence_broken_us.is_none_or(sure) || true)'
mutant 'places on workers that failed are not shared' holder/outage.rs \
    '&& serves_on(release.outcome)' '&& (serves_on(release.outcome) || true)'
mutant 'spare places end with the outage' holder/outage.rs \
    'self.inventory.end_spares();' ''
mutant 'an earlier answer does not end an outage' holder/outage.rs \
    'if sent_us < outage.since_us {' 'if false {'
mutant 'the release of what was asked for in vain' lifecycle.rs \
    'self.route(admitted, asking.demand, now_us),
                Effect::Release(Release::unused(asking.lease)),' 'self.route(admitted, asking.demand, now_us),'

printf '\n%d guards, %d missed\n' "$guards" "$missed"
[ "$missed" -eq 0 ]
