//! The operations: from the fields of a request to a call of the engine.
//!
//! Decoding is apart from doing, so that a request with any bad field touches nothing.

use std::collections::BTreeMap;

use mnemolith::{ListQuery, RecallQuery, Reinforce, RememberRequest, Soul, Timestamp, Update};

use super::failure::Failure;
use super::fields::{Fields, K};

/// A decoded request.
#[derive(Debug)]
pub(crate) enum Request {
    Remember(Box<RememberRequest>),
    Recall(RecallQuery),
    Get(String),
    Forget(String),
    Purge(String),
    List(ListQuery),
    Update(String, Update),
    WhyNot(String, RecallQuery),
    Namespaces,
    DropNamespace(String),
    Reinforce(Reinforce),
    Checkpoint,
    Verify,
    Stats,
    SetClock(Timestamp),
}

type Decode = fn(&mut Fields) -> Result<Request, Failure>;

/// Every operation there is, by name.
const OPS: [(&str, Decode); 15] = [
    ("remember", remember),
    ("recall", |fields| recall_query(fields).map(Request::Recall)),
    ("get", |fields| fields.required("id").map(Request::Get)),
    ("forget", |fields| fields.required("id").map(Request::Forget)),
    ("purge", |fields| fields.required("id").map(Request::Purge)),
    ("list", list),
    ("update", update),
    ("why_not", |fields| Ok(Request::WhyNot(fields.required("id")?, recall_query(fields)?))),
    ("namespaces", |_| Ok(Request::Namespaces)),
    ("drop_namespace", |fields| fields.required("name").map(Request::DropNamespace)),
    ("reinforce", reinforce),
    ("checkpoint", |_| Ok(Request::Checkpoint)),
    ("verify", |_| Ok(Request::Verify)),
    ("stats", |_| Ok(Request::Stats)),
    ("set_clock", |fields| fields.required("now").map(Request::SetClock)),
];

/// Decodes a request, `seq` already taken out of it.
pub(crate) fn decode(mut fields: Fields) -> Result<Request, Failure> {
    let op: String = fields.required("op")?;
    let Some((name, decode)) = OPS.iter().find(|(name, _)| *name == op) else {
        let names: Vec<_> = OPS.iter().map(|(name, _)| *name).collect();
        return Err(Failure::invalid("UnknownOp", format!("unknown op {op:?}: the ops are {}", names.join(", "))));
    };
    let request = decode(&mut fields)?;
    fields.finish(name)?;
    Ok(request)
}

fn remember(fields: &mut Fields) -> Result<Request, Failure> {
    for name in ["links", "entities", "relations"] {
        fields.unbuilt(name)?;
    }
    let mut request = RememberRequest::default()
        .tags(fields.or_default::<Vec<String>>("tags")?)
        .metadata(fields.or_default("metadata")?)
        .tier(fields.or_default("tier")?)
        .source(fields.or_default("source")?)
        .allow_duplicate(fields.or_default("allow_duplicate")?);
    request = apply(request, fields.optional::<String>("text")?, RememberRequest::text);
    request = apply(request, fields.optional::<Vec<f32>>("vector")?, RememberRequest::vector);
    request = apply(request, fields.optional::<String>("id")?, RememberRequest::id);
    request = apply(request, fields.optional::<String>("session")?, RememberRequest::session);
    request = apply(request, fields.optional("at")?, RememberRequest::at);
    request = apply(request, fields.optional::<i64>("valence")?, RememberRequest::valence);
    request = apply(request, fields.optional::<i64>("arousal")?, RememberRequest::arousal);
    request = apply(request, fields.optional("reward")?, RememberRequest::reward);
    request = apply(request, fields.optional("interest")?, RememberRequest::interest);
    request = apply(request, fields.optional("challenge")?, RememberRequest::challenge);
    request = apply(request, fields.optional("urgency")?, RememberRequest::urgency);
    request = apply(request, soul(fields)?, RememberRequest::soul);
    Ok(Request::Remember(Box::new(request)))
}

fn soul(fields: &mut Fields) -> Result<Option<Soul>, Failure> {
    let Some(mut fields) = fields.nested("soul")? else {
        return Ok(None);
    };
    let mut soul = Soul::new(fields.required("version")?);
    for (tag, factor) in fields.or_default::<BTreeMap<String, f64>>("boosts")? {
        soul = soul.boost(tag, factor);
    }
    soul = apply(soul, fields.optional("valence_gain")?, Soul::valence_gain);
    fields.finish("soul")?;
    Ok(Some(soul))
}

fn recall_query(fields: &mut Fields) -> Result<RecallQuery, Failure> {
    for name in ["as_of", "current_only"] {
        fields.unbuilt(name)?;
    }
    let K(k) = fields.optional("k")?.unwrap_or(K(RecallQuery::DEFAULT_K));
    let mut query = RecallQuery::default()
        .k(k)
        .tags_all(fields.or_default::<Vec<String>>("tags_all")?)
        .tags_any(fields.or_default::<Vec<String>>("tags_any")?)
        .tiers(fields.or_default::<Vec<_>>("tiers")?)
        .profile(fields.or_default("profile")?)
        .exact(fields.or_default("exact")?)
        .explain(fields.or_default("explain")?);
    query = apply(query, fields.optional::<String>("text")?, RecallQuery::text);
    query = apply(query, fields.optional::<Vec<f32>>("vector")?, RecallQuery::vector);
    query = apply(query, fields.optional::<String>("session")?, RecallQuery::session);
    query = apply(query, fields.optional("after")?, RecallQuery::after);
    query = apply(query, fields.optional("before")?, RecallQuery::before);
    Ok(apply(query, fields.optional::<i64>("mood")?, RecallQuery::mood))
}

fn list(fields: &mut Fields) -> Result<Request, Failure> {
    let mut query = ListQuery::new()
        .tags_all(fields.or_default::<Vec<String>>("tags_all")?)
        .tiers(fields.or_default::<Vec<_>>("tiers")?)
        .limit(fields.optional("limit")?.unwrap_or(ListQuery::DEFAULT_LIMIT));
    query = apply(query, fields.optional::<String>("session")?, ListQuery::session);
    query = apply(query, fields.optional("after")?, ListQuery::after);
    query = apply(query, fields.optional("before")?, ListQuery::before);
    query = apply(query, fields.optional::<String>("cursor")?, ListQuery::cursor);
    Ok(Request::List(query))
}

fn update(fields: &mut Fields) -> Result<Request, Failure> {
    let id = fields.required("id")?;
    let mut update = Update::new();
    update = apply(update, fields.optional::<String>("text")?, Update::text);
    update = apply(update, fields.optional::<Vec<String>>("tags")?, |update, tags| update.tags(tags));
    update = apply(update, fields.optional("metadata")?, Update::metadata);
    Ok(Request::Update(id, update))
}

fn reinforce(fields: &mut Fields) -> Result<Request, Failure> {
    let request = Reinforce::new(fields.required::<String>("id")?, fields.required("outcome")?);
    Ok(Request::Reinforce(request.with(fields.or_default::<Vec<String>>("with")?)))
}

/// Sets what was given and leaves alone what was not: an absent field never overrides a default.
fn apply<T, V>(target: T, value: Option<V>, set: impl FnOnce(T, V) -> T) -> T {
    match value {
        Some(value) => set(target, value),
        None => target,
    }
}

#[cfg(test)]
mod tests {
    use mnemolith::{Profile, Tier};
    use serde_json::{Value, json};

    use super::*;

    fn decoded(request: Value) -> Result<Request, Failure> {
        let Value::Object(map) = request else { panic!("not an object") };
        decode(Fields::new(map))
    }

    #[test]
    fn every_field_of_remember_reaches_the_request() {
        let request = json!({
            "op": "remember", "text": "t", "vector": [1, 0.5], "id": "i", "tags": ["a", "b"], "metadata": {"k": [1]}, "tier": "Semantic",
            "session": "s", "at": "1970-01-02", "valence": -60, "arousal": 200, "reward": 0.5, "interest": 0.1, "challenge": 0.2,
            "urgency": 0.3, "soul": {"version": 3, "boosts": {"a": 2}, "valence_gain": -1.5}, "links": [], "source": "tool", "allow_duplicate": true,
        });
        let Ok(Request::Remember(request)) = decoded(request) else { panic!("not decoded") };
        let Value::Object(metadata) = json!({"k": [1]}) else { panic!("not an object") };
        let expected = RememberRequest::new("t")
            .vector([1.0, 0.5])
            .id("i")
            .tags(["a", "b"])
            .metadata(metadata)
            .tier(Tier::Semantic)
            .source(mnemolith::Source::Tool)
            .session("s")
            .at(Timestamp::from_millis(86_400_000))
            .valence(-60)
            .arousal(200)
            .reward(0.5)
            .interest(0.1)
            .challenge(0.2)
            .urgency(0.3)
            .soul(Soul::new(3).boost("a", 2.0).valence_gain(-1.5))
            .allow_duplicate(true);
        assert_eq!(*request, expected);
    }

    #[test]
    fn every_field_of_recall_reaches_the_query_and_what_is_absent_stays_at_its_default() {
        let request = json!({
            "op": "recall", "text": "t", "vector": [1], "k": 0, "tags_all": ["a"], "tags_any": ["b"], "tiers": ["working"], "session": "s", "after": 1,
            "before": 2, "profile": "critical", "mood": -3, "exact": true, "explain": true, "as_of": null, "current_only": false,
        });
        let Ok(Request::Recall(query)) = decoded(request) else { panic!("not decoded") };
        let expected = RecallQuery::new("t")
            .vector([1.0])
            .k(0)
            .tags_all(["a"])
            .tags_any(["b"])
            .tiers([Tier::Working])
            .session("s")
            .after(Timestamp::from_millis(1))
            .before(Timestamp::from_millis(2))
            .profile(Profile::Critical)
            .mood(-3)
            .exact(true)
            .explain(true);
        assert_eq!(query, expected);
        let Ok(Request::Recall(query)) = decoded(json!({"op": "recall", "text": "t"})) else { panic!("not decoded") };
        assert_eq!(query, RecallQuery::new("t"));
    }

    #[test]
    fn every_field_of_list_update_and_reinforce_arrives() {
        let request = json!({"op": "list", "tags_all": ["a"], "tiers": ["semantic"], "session": "s", "after": 1, "before": 2, "limit": 3, "cursor": "c"});
        let Ok(Request::List(query)) = decoded(request) else { panic!("not decoded") };
        let (after, before) = (Timestamp::from_millis(1), Timestamp::from_millis(2));
        let expected =
            ListQuery::new().tags_all(["a"]).tiers([Tier::Semantic]).session("s").after(after).before(before).limit(3).cursor("c");
        assert_eq!(query, expected);
        let Ok(Request::Update(id, update)) = decoded(json!({"op": "update", "id": "i", "tags": [], "metadata": {}})) else {
            panic!("not decoded")
        };
        assert_eq!((id.as_str(), update), ("i", Update::new().tags([""; 0]).metadata(Default::default())));
        let Ok(Request::Reinforce(request)) = decoded(json!({"op": "reinforce", "id": "i", "outcome": 1, "with": ["j"]})) else {
            panic!("not decoded")
        };
        assert_eq!(request, Reinforce::new("i", 1.0).with(["j"]));
    }

    #[test]
    fn an_unknown_op_is_told_which_ops_there_are_and_every_one_of_them_is_known() {
        let failure = decoded(json!({"op": "assert", "subject": "x"})).unwrap_err();
        assert_eq!(failure.code, "UnknownOp");
        for (name, _) in OPS {
            assert!(failure.message.contains(name), "{}", failure.message);
            let code = decoded(json!({"op": name, "nonsense": 1, "id": "i", "outcome": 0, "name": "n", "now": 0})).unwrap_err().code;
            assert_eq!(code, "UnknownField", "{name}");
        }
        assert_eq!(decoded(json!({"id": "x"})).unwrap_err().code, "MissingField");
        assert_eq!(decoded(json!({"op": 3})).unwrap_err().code, "WrongType");
    }
}
