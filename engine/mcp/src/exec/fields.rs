//! Typed extraction of the fields of one request.
//!
//! [`Fields`] hands each field out once and remembers every name it was asked for. What nobody asked for is an unknown
//! field, and [`Fields::finish`] names it: a misspelt option is refused and never silently ignored. `null` is absent.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use mnemolith::{Error, Profile, Source, Tier, Timestamp};

use super::failure::Failure;

/// A JSON object whose keys are distinct, at every depth: of two fields with one name it is unknowable which was meant.
#[derive(Debug, Default)]
pub(crate) struct Object {
    pub(crate) map: Map<String, Value>,
    /// The path of the first name that is given twice.
    pub(crate) repeated: Option<String>,
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object with one request")
            }

            fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Object, A::Error> {
                let mut walk = Walk::default();
                let map = walk.map(entries)?;
                Ok(Object { map, repeated: walk.repeated })
            }
        }
        deserializer.deserialize_map(ObjectVisitor)
    }
}

/// Reads a value of any shape and looks out for names that are given twice.
#[derive(Debug, Default)]
struct Walk {
    path: Vec<Step>,
    repeated: Option<String>,
}

#[derive(Debug)]
enum Step {
    Name(String),
    Item(usize),
}

impl Walk {
    fn map<'de, A: MapAccess<'de>>(&mut self, mut entries: A) -> Result<Map<String, Value>, A::Error> {
        let mut map = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            self.path.push(Step::Name(name));
            let value = entries.next_value_seed(&mut *self)?;
            let Some(Step::Name(name)) = self.path.pop() else { continue };
            if map.contains_key(&name) {
                let place = self.place(&name);
                self.repeated.get_or_insert(place);
            } else {
                map.insert(name, value);
            }
        }
        Ok(map)
    }

    /// Where a name is that belongs to the object being read.
    fn place(&self, name: &str) -> String {
        let mut place = String::new();
        for step in &self.path {
            match step {
                Step::Name(name) if place.is_empty() => place.push_str(name),
                Step::Name(name) => place.extend([".", name]),
                Step::Item(index) => place.push_str(&format!("[{index}]")),
            }
        }
        if !place.is_empty() {
            place.push('.');
        }
        place + name
    }
}

impl<'de> DeserializeSeed<'de> for &mut Walk {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Walk {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        loop {
            self.path.push(Step::Item(array.len()));
            let item = items.next_element_seed(&mut *self)?;
            self.path.pop();
            match item {
                Some(item) => array.push(item),
                None => return Ok(Value::Array(array)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Value, A::Error> {
        self.map(entries).map(Value::Object)
    }
}

/// The fields of a request, or of an object within one, that are still to be read.
#[derive(Debug)]
pub(crate) struct Fields {
    left: Map<String, Value>,
    /// What stands before a name in messages: nothing, or `soul.`.
    prefix: String,
    asked: Vec<&'static str>,
}

impl Fields {
    pub(crate) fn new(fields: Map<String, Value>) -> Self {
        Self { left: fields, prefix: String::new(), asked: Vec::new() }
    }

    /// A field that may be absent.
    pub(crate) fn optional<T: Field>(&mut self, name: &'static str) -> Result<Option<T>, Failure> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        T::from_json(value).map(Some).map_err(|mismatch| mismatch.of(&self.prefix, name))
    }

    /// A field the operation cannot do without.
    pub(crate) fn required<T: Field>(&mut self, name: &'static str) -> Result<T, Failure> {
        let value = self.optional(name)?;
        value.ok_or_else(|| Failure::invalid("MissingField", format!("field `{}{name}` is required: {}", self.prefix, T::EXPECTED)))
    }

    /// A field that may be absent and then is the default of its type.
    pub(crate) fn or_default<T: Field + Default>(&mut self, name: &'static str) -> Result<T, Failure> {
        Ok(self.optional(name)?.unwrap_or_default())
    }

    /// The fields of a field that is an object, to be read and [finished](Fields::finish) like these.
    pub(crate) fn nested(&mut self, name: &'static str) -> Result<Option<Fields>, Failure> {
        let left = self.optional::<Map<String, Value>>(name)?;
        let prefix = format!("{}{name}.", self.prefix);
        Ok(left.map(|left| Fields { left, prefix, asked: Vec::new() }))
    }

    /// A field of a capability this build does not have: refused where it asks for something, never ignored.
    pub(crate) fn unbuilt(&mut self, name: &'static str) -> Result<(), Failure> {
        match self.take(name) {
            None | Some(Value::Bool(false)) => Ok(()),
            Some(Value::Array(items)) if items.is_empty() => Ok(()),
            Some(_) => Err(Failure::from(Error::Unsupported { what: format!("field `{name}`") })),
        }
    }

    /// Every field was read; one that was not is unknown. `owner` is what the fields belong to.
    pub(crate) fn finish(self, owner: &str) -> Result<(), Failure> {
        let Some(unknown) = self.left.keys().next() else {
            return Ok(());
        };
        let takes = if self.asked.is_empty() { "no fields".to_owned() } else { self.asked.join(", ") };
        let message = format!("unknown field `{}{unknown}`: {owner} takes {takes}", self.prefix);
        Err(Failure::invalid("UnknownField", message))
    }

    fn take(&mut self, name: &'static str) -> Option<Value> {
        self.asked.push(name);
        self.left.remove(name).filter(|value| !value.is_null())
    }
}

/// A value that is not what its field takes: where inside the field, and what is wrong.
#[derive(Debug)]
pub(crate) struct Mismatch {
    code: &'static str,
    place: String,
    message: String,
}

impl Mismatch {
    fn of_type(expected: &str, found: &Value) -> Self {
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(number) => &format!("the number {number}"),
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        Self::of_value("WrongType", format!("expected {expected}, got {found}"))
    }

    /// A value of the right type that the field does not take.
    fn of_value(code: &'static str, message: String) -> Self {
        Self { code, place: String::new(), message }
    }

    fn within(mut self, step: &str) -> Self {
        self.place.insert_str(0, step);
        self
    }

    fn of(self, prefix: &str, name: &str) -> Failure {
        let Self { code, place, message } = self;
        Failure::invalid(code, format!("field `{prefix}{name}{place}`: {message}"))
    }
}

impl From<Error> for Mismatch {
    fn from(error: Error) -> Self {
        Self::of_value(error.code(), error.to_string())
    }
}

/// A type a field can have.
pub(crate) trait Field: Sized {
    /// What is expected, as the error says it: "a string".
    const EXPECTED: &'static str;

    fn from_json(value: Value) -> Result<Self, Mismatch>;
}

impl Field for String {
    const EXPECTED: &'static str = "a string";

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        match value {
            Value::String(text) => Ok(text),
            other => Err(Mismatch::of_type(Self::EXPECTED, &other)),
        }
    }
}

impl Field for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        value.as_bool().ok_or_else(|| Mismatch::of_type(Self::EXPECTED, &value))
    }
}

impl Field for f64 {
    const EXPECTED: &'static str = "a number";

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        value.as_f64().ok_or_else(|| Mismatch::of_type(Self::EXPECTED, &value))
    }
}

/// The value a store keeps is 32 bits wide; a number beyond its range becomes infinite and is refused as such.
impl Field for f32 {
    const EXPECTED: &'static str = "a number";

    #[allow(clippy::cast_possible_truncation, reason = "rounding to the stored width is what is meant")]
    fn from_json(value: Value) -> Result<Self, Mismatch> {
        f64::from_json(value).map(|number| number as f32)
    }
}

macro_rules! whole_numbers {
    ($($type:ty, $expected:literal;)+) => {$(
        impl Field for $type {
            const EXPECTED: &'static str = $expected;

            fn from_json(value: Value) -> Result<Self, Mismatch> {
                let wide = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
                wide.and_then(|wide| wide.try_into().ok()).ok_or_else(|| Mismatch::of_type(Self::EXPECTED, &value))
            }
        }
    )+};
}

whole_numbers! {
    u16, "a whole number from 0 to 65535";
    i64, "a whole number";
    usize, "a whole number that is not negative";
}

/// How many memories a recall returns. A negative number is a mistake of its own: some interfaces take -1 for "all".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct K(pub(crate) usize);

impl Field for K {
    const EXPECTED: &'static str = usize::EXPECTED;

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        if value.as_i64().is_some_and(|k| k < 0) {
            let message = format!("{value} is negative; 0 returns none, and a number beyond the memories there are returns all");
            return Err(Mismatch::of_value("NegativeK", message));
        }
        usize::from_json(value).map(K)
    }
}

impl Field for Timestamp {
    const EXPECTED: &'static str = "a time: RFC 3339, a date, or milliseconds since 1970 as a whole number";

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        match &value {
            Value::String(text) => Timestamp::parse(text).map_err(|error| Mismatch::of_value("InvalidTime", error.to_string())),
            Value::Number(millis) => millis.as_i64().map(Timestamp::from_millis).ok_or_else(|| Mismatch::of_type(Self::EXPECTED, &value)),
            _ => Err(Mismatch::of_type(Self::EXPECTED, &value)),
        }
    }
}

impl Field for Tier {
    const EXPECTED: &'static str = "the name of a tier";

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let Value::String(name) = &value else {
            return Err(Mismatch::of_type(Self::EXPECTED, &value));
        };
        Ok(Tier::parse(name)?)
    }
}

impl Field for Source {
    const EXPECTED: &'static str = "the name of a source";

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let Value::String(name) = &value else {
            return Err(Mismatch::of_type(Self::EXPECTED, &value));
        };
        Ok(Source::parse(name)?)
    }
}

impl Field for Profile {
    const EXPECTED: &'static str = "the name of a profile";

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let Value::String(name) = &value else {
            return Err(Mismatch::of_type(Self::EXPECTED, &value));
        };
        Ok(Profile::parse(name)?)
    }
}

impl<T: Field> Field for Vec<T> {
    const EXPECTED: &'static str = "an array";

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let Value::Array(items) = value else {
            return Err(Mismatch::of_type(&format!("an array, each item {}", T::EXPECTED), &value));
        };
        let item = |(index, item)| T::from_json(item).map_err(|mismatch| mismatch.within(&format!("[{index}]")));
        items.into_iter().enumerate().map(item).collect()
    }
}

impl Field for Map<String, Value> {
    const EXPECTED: &'static str = "an object";

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        match value {
            Value::Object(map) => Ok(map),
            other => Err(Mismatch::of_type(Self::EXPECTED, &other)),
        }
    }
}

impl<T: Field> Field for BTreeMap<String, T> {
    const EXPECTED: &'static str = "an object";

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let entry = |(key, item): (String, Value)| match T::from_json(item) {
            Ok(item) => Ok((key, item)),
            Err(mismatch) => Err(mismatch.within(&format!(".{key}"))),
        };
        Map::from_json(value)?.into_iter().map(entry).collect()
    }
}

#[cfg(test)]
#[path = "fields_tests.rs"]
mod tests;
