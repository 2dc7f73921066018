//! Sequences of requests: a few counters, charged again and again under limits
//! that change, by a clock that goes forward, stands and steps back.

use chrono_tz::Europe;
use proptest::prelude::*;
use tidegate::limit::calendar::Calendar;
use tidegate::limit::fixed_window::Align;
use tidegate::limit::{
    Cost, FixedWindow, Gcra, Limit, Lockout, Rate, SlidingCounter, SlidingLog, TokenBucket, Unit,
};
use tidegate::store::{Plan, Role};
use tidegate::units::{Hits, Span, Timestamp};

use crate::plans::{PlanExt as _, plan};

const SECOND: i64 = 1_000_000;
const YEAR: u64 = 31_536_000_000_000;
/// In microseconds: the shortest one, a few with edges that are often met, and the
/// longest.
const WINDOWS: [u64; 6] = [10_000, 1_000_000, 7_000_000, 60_000_000, YEAR, 10 * YEAR];

/// The year 2201: the longest refill (50 years) from then on is still exact.
const LATEST: u64 = 7_300_000_000_000_000;

/// Requests, the limits that they charge, and when the first one comes.
#[derive(Clone, Debug)]
pub struct Sequence {
    start: u64,
    /// A rule before and after a change of its amounts.
    rules: Vec<[Limit; 2]>,
    /// The requests, in order.
    pub requests: Vec<RequestSpec>,
}

#[derive(Clone, Debug)]
pub struct RequestSpec {
    all_or_nothing: bool,
    quota_passes: bool,
    /// Sent before the answer to the request before it came.
    pub joins: bool,
    jump: Jump,
    charges: Vec<ChargeSpec>,
}

#[derive(Clone, Debug)]
struct ChargeSpec {
    name: u8,
    rule: prop::sample::Index,
    changed: bool,
    cost: CostSpec,
    role: Role,
    joined: bool,
}

/// What a charge costs, which may depend on its limit.
#[derive(Clone, Copy, Debug)]
enum CostSpec {
    Plain(Cost),
    /// All that fits, and so many more or fewer.
    Full(i64),
    RefundFull,
}

/// How the clock moves before a request.
#[derive(Clone, Copy, Debug)]
enum Jump {
    By(i64),
    /// To the next multiple of so many microseconds, and a little beside it.
    ToEdge(u64, i64),
}

impl Sequence {
    /// The requests as plans, with names of counters that no other case uses.
    pub fn plans(&self, case: u64) -> Vec<Plan> {
        let mut now = self.start;
        let plan_of = |spec: &RequestSpec| {
            now = match spec.jump {
                Jump::By(micros) => now.saturating_add_signed(micros),
                Jump::ToEdge(window, by) => now.next_multiple_of(window).saturating_add_signed(by),
            };
            // No clock shows the very epoch, which stands for none in the script.
            now = now.clamp(1, LATEST);
            self.plan(case, spec, Timestamp::from_micros(now))
        };
        self.requests.iter().map(plan_of).collect()
    }

    fn plan(&self, case: u64, spec: &RequestSpec, now: Timestamp) -> Plan {
        let mut plan = plan().at(now);
        plan.quota_passes = spec.quota_passes;
        if spec.all_or_nothing {
            plan = plan.all_or_nothing();
        }
        for charge in &spec.charges {
            let limit = charge.rule.get(&self.rules)[usize::from(charge.changed)];
            let name = format!("{case}-{}", charge.name);
            plan = plan.with(&name, limit, charge.cost.of(&limit), charge.role);
        }
        for (charge, spec) in plan.charges.iter_mut().zip(&spec.charges).skip(1) {
            charge.joined = spec.joined;
        }
        plan
    }
}

impl CostSpec {
    fn of(self, limit: &Limit) -> Cost {
        let most = limit.ceiling().get();
        match self {
            Self::Plain(cost) => cost,
            // An amount that a log has to write out is kept small.
            Self::Full(more) if most <= 100_000 => {
                Cost::take(Hits::new(most.saturating_add_signed(more)))
            }
            Self::Full(_) => Cost::take(Hits::new(most / 2)),
            Self::RefundFull => Cost::refund(Hits::new(most)),
        }
    }
}

fn costs() -> impl Strategy<Value = CostSpec> {
    let much = [u64::from(u32::MAX), u64::MAX];
    let take = prop_oneof![6 => 0..4_u64, 1 => 4..12_u64, 1 => prop::sample::select(much.to_vec())];
    let refund = prop_oneof![4 => 0..4_u64, 1 => prop::sample::select(much.to_vec())];
    prop_oneof![
        20 => take.prop_map(|hits| CostSpec::Plain(Cost::take(Hits::new(hits)))),
        4 => refund.prop_map(|hits| CostSpec::Plain(Cost::Refund(Hits::new(hits)))),
        2 => Just(CostSpec::Plain(Cost::Reset)),
        5 => (-2..2_i64).prop_map(CostSpec::Full),
        1 => Just(CostSpec::RefundFull),
    ]
}

/// Mostly a minute, so that jumps of the clock meet it.
fn windows() -> impl Strategy<Value = Span> {
    let window = prop_oneof![6 => Just(WINDOWS[3]), 4 => prop::sample::select(&WINDOWS[..])];
    window.prop_map(Span::from_micros)
}

/// Amounts, some so large that a tick must be longer than a microsecond.
fn amounts(large: &'static [u64]) -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..8_u64, 1 => 8..130_u64, 1 => prop::sample::select(large)]
}

/// One rule and what may become of it without a change of its key: limits of the
/// algorithm with this number on the wire.
fn rules_of(algorithm: u8) -> BoxedStrategy<[Limit; 2]> {
    match algorithm {
        1 => fixed_windows().boxed(),
        2 => {
            let blocks = || prop::sample::select(&[0, 3, 30, 300][..]).prop_map(Span::from_secs);
            let amounts = || amounts(&[1000]);
            (windows(), amounts(), amounts(), blocks(), blocks())
                .prop_map(|(window, one, two, block, later)| {
                    [(one, block), (two, later)].map(|(limit, block)| {
                        let log = SlidingLog::new(Hits::new(limit), window, block, 1000).unwrap();
                        Limit::SlidingLog(log)
                    })
                })
                .boxed()
        }
        3 => (windows(), amounts(&[1000, 10_000_000]), amounts(&[200_000]))
            .prop_filter_map("exact", |(window, one, two)| {
                let counter = |limit| SlidingCounter::new(Hits::new(limit), window).ok();
                Some([counter(one)?, counter(two)?].map(Limit::SlidingCounter))
            })
            .boxed(),
        4 => {
            rates().prop_map(|two| two.map(|one| Limit::TokenBucket(TokenBucket::new(one)))).boxed()
        }
        5 => rates().prop_map(|two| two.map(|one| Limit::Gcra(Gcra::new(one)))).boxed(),
        _ => {
            let attempts = || prop_oneof![9 => 1..8_u64, 1 => Just(1000)];
            (windows(), attempts(), attempts(), 1..400_u64, 1..400_u64)
                .prop_map(|(window, one, two, lock, later)| {
                    [(one, lock), (two, later)].map(|(attempts, lock)| {
                        let lock = Span::from_secs(lock);
                        Limit::Lockout(Lockout::new(Hits::new(attempts), window, lock).unwrap())
                    })
                })
                .boxed()
        }
    }
}

fn fixed_windows() -> impl Strategy<Value = [Limit; 2]> {
    let hits = || amounts(&[4_294_967_295, u64::MAX]);
    (windows(), [hits(), hits()], any::<[bool; 2]>(), any::<bool>(), 0..3_u8).prop_map(
        |(window, limits, count_refused, first_hit, zone)| {
            let align = match zone {
                0 => Align::Calendar(Calendar::new(Unit::Day, Europe::Berlin).unwrap()),
                _ if first_hit => Align::FirstHit,
                _ => Align::Epoch,
            };
            [0, 1].map(|nth| {
                let limit = FixedWindow::new(Hits::new(limits[nth]), window).unwrap();
                let limit = limit.with_align(align).with_count_refused(count_refused[nth]);
                Limit::FixedWindow(limit)
            })
        },
    )
}

/// Two capacities of one rate. Primes do not reduce, so that with long windows a
/// tick is a millisecond or a second.
fn rates() -> impl Strategy<Value = [Rate; 2]> {
    let refills = prop_oneof![8 => 1..50_u64, 1 => Just(10_007), 1 => Just(10_000_019)];
    (windows(), refills, amounts(&[1000, 10_000_000]), amounts(&[20_000])).prop_filter_map(
        "exact",
        |(window, refill, one, two)| {
            let rate = |capacity| Rate::new(Hits::new(capacity), Hits::new(refill), window).ok();
            Some([rate(one)?, rate(two)?])
        },
    )
}

fn charges() -> impl Strategy<Value = ChargeSpec> {
    let roles =
        prop_oneof![3 => Just(Role::Enforced), 1 => Just(Role::Shadow), 2 => Just(Role::Quota)];
    let changed = prop::bool::weighted(0.2);
    let rule = any::<prop::sample::Index>();
    (0..2_u8, rule, changed, costs(), roles, prop::bool::weighted(0.3)).prop_map(
        |(name, rule, changed, cost, role, joined)| ChargeSpec {
            name,
            rule,
            changed,
            cost,
            role,
            joined,
        },
    )
}

fn jumps() -> impl Strategy<Value = Jump> {
    let far = [1, 4, 32].map(|jump| jump * 10_000_000 * SECOND);
    let far = [far, far.map(|jump| -jump)].concat();
    prop_oneof![
        6 => Just(Jump::By(0)),
        3 => (0..3 * SECOND).prop_map(Jump::By),
        2 => (0..200 * SECOND).prop_map(Jump::By),
        1 => (-3 * SECOND..0).prop_map(Jump::By),
        1 => (-200 * SECOND..0).prop_map(Jump::By),
        1 => prop::sample::select(far).prop_map(Jump::By),
        3 => (prop::sample::select(&WINDOWS[..]), -1..2_i64)
            .prop_map(|(window, by)| Jump::ToEdge(window, by)),
    ]
}

fn requests() -> impl Strategy<Value = RequestSpec> {
    let charges = prop::collection::vec(charges(), 1..5);
    (any::<bool>(), prop::bool::weighted(0.2), any::<bool>(), jumps(), charges).prop_map(
        |(all_or_nothing, quota_passes, joins, jump, charges)| RequestSpec {
            all_or_nothing,
            quota_passes,
            joins,
            jump,
            charges,
        },
    )
}

/// Of one to three rules, so that each is met often and all of them mix.
pub fn any_sequence() -> impl Strategy<Value = Sequence> {
    let rules = prop::collection::vec((1..7_u8).prop_flat_map(rules_of), 1..4);
    let requests = prop::collection::vec(requests(), 1..16);
    let start = prop_oneof![
        8 => Just(1_764_463_953_123_456_u64),
        1 => 1..200_000_000_u64,
        1 => Just(LATEST - 60 * YEAR / 365 - 1),
    ];
    (start, rules, requests).prop_map(|(start, rules, requests)| Sequence {
        start,
        rules,
        requests,
    })
}
