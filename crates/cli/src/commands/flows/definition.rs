//! Reads the definition of a flow: JSON, or YAML, which is converted to JSON.

use crate::job_args;
use anyhow::{Context as _, Result, bail};
use serde_yaml_ng::Value;
use windlass_wire::NewFlow;

/// The definition that an argument names: the text itself, `-` for stdin, `@FILE` for a file.
pub(super) fn read(argument: &str) -> Result<NewFlow> {
    let text = job_args::payload(argument, true)?;
    let json = match is_json(&text) {
        true => text,
        false => from_yaml(&text)?,
    };
    Ok(windlass_wire::read(&json)?)
}

/// Whether a text is meant as JSON. A flow in YAML does not begin with a brace.
fn is_json(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"{")
}

/// Converts YAML to JSON. Aliases that multiply the text are bounded by the parser.
fn from_yaml(text: &[u8]) -> Result<Vec<u8>> {
    let value: Value =
        serde_yaml_ng::from_slice(text).context("the flow is neither JSON nor YAML")?;
    if !value.is_mapping() {
        bail!("a flow is a mapping with the key `nodes`, e.g. nodes: {{a: {{kind: resize}}}}");
    }
    Ok(serde_json::to_vec(&to_json(value, "")?)?)
}

/// The same value in JSON, which knows neither tags nor keys that are not text. `at` is the path of the value.
fn to_json(value: Value, at: &str) -> Result<serde_json::Value> {
    let within = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
    Ok(match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(is) => is.into(),
        Value::String(text) => text.into(),
        Value::Number(number) => {
            let json = match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), ..) => Some(number.into()),
                (None, Some(number), _) => Some(number.into()),
                (None, None, number) => number.and_then(serde_json::Number::from_f64),
            };
            let json = json.with_context(|| format!("{at}: JSON has no number {number}"))?;
            serde_json::Value::Number(json)
        }
        Value::Sequence(values) => {
            let values = values.into_iter().enumerate();
            let values = values.map(|(index, value)| to_json(value, &format!("{at}[{index}]")));
            values.collect::<Result<Vec<_>>>()?.into()
        }
        Value::Mapping(entries) => {
            let mut object = serde_json::Map::new();
            for (key, value) in entries {
                let key = match key {
                    Value::String(key) => key,
                    Value::Number(key) => key.to_string(),
                    Value::Bool(key) => key.to_string(),
                    _ => bail!("{at}: a key is not text: quote it"),
                };
                let value = to_json(value, &within(&key))?;
                if object.insert(key.clone(), value).is_some() {
                    bail!("{}: the key is there twice", within(&key));
                }
            }
            object.into()
        }
        Value::Tagged(tagged) => bail!("{at}: leave out the tag {}", tagged.tag),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        format!("{:#}", read(text).unwrap_err())
    }

    #[test]
    fn yaml_and_json_mean_the_same() {
        let yaml = "flow: f\nnodes:\n  a: {kind: one, payload: {n: 1.5, list: [true, null, x]}}\n  2:\n    \
                    kind: two\n    after: [a, {job: a2, on_failure: run}]\n  a2: &x {kind: k, priority: -3}\n";
        let json = r#"{"flow":"f","nodes":{"a":{"kind":"one","payload":{"n":1.5,"list":[true,null,"x"]}},
            "2":{"kind":"two","after":["a",{"job":"a2","on_failure":"run"}]},"a2":{"kind":"k","priority":-3}}}"#;
        let value = |text: &str| {
            let flow = serde_json::to_value(read(text).unwrap()).unwrap();
            serde_json::to_string(&flow).unwrap().replace([' ', '\n'], "")
        };
        assert_eq!(value(yaml), value(json));
    }

    #[test]
    fn what_is_wrong_is_named_by_its_path() {
        for (text, hints) in [
            ("nodes: {a: {kind: k, priority: high}}", &["nodes.a.priority", "high"][..]),
            ("nodes: {a: {kind: k, prioritty: 1}}", &["nodes.a", "prioritty"]),
            ("nodes: {a: {kind: k, payload: {n: .nan}}}", &["nodes.a.payload.n"]),
            ("nodes: {a: {kind: !x k}}", &["nodes.a.kind", "tag"]),
            ("nodes: {a: {kind: k}, a: {kind: k}}", &["duplicate", "a"]),
            ("nodes: {1: {kind: k}, '1': {kind: k}}", &["nodes.1", "twice"]),
            ("nodes: {[a]: {kind: k}}", &["nodes", "quote"]),
            ("- a", &["mapping", "nodes"]),
            ("nodes: {a: {", &["neither JSON nor YAML", "line"]),
            ("{\"nodes\": ", &["EOF"]),
        ] {
            let error = refused(text);
            assert!(hints.iter().all(|hint| error.contains(hint)), "{text}: {error}");
        }
    }
}
