//! Drives the binary from outside, as a script would.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use serde_json::Value;

/// The binary under test.
pub(crate) fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mnemolith"));
    // What a developer has set must not decide what a test sees.
    for variable in ["NO_COLOR", "MNEMOLITH_SIMD", "XDG_DATA_HOME"] {
        command.env_remove(variable);
    }
    command
}

/// A directory that is removed at the end of a test.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.0.path().join("store")
    }

    /// One command on the store of this folder.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ran {
        self.run_with(arguments, b"")
    }

    /// The same with something on its standard input.
    pub(crate) fn run_with<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>, input: &[u8]) -> Ran {
        let mut command = binary();
        command.arg("--dir").arg(self.store()).args(arguments);
        run(command, input)
    }

    /// A session with the store of this folder.
    pub(crate) fn exec(&self, options: &[&str]) -> Exec {
        let mut command = binary();
        command.arg("exec").arg("--dir").arg(self.store()).args(options);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let requests = child.stdin.take();
        let replies = BufReader::new(child.stdout.take().unwrap());
        Exec { child, requests, replies }
    }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// The JSON object it printed.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.out).unwrap()
    }
}

/// Runs a command to its end.
pub(crate) fn run(mut command: Command, input: &[u8]) -> Ran {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A command that does not read its input leaves a broken pipe, which is no concern of the test.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: status.code().unwrap_or(-1), out: text(stdout), err: text(stderr) }
}

/// A session that is open.
pub(crate) struct Exec {
    child: Child,
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

impl Exec {
    /// Sends a request and returns its reply.
    pub(crate) fn ask(&mut self, request: Value) -> Value {
        self.ask_line(request.to_string().as_bytes())
    }

    /// Sends a request that must be carried out.
    pub(crate) fn done(&mut self, request: Value) -> Value {
        let reply = self.ask(request.clone());
        assert_eq!(reply["ok"], true, "{request} -> {reply}");
        assert!(reply.get("error").is_none(), "{request} -> {reply}");
        reply
    }

    /// Sends a request that must be refused, and returns kind and code.
    pub(crate) fn refused(&mut self, request: Value) -> (String, String, String) {
        let reply = self.ask(request.clone());
        refusal(&reply)
    }

    /// Sends bytes as a line and returns the reply.
    pub(crate) fn ask_line(&mut self, line: &[u8]) -> Value {
        self.send(line);
        self.send(b"\n");
        self.reply()
    }

    /// Sends bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let requests = self.requests.as_mut().unwrap();
        requests.write_all(bytes).unwrap();
        requests.flush().unwrap();
    }

    /// The next reply.
    pub(crate) fn reply(&mut self) -> Value {
        let mut line = String::new();
        self.replies.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "no reply but {line:?}");
        serde_json::from_str(&line).unwrap()
    }

    /// Ends the input and returns the exit code; nothing more may come.
    pub(crate) fn end(self) -> i32 {
        let (code, replies) = self.finish();
        assert_eq!(replies, [Value::Null; 0], "a reply without a request");
        code
    }

    /// Ends the input and returns the exit code and the replies that still came.
    pub(crate) fn finish(mut self) -> (i32, Vec<Value>) {
        drop(self.requests.take());
        let rest = self.replies.by_ref().lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        (self.child.wait().unwrap().code().unwrap_or(-1), rest)
    }

    /// Ends the process without a warning.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Kind, code and message of a reply that must be an error.
pub(crate) fn refusal(reply: &Value) -> (String, String, String) {
    assert_eq!(reply["ok"], false, "{reply}");
    let text = |name: &str| reply["error"][name].as_str().unwrap_or_else(|| panic!("no {name}: {reply}")).to_owned();
    (text("kind"), text("code"), text("message"))
}
