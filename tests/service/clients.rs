//! F38: the client is who the descriptor says, not who connects.

use tidegate::proto::rate_limit_service_client::RateLimitServiceClient;
use tonic::Request;

use crate::process::Launch;
use crate::{directory, request};

const RULES: &str = "\
domain: t
descriptors:
  - key: remote_address
    address: {exempt_loopback: true}
    rate_limit: {unit: year, requests_per_unit: 2}
";

#[tokio::test]
async fn f38_neither_the_peer_nor_its_metadata_is_the_client() {
    let (_directory, config) = directory();
    std::fs::write(&config, RULES).expect("a file");
    // We call from 127.0.0.1, as a proxy beside the service does.
    let running = Launch::serve(&config).start();
    let mut client = RateLimitServiceClient::new(running.channel().await);
    let mut codes = Vec::new();
    for forwarded in ["127.0.0.1", "198.51.100.1", "198.51.100.2", "10.0.0.1"] {
        let mut call = Request::new(request("remote_address", "203.0.113.9"));
        for header in ["x-forwarded-for", "x-real-ip", "forwarded"] {
            call.metadata_mut().insert(header, forwarded.parse().expect("a value"));
        }
        let answer = client.should_rate_limit(call).await.expect("an answer").into_inner();
        codes.push(answer.overall_code);
    }
    assert_eq!(codes, [1, 1, 2, 2], "one client, whoever forwards");
    let exempt = client.should_rate_limit(request("remote_address", "127.0.0.1")).await;
    assert_eq!(exempt.expect("an answer").into_inner().statuses[0].limit_remaining, 2);
}
