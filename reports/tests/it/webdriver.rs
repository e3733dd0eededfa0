//! A WebDriver client of a few lines: JSON over HTTP/1.1 to a chromedriver that it starts.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A browser with one page.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

/// The programs, or why there is no browser to test with.
pub fn programs() -> Result<(&'static str, &'static str), String> {
    let find = |names: [&'static str; 2]| {
        names
            .into_iter()
            .find(|name| {
                Command::new(name)
                    .arg("--version")
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status()
                    .is_ok_and(|status| status.success())
            })
            .ok_or(format!(
                "neither {} nor {} is installed",
                names[0], names[1]
            ))
    };
    Ok((
        find(["chromium", "google-chrome"])?,
        find(["chromedriver", "chromium.chromedriver"])?,
    ))
}

impl Browser {
    /// Starts a driver on a free port and a headless browser of `width` × `height`, light or dark.
    pub fn start((browser, driver): (&str, &str), width: u32, height: u32, dark: bool) -> Self {
        let port = std::net::TcpListener::bind(("127.0.0.1", 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let profile = tempfile::tempdir().unwrap();
        let driver = Command::new(driver)
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut this = Self {
            driver,
            port,
            session: String::new(),
            _profile: profile,
        };
        this.wait_for_driver();
        let mut arguments: Vec<String> = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
        ]
        .map(String::from)
        .into();
        arguments.push(format!(
            "--user-data-dir={}",
            this._profile.path().display()
        ));
        arguments.push(format!("--window-size={width},{height}"));
        if dark {
            arguments.push("--blink-settings=preferredColorScheme=0".into());
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let binary = std::env::split_paths(&path)
            .map(|folder| folder.join(browser))
            .find(|file| file.exists())
            .unwrap();
        let answer = this.call(
            "POST",
            "",
            &json!({"capabilities": {"alwaysMatch": {
                "goog:chromeOptions": {"args": arguments, "binary": binary},
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }}}),
        );
        answer["sessionId"]
            .as_str()
            .unwrap()
            .clone_into(&mut this.session);
        this
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a real browser starts in real time"
    )]
    fn wait_for_driver(&self) {
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "chromedriver does not answer"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// One command: its `value`. The driver keeps the connection open, so the length counts.
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let body = if method == "POST" {
            body.to_string()
        } else {
            String::new()
        };
        let slash = if self.session.is_empty() { "" } else { "/" };
        write!(
            stream,
            "{method} /session{slash}{}{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.session,
            body.len(),
        )
        .unwrap();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut text = vec![0; length];
        reader.read_exact(&mut text).unwrap();
        let answer: Value = serde_json::from_slice(&text).unwrap();
        assert!(answer["value"]["error"].is_null(), "{}", answer["value"]);
        answer["value"].clone()
    }

    /// Opens a page and waits until it is loaded.
    pub fn open(&self, url: &str) {
        self.call("POST", "/url", &json!({"url": url}));
    }

    /// Runs a function's body in the page.
    pub fn run(&self, script: &str) -> Value {
        self.call(
            "POST",
            "/execute/sync",
            &json!({"script": script, "args": []}),
        )
    }

    /// Clicks the first element that fits a CSS selector, where a person would.
    pub fn click(&self, selector: &str) {
        let element = self.find(selector);
        self.call("POST", &format!("/element/{element}/click"), &json!({}));
    }

    /// Types into the first element that fits a CSS selector.
    pub fn keys(&self, selector: &str, text: &str) {
        let element = self.find(selector);
        self.call(
            "POST",
            &format!("/element/{element}/value"),
            &json!({"text": text}),
        );
    }

    fn find(&self, selector: &str) -> String {
        let found = self.call(
            "POST",
            "/element",
            &json!({"using": "css selector", "value": selector}),
        );
        let id = found.as_object().unwrap().values().next().unwrap();
        id.as_str().unwrap().to_owned()
    }

    /// Messages of a kind of log (`browser`, `performance`) since the last call.
    pub fn log(&self, kind: &str) -> Vec<String> {
        self.call("POST", "/se/log", &json!({"type": kind}))
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// A picture of the window, as the driver gives it: base64 of a PNG.
    pub fn picture(&self) -> String {
        self.call("GET", "/screenshot", &Value::Null)
            .as_str()
            .unwrap()
            .to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.call("DELETE", "", &Value::Null);
        }
        // It is ours, and it may have ended by itself.
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
