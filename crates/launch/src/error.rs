//! Why something about a run cannot be done: each a sentence for a person.

use std::io;
use std::path::{Path, PathBuf};

use heapledger_source::SourceError;
use nix::errno::Errno;
use thiserror::Error;

/// What went wrong.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// Something about a file or directory.
    #[error("{}: {reason}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
    /// Something about a file that is open.
    #[error("{0}")]
    System(io::Error),
    /// A ledger cannot be read or written.
    #[error(transparent)]
    Source(#[from] SourceError),

    /// No directory for unfinished ledgers can be made in a place.
    #[error("no ledger can be made in {}: {why}", base.display())]
    NoLedgerIn {
        /// The place.
        base: PathBuf,
        /// Why.
        why: Box<LaunchError>,
    },
    /// None of the usual places will do.
    #[error("no directory for the ledger: name one with --ledger-dir")]
    NoPlace,
    /// A directory cannot be made.
    #[error("{}", .0.desc())]
    NotMade(Errno),
    /// A directory of ledgers that others can look into.
    #[error("{} is not a directory of yours alone", .0.display())]
    NotOursAlone(PathBuf),

    /// Somebody else has hold of it.
    #[error("{} is being finished by another heapledger", .0.display())]
    BeingFinished(PathBuf),
    /// Somebody else was faster.
    #[error("{} is not there any more: another heapledger has finished it", .0.display())]
    FinishedByAnother(PathBuf),
    /// The file system does not lock.
    #[error("{} cannot be locked: {}", .0.display(), .1.desc())]
    NotLocked(PathBuf, Errno),
    /// It is no ledger that can be finished: a copy, an image of memory.
    #[error("{} is not an unfinished ledger", .0.display())]
    NotUnfinished(PathBuf),
    /// It was finished before.
    #[error("{} is finished already", .0.display())]
    Finished(PathBuf),
    /// A ledger that was removed cannot be given a name again.
    #[error("there is no place for it")]
    NoNameAgain,

    /// A letter behind `%` in an output's name means nothing.
    #[error(
        "%{letter} in the output's name means nothing; there are %n %p{} %h %t %%",
        if *.numbered { " %i" } else { "" }
    )]
    UnknownLetter {
        /// The letter.
        letter: char,
        /// Whether outputs are numbered.
        numbered: bool,
    },
    /// An output's name ends in a percent sign.
    #[error("the output's name ends in a single %; write %%")]
    LonePercent,
    /// It has none.
    #[error("the output's name is empty")]
    NoName,
    /// It is that of a directory.
    #[error("{} is a directory; the output is a file", .0.display())]
    IsDirectory(PathBuf),
    /// It is that of a device or a pipe.
    #[error("{} is no regular file, and a ledger is one", .0.display())]
    NoFile(PathBuf),
    /// There is no working directory any more.
    #[error("the ledger cannot be written to the working directory: it was removed")]
    NoWorkingDirectory,
    /// The output's directory is not ours to write.
    #[error("the ledger cannot be written to {}: {}", .0.display(), .1.desc())]
    NotWritable(PathBuf, Errno),
    /// Its name has more bytes than one has there.
    #[error("the output's name, of {0} bytes, is too long for its file system")]
    NameTooLong(usize),
    /// Its directory is one in which the kernel alone makes files.
    #[error("the ledger cannot be written to {}: no files can be made there", .0.display())]
    NoFilesIn(PathBuf),
    /// No directory to write in can be made beside the output.
    #[error("the finished ledger cannot be written: {0}")]
    NoWorkplace(io::Error),
    /// A file cannot be written.
    #[error("{} cannot be written: {reason}", path.display())]
    Unwritten {
        /// Which one.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The disk is full.
    #[error("there is no room on the disk for {}", .0.display())]
    DiskFull(PathBuf),
    /// The unfinished ledger stays beside the finished one.
    #[error("{} cannot be removed: {}", .0.display(), .1)]
    NotRemoved(PathBuf, io::Error),

    /// The recorder reads no further.
    #[error("the options of the recorder, paths included, are too long")]
    OptionsTooLong,
    /// Nothing can be executed with it.
    #[error("an argument has a zero byte inside")]
    ZeroByte,
    /// The preload library that was asked for.
    #[error("the preload library {}: {reason}", path.display())]
    Library {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
    /// The loader splits its list there.
    #[error("the loader cannot preload {}: a space or colon in its path", .0.display())]
    LibraryPath(PathBuf),
    /// This is another platform.
    #[error("this heapledger was built without its preload library; recording needs x86-64 Linux")]
    NoLibrary,
    /// It cannot be written out anywhere.
    #[error("found no directory for the preload library: {}: {why}", directory.display())]
    NoPlaceForLibrary {
        /// The last that was tried.
        directory: PathBuf,
        /// Why it will not do.
        why: Box<LaunchError>,
    },
    /// A directory will not do for the library.
    #[error("{0}")]
    Unfit(&'static str),
    /// Nor will one that anybody can replace.
    #[error("anybody may rename it in {}", .0.display())]
    Renamable(PathBuf),
}

impl LaunchError {
    /// What the system says of a file.
    pub(crate) fn of(path: &Path) -> impl FnOnce(io::Error) -> LaunchError + use<'_> {
        |reason| LaunchError::File { path: path.to_owned(), reason }
    }
}
