//! Core dumps, written as ESP-IDF writes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// What follows a header's length.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    version: u32,
    words: usize,
    has_sha: bool,
}

/// The forms that ESP-IDF has had, for an ESP32-C3.
pub const FORMS: [Form; 7] = [
    Form { version: 1, words: 4, has_sha: false },
    Form { version: 0x5_0002, words: 5, has_sha: false },
    Form { version: 0x5_0003, words: 6, has_sha: false },
    Form { version: 0x5_0100, words: 5, has_sha: false },
    Form { version: 0x5_0101, words: 5, has_sha: true },
    Form { version: 0x5_0102, words: 6, has_sha: false },
    Form { version: 0x5_0103, words: 6, has_sha: true },
];

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Memory from addresses on, as an ELF core of 32 bits.
fn elf_core(memory: &[(u32, &[u8])]) -> Vec<u8> {
    let mut core = b"\x7fELF\x01\x01\x01".to_vec();
    core.resize(16, 0);
    // A core, of RISC-V; headers follow at 52.
    core.extend(words(&[243 << 16 | 4, 1, 0, 52, 0, 0, 32 << 16 | 52, memory.len() as u32, 0]));
    core.truncate(52);
    let mut place = 52 + 32 * memory.len() as u32;
    for (address, bytes) in memory {
        let count = bytes.len() as u32;
        core.extend(words(&[1, place, *address, *address, count, count, 6, 0]));
        place += count;
    }
    core.extend(memory.iter().flat_map(|(_, bytes)| bytes.iter().copied()));
    core
}

/// A dump of a task and of memory.
pub fn dump(form: Form, memory: &[(u32, &[u8])]) -> Vec<u8> {
    let (stack, block) = ([0x55u8; 64], [0xAAu8; 340]);
    let is_elf = form.version & 0x100 != 0;
    let data = if is_elf {
        elf_core(&[&[(0x3fc9_0b8c, block.as_slice()), (0x3fc9_0940, &stack)], memory].concat())
    } else {
        let task = [words(&[0x3fc9_0b8c, 0x3fc9_0940, 0x3fc9_0980]), block.to_vec(), stack.to_vec()].concat();
        let segment = |(address, bytes): &(u32, &[u8])| [&words(&[*address, bytes.len() as u32]), *bytes].concat();
        [task, memory.iter().flat_map(segment).collect()].concat()
    };
    let length = form.words * 4 + data.len() + if form.has_sha { 32 } else { 4 };
    let tasks = if is_elf { [0, 0, 0] } else { [1, 340, memory.len() as u32] };
    let mut header = vec![length as u32, form.version, tasks[0], tasks[1], tasks[2], 3];
    header.truncate(form.words);
    let mut all = [words(&header), data].concat();
    let sum = if form.has_sha { Sha256::digest(&all).to_vec() } else { crc32fast::hash(&all).to_le_bytes().to_vec() };
    all.extend(sum);
    all
}

/// As the serial line says it: pieces of other lengths than 48 bytes end in "=".
pub fn lines(dump: &[u8]) -> String {
    let mut lines = String::from(
        "I (312) main_task: Calling app_main()\r\nGuru Meditation Error: Core  0 panic'ed (Load access fault).\r\n",
    );
    lines.push_str("================= CORE DUMP START =================\r\n");
    for part in dump.chunks(340) {
        part.chunks(48).for_each(|line| lines.push_str(&format!("{}\r\n", STANDARD.encode(line))));
    }
    lines.push_str(
        "================= CORE DUMP END =================\r\nCoredump checksum='1af5fea2'\r\nRebooting...\r\n",
    );
    lines
}
