//! What there is in a tree of rules, for people.

use super::{Level, Map, Node, Policies};
use crate::policy::rule::Rule;

impl Policies {
    /// How many rules there are.
    pub fn rule_count(&self) -> usize {
        self.domains.values().map(|domain| domain.root.rule_count()).sum()
    }

    /// All rules, in no particular order.
    pub fn rules(&self) -> Vec<&Rule> {
        let mut rules = Vec::new();
        self.domains.values().for_each(|domain| domain.root.collect_rules(&mut rules));
        rules
    }

    /// A domain and the entries of a descriptor that meets one of its rules:
    /// the first by name, so that it is the same after each start.
    pub fn example(&self) -> Option<(&str, Vec<(&str, String)>)> {
        sorted(&self.domains).into_iter().find_map(|(name, domain)| {
            let mut entries = Vec::new();
            domain.root.find_rule(&mut entries).then_some((name, entries))
        })
    }
}

impl Level {
    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.keys.values().flat_map(|rules| {
            let wild = rules.wild.iter().map(|(_, node)| node);
            rules.exact.values().chain(wild).chain(&rules.any)
        })
    }

    fn collect_rules<'a>(&'a self, rules: &mut Vec<&'a Rule>) {
        for node in self.nodes() {
            rules.extend(node.rule.as_deref());
            node.children.collect_rules(rules);
        }
    }

    fn rule_count(&self) -> usize {
        let own = self.nodes().filter(|node| node.rule.is_some()).count();
        own + self.nodes().map(|node| node.children.rule_count()).sum::<usize>()
    }

    /// Walks to the first rule and notes the entries on the way.
    fn find_rule<'a>(&'a self, entries: &mut Vec<(&'a str, String)>) -> bool {
        sorted(&self.keys).into_iter().any(|(key, rules)| {
            let exact = sorted(&rules.exact);
            let exact = exact.into_iter().map(|(value, node)| (value.to_owned(), node));
            let wild = rules.wild.iter();
            let wild = wild.map(|(pattern, node)| (pattern.text().replace('*', "1"), node));
            let any = rules.any.iter().map(|node| ("1".to_owned(), node));
            exact.chain(wild).chain(any).any(|(value, node)| {
                entries.push((key, value));
                let found = node.rule.is_some() || node.children.find_rule(entries);
                if !found {
                    entries.pop();
                }
                found
            })
        })
    }
}

fn sorted<V>(map: &Map<V>) -> Vec<(&str, &V)> {
    let mut entries: Vec<_> = map.iter().map(|(name, value)| (&**name, value)).collect();
    entries.sort_unstable_by_key(|(name, _)| *name);
    entries
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::policy::{Domain, Grant, RuleSpec};
    use crate::store::ChargeMode;
    use crate::telemetry::metrics::Metrics;

    fn rule() -> Arc<Rule> {
        let spec = RuleSpec {
            path: "".into(),
            grant: Grant::Unlimited,
            lease: None,
            name: "".into(),
            replaces: Box::default(),
            shadow_mode: false,
            quota_mode: false,
            failure_mode: None,
            detailed_metric: false,
            value_to_metric: Box::default(),
            metadata: None,
        };
        let stats = Metrics::new().rule("", &[""]);
        Arc::new(Rule { spec, stat_key: "".into(), stats, naming: None })
    }

    /// Domain `a` without rules; domain `b` with rules at `k > x=v*` and `z`.
    fn policies() -> Policies {
        let leaf = || Node { rule: Some(rule()), ..Node::default() };
        let mut inner = Level::default();
        inner.insert("x", Some("v*"), leaf()).unwrap();
        let mut root = Level::default();
        root.insert("empty", Some("e"), Node::default()).unwrap();
        root.insert("k", None, Node { children: inner, ..Node::default() }).unwrap();
        root.insert("z", None, leaf()).unwrap();
        let domain = |name: &str, root| Domain {
            name: name.into(),
            charge: ChargeMode::Independent,
            failure_mode: None,
            hash_tag: None,
            root,
            override_stats: Metrics::new().rule(name, &[""]),
        };
        let mut policies = Policies::default();
        policies.domains.insert("a".into(), domain("a", Level::default()));
        policies.domains.insert("b".into(), domain("b", root));
        policies
    }

    #[test]
    fn rules_are_counted_on_all_levels() {
        assert_eq!(policies().rule_count(), 2);
    }

    #[test]
    fn the_example_meets_a_rule() {
        let policies = policies();
        let (domain, entries) = policies.example().unwrap();
        assert_eq!(domain, "b");
        assert_eq!(entries, [("k", "1".to_owned()), ("x", "v1".to_owned())]);
        assert_eq!(Policies::default().example(), None);
    }
}
