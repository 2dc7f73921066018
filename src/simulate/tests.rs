use super::*;
use crate::limit::LONGEST;

const SETTINGS: Settings = Settings {
    limit: 50,
    window: Span::from_secs(60),
    burst: 50,
    rate: 1.25,
    duration: Span::from_secs(1_200),
    seed: 7,
};

/// The scores alone.
async fn scores(settings: Settings) -> Vec<Contest> {
    let contenders = contenders(&settings).unwrap();
    contests(&contenders, &settings).await.unwrap_or_else(|error| panic!("{error}"))
}

/// The score of an algorithm under a kind of traffic.
fn score(contests: &[Contest], traffic: Traffic, algorithm: &str) -> Score {
    let contest = contests.iter().find(|contest| contest.traffic == traffic).unwrap();
    contest.scores.iter().find(|(name, _)| *name == algorithm).unwrap().1
}

#[tokio::test]
async fn every_algorithm_is_exact_by_its_own_definition() {
    let odd = Settings { limit: 7, burst: 3, window: Span::from_millis(7_919), ..SETTINGS };
    for settings in [SETTINGS, odd, Settings { seed: 8, rate: 40.0, ..odd }] {
        for contest in scores(settings).await {
            for (name, score) in &contest.scores {
                assert_eq!(score.off_definition, 0, "{name}, {}: {score:?}", contest.traffic);
                assert!(score.asked > 0 && score.admitted > 0, "{name}, {}", contest.traffic);
            }
        }
    }
}

#[tokio::test]
async fn the_log_makes_no_wrong_decision_and_a_lockout_lets_nothing_pass_wrongly() {
    let contests = scores(SETTINGS).await;
    for traffic in Traffic::ALL {
        let log = score(&contests, traffic, "sliding_window_log");
        assert_eq!((log.wrongly_admitted, log.wrongly_refused), (0, 0), "{traffic}");
        assert_eq!(log.worst_window, 50, "{traffic}");
        let lockout = score(&contests, traffic, "lockout");
        assert_eq!((lockout.wrongly_admitted, lockout.worst_window), (0, 50), "{traffic}");
    }
}

#[tokio::test]
async fn fixed_windows_admit_twice_the_limit_around_a_boundary() {
    let contests = scores(SETTINGS).await;
    let fixed = score(&contests, Traffic::Boundary, "fixed_window");
    assert_eq!(fixed.worst_window, 100);
    assert_eq!((fixed.asked, fixed.admitted, fixed.wrongly_admitted), (1_000, 1_000, 500));
    for traffic in Traffic::ALL {
        assert!(score(&contests, traffic, "fixed_window").worst_window <= 100, "{traffic}");
    }
}

#[tokio::test]
async fn the_counter_is_near() {
    let contests = scores(SETTINGS).await;
    for traffic in [Traffic::Boundary, Traffic::Poisson] {
        let worst = score(&contests, traffic, "sliding_window_counter").worst(50);
        assert!((0.9..=1.15).contains(&worst), "{traffic}: {worst}");
    }
}

#[tokio::test]
async fn gcra_is_a_token_bucket_and_neither_exceeds_burst_and_rate() {
    let contests = scores(SETTINGS).await;
    for traffic in Traffic::ALL {
        let bucket = score(&contests, traffic, "token_bucket");
        assert_eq!(bucket, score(&contests, traffic, "gcra"), "{traffic}");
        assert!(bucket.worst_window <= 100, "{traffic}: {bucket:?}");
    }
}

#[tokio::test]
async fn a_seed_says_everything() {
    let of = async |seed| scores(Settings { seed, ..SETTINGS }).await;
    assert_eq!(of(1).await, of(1).await);
    assert_ne!(of(1).await, of(2).await);
}

#[test]
fn traffic_is_in_order_within_its_time_and_as_dense_as_asked() {
    let settings = Settings { duration: Span::from_secs(360_000), ..SETTINGS };
    for traffic in Traffic::ALL {
        let hits = traffic.hits(&settings).unwrap();
        assert!(hits.is_sorted(), "{traffic}");
        let (first, last) = (hits[0], hits[hits.len() - 1]);
        assert!(last.since(first) <= settings.duration, "{traffic}");
        // 360,000 s at 1.25/s; bursts vary more than single hits.
        let expected = if traffic == Traffic::Boundary { 300_000 } else { 450_000 };
        assert!(hits.len().abs_diff(expected) <= expected / 20, "{traffic}: {}", hits.len());
    }
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let cases = [
        (Settings { window: Span::ZERO, ..SETTINGS }, "longer than nothing"),
        (Settings { window: LONGEST.max(Span::from_secs(400_000_000)), ..SETTINGS }, "ten years"),
        (Settings { rate: 1e6, ..SETTINGS }, "shorter --duration"),
        (Settings { rate: f64::NAN, ..SETTINGS }, "smaller --rate"),
        (Settings { window: Span::from_millis(10), duration: LONGEST, ..SETTINGS }, "hits"),
    ];
    for (settings, told) in cases {
        let error = run(settings, None).await.unwrap_err().to_string();
        assert!(error.contains(told), "{settings:?}: {error}");
    }
}

#[tokio::test]
async fn the_shortest_and_the_longest_window_can_be_simulated() {
    let short =
        Settings { limit: 1, burst: 1, window: Span::from_millis(10), rate: 150.0, ..SETTINGS };
    let short = Settings { duration: Span::from_secs(1), ..short };
    let longest = Settings { window: LONGEST, duration: LONGEST, rate: 1e-6, ..SETTINGS };
    for settings in [short, longest] {
        let contests = scores(settings).await;
        let log = score(&contests, Traffic::Poisson, "sliding_window_log");
        assert_eq!((log.off_definition, log.wrongly_admitted), (0, 0), "{settings:?}");
    }
}

#[tokio::test]
async fn the_report_is_a_table_and_a_picture() {
    let mut report = run(SETTINGS, None).await.unwrap();
    for footprint in &report.footprints {
        let keeps_hits = ["sliding_window_log", "lockout"].contains(&footprint.name);
        let expected = if keeps_hits { 50 * 16..3_000 } else { 60..200 };
        assert!(expected.contains(&footprint.memory), "{footprint:?}");
        assert_eq!(footprint.redis, None);
    }
    let text = report.to_string();
    assert_eq!(text.matches("token_bucket").count(), 4, "{text}");
    assert!(text.contains("2.00"), "{text}");
    report.footprints.iter_mut().for_each(|footprint| footprint.redis = Some(136));
    assert!(report.to_string().contains("136"));
    let source = report.svg();
    let picture = roxmltree::Document::parse(&source).expect("well-formed");
    let texts: Vec<_> = picture.descendants().filter_map(|node| node.text()).collect();
    for expected in ["gcra", "boundary", "in Redis", "136", "2.00"] {
        assert!(texts.contains(&expected), "{expected} is not in {texts:?}");
    }
}
