//! What a program tells of itself beside its blocks: marks, windows, errors, accounts.

use std::collections::BTreeMap;

use heapledger_format::SectionKind;
use heapledger_format::account::{Account, FreedOfOthers};
use heapledger_format::errors::{ErrorEntry, ErrorStack};
use heapledger_format::mark::{Mark, Window};

use crate::SourceError;
use crate::ledger::Ledger;
use crate::storage;

/// Most rows of one of these tables that are read.
const ROWS_MAX: u64 = 1 << 16;
/// Of the accounts there are as many as threads times heaps.
const ACCOUNTS_MAX: u64 = 1 << 20;
/// Bytes that an error has at least: what it is, and where.
const ERROR_BYTES_LEAST: usize = 24;
/// Where it is said how many of the bytes expected and found count: one that ends before (a chip's) has as many as are damaged.
const COMPARED_END: usize = 302;
/// Most bytes of memory around an error.
const AROUND_BYTES_MAX: u64 = 64;

/// A row that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRow<T> {
    /// Its number.
    pub row: u32,
    /// Its name, perhaps empty.
    pub name: String,
    /// What it says.
    pub entry: T,
}

/// Something found or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundError {
    /// Its row.
    pub row: u32,
    /// What it says.
    pub entry: ErrorEntry,
    /// The function that was called, if it is none of the kinds; perhaps empty.
    pub function: String,
    /// Memory around, perhaps none.
    pub around: Vec<u8>,
    /// Stacks whose call site, thread and time are those of an ancestor's ledger, as they were written. In `entry` these are not known.
    pub of_ancestors: Vec<ErrorStack>,
}

/// Takes out what no number of this ledger is.
fn of_ancestors(entry: &mut ErrorEntry) -> Vec<ErrorStack> {
    let foreign = entry.stacks.iter_mut().filter(|stack| stack.ancestor != 0);
    foreign
        .map(|stack| {
            let unknown = ErrorStack { tag: stack.tag, ancestor: stack.ancestor, ..ErrorStack::default() };
            std::mem::replace(stack, unknown)
        })
        .collect()
}

impl Ledger {
    /// The marks, by row. Those of a program's own order are in the order of their numbers.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn marks(&self) -> Result<Vec<NamedRow<Mark>>, SourceError> {
        let codec = self.header().codec;
        let mut marks = Vec::new();
        self.each_row(SectionKind::Marks, Mark::bytes(codec.word), ROWS_MAX, &mut |row, element| {
            if let Some(entry) = Mark::read(codec, element) {
                let name = self.text_at(entry.name_at.into(), entry.name_bytes.into())?;
                marks.push(NamedRow { row, name, entry });
            }
            Ok(())
        })?;
        Ok(marks)
    }

    /// The trace windows, by row.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn windows(&self) -> Result<Vec<NamedRow<Window>>, SourceError> {
        let codec = self.header().codec;
        let mut windows = Vec::new();
        self.each_row(SectionKind::Windows, Window::bytes(codec.word), ROWS_MAX, &mut |row, element| {
            if let Some(entry) = Window::read(codec, element) {
                let name = self.text_at(entry.name_at.into(), entry.name_bytes.into())?;
                windows.push(NamedRow { row, name, entry });
            }
            Ok(())
        })?;
        Ok(windows)
    }

    /// What was found or refused, by row.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn errors(&self) -> Result<Vec<FoundError>, SourceError> {
        let codec = self.header().codec;
        let mut errors = Vec::new();
        self.each_row(SectionKind::Errors, ERROR_BYTES_LEAST, ROWS_MAX, &mut |row, element| {
            if let Some(mut entry) = ErrorEntry::read(codec, element) {
                if element.len() < COMPARED_END {
                    entry.compared = compared(&entry);
                }
                let function = self.text_at(entry.function_at.into(), entry.function_bytes.into())?;
                let around =
                    self.string(entry.around_at.into(), u64::from(entry.around_bytes).min(AROUND_BYTES_MAX))?;
                let of_ancestors = of_ancestors(&mut entry);
                errors.push(FoundError { row, entry, function, around, of_ancestors });
            }
            Ok(())
        })?;
        Ok(errors)
    }

    /// What each thread holds of each heap, with what others freed of it and had not added yet.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn accounts(&self) -> Result<Vec<Account>, SourceError> {
        let codec = self.header().codec;
        // Of a program that goes on: first what was freed of others' accounts, since that moves on into these, and is not passed over so.
        let mut freed = Vec::new();
        let bytes = FreedOfOthers::bytes(codec.word);
        self.each_row(SectionKind::AccountFrees, bytes, ACCOUNTS_MAX, &mut |_, element| {
            freed.extend(FreedOfOthers::read(codec, element));
            Ok(())
        })?;
        let mut accounts: BTreeMap<u32, Account> = BTreeMap::new();
        self.each_row(SectionKind::Accounts, Account::bytes(codec.word), ACCOUNTS_MAX, &mut |row, element| {
            accounts.extend(Account::read(codec, element).map(|account| (row, account)));
            Ok(())
        })?;
        for freed in freed {
            if let Some(account) = accounts.get_mut(&(freed.account - 1)) {
                *account = account.less(&freed);
            }
        }
        Ok(accounts.into_values().collect())
    }

    /// Sections that the program wrote and whoever finished the ledger left out, by number: it did not know them. Not the
    /// index, which is of no use there.
    pub fn left_out(&self) -> Vec<u16> {
        let text = self.process().text(storage::SECTIONS_KEY).filter(|_| self.is_finished()).unwrap_or_default();
        let left_out = storage::parse_rows(&text).filter(|(kind, used)| {
            *used != 0 && *kind != SectionKind::Index as u16 && self.header().section(*kind).is_none()
        });
        left_out.map(|(kind, _)| kind).collect()
    }
}

/// How many bytes of what was expected and found count, in an error that does not say it: none, if nobody knows them.
fn compared(error: &ErrorEntry) -> u16 {
    let is_known = error.expected != [0; 8] || error.found != [0; 8];
    if is_known { error.bytes.min(8) as u16 } else { 0 }
}
