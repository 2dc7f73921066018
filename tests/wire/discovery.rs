//! The messages of control planes.

use envoy_types::pb::envoy::service::discovery::v3 as their_discovery;
use envoy_types::pb::google::rpc as their_rpc;
use prost_types::Any;
use tidegate::proto::envoy::config::core::v3::node::UserAgentVersionType;
use tidegate::proto::envoy::config::core::v3::{ControlPlane, Node};
use tidegate::proto::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use tidegate::proto::google::rpc::Status;
use tidegate::proto::ratelimit::config::ratelimit::v3::RateLimitUnit;

use super::*;

fn their_any(Any { type_url, value }: Any) -> their_google::Any {
    their_google::Any { type_url, value }
}

fn their_node(node: Node) -> their_core::Node {
    use their_core::node::UserAgentVersionType as Their;
    let version =
        |UserAgentVersionType::UserAgentVersion(version)| Their::UserAgentVersion(version);
    their_core::Node {
        id: node.id,
        cluster: node.cluster,
        metadata: node.metadata.map(their_struct),
        user_agent_name: node.user_agent_name,
        user_agent_version_type: node.user_agent_version_type.map(version),
        ..their_core::Node::default()
    }
}

fn their_discovery_request(request: DiscoveryRequest) -> their_discovery::DiscoveryRequest {
    let status = |Status { code, message, details }| their_rpc::Status {
        code,
        message,
        details: details.into_iter().map(their_any).collect(),
    };
    their_discovery::DiscoveryRequest {
        version_info: request.version_info,
        node: request.node.map(their_node),
        resource_names: request.resource_names,
        type_url: request.type_url,
        response_nonce: request.response_nonce,
        error_detail: request.error_detail.map(status),
        ..their_discovery::DiscoveryRequest::default()
    }
}

fn their_discovery_response(response: DiscoveryResponse) -> their_discovery::DiscoveryResponse {
    let plane = |ControlPlane { identifier }| their_core::ControlPlane { identifier };
    their_discovery::DiscoveryResponse {
        version_info: response.version_info,
        resources: response.resources.into_iter().map(their_any).collect(),
        type_url: response.type_url,
        nonce: response.nonce,
        control_plane: response.control_plane.map(plane),
        ..their_discovery::DiscoveryResponse::default()
    }
}

fn anys() -> impl Strategy<Value = Any> {
    any::<(String, Vec<u8>)>().prop_map(|(type_url, value)| Any { type_url, value })
}

fn nodes() -> impl Strategy<Value = Node> {
    let texts = any::<(String, String, String, Option<String>)>();
    (texts, of(structs(1))).prop_map(|((id, cluster, user_agent_name, version), metadata)| Node {
        id,
        cluster,
        metadata,
        user_agent_name,
        user_agent_version_type: version.map(UserAgentVersionType::UserAgentVersion),
    })
}

fn discovery_requests() -> impl Strategy<Value = DiscoveryRequest> {
    let status = (any::<i32>(), any::<String>(), vec(anys(), 0..3))
        .prop_map(|(code, message, details)| Status { code, message, details });
    let texts = any::<(String, String, String, Vec<String>)>();
    (texts, of(nodes()), of(status)).prop_map(
        |((version_info, type_url, response_nonce, resource_names), node, error_detail)| {
            DiscoveryRequest {
                version_info,
                node,
                resource_names,
                type_url,
                response_nonce,
                error_detail,
            }
        },
    )
}

fn discovery_responses() -> impl Strategy<Value = DiscoveryResponse> {
    let texts = any::<(String, String, String, Option<String>)>();
    (texts, vec(anys(), 0..4)).prop_map(|((version_info, type_url, nonce, plane), resources)| {
        let control_plane = plane.map(|identifier| ControlPlane { identifier });
        DiscoveryResponse { version_info, resources, type_url, nonce, control_plane }
    })
}

proptest! {
    #[test]
    fn discovery_requests_are_the_same(request in discovery_requests()) {
        same(&request, &their_discovery_request(request.clone()))?;
    }

    #[test]
    fn discovery_responses_are_the_same(response in discovery_responses()) {
        same(&response, &their_discovery_response(response.clone()))?;
    }
}

/// The rules have no definition in that crate; their unit is that of answers.
#[test]
fn units_of_rules_are_those_of_answers() {
    for number in -1..100 {
        let ours = RateLimitUnit::try_from(number).ok().map(|unit| unit.as_str_name());
        let of_answers = rate_limit::Unit::try_from(number).ok().map(|unit| unit.as_str_name());
        assert_eq!(ours, of_answers, "{number}");
    }
}
