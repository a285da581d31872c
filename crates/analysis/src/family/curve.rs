//! The memory of a session over time, as `run` saw it: all processes together, and those that held most.

use std::collections::HashMap;

use heapledger_source::{Family, FamilyMemory};

/// A process that was among those with the most live bytes at some moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CurveProcess {
    /// Its number.
    pub pid: u32,
    /// When it started, in ticks: with the number it names it.
    pub start_ticks: u64,
    /// What its last program is called; empty if it is in no line of the session.
    pub program: String,
    /// The most bytes that it was seen with.
    pub most_bytes: u64,
}

/// A part of the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CurveColumn {
    /// Live bytes of all, at the moment with the most in it; where nobody looked, as before.
    pub live_bytes: u64,
    /// The most memory in it; see [`FamilyCurve::is_pss`].
    pub memory_bytes: u64,
    /// Of `live_bytes`, those of the first of [`FamilyCurve::processes`], in their order: 0 if one was not among the eight with the most.
    pub shares: Vec<u64>,
}

/// The moments of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FamilyCurve<'f> {
    /// In the order of time.
    pub moments: Vec<&'f FamilyMemory>,
    /// When the session began, in nanoseconds since 1970: no moment was before it.
    pub began_unix_ns: u64,
    /// To when it goes, from that on, in nanoseconds.
    pub span_ns: u64,
    /// Those that held most, most first.
    pub processes: Vec<CurveProcess>,
    /// Whether memory is by proportional shares, at all moments: else it is RSS, where shared pages count for each process.
    pub is_pss: bool,
}

impl<'f> FamilyCurve<'f> {
    /// That of a session; no moments, if nobody looked.
    pub fn of(family: &'f Family) -> FamilyCurve<'f> {
        let mut moments: Vec<&FamilyMemory> = family.memory.iter().collect();
        moments.sort_by_key(|moment| moment.at_unix_ns);
        let first = moments.first().map_or(0, |moment| moment.at_unix_ns);
        let began_unix_ns =
            Some(family.head.started_unix_ns).filter(|began| *began != 0).map_or(first, |began| began.min(first));
        let last = moments.last().map_or(0, |moment| moment.at_unix_ns);
        let ended = family.ended.as_ref().map_or(0, |ended| ended.unix_ns);
        let is_pss = moments.iter().all(|moment| moment.pss_bytes.is_some());
        let processes = processes(family, &moments);
        FamilyCurve {
            moments,
            began_unix_ns,
            span_ns: last.max(ended).saturating_sub(began_unix_ns),
            processes,
            is_pss,
        }
    }

    /// The first moment with the most live bytes.
    pub fn peak(&self) -> Option<&'f FamilyMemory> {
        let most = self.moments.iter().map(|moment| moment.live_bytes).max()?;
        self.moments.iter().copied().find(|moment| moment.live_bytes == most)
    }

    /// When a moment was, in nanoseconds since the session began.
    pub fn at_ns(&self, moment: &FamilyMemory) -> u64 {
        moment.at_unix_ns.saturating_sub(self.began_unix_ns)
    }

    /// Memory of a moment: see [`FamilyCurve::is_pss`].
    pub fn memory_bytes(&self, moment: &FamilyMemory) -> u64 {
        moment.pss_bytes.filter(|_| self.is_pss).unwrap_or(moment.rss_bytes)
    }

    /// The time in so many parts, with the shares of so many processes.
    pub fn columns(&self, number: usize, processes: usize) -> Vec<CurveColumn> {
        let mut columns: Vec<Option<CurveColumn>> = vec![None; number];
        let known: HashMap<(u32, u64), usize> = self
            .processes
            .iter()
            .take(processes)
            .enumerate()
            .map(|(place, one)| ((one.pid, one.start_ticks), place))
            .collect();
        for moment in &self.moments {
            let place = u128::from(self.at_ns(moment)) * number as u128 / (u128::from(self.span_ns) + 1);
            let Some(column) = columns.get_mut(usize::try_from(place).unwrap_or(usize::MAX)) else { continue };
            let memory_bytes = self.memory_bytes(moment).max(column.as_ref().map_or(0, |column| column.memory_bytes));
            if let Some(higher) = column.as_mut().filter(|column| column.live_bytes >= moment.live_bytes) {
                higher.memory_bytes = memory_bytes;
                continue;
            }
            let mut shares = vec![0; known.len()];
            for (pid, start_ticks, bytes) in &moment.most {
                if let Some(share) = known.get(&(*pid, *start_ticks)).and_then(|place| shares.get_mut(*place)) {
                    *share = *bytes;
                }
            }
            *column = Some(CurveColumn { live_bytes: moment.live_bytes, memory_bytes, shares });
        }
        let mut last = CurveColumn { shares: vec![0; known.len()], ..CurveColumn::default() };
        columns
            .into_iter()
            .map(|column| {
                last = column.unwrap_or_else(|| last.clone());
                last.clone()
            })
            .collect()
    }
}

fn processes(family: &Family, moments: &[&FamilyMemory]) -> Vec<CurveProcess> {
    let mut most: HashMap<(u32, u64), u64> = HashMap::new();
    for (pid, start_ticks, bytes) in moments.iter().flat_map(|moment| &moment.most) {
        let known = most.entry((*pid, *start_ticks)).or_default();
        *known = (*known).max(*bytes);
    }
    let mut names: HashMap<(u32, u64), (u32, &str)> = HashMap::new();
    for process in family.members.iter().map(|member| &member.process) {
        let name = names.entry((process.pid, process.start_ticks)).or_default();
        if process.image >= name.0 {
            *name = (process.image, &process.program);
        }
    }
    let named = most.into_iter().filter(|(_, bytes)| *bytes != 0).map(|((pid, start_ticks), most_bytes)| {
        let program = names.get(&(pid, start_ticks)).map_or_else(String::new, |(_, name)| (*name).to_owned());
        CurveProcess { pid, start_ticks, program, most_bytes }
    });
    let mut named: Vec<CurveProcess> = named.collect();
    named.sort_by_key(|one| (std::cmp::Reverse(one.most_bytes), one.pid, one.start_ticks));
    named
}

#[cfg(test)]
mod tests {
    use heapledger_source::{FamilyHead, FamilyProcess, Member, MemberLedger};

    use super::*;

    fn moment(at_unix_ns: u64, live_bytes: u64, pss_bytes: Option<u64>, most: &[(u32, u64, u64)]) -> FamilyMemory {
        FamilyMemory { at_unix_ns, live_bytes, rss_bytes: live_bytes * 3, pss_bytes, most: most.to_vec(), processes: 2 }
    }

    fn family(memory: Vec<FamilyMemory>) -> Family {
        let member = |pid: u32, image: u32, program: &str| {
            let process =
                FamilyProcess { pid, start_ticks: 1, image, program: program.into(), ..FamilyProcess::default() };
            Member { process, is_listed: true, ledger: MemberLedger::NotYet }
        };
        let mut family = Family::default();
        family.members = vec![member(7, 1, "cc1"), member(7, 0, "sh"), member(8, 0, "as")];
        (family.memory, family.head) = (memory, FamilyHead::new("0", 1, 1_000, Vec::new(), "test"));
        family
    }

    #[test]
    fn a_column_has_its_highest_moment_and_who_held_it() {
        let family = family(vec![
            moment(1_000, 10, Some(5), &[(7, 1, 10)]),
            moment(1_019, 30, Some(9), &[(8, 1, 20), (7, 1, 10)]),
            moment(1_018, 20, Some(11), &[(7, 1, 20)]),
            moment(1_099, 5, Some(1), &[(9, 4, 5)]),
        ]);
        let curve = FamilyCurve::of(&family);
        assert_eq!((curve.began_unix_ns, curve.span_ns, curve.is_pss), (1_000, 99, true));
        assert_eq!(curve.peak().map(|moment| curve.at_ns(moment)), Some(19));
        let named: Vec<(&str, u64)> =
            curve.processes.iter().map(|one| (one.program.as_str(), one.most_bytes)).collect();
        assert_eq!(named, [("cc1", 20), ("as", 20), ("", 5)]);
        let columns = curve.columns(5, 2);
        let shown: Vec<(u64, u64, &[u64])> =
            columns.iter().map(|one| (one.live_bytes, one.memory_bytes, &one.shares[..])).collect();
        let high = (30, 11, &[10, 20][..]);
        assert_eq!(shown, [high, high, high, high, (5, 1, &[0, 0])], "where nobody looked, as before");
    }

    #[test]
    fn shared_pages_count_once_only_if_that_is_known_of_all() {
        let all = family(vec![moment(1_000, 10, Some(5), &[]), moment(1_001, 8, None, &[])]);
        let curve = FamilyCurve::of(&all);
        assert!(!curve.is_pss && curve.memory_bytes(&all.memory[0]) == 30);
        let none = family(Vec::new());
        let curve = FamilyCurve::of(&none);
        assert_eq!((curve.peak(), curve.span_ns, curve.columns(3, 8).len()), (None, 0, 3));
    }
}
