//! What the machine has.

use diligence_base::limits::MEMORY_SHARE_PERCENT;

/// The default budget: a share of the memory that the machine, or the container around the process, has.
pub fn default_budget_bytes() -> usize {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
    });
    let cgroups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&cgroups).into_iter();
    let container = limits.filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()).min();
    /// Used where the system tells nothing.
    const FALLBACK_BYTES: u64 = 4 << 30;
    let total = match (machine, container) {
        (Some(machine), Some(container)) => machine.min(container),
        (Some(bytes), None) | (None, Some(bytes)) => bytes,
        (None, None) => FALLBACK_BYTES,
    };
    (total / 100 * MEMORY_SHARE_PERCENT) as usize
}

/// The files that may bound the memory of a process with these control groups, as `/proc/self/cgroup` lists them: its
/// own and those around it, of both versions, and what a container sees of them.
fn limit_files(cgroups: &str) -> Vec<String> {
    let mut files = Vec::new();
    let mut add = |root: &str, group: &str, file: &str| {
        let mut group = group.trim_end_matches('/');
        loop {
            files.push(format!("{root}{group}/{file}"));
            match group.rfind('/') {
                Some(end) => group = &group[..end],
                None => break,
            }
        }
    };
    add("/sys/fs/cgroup", "", "memory.max");
    add("/sys/fs/cgroup/memory", "", "memory.limit_in_bytes");
    for line in cgroups.lines() {
        match line.splitn(3, ':').collect::<Vec<_>>().as_slice() {
            ["0", "", group] => add("/sys/fs/cgroup", group, "memory.max"),
            [_, controllers, group] if controllers.split(',').any(|controller| controller == "memory") => {
                add("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
            }
            _ => {}
        }
    }
    files.sort();
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_all_groups_around_a_process_count() {
        let files = limit_files("12:memory:/jobs/one\n3:cpu,cpuacct:/jobs\n0::/user.slice/a.scope\n");
        let expected = [
            "/sys/fs/cgroup/memory.max",
            "/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/user.slice/a.scope/memory.max",
            "/sys/fs/cgroup/user.slice/memory.max",
        ];
        assert_eq!(files, expected);
        assert_eq!(limit_files("0::/\n").len(), 2);
    }
}
