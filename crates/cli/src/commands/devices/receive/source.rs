//! Where events come from: a thread reads, and another one waits for Ctrl-C.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::mpsc::SyncSender;
use std::thread;

use anyhow::{Context, Result, bail};
use heapledger_wire::line::ASK;
use nix::sys::signal::{SigSet, Signal};

/// Bytes read at a time.
const PIECE_BYTES: usize = 64 << 10;

/// What came.
pub(super) enum Came {
    Bytes(Vec<u8>),
    /// Nothing more comes.
    End,
    Failed(io::Error),
}

/// Opens what was named, and lets what comes go to `sender`. If the device is to be asked for its live blocks, it is.
pub(super) fn open(source: &OsStr, ask: bool, sender: SyncSender<Came>) -> Result<()> {
    let text = source.to_string_lossy();
    // Before any thread is there: all of them leave these signals to the one that waits. Not before the source is open: whoever waits for the other
    // end of a pipe, or for a host, is ended by them as usual.
    let told = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect::<SigSet>();
    let block = || told.thread_block().context("signals cannot be waited for");
    let failed = || format!("{text} cannot be opened");
    if let Some(address) = text.strip_prefix("tcp://") {
        let mut stream = TcpStream::connect(address).with_context(failed)?;
        if ask {
            stream.write_all(ASK).with_context(failed)?;
        }
        block()?;
        read(stream, sender.clone());
    } else if let Some(address) = text.strip_prefix("udp://") {
        if ask {
            bail!("a device that sends packets cannot be asked: nobody knows where it is");
        }
        let socket = UdpSocket::bind(address).with_context(failed)?;
        block()?;
        packets(socket, sender.clone());
    } else if source == "-" {
        block()?;
        read(io::stdin(), sender.clone());
    } else {
        let is_device = std::fs::metadata(Path::new(source)).is_ok_and(|data| data.file_type().is_char_device());
        let mut file = if ask && is_device {
            OpenOptions::new().read(true).write(true).open(Path::new(source)).with_context(failed)?
        } else {
            File::open(Path::new(source)).with_context(failed)?
        };
        if ask {
            if !is_device {
                bail!("{text} is no device that could be asked");
            }
            file.write_all(ASK).with_context(failed)?;
        }
        block()?;
        read(file, sender.clone());
    }
    thread::spawn(move || {
        if told.wait().is_ok() {
            // Nobody hears it who has ended already.
            let _ = sender.send(Came::End);
        }
    });
    Ok(())
}

fn read(mut input: impl Read + Send + 'static, sender: SyncSender<Came>) {
    thread::spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let came = match input.read(&mut piece) {
                Ok(0) => Came::End,
                Ok(count) => Came::Bytes(piece.get(..count).unwrap_or(&[]).to_vec()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Came::Failed(error),
            };
            let is_last = !matches!(came, Came::Bytes(_));
            if sender.send(came).is_err() || is_last {
                return;
            }
        }
    });
}

fn packets(socket: UdpSocket, sender: SyncSender<Came>) {
    thread::spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let came = match socket.recv(&mut piece) {
                Ok(count) => Came::Bytes(piece.get(..count).unwrap_or(&[]).to_vec()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Came::Failed(error),
            };
            let is_last = matches!(came, Came::Failed(_));
            if sender.send(came).is_err() || is_last {
                return;
            }
        }
    });
}
