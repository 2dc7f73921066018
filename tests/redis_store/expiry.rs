//! Every key expires, in time but not too late.

use tidegate::limit::fixed_window::Align;
use tidegate::limit::{Cost, FixedWindow, Limit};
use tidegate::store::Role;
use tidegate::units::{Hits, Span};

use crate::plans::{PlanExt as _, YEAR, fixed_window, plan, take};
use crate::redis::RedisServer;
use crate::{connect, patient, until};

fn first_hit(limit: u64, window: Span) -> Limit {
    let limit = FixedWindow::new(Hits::new(limit), window).unwrap();
    Limit::FixedWindow(limit.with_align(Align::FirstHit))
}

/// F19.1.
#[tokio::test]
async fn f19_every_key_has_an_expiry_of_at_most_the_window() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    let minute = Span::from_secs(60);
    for call in 0..200 {
        let name = (call % 50).to_string();
        let plan = plan()
            .with(&name, fixed_window(3, minute), Cost::Take(Hits::new(1)), Role::Enforced)
            .with(&name, first_hit(3, minute), Cost::Take(Hits::new(1)), Role::Enforced);
        store.decide(&plan).await.unwrap();
    }
    let contents = server.contents();
    // The minute may have turned, but keys have no part that does.
    assert_eq!(contents.len(), 100);
    for (key, _, expiry) in contents {
        assert!((1..=60_000).contains(&expiry), "{key} expires in {expiry} ms");
    }
}

/// F19.2.
#[tokio::test]
async fn f19_a_key_that_lost_its_expiry_has_one_after_the_next_hit() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    let plan = take("a", fixed_window(5, YEAR), 1);
    store.decide(&plan).await.unwrap();
    let key = server.keys().remove(0);
    let persisted: bool = server.run(&["PERSIST", &key]);
    assert!(persisted);
    let verdicts = store.decide(&plan).await.unwrap();
    assert_eq!(verdicts[0].remaining, Hits::new(3), "the count goes on");
    let expiry: i64 = server.run(&["PTTL", &key]);
    assert!(expiry > 0 && expiry <= 31_536_000_000, "{expiry}");
}

/// F19.4.
#[tokio::test]
async fn f19_no_key_is_left_when_its_window_has_passed() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    for name in 0..50 {
        let plan = take(&name.to_string(), first_hit(5, Span::from_millis(300)), 1);
        store.decide(&plan).await.unwrap();
    }
    until("all keys expired", || server.keys().is_empty()).await;
}

#[tokio::test]
async fn checks_and_refunds_create_no_key() {
    let Some(server) = RedisServer::redis() else { return };
    let store = connect(&patient(server.url()));
    let limit = fixed_window(5, YEAR);
    for cost in [Cost::Check, Cost::Refund(Hits::new(2))] {
        let verdicts = store.decide(&plan().with("a", limit, cost, Role::Enforced)).await.unwrap();
        assert_eq!((verdicts[0].allowed, verdicts[0].remaining), (true, Hits::new(5)));
    }
    let limit = limit.refusing_for_free();
    let refused = plan()
        .all_or_nothing()
        .with("a", limit, Cost::Take(Hits::new(5)), Role::Enforced)
        .with("b", limit, Cost::Take(Hits::new(6)), Role::Enforced);
    assert!(!store.decide(&refused).await.unwrap()[1].allowed);
    assert_eq!(server.keys(), Vec::<String>::new());
}
