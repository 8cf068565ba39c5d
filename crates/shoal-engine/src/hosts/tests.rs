//! The rules for one host, one by one. `models/` has whole runs.

use std::sync::Arc;
use std::time::Duration;

use shoal_http::Targets as _;

use super::host::{Gate, Time};
use super::machine::{Glance, Machine, Verdict};
use super::{Hosts, PROBE_MAX, Rules, Targets};
use crate::error::{Error, HostId, Kind};

const HOST: HostId = HostId(7);
const OTHER: HostId = HostId(8);
const ZERO: Duration = Duration::ZERO;

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn machine(max_retries: u32, timeout: f64, many: bool) -> Machine {
    let glance = Arc::new(Glance::new(many));
    Machine::new(Rules { max_retries, timeout: s(timeout), many }, glance)
}

fn error(kind: Kind) -> Error {
    Error::new(kind, "x").host(HOST)
}

/// Fails first tries until the host is paused; how many were charged.
fn pause(machine: &mut Machine, now: Time) -> usize {
    (0..1_000).take_while(|_| machine.failed(&error(Kind::Connect), 1, ZERO, false, now) != Verdict::Uncharged).count()
}

#[test]
fn an_outage_pauses_the_host_and_one_probe_ends_it() {
    let mut machine = machine(10, 180.0, false);
    assert!(pause(&mut machine, ZERO) < 40, "objects were charged for one outage");
    assert_eq!(machine.gate(HOST, ZERO), Gate::Closed);
    assert_eq!(machine.gate(HOST, s(1.0)), Gate::Probe);
    assert_eq!(machine.gate(HOST, s(1.0)), Gate::Closed, "one probe at a time");
    assert_eq!(machine.failed(&error(Kind::OutOfFiles), 1, ZERO, true, s(1.0)), Verdict::Uncharged);
    assert_eq!(machine.gate(HOST, s(1.0)), Gate::Probe, "nothing was asked");
    assert_eq!(machine.failed(&error(Kind::Connect), 1, ZERO, true, s(1.0)), Verdict::Uncharged);
    machine.answered(HOST, false, true, s(1.5));
    assert_eq!(machine.gate(HOST, s(1.2)), Gate::Closed, "an answer that was under way when the pause began");
    assert_eq!(machine.gate(HOST, s(3.0)), Gate::Probe);
    machine.answered(HOST, true, true, s(3.0));
    assert_eq!((machine.gate(HOST, s(3.0)), machine.paused(HOST, s(9.0))), (Gate::Open, s(3.0)));
    pause(&mut machine, s(10.0));
    machine.answered(HOST, false, true, s(10.0) + PROBE_MAX);
    assert_eq!(machine.gate(HOST, s(12.0)), Gate::Open, "one that comes long after ends it, too");
}

#[test]
fn stubborn_objects_do_not_pause_a_healthy_host() {
    let mut machine = machine(10, 180.0, false);
    let fails = |machine: &mut Machine, tries| machine.failed(&error(Kind::ServerError), tries, ZERO, false, ZERO);
    for object in 0..100_000 {
        for tries in 1..=if object % 100 == 0 { 10 } else { 0 } {
            assert!(matches!(fails(&mut machine, tries), Verdict::Again(_)));
        }
        machine.answered(HOST, false, true, ZERO);
    }
    // Only stubborn ones are left at the end; they still do not.
    for tries in (2..=10).flat_map(|tries| [tries; 1_000]) {
        fails(&mut machine, tries);
    }
    assert_eq!(machine.look(HOST, ZERO), Gate::Open);
}

#[test]
fn when_only_broken_objects_are_left_probes_use_up_their_tries() {
    let mut machine = machine(3, 180.0, false);
    for _ in 0..40 {
        machine.failed(&error(Kind::ShortBody), 1, ZERO, false, ZERO);
    }
    let mut probe = |tries| machine.failed(&error(Kind::ShortBody), tries, ZERO, true, s(1.0));
    assert!(matches!((probe(2), probe(3)), (Verdict::Again(_), Verdict::Again(_))));
    assert_eq!(probe(4), Verdict::GiveUp);
}

#[test]
fn tries_and_time_run_out_and_no_wait_is_longer_than_what_is_left() {
    let mut machine = machine(40, 10.0, false);
    let mut failed = |tries, trying| machine.failed(&error(Kind::ServerError), tries, s(trying), false, ZERO);
    assert_eq!((failed(41, 1.0), failed(2, 10.1)), (Verdict::GiveUp, Verdict::GiveUp));
    let waits = |verdict| if let Verdict::Again(wait) = verdict { wait } else { panic!("{verdict:?}") };
    // Up to 20 s without a limit.
    assert!((0..100).all(|_| waits(failed(12, 9.5)) <= s(0.5)));
    assert!((0..100).any(|_| waits(failed(12, 0.5)) > s(5.0)));
    assert!((1..17).all(|tries| waits(failed(tries, 0.0)) <= s(0.1 * 2_f64.powi(tries as i32 - 1))));
}

#[test]
fn a_short_retry_after_is_the_objects_own_unless_most_are_refused() {
    let mut machine = machine(10, 180.0, false);
    let asks = error(Kind::Throttled).retry_after(Some(s(1.0)));
    let mut refused = |good: usize| {
        let verdict = machine.failed(&asks, 1, ZERO, false, ZERO);
        (0..good).for_each(|_| machine.answered(HOST, false, true, ZERO));
        (verdict, machine.look(HOST, ZERO))
    };
    for _ in 0..1_000 {
        let (verdict, gate) = refused(4);
        assert!(matches!(verdict, Verdict::Again(wait) if wait >= s(1.0) && wait <= s(1.1)), "{verdict:?}");
        assert_eq!(gate, Gate::Open, "one in five is refused");
    }
    let refusals = (1..).find(|_| refused(0).1 == Gate::Closed).unwrap_or_default();
    assert!((50..100).contains(&refusals), "after {refusals} in a row");
}

#[test]
fn a_server_error_that_lasts_is_tried_as_often_with_shorter_waits_if_the_host_answers_others() {
    let longest = |answers_others| {
        let mut machine = machine(10, 180.0, true);
        if answers_others {
            machine.answered(HOST, false, true, ZERO);
        }
        let mut longest = ZERO;
        for _ in 0..50 {
            for tries in 1..=10 {
                let Verdict::Again(wait) = machine.failed(&error(Kind::ServerError), tries, ZERO, false, ZERO) else {
                    panic!("{tries} tries")
                };
                longest = longest.max(wait);
            }
            (0..7).for_each(|_| {
                if answers_others {
                    machine.answered(HOST, false, true, ZERO)
                }
            });
            if !answers_others {
                break;
            }
        }
        longest
    };
    assert!(longest(true) <= s(1.6));
    assert!((0..10).any(|_| longest(false) > s(4.0)), "an outage");
}

#[test]
fn retry_after_of_five_seconds_closes_the_whole_host_for_that_long() {
    let mut machine = machine(10, 180.0, false);
    let asks = error(Kind::Throttled).retry_after(Some(s(5.0)));
    assert_eq!(machine.failed(&asks, 1, ZERO, false, ZERO), Verdict::Again(ZERO));
    assert_eq!((machine.gate(HOST, s(4.0)), machine.gate(HOST, s(6.0))), (Gate::Closed, Gate::Open));
    assert!(machine.unreachable("the server", s(1.0)).is_none());
    machine.failed(&error(Kind::Throttled).retry_after(Some(s(500.0))), 1, ZERO, false, ZERO);
    assert!(machine.unreachable("the server", s(1.0)).is_some(), "longer than is waited for");
    machine.tick(s(600.0));
    assert_eq!(machine.look(HOST, ZERO), Gate::Open, "what is over is forgotten");
}

#[test]
fn a_host_that_never_answered_is_given_up_soon() {
    for many in [false, true] {
        let mut machine = machine(10, 180.0, many);
        let asked = Some(s(60.0));
        assert_eq!(machine.listing_wait(&error(Kind::Timeout), 2, s(11.0)), None);
        assert_eq!(pause(&mut machine, ZERO), if many { 5 } else { 36 });
        let is_over = |machine: &Machine, at| machine.unreachable("the server", s(at)).is_some();
        assert!(!is_over(&machine, 5.0) && is_over(&machine, 12.0));
        machine.answered(if many { OTHER } else { HOST }, false, true, s(1.0));
        assert!(!is_over(&machine, 12.0), "the address is right");
        assert_eq!(is_over(&machine, 200.0), !many, "of many, one alone is to blame");
        assert_eq!(machine.listing_wait(&error(Kind::Throttled).retry_after(asked), 1, ZERO), asked);
    }
}

#[test]
fn of_many_hosts_one_that_stays_away_fails_its_objects_until_it_is_back() {
    let mut machine = machine(10, 3.0, true);
    machine.answered(HOST, false, true, ZERO);
    pause(&mut machine, ZERO);
    assert_eq!(machine.look(HOST, ZERO), Gate::Closed);
    assert_eq!(machine.gate(HOST, s(3.1)), Gate::Probe);
    assert_eq!(machine.look(HOST, s(3.1)), Gate::Closed, "nothing was asked of it since: it may be back");
    assert_eq!(machine.failed(&error(Kind::Connect), 1, ZERO, true, s(3.2)), Verdict::Uncharged);
    assert_eq!(machine.look(HOST, s(3.2)), Gate::Closed, "no other host has answered since: it may be the network");
    machine.answered(OTHER, false, true, s(3.2));
    assert_eq!(machine.look(HOST, s(3.2)), Gate::Away);
    assert!(machine.unreachable("the server", s(60.0)).is_none());
    machine.answered(HOST, true, true, s(9.0));
    assert_eq!(machine.look(HOST, s(9.0)), Gate::Open);
}

#[test]
fn objects_of_a_paused_host_leave_their_partition_after_a_second_and_one_comes_back_soon() {
    let mut machine = machine(10, 180.0, true);
    pause(&mut machine, ZERO);
    let mut wait = |room, at| machine.deferral(HOST, room, s(at)).map(|(_, wait)| wait);
    assert_eq!((wait(true, 0.1), wait(true, 1.1)), (None, None), "it may be short, and then a probe is due");
    assert_eq!(wait(false, 1.1), Some(PROBE_MAX), "for which there is no room");
    assert!(wait(false, 1.1) > Some(s(8.0)), "the others when it counts as away");
    machine.answered(HOST, true, true, s(2.0));
    machine.failed(&error(Kind::Throttled).retry_after(Some(s(60.0))), 1, ZERO, false, s(2.0));
    let wait = machine.deferral(HOST, true, s(2.0)).map(|(_, wait)| wait);
    assert!(wait > Some(s(59.0)), "as long as it has asked to wait");
}

#[test]
fn an_object_that_hangs_is_charged_though_its_host_waits_meanwhile() {
    let mut machine = machine(10, 180.0, true);
    machine.answered(HOST, false, true, ZERO);
    let fails = |machine: &mut Machine, tries| machine.failed(&error(Kind::Timeout), tries, ZERO, true, s(9.0));
    machine.hangs(OTHER, true, ZERO);
    assert_eq!(machine.gate(OTHER, s(0.1)), Gate::Closed);
    assert_eq!(machine.gate(OTHER, s(1.0)), Gate::Probe, "one that never answered is asked beside those that hang");
    machine.hangs(HOST, true, ZERO);
    assert_eq!(machine.gate(HOST, s(8.0)), Gate::Closed, "those that hang ask it");
    assert_eq!(machine.waited(HOST, s(9.0)), s(9.0), "the time counts as that of the object that asks");
    assert!(matches!(fails(&mut machine, 1), Verdict::Again(_)));
    machine.hangs(HOST, true, s(11.0));
    assert_eq!(machine.waited(HOST, s(11.5)), s(0.5), "this one asks it now, and not since the first");
    assert!(matches!(fails(&mut machine, 1), Verdict::Again(_)));
    assert_eq!(machine.gate(HOST, s(16.0)), Gate::Probe);
    assert_eq!(fails(&mut machine, 11), Verdict::GiveUp);
    machine.answered(HOST, false, false, s(9.0));
    assert_eq!(machine.look(HOST, s(9.0)), Gate::Open, "whatever arrives ends the pause");
    machine.hangs(HOST, true, s(9.0));
    assert!((0..).take_while(|_| fails(&mut machine, 1) != Verdict::Uncharged).count() > 20);
    assert!(machine.unreachable("the server", s(300.0)).is_some(), "then it is paused like one that fails");
    assert_eq!(machine.gate(HOST, s(20.0)), Gate::Probe);
    assert_eq!(machine.waited(HOST, s(29.0)), ZERO, "and no object is to blame");
}

#[test]
fn a_host_that_redirects_is_not_to_blame_for_what_is_behind_it() {
    let mut machine = machine(10, 180.0, true);
    let fails = |machine: &mut Machine, error: Error, probe| machine.failed(&error, 1, ZERO, probe, ZERO);
    let behind = || error(Kind::Connect).behind_host();
    assert!((0..100).all(|_| matches!(fails(&mut machine, behind(), false), Verdict::Again(_))));
    assert_eq!(machine.look(HOST, ZERO), Gate::Open);
    assert_eq!(fails(&mut machine, error(Kind::Connect).behind_away(), false), Verdict::GiveUp);
    pause(&mut machine, ZERO);
    assert!(matches!(fails(&mut machine, behind(), true), Verdict::Again(_)));
    assert_eq!(machine.look(HOST, ZERO), Gate::Open, "it has answered the probe");
}

#[test]
fn a_redirect_to_a_silent_host_is_followed_by_one_request_at_a_time() {
    let targets = Targets::new(ZERO);
    let fails = |kind| targets.failed("http://h", false, Error::new(kind, "x"));
    for _ in 0..5 {
        assert!(targets.ask("http://h").is_ok_and(|probe| !probe));
        fails(Kind::Timeout);
    }
    assert!(targets.ask("http://h").is_err());
    assert!(targets.ask("http://other").is_ok());
    targets.answered("http://h", true);
    // One that has answered is asked all the same: without a request, no try is lost.
    for _ in 0..99 {
        assert!(targets.ask("http://h").is_ok());
        fails(Kind::Timeout);
    }
    assert!(targets.ask("http://h").is_ok());
}

#[test]
fn that_all_is_listed_says_nothing_of_a_lone_host() {
    for many in [false, true] {
        let hosts = Hosts::new("the server", Rules { max_retries: 10, timeout: s(180.0), many });
        hosts.listed_all();
        let wait = hosts.listing_wait(&error(Kind::Timeout), 2, s(11.0));
        assert_eq!(wait.is_some(), many, "of one that has never answered");
    }
}

#[test]
fn what_is_remembered_of_hosts_is_bounded_also_of_paused_ones() {
    let mut machine = machine(10, 180.0, true);
    for host in 1..250_000 {
        let asks = error(Kind::Throttled).retry_after(Some(s(1.0 + (host % 2) as f64))).host(HostId(host));
        machine.failed(&asks, 1, ZERO, false, ZERO);
    }
    assert!(machine.len() <= 100_000);
    machine.tick(s(70.0));
    for host in 1..250_000 {
        (0..3).for_each(|_| machine.answered(HostId(host), false, true, s(70.0)));
    }
    assert_eq!(machine.len(), 0, "a host that is well is forgotten, and each was counted once");
}
