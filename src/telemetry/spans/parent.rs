//! The span that a call is part of, as its headers tell: in the notation of the
//! W3C, or in either of Zipkin's (B3), which Envoy's Zipkin tracer writes.

use axum::http::{HeaderMap, HeaderName};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use opentelemetry_sdk::propagation::TraceContextPropagator;

/// The context that `headers` describe; an empty one if they describe none.
pub(super) fn of(headers: &HeaderMap) -> Context {
    let context =
        TraceContextPropagator::new().extract_with_context(&Context::new(), &Headers(headers));
    if context.span().span_context().is_valid() {
        return context;
    }
    match zipkin(headers) {
        Some(span) => context.with_remote_span_context(span),
        None => context,
    }
}

struct Headers<'a>(&'a HeaderMap);

impl Headers<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(|value| value.to_str().ok())
    }
}

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.text(key)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

fn zipkin(headers: &HeaderMap) -> Option<SpanContext> {
    let headers = Headers(headers);
    let (trace, span, sampled) = if let Some(single) = headers.text("b3") {
        let mut parts = single.split('-');
        (parts.next()?, parts.next()?, parts.next().is_some_and(|state| state != "0"))
    } else {
        let sampled = headers.text("x-b3-sampled").is_some_and(|said| said != "0")
            || headers.text("x-b3-flags") == Some("1");
        (headers.text("x-b3-traceid")?, headers.text("x-b3-spanid")?, sampled)
    };
    let flags = if sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let context = SpanContext::new(trace, span, flags, true, TraceState::NONE);
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const TRACE: &str = "463ac35c9f6413ad48485a3953bb6124";
    const SPAN: &str = "a2fb4a1d1a96d312";

    fn read(headers: &[(&'static str, String)]) -> Option<String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).unwrap();
            map.insert(HeaderName::from_static(name), value);
        }
        let context = of(&map);
        let span = context.span().span_context().clone();
        span.is_valid()
            .then(|| format!("{}-{}-{}", span.trace_id(), span.span_id(), span.is_sampled()))
    }

    #[test]
    fn parents_are_read_in_all_three_notations() {
        let sampled = Some(format!("{TRACE}-{SPAN}-true"));
        assert_eq!(read(&[("traceparent", format!("00-{TRACE}-{SPAN}-01"))]), sampled);
        assert_eq!(read(&[("b3", format!("{TRACE}-{SPAN}-1-05e3ac9a4f6e3b90"))]), sampled);
        let many = [("x-b3-traceid", TRACE.into()), ("x-b3-spanid", SPAN.into())];
        let [trace, span] = many;
        let flag = ("x-b3-sampled", "1".to_owned());
        assert_eq!(read(&[trace.clone(), span.clone(), flag]), sampled);
        let unsampled = Some(format!("{TRACE}-{SPAN}-false"));
        assert_eq!(read(&[("b3", format!("{TRACE}-{SPAN}-0"))]), unsampled);
        assert_eq!(read(&[trace, span, ("x-b3-sampled", "0".into())]), unsampled);
        let short = read(&[("b3", format!("{SPAN}-{SPAN}-1"))]);
        assert_eq!(short, Some(format!("{SPAN:0>32}-{SPAN}-true")));
    }

    #[test]
    fn what_is_no_parent_is_none() {
        assert_eq!(read(&[]), None);
        for text in ["", "0", "-", "x-y-z", TRACE, &format!("{TRACE}-0-1")] {
            assert_eq!(read(&[("b3", text.to_owned())]), None, "{text}");
            assert_eq!(read(&[("traceparent", text.to_owned())]), None, "{text}");
        }
    }
}
