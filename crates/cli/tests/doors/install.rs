//! `scripts/install`, and what it installs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Ran, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_diligence");

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn install(arguments: &[&str]) -> Ran {
    Command::new(repository().join("scripts/install")).args(arguments).output().unwrap().into()
}

/// Every file under a directory, by its path from there, in order.
fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(one) = directories.pop() {
        for entry in std::fs::read_dir(one).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => directories.push(path),
                false => found.push(path.strip_prefix(directory).unwrap().display().to_string()),
            }
        }
    }
    found.sort();
    found
}

/// Whether a program is there to be tested with.
fn exists(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

#[test]
fn what_is_built_to_be_installed_can_be_built() {
    let script = std::fs::read_to_string(repository().join("scripts/install")).unwrap();
    let workspace = std::fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    let profile = script.split_once("cargo build --profile ").unwrap().1.split_whitespace().next().unwrap();
    assert!(workspace.contains(&format!("[profile.{profile}]\n")), "no profile {profile} in Cargo.toml");
    assert!(script.contains(&format!("/{profile}/diligence")), "the binary is not taken from where it is built");
}

#[test]
fn what_is_installed_works_and_can_be_removed() {
    let prefix = tempfile::tempdir().unwrap();
    let at = prefix.path().to_str().unwrap();
    let ran = install(&["--prefix", at, "--binary", PROGRAM]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let mut installed = vec![
        "bin/diligence",
        "lib/systemd/system/diligence.service",
        "share/bash-completion/completions/diligence",
        "share/fish/vendor_completions.d/diligence.fish",
        "share/zsh/site-functions/_diligence",
    ];
    // What runs functions in WebAssembly comes along if it lies beside the program.
    if Path::new(PROGRAM).with_file_name("diligence-wasm").exists() {
        installed.insert(1, "bin/diligence-wasm");
    }
    assert_eq!(files(prefix.path()), installed);

    let version = Command::new(prefix.path().join("bin/diligence")).arg("--version").output().unwrap();
    assert!(version.status.success());
    for shell in ["bash", "zsh", "fish"].into_iter().filter(|shell| exists(shell)) {
        let script = installed.iter().find(|file| file.contains(shell)).unwrap();
        let ran: Ran = Command::new(shell).arg("-n").arg(prefix.path().join(script)).output().unwrap().into();
        assert!(ran.code == Some(0) && ran.stderr.is_empty(), "{shell}: {}", ran.stderr);
    }
    let unit = prefix.path().join("lib/systemd/system/diligence.service");
    let text = std::fs::read_to_string(&unit).unwrap();
    assert!(text.contains(&format!("ExecStart={at}/bin/diligence serve")) && !text.contains("@PREFIX@"), "{text}");
    // Each directory of its state is one that the server is told to use.
    let joined = text.replace("\\\n", "");
    let line = |name| joined.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let state: Vec<_> = line("StateDirectory=").split_whitespace().collect();
    assert_eq!(state, ["diligence", "diligence/data", "diligence/db", "diligence/temp"], "{text}");
    assert_eq!(line("Environment=DILIGENCE_DATA="), "%S/diligence/data", "{text}");
    for option in ["--data ${DILIGENCE_DATA}", "--db %S/diligence/db", "--temp-dir %S/diligence/temp"] {
        assert!(line("ExecStart=").contains(option), "no {option}: {text}");
    }
    // The service's user is dynamic, so a file of users comes as a credential, in the comment too.
    assert!(text.contains("LoadCredential=users.toml:") && !text.contains("--users /etc"), "{text}");
    if exists("systemd-analyze") {
        let ran: Ran = Command::new("systemd-analyze").arg("verify").arg(&unit).output().unwrap().into();
        assert!(!ran.stderr.contains("diligence.service"), "{}", ran.stderr);
    }

    let ran = install(&["--prefix", at, "--uninstall"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(files(prefix.path()), Vec::<String>::new());

    let ran = install(&["--prefix", at, "--binary", PROGRAM, "--no-systemd"]);
    assert_eq!((ran.code, files(prefix.path()).len()), (Some(0), installed.len() - 1), "{}", ran.stderr);
}

#[test]
fn an_install_that_is_not_possible_says_why() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path().to_str().unwrap();
    for (arguments, reason) in [
        (&["--prefix", at, "--binary", "/nonexistent"][..], "is not a program"),
        (&["--prefix"], "--prefix needs a value"),
        (&["--dance"], "unknown argument --dance"),
    ] {
        let ran = install(arguments);
        assert!(ran.code == Some(1) && ran.stderr.contains(reason), "{arguments:?}: {}", ran.stderr);
    }
    assert_eq!(files(home.path()), Vec::<String>::new());
}

#[test]
fn completions_go_to_standard_output() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["completions", "bash"], "");
    assert!(ran.code == Some(0) && ran.stdout.contains("complete -F _diligence"), "{}", ran.stderr);
    assert_eq!(run(home.path(), &["completions", "csh"], "").code, Some(2));
}

/// Needs the emulator of Debian's package `qemu-user`, and passes without it.
#[test]
#[cfg(target_feature = "avx2")]
fn a_processor_without_avx2_is_told_what_to_do() {
    let emulated = |processor: &str| -> Option<Ran> {
        let mut command = Command::new("qemu-x86_64");
        Some(command.args(["-cpu", processor, PROGRAM, "--version"]).output().ok()?.into())
    };
    let Some(old) = emulated("Nehalem") else { return };
    assert_eq!((old.code, old.stdout.as_str()), (Some(1), ""));
    assert!(
        old.stderr.contains("needs a processor with AVX2") && old.stderr.contains("scripts/install"),
        "{}",
        old.stderr
    );
    let new = emulated("Haswell").unwrap();
    assert!(new.code == Some(0) && new.stdout.starts_with("diligence "), "{}", new.stderr);
}
