//! F16 and F18: where windows start, and clocks that step back.

use tidegate::units::{Span, Timestamp};

use crate::support::service::{Kind, Setup};
use crate::{on_both_stores, start};

on_both_stores!(f16_where_windows_start, f18_a_fixed_window_survives_a_clock_that_steps_back,);

async fn f16_where_windows_start(kind: Kind) {
    let units = ["second", "minute", "hour", "day", "week", "month", "year"];
    let rule =
        |unit| format!("  - {{key: {unit}, rate_limit: {{unit: {unit}, requests_per_unit: 9}}}}");
    let service = start!(Setup::rules(&units.map(rule).join("\n")), kind);
    let moments = [
        (1_796_004_769, [1, 11, 2831, 78431, 251_231, 251_231, 1_547_231]),
        (1_709_251_199, [1, 1, 1, 1, 518_401, 1_468_801, 25_228_801]),
        (1_709_251_200, [1, 60, 3600, 86400, 518_400, 1_468_800, 25_228_800]),
        (1_796_256_000, [1, 60, 3600, 86400, 604_800, 2_592_000, 1_296_000]),
    ];
    for (moment, resets) in moments {
        service.clock.set(Timestamp::from_secs(moment));
        for (unit, reset) in units.iter().zip(resets) {
            let status = service.status(&format!("[{unit}=at{moment}]")).await;
            let seconds = status.duration_until_reset.expect("a reset").seconds;
            assert_eq!(seconds, reset, "{unit} at {moment}");
        }
    }
    let week = service.status("[week=x]").await.current_limit.expect("a limit");
    assert_eq!(week.unit, 7, "WEEK");
}

async fn f18_a_fixed_window_survives_a_clock_that_steps_back(kind: Kind) {
    let rules = "  - {key: k, rate_limit: {unit: minute, requests_per_unit: 5}}";
    let service = start!(Setup::rules(rules), kind);
    let hour = Span::from_secs(3600);
    let three = ["[k=a]", "[k=a]", "[k=a]"];
    assert_eq!(service.ask_all(three).await, ["OK r4", "OK r3", "OK r2"]);
    service.clock.set(service.clock.now().minus(hour));
    assert_eq!(service.ask_all(three).await, ["OK r1", "OK r0", "OVER"], "the count goes on");
    let status = service.status("[k=a]").await;
    assert!((1..=60).contains(&status.duration_until_reset.expect("a reset").seconds));
    service.clock.advance(hour);
    assert_eq!(service.ask("[k=a]").await, "OK r4", "the window of that hour has ended");
    // Small steps around the start of a window never open it twice.
    service.clock.set(Timestamp::from_secs(1_796_004_780));
    let mut admitted = 0;
    for step in 0..40 {
        let back = Span::from_millis(5 * step);
        service
            .clock
            .set(Timestamp::from_secs(1_796_004_780).plus(Span::from_millis(100)).minus(back));
        admitted += usize::from(service.ask("[k=b]").await != "OVER");
    }
    assert_eq!(admitted, 5);
}
