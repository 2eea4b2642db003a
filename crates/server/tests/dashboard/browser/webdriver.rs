//! A minimal WebDriver client: JSON over HTTP to its own chromedriver. It must not know the
//! dashboard.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Maximum time for a page to reach the expected state, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(15);
/// Pause between two checks.
const PAUSE: Duration = Duration::from_millis(50);
/// The key of an element reference in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// Set to skip these tests on a machine without a browser.
const SKIP_VAR: &str = "WINDLASS_SKIP_BROWSER";

const CHROMIUM_ARGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
];

/// A browser process; dropping it ends the process.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser, or returns `None` if the environment says to skip these tests.
    pub(crate) fn start() -> Option<Self> {
        if std::env::var_os(SKIP_VAR).is_some() {
            eprintln!("left out, because {SKIP_VAR} is set");
            return None;
        }
        let mut driver = Command::new("chromedriver");
        // Its own process group: it contains the browser too, so both can be ended together.
        let driver = driver.arg("--port=0").stdout(Stdio::piped()).process_group(0).spawn();
        let mut driver = driver.unwrap_or_else(|error| {
            panic!(
                "cannot start chromedriver: {error}; `cargo xtask test` installs it, or on Debian: \
                 apt-get install -y --no-install-recommends chromium chromium-driver; \
                 {SKIP_VAR}=1 leaves these tests out"
            )
        });
        let port = announced_port(&mut driver);
        let profile = tempfile::tempdir().expect("a directory for the profile");
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        let mut args: Vec<String> = CHROMIUM_ARGS.map(str::to_owned).into();
        args.push(format!("--user-data-dir={}", browser._profile.path().display()));
        let wanted = json!({
            "goog:chromeOptions": { "args": args },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let capabilities = json!({ "capabilities": { "alwaysMatch": wanted } });
        let opened = browser.call("POST", "/session", &capabilities);
        browser.session = opened["sessionId"].as_str().expect("a session").to_owned();
        Some(browser)
    }

    pub(crate) fn goto(&self, url: &str) {
        self.command("url", &json!({ "url": url }));
    }

    pub(crate) fn back(&self) {
        self.command("back", &json!({}));
    }

    /// Returns the result of a script.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until a script returns `true`.
    #[track_caller]
    pub(crate) fn until(&self, script: &str) {
        let mut waited = Duration::ZERO;
        while self.run(script) != Value::Bool(true) {
            let page = || self.run("return location.href + '\\n' + document.body.innerText");
            assert!(waited < DEADLINE, "never: {script}\n{}", page().as_str().unwrap_or("?"));
            std::thread::sleep(PAUSE);
            waited += PAUSE;
        }
    }

    /// Waits until the first matching element contains this text.
    #[track_caller]
    pub(crate) fn until_says(&self, css: &str, text: &str) {
        let (css, text) = (json!(css), json!(text));
        self.until(&format!("return !!document.querySelector({css})?.innerText.includes({text})"));
    }

    /// Clicks an element.
    #[track_caller]
    pub(crate) fn click(&self, css: &str) {
        self.act(css, "click", &json!({}));
    }

    /// Types into an element.
    #[track_caller]
    pub(crate) fn type_into(&self, css: &str, text: &str) {
        self.act(css, "value", &json!({ "text": text }));
    }

    /// Performs an action on an element; retries if the page replaced the element meanwhile.
    #[track_caller]
    fn act(&self, css: &str, what: &str, body: &Value) {
        let mut waited = Duration::ZERO;
        loop {
            let path = format!("/session/{}/element/{}/{what}", self.session, self.find(css));
            let answer = self.request("POST", &path, &body.to_string()).expect("an answer");
            match answer["value"]["error"].as_str() {
                None => return,
                Some("stale element reference") if waited < DEADLINE => {}
                Some(_) => panic!("{what} {css}: {}", answer["value"]),
            }
            std::thread::sleep(PAUSE);
            waited += PAUSE;
        }
    }

    #[track_caller]
    fn find(&self, css: &str) -> String {
        self.until(&format!("return document.querySelector({}) !== null", json!(css)));
        let found = self.command("element", &json!({ "using": "css selector", "value": css }));
        found[ELEMENT].as_str().unwrap_or_else(|| panic!("no {css}: {found}")).to_owned()
    }

    /// Sets the width of the screen.
    pub(crate) fn screen(&self, width: u32) {
        let params =
            json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": true });
        let cmd = "Emulation.setDeviceMetricsOverride";
        self.command("goog/cdp/execute", &json!({ "cmd": cmd, "params": params }));
    }

    /// Sets the colour scheme that the system prefers.
    pub(crate) fn prefer(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let params = json!({ "features": features });
        let cmd = "Emulation.setEmulatedMedia";
        self.command("goog/cdp/execute", &json!({ "cmd": cmd, "params": params }));
    }

    /// Disables JavaScript of pages; scripts of this client run all the same.
    pub(crate) fn disable_scripts(&self) {
        let (cmd, params) = ("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
        self.command("goog/cdp/execute", &json!({ "cmd": cmd, "params": params }));
    }

    /// The browser's log entries since the last call.
    pub(crate) fn complaints(&self) -> Vec<Value> {
        let log = self.command("se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().cloned().unwrap_or_default();
        entries.into_iter().filter(|entry| entry["level"] != "INFO").collect()
    }

    #[track_caller]
    fn command(&self, command: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}/{command}", self.session), body)
    }

    #[track_caller]
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.request(method, path, &body.to_string()).expect("chromedriver answers");
        let value = &answer["value"];
        assert!(value["error"].is_null(), "{method} {path} {body}: {value}");
        value.clone()
    }

    fn request(&self, method: &str, path: &str, body: &str) -> std::io::Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(2 * DEADLINE))?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        // The driver keeps the connection open in any case, so the length must be read from the
        // header.
        let (mut reader, mut length) = (BufReader::new(stream), 0);
        for line in reader.by_ref().lines() {
            let line = line?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(std::io::Error::other)?;
            }
        }
        let mut body = Vec::new();
        reader.take(length).read_to_end(&mut body)?;
        serde_json::from_slice(&body).map_err(std::io::Error::other)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Close the session first, then end the rest of the process group.
        if !self.session.is_empty() {
            let _ = self.request("DELETE", &format!("/session/{}", self.session), "");
        }
        let group = format!("-{}", self.driver.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.driver.wait();
    }
}

/// The port that the driver chose, from the first lines of its output.
fn announced_port(driver: &mut Child) -> u16 {
    let mut lines = BufReader::new(driver.stdout.take().expect("its output")).lines();
    let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
        let (_, rest) = line.split_once("started successfully on port ")?;
        rest.trim_end_matches('.').parse().ok()
    });
    // Keep reading, so that the driver can continue to write.
    std::thread::spawn(move || lines.for_each(drop));
    port.expect("chromedriver says on which port it listens")
}
