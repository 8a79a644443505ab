//! Drives the binary from outside, as a script would.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::disallowed_methods, reason = "the files are looked at from outside the engine")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio};

use serde_json::{Value, json};

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
        Exec::start(self.exec_command(options))
    }

    /// The command of such a session.
    pub(crate) fn exec_command(&self, options: &[&str]) -> Command {
        let mut command = binary();
        command.arg("exec").arg("--dir").arg(self.store()).args(options);
        command
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
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let requests = child.stdin.take();
        let replies = BufReader::new(child.stdout.take().unwrap());
        Self { child, requests, replies }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process and its two pipes, for a test that drives them from several threads.
    pub(crate) fn into_parts(mut self) -> (Child, ChildStdin, BufReader<ChildStdout>) {
        let requests = self.requests.take().unwrap();
        (self.child, requests, self.replies)
    }

    /// Everything that is remembered, in order, page by page.
    pub(crate) fn dump(&mut self) -> Vec<Value> {
        let mut memories = Vec::new();
        let mut cursor = Value::Null;
        loop {
            let mut page = self.done(json!({"op": "list", "limit": 1000, "cursor": cursor}));
            memories.append(page["memories"].as_array_mut().unwrap());
            cursor = page["cursor"].take();
            if cursor.is_null() {
                return memories;
            }
        }
    }

    /// Sends a signal, by the name that `kill` knows.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits for the process while its input stays open.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Closes the end of the output that replies are read from.
    pub(crate) fn stop_reading(self) -> (Child, ChildStdin) {
        let (child, requests, replies) = self.into_parts();
        drop(replies);
        (child, requests)
    }

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

/// Sends a signal to a process that a test started. The shell's own `kill` is there where the program is not installed.
pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("sh").args(["-c", &format!("kill -s {name} {pid}")]).status().unwrap();
    assert!(status.success(), "{status}");
}

/// Kind, code and message of a reply that must be an error.
pub(crate) fn refusal(reply: &Value) -> (String, String, String) {
    assert_eq!(reply["ok"], false, "{reply}");
    let text = |name: &str| reply["error"][name].as_str().unwrap_or_else(|| panic!("no {name}: {reply}")).to_owned();
    (text("kind"), text("code"), text("message"))
}

/// Numbers that look random and are the same in every run: splitmix64.
#[derive(Debug, Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }
}

/// Every file under a directory with its bytes; the lock, which names a process, is left out.
pub(crate) fn bytes_of(directory: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut files = std::collections::BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in directory.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if !path.ends_with("LOCK") {
                let mut bytes = Vec::new();
                std::fs::OpenOptions::new().read(true).open(&path).unwrap().read_to_end(&mut bytes).unwrap();
                files.insert(path, bytes);
            }
        }
    }
    files
}
