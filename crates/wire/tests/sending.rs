//! What a device sends is what a host reads, on lines that take everything, refuse frames, damage them, and print text.

use std::collections::HashMap;

use heapledger_wire::line::{Binary, LEAD_IN, Text};
use heapledger_wire::message::Mark;
use heapledger_wire::rtt::Ring;
use heapledger_wire::{BadFrame, DEPTH_MAX, Frame, Line, Message, Sender, WireEvent, cobs};
use proptest::collection::vec;
use proptest::prelude::*;

/// What happened, as the device or the host knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    is_free: bool,
    kind: u8,
    address: u32,
    size: u32,
    stack: Vec<u32>,
    task: u32,
    time: u32,
}

/// Keeps frames, or refuses them.
struct Kept {
    frames: Vec<Vec<u8>>,
    /// The next frames are refused, as often as it says.
    refuse: u32,
}

impl Line for Kept {
    fn send(&mut self, frame: &[u8]) -> bool {
        if self.refuse != 0 {
            self.refuse -= 1;
            return false;
        }
        self.frames.push(frame.to_vec());
        true
    }
}

#[derive(Default)]
struct Host {
    seen: Vec<Seen>,
    lost: u32,
    stacks: HashMap<u32, Vec<u32>>,
    tasks: HashMap<u32, String>,
    marks: Vec<Mark>,
    begun: u32,
    unknown_stacks: u32,
}

impl Host {
    fn frame(&mut self, frame: &[u8]) {
        let frame = Frame::parse(frame).expect("a whole frame");
        let mut task = 0;
        let mut messages = frame.messages();
        for message in messages.by_ref() {
            let mut event = |is_free, kind, address, size, stack: u32, time| {
                let frames = match stack {
                    0 => Vec::new(),
                    number => self.stacks.get(&number).cloned().unwrap_or_else(|| {
                        self.unknown_stacks += 1;
                        Vec::new()
                    }),
                };
                self.seen.push(Seen { is_free, kind, address, size, stack: frames, task, time });
            };
            match message {
                Message::Begin { version, word_bytes, .. } => {
                    assert_eq!((version, word_bytes), (1, 4));
                    self.stacks.clear();
                    self.begun += 1;
                }
                Message::Alloc { kind, address, size, stack, time } => event(false, kind, address, size, stack, time),
                Message::Free { kind, address, stack, time } => event(true, kind, address, 0, stack, time),
                Message::Stack { number, frames } => {
                    let frames = frames.iter().copied().take_while(|frame| *frame != 0).collect();
                    self.stacks.insert(number, frames);
                }
                Message::Task { number, name } => {
                    self.tasks.insert(number, String::from_utf8_lossy(name).into_owned());
                }
                Message::Switch(number) => task = number,
                Message::Lost(events) => self.lost += events,
                Message::Mark(mark) => self.marks.push(mark),
            }
        }
        assert!(messages.whole);
    }
}

fn event<'s>(seen: &'s Seen) -> WireEvent<'s> {
    let Seen { kind, address, size, ref stack, task, time, .. } = *seen;
    WireEvent { kind, address, size, stack, task, time }
}

fn seen() -> impl Strategy<Value = Seen> {
    let stack = prop_oneof![
        Just(vec![]),
        vec(1u32.., 1..=DEPTH_MAX),
        (0..20u32).prop_map(|number| vec![0x4008_0000 + number * 8, 0x400d_1234])
    ];
    let address = prop_oneof![any::<u32>(), 0x3ffb_0000u32..0x3ffc_0000];
    (any::<bool>(), 0..64u8, address, any::<u32>(), stack, 0..4u32, any::<u32>()).prop_map(
        |(is_free, kind, address, size, stack, task, time)| Seen {
            is_free,
            kind,
            address,
            size: if is_free { 0 } else { size },
            stack,
            task,
            time,
        },
    )
}

fn send<L: Line>(sender: &mut Sender<L, 16>, all: &[Seen]) {
    for one in all {
        if one.is_free { sender.free(&event(one)) } else { sender.alloc(&event(one)) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn what_is_sent_is_read(all in vec(seen(), 0..200)) {
        let mut sender: Sender<Kept, 16> = Sender::new(Kept { frames: Vec::new(), refuse: 0 }, 3, 77, 1000);
        send(&mut sender, &all);
        sender.flush();
        let mut host = Host::default();
        for (index, frame) in sender.line().frames.iter().enumerate() {
            let parsed = Frame::parse(frame).expect("a whole frame");
            prop_assert_eq!((parsed.device, parsed.sequence), (3, index as u8));
            host.frame(frame);
        }
        prop_assert_eq!(host.seen, all);
        prop_assert_eq!((host.lost, host.unknown_stacks), (0, 0));
    }

    #[test]
    fn a_line_that_refuses_frames_loses_their_events_and_no_other(all in vec(seen(), 0..300), refuse in vec((0..300usize, 1..4u32), 0..6)) {
        let mut sender: Sender<Kept, 16> = Sender::new(Kept { frames: Vec::new(), refuse: 0 }, 0, 1, 1000);
        for (index, one) in all.iter().enumerate() {
            if let Some((_, times)) = refuse.iter().find(|(at, _)| *at == index) {
                sender.line().refuse = *times;
            }
            send(&mut sender, std::slice::from_ref(one));
        }
        sender.line().refuse = 0;
        sender.flush();
        sender.mark(Mark::Stops, 0);
        let mut host = Host::default();
        sender.line().frames.iter().for_each(|frame| host.frame(frame));
        prop_assert_eq!(host.seen.len() + host.lost as usize, all.len());
        prop_assert_eq!(host.unknown_stacks, 0, "a stack that was lost is sent again");
        // In order, and each one of those that happened.
        let mut rest = all.iter();
        prop_assert!(host.seen.iter().all(|one| rest.any(|other| other == one)));
    }

    #[test]
    fn packing_leaves_no_zero_and_comes_back(bytes in vec(prop_oneof![Just(0u8), any::<u8>()], 0..600)) {
        let mut packed = vec![0xaa; bytes.len() + 6];
        let count = cobs::pack(&bytes, &mut packed).expect("it fits");
        prop_assert_eq!(packed[..count].iter().position(|byte| *byte == 0), Some(count - 1));
        let mut inside = packed[..count - 1].to_vec();
        let back = cobs::unpack(&mut inside).expect("it was packed");
        prop_assert_eq!(&inside[..back], &bytes[..]);
        prop_assert!(count <= bytes.len() + 2 + bytes.len() / 254 + 1);
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in vec(any::<u8>(), 0..300)) {
        if let Ok(frame) = Frame::parse(&bytes) {
            frame.messages().for_each(drop);
        }
        let count = cobs::unpack(&mut bytes).unwrap_or(0);
        prop_assert!(count <= bytes.len());
    }
}

#[test]
fn every_flipped_bit_of_a_frame_is_noticed() {
    let mut sender: Sender<Kept, 16> = Sender::new(Kept { frames: Vec::new(), refuse: 0 }, 0, 1, 1000);
    let stack = [0x4008_1eff, 0x4008_1f34];
    sender.alloc(&WireEvent { kind: 27, address: 0x3ffb_68a0, size: 8, stack: &stack, task: 1, time: 5 });
    sender.flush();
    let frame = sender.line().frames[0].clone();
    for bit in 0..frame.len() * 8 {
        let mut flipped = frame.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Frame::parse(&flipped).map(|_| ()), Err(BadFrame::Checksum), "bit {bit}");
    }
    for cut in 0..frame.len() {
        assert!(Frame::parse(&frame[..cut]).is_err(), "cut at {cut}");
    }
}

/// Like a firmware with some call sites, blocks of usual sizes near to each other, and a tick of a microsecond.
fn usual(count: u32) -> Vec<Seen> {
    let mut state = 1u32;
    let mut random = move |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    let (mut time, mut live): (u32, Vec<u32>) = (0, Vec::new());
    let mut all = Vec::new();
    for _ in 0..count {
        time += random(2000);
        let site = random(60);
        let stack: Vec<u32> = (0..4 + site % 5).map(|frame| 0x4008_0000 + site * 0x140 + frame * 0x48).collect();
        let (task, is_free) = (site % 5, live.len() > 200 || !live.is_empty() && random(2) == 0);
        let address = if is_free {
            live.swap_remove(random(live.len() as u32) as usize)
        } else {
            0x2000_0400 + random(4000) * 16
        };
        if !is_free {
            live.push(address);
        }
        let (kind, size) = if is_free { (32, 0) } else { (1, 8 + random(500)) };
        all.push(Seen { is_free, kind, address, size, stack, task, time });
    }
    all
}

#[test]
fn an_event_takes_at_most_twelve_bytes_on_the_average_all_included() {
    const EVENTS: u32 = 10_000;
    let mut bytes = 0;
    let line = Binary(|packed: &[u8]| {
        bytes += packed.len();
        true
    });
    let mut sender: Sender<_, 128> = Sender::new(line, 0, 1, 1000);
    for one in &usual(EVENTS) {
        if one.is_free { sender.free(&event(one)) } else { sender.alloc(&event(one)) }
    }
    sender.flush();
    let average = bytes as f64 / f64::from(EVENTS);
    println!("{average:.1} bytes an event");
    assert!(average <= 12.0, "{average}");
}

#[test]
fn windows_steer_what_is_sent() {
    let mut sender: Sender<Kept, 16> = Sender::new(Kept { frames: Vec::new(), refuse: 0 }, 0, 1, 0);
    let one = |address| WireEvent { kind: 1, address, size: 8, stack: &[], task: 0, time: 0 };
    sender.task(4, b"a task with a long name", 0);
    sender.mark(Mark::Stops, 0);
    sender.alloc(&one(1));
    sender.free(&one(1));
    sender.mark(Mark::Starts, 0);
    sender.alloc(&one(2));
    sender.mark(Mark::Pauses, 0);
    sender.alloc(&one(3));
    sender.free(&one(2));
    sender.mark(Mark::Resumes, 0);
    sender.failed(1 << 30, 0);
    sender.mark(Mark::LiveBegins, 0);
    sender.live(&one(9));
    sender.mark(Mark::LiveEnds, 0);
    let mut host = Host::default();
    sender.line().frames.iter().for_each(|frame| host.frame(frame));
    assert_eq!(
        host.seen.iter().map(|seen| (seen.is_free, seen.address)).collect::<Vec<_>>(),
        [(false, 2), (true, 2), (false, 9)]
    );
    let marks = [
        Mark::Stops,
        Mark::Starts,
        Mark::Pauses,
        Mark::Resumes,
        Mark::Failed(1 << 30),
        Mark::LiveBegins,
        Mark::LiveEnds,
    ];
    assert_eq!(host.marks, marks);
    assert_eq!(host.tasks.get(&4).map(String::as_str), Some("a task with a lo"));
}

#[test]
fn a_host_that_joins_late_learns_who_sends() {
    let mut sender: Sender<Kept, 16> = Sender::new(Kept { frames: Vec::new(), refuse: 0 }, 0, 9, 0);
    let stack = [5, 6];
    let one = WireEvent { kind: 1, address: 16, size: 8, stack: &stack, task: 0, time: 0 };
    sender.alloc(&one);
    sender.flush();
    sender.line().frames.clear();
    sender.alloc(&one);
    sender.introduce(3);
    sender.alloc(&one);
    sender.flush();
    let mut host = Host::default();
    sender.line().frames.iter().for_each(|frame| host.frame(frame));
    assert_eq!((host.begun, host.unknown_stacks, host.seen.len()), (1, 1, 2));
    assert_eq!(host.seen[1].stack, stack);
}

#[test]
fn text_lines_and_a_ring_carry_the_same_frames() {
    let all = usual(300);
    let mut kept: Sender<Kept, 16> = Sender::new(Kept { frames: Vec::new(), refuse: 0 }, 0, 1, 1000);
    send(&mut kept, &all);
    kept.flush();
    let frames = std::mem::take(&mut kept.line().frames);

    let mut text = String::new();
    let mut console: Sender<_, 16> = Sender::new(
        Text(|line: &str| {
            text.push_str(line);
            true
        }),
        0,
        1,
        1000,
    );
    send(&mut console, &all);
    console.flush();
    assert_eq!(text.lines().count(), frames.len());
    assert!(text.lines().all(|line| line.starts_with(LEAD_IN)));

    static RING: Ring<4096> = Ring::new();
    RING.begin();
    let mut ring: Sender<_, 16> = Sender::new(&RING, 0, 1, 1000);
    let (mut bytes, mut part) = (Vec::new(), [0; 64]);
    for one in &all {
        send(&mut ring, std::slice::from_ref(one));
        let count = RING.take(&mut part);
        bytes.extend_from_slice(&part[..count]);
    }
    ring.flush();
    loop {
        let count = RING.take(&mut part);
        if count == 0 {
            break;
        }
        bytes.extend_from_slice(&part[..count]);
    }
    let mut read = Vec::new();
    for packed in bytes.split(|byte| *byte == 0).filter(|packed| !packed.is_empty()) {
        let mut frame = packed.to_vec();
        let count = cobs::unpack(&mut frame).expect("it was packed");
        read.push(frame[..count].to_vec());
    }
    assert_eq!(read, frames);
}

#[test]
fn a_full_ring_takes_nothing_of_a_frame() {
    static SMALL: Ring<64> = Ring::new();
    SMALL.begin();
    assert!(SMALL.put(&[1; 40]));
    assert!(!SMALL.put(&[2; 24]), "one place stays free");
    assert!(SMALL.put(&[3; 23]));
    let mut out = [0; 64];
    assert_eq!(SMALL.take(&mut out), 63);
    assert_eq!((out[39], out[40], out[62]), (1, 3, 3));
}
