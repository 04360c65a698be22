//! A control group of the system for this process, whose memory, page cache included, has a limit.
//!
//! Version 1 of control groups counts in `memory.limit_in_bytes` of its memory controller, version 2 in `memory.max`;
//! each takes rights on the machine. What the process holds before it enters is counted where it was, so the limit is
//! for what comes later: page cache, and memory that is allocated while it is in the group.

use std::path::{Path, PathBuf};

use diligence_base::{Error, Result};

/// Where control groups are, where memory's are of version 1, and the files that limit them.
const KINDS: [(&str, &str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "", "memory.max")];

/// The group. Dropped, the process is where it was, and the group is gone.
#[derive(Debug)]
pub struct Group {
    folder: PathBuf,
    /// Where the process was.
    before: PathBuf,
}

impl Group {
    /// A group with so many bytes, with this process in it.
    pub fn enter(bytes: u64) -> Result<Self> {
        let groups =
            std::fs::read_to_string("/proc/self/cgroup").map_err(|error| refused("/proc/self/cgroup", &error))?;
        let (root, own, limit) = KINDS
            .into_iter()
            .find_map(|(root, controller, limit)| {
                let own = own_group(&groups, controller)?;
                // In a container, the group's name may be one that is seen from outside only.
                let own = Some(Path::new(root).join(own)).filter(|own| own.join("cgroup.procs").exists());
                let own = own.unwrap_or_else(|| root.into());
                own.join("cgroup.procs").exists().then_some((root, own, limit))
            })
            .ok_or_else(|| Error::unsupported("this system has no control groups that limit memory"))?;
        let name = format!("diligence-bench-{}", std::process::id());
        // Beside the process's own group, in version 2: there, a group with processes has no groups with limits in it.
        let parent = if limit == "memory.max" { own.parent().filter(|parent| parent.starts_with(root)) } else { None };
        let folder = parent.unwrap_or(&own).join(name);
        std::fs::create_dir(&folder).map_err(|error| refused(&folder.display().to_string(), &error))?;
        let group = Self { folder, before: own };
        write(&group.folder.join(limit), &bytes.to_string())?;
        write(&group.folder.join("cgroup.procs"), &std::process::id().to_string())?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Whatever cannot be undone is a group without processes.
        let _ = write(&self.before.join("cgroup.procs"), &std::process::id().to_string());
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// The path of the group that a process is in, relative to where groups are, of the lines of `/proc/self/cgroup`.
fn own_group<'a>(groups: &'a str, controller: &str) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let is_it = controllers.split(',').any(|name| name == controller);
        is_it.then(|| path.trim_start_matches('/'))
    })
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| refused(&path.display().to_string(), &error))
}

fn refused(what: &str, error: &std::io::Error) -> Error {
    Error::resource(format!("cannot limit the page cache by a control group: {what}: {error}"))
        .with_hint("run as root where control groups can be changed, or leave --cgroup out")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_in_a_group_of_each_controller() {
        let groups = "5:cpu,cpuacct:/a\n4:memory:/b/c\n1:name=systemd:/\n0::/d\n";
        assert_eq!(own_group(groups, "memory"), Some("b/c"));
        assert_eq!(own_group(groups, "cpuacct"), Some("a"));
        assert_eq!(own_group(groups, ""), Some("d"));
        assert_eq!(own_group("0::/d\n", "memory"), None);
    }
}
