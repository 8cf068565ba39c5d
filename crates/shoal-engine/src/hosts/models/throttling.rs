//! Hosts that answer some requests with 429 and `Retry-After: 1`, at random or beyond a limit, and hosts with an object that
//! is broken for good. A pool of threads is the measure: each waits as long as it is asked to, and keeps its place.

use std::cell::RefCell;
use std::rc::Rc;

use super::service::{Client, Run, run};
use super::world::{DEFAULT, Outcome, Reply, Request, World, host};
use crate::error::Kind;
use crate::options::Workers;

const OBJECTS: usize = 8_000;
const AUTO: Client = Client::Shoal(Workers::Auto);

type Service = Box<dyn FnMut(Request) -> Reply>;

/// A service that works on 32 requests at a time, 30 ms on each, and refuses some.
fn service(mut refuses: impl FnMut(&Request) -> bool + 'static) -> Service {
    Box::new(move |it| match refuses(&it) {
        true => Reply::Asks(0.01, Kind::Throttled, 1.0),
        false => Reply::Answers(0.03 * (1.0 + it.others as f64 / 32.0).floor()),
    })
}

fn at_random(share: f64, seed: u64) -> Service {
    let mut random = fastrand::Rng::with_seed(seed);
    service(move |_| random.f64() < share)
}

/// At most so many requests a second; `most`: saved up while fewer come.
fn a_second(rate: f64, most: f64) -> Service {
    let mut bucket = (most, 0.0);
    service(move |it| {
        bucket = ((bucket.0 + (it.now - bucket.1) * rate).min(most), it.now);
        let is_there = bucket.0 >= 1.0;
        bucket.0 -= f64::from(u8::from(is_there));
        !is_there
    })
}

fn at_once(most: usize) -> Service {
    service(move |it| it.others >= most)
}

/// The time of the fastest pool with one of these numbers of threads.
fn best(numbers: &[usize], objects: usize, service: impl Fn() -> Service) -> f64 {
    numbers.iter().map(|&threads| run(Client::Pool(threads), objects, service()).took).fold(f64::MAX, f64::min)
}

/// Fetches everything, within this many times the time of the best pool.
fn assert_near_best(client: Client, times: f64, what: &str, service: impl Fn() -> Service) -> Run {
    let best = best(&[1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256], OBJECTS, &service);
    let run = run(client, OBJECTS, service());
    assert!(run.took <= best * times, "{what}: {:.1} s, {best:.1} s with the best pool", run.took);
    assert_eq!(run.failed, 0, "{what}");
    run
}

#[test]
fn refusals_at_random_cost_their_own_objects() {
    for share in [0.0, 0.001, 0.01, 0.02, 0.05, 0.2] {
        // Whether they are the number's fault is told by chance in the end: the mean of some runs.
        let runs = (1..=20).map(|seed| {
            let best = best(&[32, 64, 128, 256], OBJECTS, || at_random(share, seed));
            let run = run(AUTO, OBJECTS, at_random(share, seed));
            assert!(run.failed == 0 && run.took <= best * 2.0, "{share} refused, seed {seed}: {} s", run.took);
            (best, run.took)
        });
        let (best, took) = runs.fold((0.0, 0.0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
        assert!(took <= best * 1.2, "{share} refused: {:.2} times the best", took / best);
    }
}

#[test]
fn a_service_with_a_limit_is_used_up_to_it_with_few_refusals() {
    for workers in [Workers::Auto, Workers::Fixed(32)] {
        for (rate, most) in [(100.0, 100.0), (200.0, 200.0), (300.0, 100.0), (300.0, 20.0), (1_000.0, 200.0)] {
            let what = format!("{rate} a second, {most} saved up, {workers:?}");
            let run = assert_near_best(Client::Shoal(workers), 1.2, &what, || a_second(rate, most));
            assert!(run.refused(10.0) <= 0.02, "{what}: {:.3} refused", run.refused(10.0));
        }
        for most in [2, 8] {
            let what = format!("{most} at once, {workers:?}");
            let run = assert_near_best(Client::Shoal(workers), 1.2, &what, || at_once(most));
            assert!(run.refused(10.0) <= 0.02, "{what}: {:.3} refused", run.refused(10.0));
        }
    }
}

/// Fetches 3,000 URLs of one host. Returns the time, and the share of refusals after ten seconds.
fn list(mut service: Service) -> (f64, f64) {
    let later = Rc::new(RefCell::new((0, 0)));
    let counted = later.clone();
    let counting = host(3_000, true, move |it| {
        let is_late = usize::from(it.now >= 10.0);
        let reply = service(it);
        let mut counted = counted.borrow_mut();
        *counted = (counted.0 + is_late, counted.1 + is_late * usize::from(matches!(reply, Reply::Asks(..))));
        reply
    });
    let world = World::new(vec![counting], &DEFAULT).run();
    assert_eq!(world.count(|_| true, Outcome::Written), 3_000);
    let (all, refused) = *later.borrow();
    (world.end_of(|_| true), f64::from(refused as u32) / f64::from(all as u32))
}

#[test]
fn of_many_hosts_one_that_refuses_at_random_is_asked_on() {
    for share in [0.001, 0.01, 0.02, 0.05, 0.2] {
        for seed in 1..=3 {
            let (took, _) = list(at_random(share, seed));
            let best = best(&[6], 3_000, || at_random(share, seed));
            assert!(took <= best * 1.2, "{share} refused, seed {seed}: {took} s, {best} s with six threads");
        }
    }
}

#[test]
fn of_many_hosts_one_with_a_limit_gets_about_as_many_requests_as_it_takes() {
    for (name, service, times) in [
        ("100 a second", (|| a_second(100.0, 100.0)) as fn() -> Service, 1.2),
        ("150 a second", || a_second(150.0, 100.0), 1.2),
        ("50 a second", || a_second(50.0, 10.0), 1.2),
        ("two at once", || at_once(2), 2.0),
        ("four at once", || at_once(4), 2.0),
    ] {
        let (took, refused) = list(service());
        let best = best(&[1, 2, 3, 4, 6], 3_000, service);
        assert!(took <= best * times, "{name}: {took} s, {best} s with the best pool");
        assert!(refused <= 0.03, "{name}: {refused} refused");
    }
}

#[test]
fn an_object_that_is_broken_for_good_ends_soon_after_the_others() {
    let broken = |object| {
        move |it: Request| match it.object == object {
            true => Reply::Fails(0.02, Kind::ServerError),
            false => Reply::Answers(0.02),
        }
    };
    for object in [0, 250, 499] {
        for _ in 0..10 {
            let alone = run(AUTO, 500, broken(object));
            let of_many = World::new(vec![host(500, true, broken(object))], &DEFAULT).run();
            assert_eq!((alone.failed, of_many.count(|_| true, Outcome::Failed)), (1, 1));
            assert_eq!(of_many.objects.iter().map(|object| object.tries).max(), Some(11), "as many attempts");
            let last = of_many.objects.iter().filter_map(|object| object.outcome);
            let last = last.filter(|it| it.0 == Outcome::Written).map(|it| it.1.as_secs_f64()).fold(0.0, f64::max);
            for late in [alone.took - alone.written_at, of_many.end_of(|_| true) - last] {
                assert!(late <= 15.0, "object {object} ended {late} s after the others");
            }
        }
    }
}
