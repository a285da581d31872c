//! A real browser without a window: Chromium, driven by its own protocol over two pipes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::tools::find;
use crate::{Result, check};

/// How long the browser may take for one thing, on a machine that does other things as well.
const PATIENCE: Duration = crate::process::PATIENCE;

/// A browser with one page.
pub struct Browser {
    child: Child,
    into: ChildStdin,
    out: Receiver<Value>,
    session: String,
    next: u64,
    /// What the page said on its console, exceptions, and what it was refused.
    problems: Vec<String>,
}

impl Browser {
    /// Starts it with a profile in `directory`. `None` if there is no Chromium here.
    pub fn start(directory: &Path) -> Result<Option<Browser>> {
        let Some(program) = find(&["chromium", "chromium-browser", "google-chrome"]) else { return Ok(None) };
        // The protocol goes over descriptors 3 and 4: the shell moves our two pipes there.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", r#"exec "$@" 3<&0 4>&1 0</dev/null 1>/dev/null 2>&1"#, "sh"]).arg(program);
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            // Pages that draw by WebGL can, on a machine without a graphics processor.
            "--enable-unsafe-swiftshader",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--remote-debugging-pipe",
        ]);
        command.arg(format!("--user-data-dir={}", directory.display())).arg("about:blank");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the browser does not start: {error}"))?;
        let into = child.stdin.take().ok_or("no pipe to the browser")?;
        let stdout = child.stdout.take().ok_or("no pipe from the browser")?;
        let (sender, out) = mpsc::channel();
        thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut bytes = Vec::new();
            // One message, then a zero byte.
            while reader.read_until(0, &mut bytes).is_ok_and(|count| count > 0) {
                let message = serde_json::from_slice(bytes.strip_suffix(&[0]).unwrap_or(&bytes));
                bytes.clear();
                if message.is_ok_and(|message| sender.send(message).is_err()) {
                    break;
                }
            }
        });
        let mut browser = Browser { child, into, out, session: String::new(), next: 0, problems: Vec::new() };
        let page = browser.tell("Target.createTarget", json!({"url": "about:blank"}))?;
        let attached = browser.tell("Target.attachToTarget", json!({"targetId": page["targetId"], "flatten": true}))?;
        browser.session = attached["sessionId"].as_str().ok_or("the browser has no page")?.to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.tell(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(Some(browser))
    }

    /// Sends a command, and waits for what comes of it.
    pub fn tell(&mut self, method: &str, params: Value) -> Result<Value> {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.into.write_all(&bytes).map_err(|error| format!("the browser is gone: {error}"))?;
        let id = self.next;
        let answer = self.wait(method, |message| message["id"] == id)?;
        check!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        Ok(answer["result"].clone())
    }

    /// Takes messages until one that is waited for; notes what the page complains of meanwhile.
    fn wait(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let began = Instant::now();
        while let Ok(message) = self.out.recv_timeout(PATIENCE.saturating_sub(began.elapsed())) {
            let params = &message["params"];
            match message["method"].as_str() {
                Some("Runtime.exceptionThrown") => self.problems.push(params["exceptionDetails"].to_string()),
                Some("Runtime.consoleAPICalled") => self.problems.push(params["args"].to_string()),
                Some("Log.entryAdded") => self.problems.push(params["entry"].to_string()),
                Some("Network.requestWillBeSent") => {
                    let url = params["request"]["url"].as_str().unwrap_or_default();
                    if !url.starts_with("file://") {
                        self.problems.push(format!("it asked for {url}"));
                    }
                }
                _ => {}
            }
            if wanted(&message) {
                return Ok(message);
            }
        }
        Err(format!("the browser says nothing to {what} within {PATIENCE:?}"))
    }

    /// Opens a file, with what is to stand behind `#`, and waits until it is there.
    pub fn open(&mut self, path: &Path, hash: &str) -> Result {
        self.tell("Page.navigate", json!({"url": "about:blank"}))?;
        let url = format!("file://{}#{hash}", path.display());
        self.tell("Page.navigate", json!({"url": url}))?;
        self.until("document.readyState === 'complete' && location.protocol === 'file:'")
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Result<Value> {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.tell("Runtime.evaluate", params)?;
        check!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        Ok(result["result"]["value"].clone())
    }

    /// The same as text.
    pub fn text(&mut self, expression: &str) -> Result<String> {
        Ok(self.value(expression)?.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) -> Result {
        let began = Instant::now();
        while self.value(expression)? != true {
            check!(began.elapsed() < PATIENCE, "it never becomes true: {expression}");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Waits until all that was asked for has been drawn.
    pub fn drawn(&mut self) -> Result {
        let frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))";
        self.value(frames).map(|_| ())
    }

    /// Moves the pointer there.
    pub fn point(&mut self, x: f64, y: f64) -> Result {
        self.tell("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": x, "y": y}))?;
        self.drawn()
    }

    /// Clicks there.
    pub fn click(&mut self, x: f64, y: f64) -> Result {
        self.point(x, y)?;
        for kind in ["mousePressed", "mouseReleased"] {
            let params = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
            self.tell("Input.dispatchMouseEvent", params)?;
        }
        self.drawn()
    }

    /// Presses a key: `Enter`, `ArrowDown`, `i`.
    pub fn press(&mut self, key: &str) -> Result {
        let text = if key.chars().count() == 1 { key } else { "" };
        self.tell("Input.dispatchKeyEvent", json!({"type": "keyDown", "key": key, "text": text}))?;
        self.tell("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key}))?;
        self.drawn()
    }

    /// Types text into whatever has the focus.
    pub fn enter(&mut self, text: &str) -> Result {
        self.tell("Input.insertText", json!({"text": text}))?;
        self.drawn()
    }

    /// Makes the window so large, and its owner like it dark or light.
    pub fn look(&mut self, width: u32, height: u32, dark: bool) -> Result {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.tell("Emulation.setDeviceMetricsOverride", size)?;
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.tell("Emulation.setEmulatedMedia", features)?;
        self.drawn()
    }

    /// What is seen, as a PNG in Base64.
    pub fn screenshot(&mut self) -> Result<String> {
        self.drawn()?;
        let shot = self.tell("Page.captureScreenshot", json!({"format": "png"}))?;
        Ok(shot["data"].as_str().unwrap_or_default().to_owned())
    }

    /// All that the page complained of so far.
    pub fn problems(&mut self) -> Result<Vec<String>> {
        // What was said before this answer has arrived with it.
        self.value("1")?;
        Ok(std::mem::take(&mut self.problems))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its helpers end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
