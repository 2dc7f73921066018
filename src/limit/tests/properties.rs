//! What holds of every sequence of calls.

use proptest::prelude::*;

use super::*;

fn any_limit() -> impl Strategy<Value = Limit> {
    let window = prop_oneof![Just(10_u64), Just(1000), Just(60_000), 10_u64..100_000];
    let window = window.prop_map(Span::from_millis);
    (0_u8..6, 1_u64..20, 1_u64..30, window).prop_map(|(kind, limit, refill, window)| match kind {
        0 => Limit::FixedWindow(fixed(limit, window).with_count_refused(false)),
        1 => log(limit, window, Span::ZERO),
        2 => counter(limit, window),
        3 => bucket(limit, refill, window),
        4 => gcra(limit, refill, window),
        _ => lockout(limit, window, window),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Refused at the last microsecond before the promised moment, admitted at it.
    #[test]
    fn waiting_as_told_is_exactly_enough(
        limit in any_limit(),
        before in prop::collection::vec((0_u64..2_000_000, 1_u64..4), 1..40),
        wanted in 1_u64..8,
    ) {
        let (mut state, mut now) = (limit.fresh(), T0);
        for (pause, cost) in before {
            now = now.plus(Span::from_micros(pause));
            limit.step(&mut state, now, hits(cost));
        }
        // A check, where taking would change the state even if refused.
        let cost = if matches!(limit, Limit::Lockout(_)) { Cost::Check } else { hits(wanted) };
        let verdict = limit.step(&mut state.clone(), now, cost);
        if verdict.allowed || verdict.retry_after == Span::FOREVER {
            return Ok(());
        }
        let promised = now.plus(verdict.retry_after);
        let early = promised.minus(Span::from_micros(1));
        prop_assert!(early < now || !limit.step(&mut state.clone(), early, cost).allowed);
        prop_assert!(limit.step(&mut state.clone(), promised, cost).allowed);
    }

    /// A token bucket and GCRA answer alike as long as time goes forward.
    #[test]
    fn gcra_is_a_token_bucket(
        capacity in 1_u64..50, refill in 1_u64..1000, period in 1_u64..100_000,
        calls in prop::collection::vec((0_u64..3_000_000, 0_u64..8, any::<bool>()), 1..60),
    ) {
        let bucket = bucket(capacity, refill, Span::from_millis(period));
        let gcra = gcra(capacity, refill, Span::from_millis(period));
        let (mut one, mut two, mut now) = (bucket.fresh(), gcra.fresh(), T0);
        for (pause, amount, refund) in calls {
            now = now.plus(Span::from_micros(pause));
            let amount = Hits::new(amount);
            let cost = if refund { Cost::refund(amount) } else { Cost::take(amount) };
            prop_assert_eq!(bucket.step(&mut one, now, cost), gcra.step(&mut two, now, cost));
        }
    }

    /// No stretch of a window's length holds more than the limit.
    #[test]
    fn the_log_is_exact(
        limit in 1_u64..10, window in 10_u64..5_000,
        calls in prop::collection::vec((0_u64..2_000, 1_u64..4), 1..80),
    ) {
        let log = log(limit, Span::from_millis(window), Span::ZERO);
        let (mut state, mut now, mut admitted) = (log.fresh(), 0, Vec::new());
        for (pause, cost) in calls {
            now += pause;
            if log.step(&mut state, at(now), hits(cost)).allowed {
                admitted.extend(std::iter::repeat_n(now, usize::try_from(cost).unwrap()));
            }
        }
        for (index, &start) in admitted.iter().enumerate() {
            let within = admitted[index..].iter().take_while(|&&at| at < start + window).count();
            prop_assert!(within as u64 <= limit);
        }
    }

    /// What is left never grows without time passing, a refund aside, and what
    /// has expired is as good as fresh.
    #[test]
    fn state_is_honest_about_itself(
        limit in any_limit(),
        calls in prop::collection::vec((0_u64..2_000_000, 0_u64..4), 1..40),
    ) {
        let (mut state, mut now) = (limit.fresh(), T0);
        for (pause, cost) in calls {
            now = now.plus(Span::from_micros(pause));
            let before = limit.step(&mut state.clone(), now, Cost::Check).remaining;
            let verdict = limit.step(&mut state, now, hits(cost));
            prop_assert!(verdict.remaining <= before);
            prop_assert!(verdict.remaining <= limit.ceiling());
        }
        let end = state.expires_at().max(now);
        let fresh = limit.step(&mut limit.fresh(), end, hits(1));
        prop_assert_eq!(limit.step(&mut state, end, hits(1)), fresh);
    }
}
