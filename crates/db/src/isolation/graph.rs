//! Which transactions come before which others, for what reason, and whether one comes before itself.

use std::collections::VecDeque;

/// Why a transaction comes before another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It has written the version that the other one replaces.
    Writes,
    /// It has written what the other one reads.
    IsRead,
    /// It reads what the other one replaces.
    Reads,
    /// It had ended when the other one began.
    Time,
}

/// Transactions, and moments, by number.
#[derive(Default)]
pub(super) struct Graph {
    behind: Vec<Vec<(usize, Reason)>>,
}

/// A cycle: numbers, and why each comes before the next one. Behind the last one is the first.
pub(super) type Cycle = Vec<(usize, Reason)>;

impl Graph {
    /// Without reasons.
    pub(super) fn new(nodes: usize) -> Self {
        Self { behind: vec![Vec::new(); nodes] }
    }

    /// One comes before another one, unless they are the same.
    pub(super) fn order(&mut self, first: usize, second: usize, reason: Reason) {
        if first != second && !self.behind[first].contains(&(second, reason)) {
            self.behind[first].push((second, reason));
        }
    }

    /// A cycle of these reasons.
    pub(super) fn cycle(&self, may: impl Fn(Reason) -> bool) -> Option<Cycle> {
        let mut before = vec![Vec::new(); self.behind.len()];
        let mut open = vec![0; self.behind.len()];
        for (first, behind) in self.behind.iter().enumerate() {
            for (second, reason) in behind.iter().filter(|(_, reason)| may(*reason)) {
                before[*second].push((first, *reason));
                open[*second] += 1;
            }
        }
        // Nodes that nothing comes before are in no cycle, and without them others become such.
        let mut free = (0..open.len()).filter(|node| open[*node] == 0).collect::<Vec<_>>();
        while let Some(first) = free.pop() {
            for (second, _) in self.behind[first].iter().filter(|(_, reason)| may(*reason)) {
                open[*second] -= 1;
                if open[*second] == 0 {
                    free.push(*second);
                }
            }
        }
        // Of what is left each has one before it that is left, too: going back, one comes again.
        let mut walk: Cycle = Vec::new();
        let mut node = (0..open.len()).find(|node| open[*node] > 0)?;
        loop {
            let (first, reason) = *before[node].iter().find(|(first, _)| open[*first] > 0)?;
            walk.push((first, reason));
            if let Some(place) = walk[..walk.len() - 1].iter().position(|(known, _)| *known == first) {
                let mut cycle = walk.split_off(place + 1);
                cycle.reverse();
                return Some(cycle);
            }
            node = first;
        }
    }

    /// A cycle in which one transaction reads what another one replaces, once.
    pub(super) fn cycle_of_one_read(&self) -> Option<Cycle> {
        self.behind.iter().enumerate().find_map(|(reader, behind)| {
            let replaced = behind.iter().filter(|(_, reason)| *reason == Reason::Reads);
            replaced.map(|(writer, _)| *writer).find_map(|writer| {
                let mut path = self.path(writer, reader)?;
                path.insert(0, (reader, Reason::Reads));
                Some(path)
            })
        })
    }

    /// The shortest way from one to another without [`Reason::Reads`].
    fn path(&self, from: usize, to: usize) -> Option<Cycle> {
        let mut came_from = vec![None; self.behind.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(first) = queue.pop_front() {
            for (second, reason) in self.behind[first].iter().filter(|(_, reason)| *reason != Reason::Reads) {
                if *second != from && came_from[*second].is_none() {
                    came_from[*second] = Some((first, *reason));
                    queue.push_back(*second);
                }
            }
        }
        let (mut path, mut node) = (Vec::new(), to);
        while node != from {
            let (first, reason) = came_from[node]?;
            path.push((first, reason));
            node = first;
        }
        path.reverse();
        Some(path)
    }

    /// A cycle in which no two of [`Reason::Reads`] follow one another: snapshots of single moments have none.
    pub(super) fn cycle_of_parted_reads(&self) -> Option<Cycle> {
        let nodes = self.behind.len();
        // Each node twice: where a reason that is no reading has led to it, and where one has.
        let mut twice = Graph::new(2 * nodes);
        for (first, behind) in self.behind.iter().enumerate() {
            for (second, reason) in behind {
                match reason {
                    Reason::Reads => twice.order(first, nodes + second, *reason),
                    _ => [first, nodes + first].into_iter().for_each(|first| twice.order(first, *second, *reason)),
                }
            }
        }
        let cycle = twice.cycle(|_| true)?;
        Some(cycle.into_iter().map(|(node, reason)| (node % nodes, reason)).collect())
    }
}
