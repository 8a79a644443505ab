//! The `exec` face: one JSON request per line in, one JSON reply per line out, in order.
//!
//! Whatever a line holds, it gets exactly one reply and the session goes on; only the end of the input, or an output that
//! nobody reads any more, ends it. A reply is flushed before the next line is read, so a peer that waits for it never hangs,
//! and a reply that arrived speaks of something done: under synchronous durability, of something that survives power loss.

mod clock;
mod failure;
mod fields;
mod line;
mod ops;
mod reply;

use std::io::{self, BufRead, Write};

use mnemolith::{Error, Memory};
use serde_json::Value;

pub(crate) use self::clock::SettableClock;
use self::failure::Failure;
use self::fields::{Fields, Object};
use self::line::{Line, Lines};
use self::ops::Request;
pub(crate) use self::reply::{Reply, enrichment, status};

/// The longest line that is read. The largest request that could succeed is far below it; a longer line is skipped unread.
pub(crate) const MAX_LINE_BYTES: usize = 32 << 20;

/// What requests act on.
pub(crate) struct Session {
    memory: Memory,
    /// Present where the caller may set the time.
    clock: Option<SettableClock>,
}

impl Session {
    pub(crate) fn new(memory: Memory, clock: Option<SettableClock>) -> Self {
        Self { memory, clock }
    }

    /// Answers every line of `input` until its end.
    pub(crate) fn serve(&self, input: impl BufRead, mut output: impl Write) -> io::Result<()> {
        let mut lines = Lines::new(input, MAX_LINE_BYTES);
        while let Some(line) = lines.next_line()? {
            let Some((seq, result)) = self.answer(line) else {
                continue;
            };
            let mut reply = reply::line(seq.as_ref(), &result)?;
            reply.push(b'\n');
            output.write_all(&reply)?;
            output.flush()?;
        }
        Ok(())
    }

    /// Closes the store.
    pub(crate) fn close(self) -> mnemolith::Result<()> {
        self.memory.close()
    }

    /// The `seq` of a line and what came of it; nothing for a blank line.
    fn answer(&self, line: Line<'_>) -> Option<(Option<Value>, Result<Reply, Failure>)> {
        let bytes = match line {
            Line::Bytes(bytes) if bytes.trim_ascii().is_empty() => return None,
            Line::Bytes(bytes) => bytes,
            Line::TooLong => {
                let message = format!("the line has more than {MAX_LINE_BYTES} bytes and was skipped");
                return Some((None, Err(Failure::invalid("LineTooLong", message))));
            }
        };
        Some(match read(bytes) {
            Ok(mut object) => {
                let seq = object.map.remove("seq");
                (seq, self.carry_out(object))
            }
            Err(failure) => (None, Err(failure)),
        })
    }

    fn carry_out(&self, object: Object) -> Result<Reply, Failure> {
        if let Some(name) = object.repeated {
            return Err(Failure::invalid("RepeatedField", format!("field `{name}` is given twice; give it once")));
        }
        self.run(ops::decode(Fields::new(object.map))?)
    }

    fn run(&self, request: Request) -> Result<Reply, Failure> {
        let memory = &self.memory;
        Ok(match request {
            Request::Remember(request) => Reply::Remembered(Box::new(memory.remember(*request)?)),
            Request::Recall(query) => Reply::Recalled(memory.recall(query)?),
            Request::Get(id) => match memory.get(&id)? {
                Some(found) => Reply::Memory(Box::new(found)),
                None => return Err(Error::NotFound { id }.into()),
            },
            Request::Forget(id) => Reply::Existed(memory.forget(&id)?),
            Request::Purge(id) => Reply::Existed(memory.purge(&id)?),
            Request::List(query) => Reply::Listed(memory.list(query)?),
            Request::Update(id, update) => Reply::Memory(Box::new(memory.update(&id, update)?)),
            Request::WhyNot(id, query) => Reply::WhyNot(memory.why_not(&id, query)?),
            Request::Namespaces => Reply::Namespaces(memory.namespaces()?),
            Request::DropNamespace(name) => Reply::Existed(memory.drop_namespace(&name)?),
            Request::Reinforce(request) => Reply::Reinforced(memory.reinforce(request)?),
            Request::Checkpoint => Reply::Checkpointed(memory.checkpoint()?),
            Request::Verify => Reply::Verified(memory.verify()?),
            Request::Stats => Reply::Stats(Box::new(memory.stats()?)),
            Request::SetClock(now) => {
                let Some(clock) = &self.clock else {
                    return Err(Failure::invalid("NoTestClock", "set_clock works only in a session started with --test-clock"));
                };
                if !now.in_memory_range() {
                    return Err(Error::TimeOutOfRange { field: "now", value: now }.into());
                }
                clock.set(now);
                Reply::Clock(now)
            }
        })
    }
}

/// The object on a line.
fn read(bytes: &[u8]) -> Result<Object, Failure> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Failure::invalid("InvalidUtf8", format!("the line is not UTF-8 from byte {at} on"))
    })?;
    if text.starts_with('\u{feff}') {
        return Err(Failure::invalid("MalformedJson", "the line begins with a byte order mark; JSON has none, so leave it out"));
    }
    serde_json::from_str(text).map_err(|error| {
        if error.is_data() {
            return Failure::invalid("NotAnObject", format!("a request is one JSON object: {error}"));
        }
        Failure::invalid("MalformedJson", format!("the line is not one JSON object: {error}"))
    })
}
