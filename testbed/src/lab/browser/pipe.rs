//! The pipe to the browser's debugger: sends commands, finds the answer to each, keeps complaints.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Instant,
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::super::PATIENCE;

/// The debugger's end of a browser.
pub(super) struct Pipe {
    child: Child,
    stdin: ChildStdin,
    answers: Receiver<Value>,
    next: u64,
    session: Option<String>,
    complaints: Vec<String>,
}

impl Pipe {
    pub(super) fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start the browser")?;
        let stdin = child.stdin.take().context("the browser has no input")?;
        let stdout = child.stdout.take().context("the browser has no output")?;
        let (sender, answers) = mpsc::channel();
        // Ends with the browser.
        thread::spawn(move || {
            for message in BufReader::new(stdout).split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { continue };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, stdin, answers, next: 0, session: None, complaints: Vec::new() })
    }

    /// All commands from now on are for that target.
    pub(super) fn speak_to(&mut self, session: String) {
        self.session = Some(session);
    }

    /// Sends a command and waits for its result.
    pub(super) fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.next += 1;
        let id = self.next;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.stdin.write_all(message.to_string().as_bytes())?;
        self.stdin.write_all(&[0])?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut answer = self
                .answers
                .recv_timeout(left)
                .with_context(|| format!("the browser does not answer {method}"))?;
            if answer["id"] != id {
                self.hear(&answer);
                continue;
            }
            if !answer["error"].is_null() {
                bail!("{method}: {}", answer["error"]);
            }
            return Ok(answer["result"].take());
        }
    }

    /// Notes what a page complains of: exceptions, and what the browser refused.
    fn hear(&mut self, event: &Value) {
        let complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                let details = &event["params"]["exceptionDetails"];
                let text = &details["exception"]["description"];
                text.as_str().map_or_else(|| details.to_string(), str::to_owned)
            }
            Some("Log.entryAdded") if event["params"]["entry"]["level"] == "error" => {
                event["params"]["entry"].to_string()
            }
            _ => return,
        };
        self.complaints.push(complaint);
    }

    /// What was complained of since this was asked last.
    pub(super) fn complaints(&mut self) -> Vec<String> {
        while let Ok(event) = self.answers.try_recv() {
            self.hear(&event);
        }
        std::mem::take(&mut self.complaints)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
