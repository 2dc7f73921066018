//! Each algorithm by itself, at exact moments.

mod properties;

use super::calendar::Calendar;
use super::*;

/// An instant that starts a minute of the clock.
const T0: Timestamp = Timestamp::from_secs(1_796_004_780);

fn at(millis: u64) -> Timestamp {
    T0.plus(Span::from_millis(millis))
}

fn secs(secs: u64) -> Span {
    Span::from_secs(secs)
}

fn hits(hits: u64) -> Cost {
    Cost::take(Hits::new(hits))
}

/// The codes of single hits at these moments (milliseconds): `+` or `-`.
fn play(limit: &Limit, state: &mut State, moments: &[u64]) -> String {
    let code = |&ms: &u64| if limit.step(state, at(ms), hits(1)).allowed { '+' } else { '-' };
    moments.iter().map(code).collect()
}

fn log(limit: u64, window: Span, block: Span) -> Limit {
    Limit::SlidingLog(SlidingLog::new(Hits::new(limit), window, block, 1000).unwrap())
}

fn fixed(limit: u64, window: Span) -> FixedWindow {
    FixedWindow::new(Hits::new(limit), window).unwrap()
}

fn rate(capacity: u64, refill: u64, period: Span) -> Rate {
    Rate::new(Hits::new(capacity), Hits::new(refill), period).unwrap()
}

fn bucket(capacity: u64, refill: u64, period: Span) -> Limit {
    Limit::TokenBucket(TokenBucket::new(rate(capacity, refill, period)))
}

fn gcra(capacity: u64, refill: u64, period: Span) -> Limit {
    Limit::Gcra(Gcra::new(rate(capacity, refill, period)))
}

fn counter(limit: u64, window: Span) -> Limit {
    Limit::SlidingCounter(SlidingCounter::new(Hits::new(limit), window).unwrap())
}

fn lockout(attempts: u64, window: Span, lock: Span) -> Limit {
    Limit::Lockout(Lockout::new(Hits::new(attempts), window, lock).unwrap())
}

#[test]
fn seed_login_five_per_minute_without_block() {
    let limit = log(5, secs(60), Span::ZERO);
    let state = &mut limit.fresh();
    assert_eq!(play(&limit, state, &[0, 15_000, 30_000, 45_000, 55_000]), "+++++");
    let refused = limit.step(state, at(59_999), hits(1));
    assert_eq!((refused.allowed, refused.retry_after), (false, Span::from_millis(1)));
    // An entry whose age equals the window has left it.
    assert_eq!(play(&limit, state, &[60_000]), "+");
}

#[test]
fn seed_login_five_per_minute_with_block() {
    let limit = log(5, secs(60), secs(300));
    let state = &mut limit.fresh();
    assert_eq!(play(&limit, state, &[0, 15_000, 30_000, 45_000, 55_000]), "+++++");
    let refused = limit.step(state, at(58_000), hits(1));
    assert_eq!((refused.allowed, refused.retry_after), (false, secs(300)));
    assert_eq!(play(&limit, state, &[60_000, 200_000, 357_999, 358_000]), "---+");
}

#[test]
fn seed_boundary_burst_passes_fixed_windows_and_not_the_log() {
    let burst: Vec<u64> = [vec![59_500; 100], vec![60_500; 100]].concat();
    let admitted = |limit: Limit| play(&limit, &mut limit.fresh(), &burst).matches('+').count();
    assert_eq!(admitted(Limit::FixedWindow(fixed(100, secs(60)))), 200);
    assert_eq!(admitted(log(100, secs(60), Span::ZERO)), 100);
}

#[test]
fn seed_ten_failures_lock_for_300_seconds() {
    let limit = lockout(10, secs(60), secs(300));
    let state = &mut limit.fresh();
    assert_eq!(play(&limit, state, &[0, 1, 2, 3, 4, 5, 6, 7, 8]), "+++++++++");
    let check = limit.step(state, at(9), Cost::Check);
    assert_eq!((check.allowed, check.remaining.get()), (true, 1));
    let locked = limit.step(state, at(10), hits(1));
    assert_eq!((locked.allowed, locked.retry_after), (false, secs(300)));
    // Failures while locked are ignored, and a success does not open.
    limit.step(state, at(100_000), hits(5));
    limit.step(state, at(100_000), Cost::Refund(Hits::new(1)));
    let check = limit.step(state, at(300_009), Cost::Check);
    assert_eq!((check.allowed, check.retry_after), (false, Span::from_millis(1)));
    let check = limit.step(state, at(300_010), Cost::Check);
    assert_eq!((check.allowed, check.remaining.get()), (true, 10));
}

#[test]
fn seed_100_per_minute_with_burst_10() {
    for limit in [bucket(10, 100, secs(60)), gcra(10, 100, secs(60))] {
        let state = &mut limit.fresh();
        assert_eq!(play(&limit, state, &[0; 11]), "++++++++++-", "{limit}");
        let refused = limit.step(state, at(0), hits(1));
        assert_eq!(refused.retry_after, Span::from_millis(600), "{limit}");
        assert_eq!(play(&limit, state, &[599, 600, 600]), "-+-", "{limit}");
        let spread: Vec<u64> = (0..1000).map(|call| 60_000 + call * 60).collect();
        let admitted = play(&limit, state, &spread).matches('+').count();
        assert_eq!(admitted, 10 + 99, "{limit}");
    }
}

#[test]
fn f17_log_exact_edges() {
    let limit = log(3, secs(10), Span::ZERO);
    let moments = [0, 1000, 2000, 5000, 9900, 10_100, 10_200, 11_100];
    assert_eq!(play(&limit, &mut limit.fresh(), &moments), "+++--+-+");
    let turn = [59_100, 59_500, 59_900, 60_100, 60_500, 60_900];
    assert_eq!(play(&limit, &mut limit.fresh(), &turn), "+++---");
}

#[test]
fn f17_log_entries_of_one_instant() {
    let limit = log(50, secs(60), Span::ZERO);
    let answers = play(&limit, &mut limit.fresh(), &[0; 100]);
    assert_eq!(answers.matches('+').count(), 50);
    assert_eq!(limit.step(&mut limit.fresh(), at(0), hits(3)).remaining.get(), 47);
}

#[test]
fn f17_log_block_is_neither_lengthened_nor_ended_by_asking() {
    let limit = log(3, secs(10), secs(30));
    let state = &mut limit.fresh();
    assert_eq!(play(&limit, state, &[0, 1000, 2000]), "+++");
    for (moment, left) in [(3, 30), (5, 28), (10, 23), (20, 13), (29, 4)] {
        let refused = limit.step(state, at(moment * 1000), hits(1));
        assert_eq!((refused.allowed, refused.retry_after), (false, secs(left)), "at {moment} s");
    }
    let passed = limit.step(state, at(33_200), hits(1));
    assert_eq!((passed.allowed, passed.remaining.get()), (true, 2));
}

#[test]
fn f18_the_clock_steps_back() {
    let hour = 3_600_000;
    for limit in [bucket(10, 1, secs(1)), gcra(10, 1, secs(1))] {
        let state = &mut limit.fresh();
        let base = 10 * hour;
        let nine = [[base; 3], [base - hour; 3], [base; 3]].concat();
        assert_eq!(play(&limit, state, &nine), "+++++++++", "{limit}");
    }
}

#[test]
fn f18_a_log_neither_locks_for_the_step_nor_refills_when_it_is_undone() {
    let hour = 3_600_000;
    let limit = log(5, secs(60), Span::ZERO);
    let stepped_back = || {
        let mut state = limit.fresh();
        assert_eq!(play(&limit, &mut state, &[hour, hour, hour, 0, 0, 0]), "+++++-");
        let refused = limit.step(&mut state, at(0), hits(1));
        assert_eq!((refused.retry_after, refused.reset_after), (secs(60), secs(60)));
        state
    };
    assert_eq!(play(&limit, &mut stepped_back(), &[59_999, 60_000]), "-+");
    assert_eq!(play(&limit, &mut stepped_back(), &[hour, hour + 59_999, hour + 60_000]), "--+");
    let mut state = stepped_back();
    let check = limit.step(&mut state, at(60_000), Cost::Check);
    assert_eq!((check.allowed, check.remaining.get(), check.reset_after), (true, 5, Span::ZERO));
    assert_eq!(play(&limit, &mut state, &[hour]), "-", "a look drops nothing");
}

#[test]
fn f18_many_small_steps_back_refill_nothing() {
    for limit in [bucket(10, 1, secs(1)), gcra(10, 1, secs(1)), counter(10, secs(60))] {
        let state = &mut limit.fresh();
        let back: Vec<u64> = (0..40).map(|step| 100_000 - 5 * step).collect();
        let admitted = play(&limit, state, &back).matches('+').count();
        // GCRA cannot tell a step back from a fuller burst: it is a little stricter.
        assert!((9..=10).contains(&admitted), "{limit} admitted {admitted}");
        assert_eq!(play(&limit, state, &[99_000, 98_000]), "--", "{limit}");
    }
}

#[test]
fn f20_bucket_keeps_fractions() {
    for limit in [bucket(1, 1, secs(2)), gcra(1, 1, secs(2))] {
        let asks: Vec<u64> = (0..=200).map(|ask| ask * 100).collect();
        let answers = play(&limit, &mut limit.fresh(), &asks);
        assert_eq!(answers.matches('+').count(), 11, "{limit}");
        assert!(answers.starts_with("+-------------------+"), "{limit}: {answers}");
    }
}

#[test]
fn f20_idle_time_never_overfills() {
    for limit in [bucket(10, 10, secs(1)), gcra(10, 10, secs(1))] {
        let state = &mut limit.fresh();
        let at_once = play(&limit, state, &[60_000; 30]);
        assert_eq!(at_once.matches('+').count(), 10, "{limit}");
        let paced: Vec<u64> = (0..15).map(|ask| 60_500 + ask * 200).collect();
        assert_eq!(play(&limit, state, &paced), "+".repeat(15), "{limit}");
        let weights = [4, 4, 4].map(|weight| {
            let verdict = limit.step(state, at(66_000), hits(weight));
            (verdict.allowed, verdict.remaining.get(), verdict.remaining_before.get())
        });
        assert_eq!(weights, [(true, 6, 10), (true, 2, 6), (false, 0, 2)], "{limit}");
    }
}

#[test]
fn f40_lockout_life_cycle() {
    let limit = lockout(5, secs(900), secs(60));
    let open = |state: &mut State, ms| limit.step(state, at(ms), Cost::Check).allowed;
    let state = &mut limit.fresh();
    assert_eq!(play(&limit, state, &[0, 1, 2, 3]), "++++");
    assert!(open(state, 4));
    limit.step(state, at(5), hits(1));
    assert_eq!(limit.step(state, at(5), Cost::Check).retry_after, secs(60));
    for _ in 0..10 {
        limit.step(state, at(10_000), hits(1));
    }
    limit.step(state, at(10_000), Cost::Refund(Hits::new(1)));
    assert!(!open(state, 59_000) && open(state, 61_000));
    assert_eq!(play(&limit, state, &[61_000, 61_001, 61_002, 61_003]), "++++", "a fresh budget");
    assert!(open(state, 61_004));
    limit.step(state, at(61_005), hits(1));
    assert!(!open(state, 61_006));

    let state = &mut limit.fresh();
    play(&limit, state, &[0, 1, 2, 3]);
    limit.step(state, at(4), Cost::Refund(Hits::new(1)));
    play(&limit, state, &[5, 6, 7, 8]);
    assert!(open(state, 9), "the success cleared the first four");
    let state = &mut limit.fresh();
    play(&limit, state, &[0, 1, 2, 3, 900_004]);
    assert!(open(state, 900_005), "old failures do not count");
}

#[test]
fn calendar_windows_turn_at_local_midnight() {
    let day = Calendar::new(Unit::Day, chrono_tz::Europe::Berlin).unwrap();
    let limit = fixed(2, Unit::Day.span()).with_align(fixed_window::Align::Calendar(day));
    let limit = Limit::FixedWindow(limit);
    let state = &mut limit.fresh();
    // 2026-10-25, when clocks go back: the day has 25 hours and ends at 23:00 UTC.
    let noon = Timestamp::from_secs(1_792_929_600);
    let verdict = limit.step(state, noon, hits(2));
    assert_eq!((verdict.allowed, verdict.reset_after), (true, secs(11 * 3600)));
    let midnight = noon.plus(secs(11 * 3600));
    let last = midnight.minus(Span::from_micros(1));
    assert!(!limit.step(state, last, hits(1)).allowed);
    let verdict = limit.step(state, midnight, hits(1));
    assert_eq!((verdict.allowed, verdict.reset_after), (true, secs(24 * 3600)));
    assert_eq!(limit.to_string(), "fcday@Europe/Berlin");
}

#[test]
fn counter_fades_the_previous_window_out() {
    let limit = counter(100, secs(60));
    let state = &mut limit.fresh();
    limit.step(state, at(30_000), hits(80));
    let verdict = limit.step(state, at(60_000), Cost::Check);
    assert_eq!(verdict.remaining.get(), 20);
    limit.step(state, at(90_000), hits(40));
    let verdict = limit.step(state, at(90_000), Cost::Check);
    assert_eq!(verdict.remaining.get(), 20, "80 x 0.5 + 40 are used");
    let refused = limit.step(state, at(90_000), hits(30));
    // 60 are left once 80 x share <= 30: at 3/8 of the window.
    assert_eq!((refused.allowed, refused.retry_after), (false, Span::from_micros(7_500_000)));
}

#[test]
fn what_is_more_than_the_limit_can_never_pass_and_says_so() {
    let limits = [
        Limit::FixedWindow(fixed(5, secs(60))),
        log(5, secs(60), Span::ZERO),
        counter(5, secs(60)),
        bucket(5, 1, secs(1)),
        gcra(5, 1, secs(1)),
    ];
    for limit in limits {
        let verdict = limit.step(&mut limit.fresh(), at(0), hits(6));
        assert_eq!((verdict.allowed, verdict.retry_after), (false, Span::FOREVER), "{limit}");
    }
}

#[test]
fn parameters_that_cannot_be_exact_are_refused() {
    let year = secs(31_536_000);
    let fine = Rate::new(Hits::new(4_294_967_295), Hits::new(4_294_967_295), year);
    assert!(matches!(fine, Err(ParameterError::TooFine { .. })));
    // In Redis the moment at which it is full would not be a number any more,
    // and the state would count as none: everything would pass.
    let slow = Rate::new(Hits::new(300), Hits::new(1), secs(1_000 * 86_400));
    let slow = slow.unwrap_err();
    assert!(matches!(slow, ParameterError::TooSlow { .. }));
    assert!(slow.to_string().contains("more than 50 years"), "{slow}");
    assert!(Rate::new(Hits::new(18), Hits::new(1), secs(1_000 * 86_400)).is_ok());
    let coarse = Rate::new(Hits::new(10_007), Hits::new(10_007), year).unwrap();
    assert_eq!(coarse.tick(), Span::from_millis(1));
    assert_eq!(
        SlidingLog::new(Hits::new(1001), year, Span::ZERO, 1000),
        Err(ParameterError::LogTooLarge { limit: Hits::new(1001), max_window_size: 1000 })
    );
    assert!(Rate::new(Hits::new(1), Hits::ZERO, year).is_err());
    assert!(Lockout::new(Hits::ZERO, year, year).is_err());
}
