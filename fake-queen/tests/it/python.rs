//! The official Python client against a Queen of its own process, killed in between. Skipped,
//! loudly, where there is no Python or the client can't be installed; `KASTELLAN_REQUIRE_PYTHON=1`
//! makes that a failure.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rstest::rstest;

#[rstest]
#[case::newest("2.6.0")]
#[case::last_of_1_x("1.3.0")]
fn the_official_client_works(#[case] version: &str) {
    let client = match installed(version) {
        Ok(client) => client,
        Err(reason) => {
            let required = std::env::var_os("KASTELLAN_REQUIRE_PYTHON").is_some_and(|v| v == "1");
            assert!(!required, "KASTELLAN_REQUIRE_PYTHON is 1, but {reason}");
            // The one way past libtest's capture to whoever looks at the run.
            use std::io::Write;
            let line = format!("SKIPPED: the Python client queen-mq {version}: {reason}\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            return;
        }
    };
    let data = tempfile::tempdir().unwrap();
    for act in ["before", "after"] {
        let queen = Serving::start(data.path());
        let output = Command::new("python3")
            .arg(source().join("native_client.py"))
            .args([&queen.url, act])
            .env("PYTHONPATH", &client)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{version}, {act}:\n{}\n{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        assert!(text(&output.stdout).contains(&format!("done: {act}")));
        // Dropping it is SIGKILL.
    }
}

/// A Queen in a process of its own, killed when dropped.
struct Serving {
    child: Child,
    url: String,
}

impl Serving {
    fn start(data: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fake-queen"))
            .args(["serve", "--addr", "127.0.0.1:0", "--dir"])
            .arg(data)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap();
        let url = format!("http://{address}");
        Self { child, url }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python")
}

/// The directory that holds the client, installed by hash once and kept beside the builds.
fn installed(version: &str) -> Result<PathBuf, String> {
    run(Command::new("python3").arg("--version")).map_err(|why| format!("no python3: {why}"))?;
    let requirements = source().join(format!("requirements-{version}.txt"));
    let pins = std::fs::read(&requirements).map_err(|e| format!("no pinned versions: {e}"))?;
    let fingerprint = pins.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let home = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let kept = home.join(format!("queen-mq-{version}-{fingerprint:016x}"));
    if kept.is_dir() {
        return Ok(kept);
    }
    // Installed aside and renamed, so that what is there is whole.
    let aside = tempfile::tempdir_in(home).map_err(|e| e.to_string())?;
    let venv = aside.path().join("venv");
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv))
        .map_err(|why| format!("python3 makes no virtual environment: {why}"))?;
    let packages = aside.path().join("packages");
    run(Command::new(venv.join("bin/python"))
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .args([
            "--require-hashes",
            "--no-deps",
            "--only-binary=:all:",
            "--target",
        ])
        .arg(&packages)
        .arg("--requirement")
        .arg(&requirements))
    .map_err(|why| format!("the package can't be had: {why}"))?;
    match std::fs::rename(&packages, &kept) {
        Ok(()) => Ok(kept),
        // Another run was faster.
        Err(_) if kept.is_dir() => Ok(kept),
        Err(error) => Err(error.to_string()),
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    Err(last.unwrap_or("it failed without a word").to_owned())
}
