//! A trace of Perfetto: a heap profile as heapprofd writes it, and how much was held over the run as a counter.
//! Messages: <https://github.com/google/perfetto/tree/main/protos/perfetto/trace>.

use std::collections::HashMap;
use std::io::{self, Write};

use heapledger_analysis::tree::Measure;

use crate::curve;
use crate::formats::{Comparison, ExportFormat};
use crate::profile::{Profile, TextId};
use crate::protobuf::Message;

pub(crate) const FORMAT: ExportFormat = ExportFormat {
    name: "perfetto",
    about: "For ui.perfetto.dev: heap profile and live bytes",
    ending: "perfetto-trace",
    packed: None,
    comparison: Comparison::Never,
    needs_sizes: false,
    untold: "threads of stacks, and figures of the peak beside those of the end (--at peak has those)",
    holds,
    remarks: curve::remarks,
    write,
};

/// Fields of `TracePacket`.
mod packet {
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const PROFILE: u32 = 37;
    pub(super) const TRACK: u32 = 60;
}

/// A packet's bytes at most, by and large: a reader takes them whole.
const PACKET_BYTES: usize = 1 << 20;
/// Names of tracks, which are to differ.
const PROCESS_TRACK: u64 = 1;
const COUNTER_TRACK: u64 = 2;
const MEMORY_TRACK: u64 = 3;
/// The one sequence, which begins with nothing known.
const SEQUENCE: u64 = 1;
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

fn holds(measure: Measure) -> bool {
    use Measure::{AllocatedBlocks, AllocatedBytes, LiveBlocks, LiveBytes, PeakBlocks, PeakBytes};
    matches!(measure, LiveBytes | LiveBlocks | AllocatedBytes | AllocatedBlocks | PeakBytes | PeakBlocks)
}

/// Writes packets, each as a field of the trace.
struct Packets<'o> {
    out: &'o mut dyn Write,
    begun: bool,
}

impl Packets<'_> {
    fn write(&mut self, mut packet: Message) -> io::Result<()> {
        packet.number(packet::SEQUENCE, SEQUENCE);
        packet.number(packet::SEQUENCE_FLAGS, if self.begun { NEEDS_STATE } else { STATE_CLEARED | NEEDS_STATE });
        self.begun = true;
        let mut trace = Message::default();
        trace.message(1, &packet).flush(self.out)
    }
}

/// What is referred to by number, as `InternedData`, in packets of a bearable size.
struct Interned<'p, 'o> {
    packets: Packets<'o>,
    data: Message,
    profile: &'p Profile,
}

impl Interned<'_, '_> {
    fn put(&mut self, field: u32, message: &Message) -> io::Result<()> {
        self.data.message(field, message);
        if self.data.len() >= PACKET_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let data = std::mem::take(&mut self.data);
        let mut packet = Message::default();
        packet.message(packet::INTERNED, &data);
        self.packets.write(packet)
    }

    /// `InternedString`.
    fn text(&mut self, field: u32, iid: u64, text: &[u8]) -> io::Result<()> {
        let mut message = Message::default();
        message.number(1, iid).bytes(2, text);
        self.put(field, &message)
    }

    /// Modules. Texts of paths come in parts.
    fn modules(&mut self) -> io::Result<()> {
        let (mut parts, mut builds): (HashMap<&str, u64>, u64) = (HashMap::new(), 0);
        let profile = self.profile;
        for (module, iid) in profile.modules.iter().zip(1u64..) {
            let mut message = Message::default();
            message.number(1, iid);
            let build_id = profile.texts.get(module.build_id);
            if !build_id.is_empty() {
                builds += 1;
                let pairs = build_id.as_bytes().chunks(2).filter_map(|pair| std::str::from_utf8(pair).ok());
                let raw: Vec<u8> = pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect();
                self.text(16, builds, &raw)?;
                message.number(2, builds);
            }
            message.number(4, module.low).number(5, module.high).number(6, module.bias);
            for part in profile.texts.get(module.path).split('/').filter(|part| !part.is_empty()) {
                let next = parts.len() as u64 + 1;
                let id = *parts.entry(part).or_insert(next);
                if id == next {
                    self.text(17, id, part.as_bytes())?;
                }
                message.always(7, id);
            }
            self.put(19, &message)?;
        }
        Ok(())
    }

    /// Functions and source files; their numbers are those of the texts.
    fn names(&mut self) -> io::Result<()> {
        let profile = self.profile;
        let (mut names, mut files) = (HashMap::new(), HashMap::new());
        for function in &profile.functions {
            for (field, id, known) in [(5, function.name, &mut names), (18, function.file, &mut files)] {
                if id != TextId::default() && known.insert(id, ()).is_none() {
                    self.text(field, u64::from(id.0), profile.texts.get(id).as_bytes())?;
                }
            }
        }
        Ok(())
    }

    /// `Frame`s: by place the number of the first, innermost.
    fn frames(&mut self) -> io::Result<Vec<u64>> {
        let (profile, mut next) = (self.profile, 1u64);
        let mut firsts = Vec::with_capacity(profile.places.len());
        for place in &profile.places {
            firsts.push(next);
            let bias = profile.module(place.module_plus_1).map_or(0, |module| module.bias);
            for line in &place.lines {
                let function = &profile.functions[line.function as usize];
                let mut message = Message::default();
                message.number(1, next).number(2, u64::from(function.name.0));
                message.number(3, u64::from(place.module_plus_1));
                message.number(4, place.address.unwrap_or(0).wrapping_sub(bias));
                message.number(5, u64::from(function.file.0)).number(6, u64::from(line.line));
                self.put(6, &message)?;
                next += 1;
            }
        }
        Ok(firsts)
    }

    /// `Callstack`s, outermost frame first, by number of the stack and 1.
    fn stacks(&mut self, firsts: &[u64]) -> io::Result<()> {
        let profile = self.profile;
        let mut places: Vec<u32> = Vec::new();
        for (stack, iid) in profile.stacks.iter().zip(1u64..) {
            places.clear();
            places.extend(profile.path(stack.node));
            let mut message = Message::default();
            message.number(1, iid);
            for place in places.iter().rev() {
                let first = firsts.get(*place as usize).copied().unwrap_or(0);
                let lines = profile.places[*place as usize].lines.len() as u64;
                (first..first + lines).rev().for_each(|id| {
                    message.always(2, id);
                });
            }
            self.put(7, &message)?;
        }
        self.flush()
    }
}

/// The process and its counter.
fn tracks(profile: &Profile, packets: &mut Packets<'_>) -> io::Result<()> {
    let about = &profile.about;
    let (mut process, mut track, mut packet) = (Message::default(), Message::default(), Message::default());
    process.number(1, u64::from(about.pid.unwrap_or(0)));
    about.args.iter().for_each(|word| {
        process.text(2, word);
    });
    process.text(6, &about.name());
    about.remarks().iter().for_each(|remark| {
        process.text(8, remark);
    });
    track.number(1, PROCESS_TRACK).message(3, &process);
    packet.message(packet::TRACK, &track);
    packets.write(packet)?;
    let points = &profile.points;
    let memory = points.iter().any(|point| point.own_memory_bytes.is_some());
    let memory = memory.then_some((MEMORY_TRACK, "anonymous memory (RssAnon and swap)"));
    for (id, name) in [(COUNTER_TRACK, "live bytes")].into_iter().chain(memory) {
        let (mut counter, mut track, mut packet) = (Message::default(), Message::default(), Message::default());
        // UNIT_SIZE_BYTES.
        counter.number(3, 3);
        track.number(1, id).number(5, PROCESS_TRACK).text(2, name).message(8, &counter);
        packet.message(packet::TRACK, &track);
        packets.write(packet)?;
    }
    for point in points {
        let memory = point.own_memory_bytes.map(|bytes| (MEMORY_TRACK, bytes));
        for (id, value) in [(COUNTER_TRACK, point.live_bytes)].into_iter().chain(memory) {
            let (mut event, mut packet) = (Message::default(), Message::default());
            // TYPE_COUNTER.
            event.number(9, 4).number(11, id).always(30, value);
            packet.always(packet::TIMESTAMP, point.ns).message(packet::TRACK_EVENT, &event);
            packets.write(packet)?;
        }
    }
    Ok(())
}

fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let about = &profile.about;
    let mut packets = Packets { out, begun: false };
    tracks(profile, &mut packets)?;
    let mut interned = Interned { packets, data: Message::default(), profile };
    interned.modules()?;
    interned.names()?;
    let firsts = interned.frames()?;
    interned.stacks(&firsts)?;
    let mut packets = interned.packets;
    let at_peak = about.measure.is_of_peak();
    let moment = if at_peak { about.peak_ns } else { about.span_ns }.unwrap_or(0);
    let (mut stacks, mut index) = (profile.stacks.iter().zip(1u64..).peekable(), 0);
    loop {
        let mut dump = Message::default();
        dump.number(1, u64::from(about.pid.unwrap_or(0))).number(3, 1).number(9, moment).text(11, "heapledger");
        dump.number(12, about.sample_interval.max(1));
        while let Some((stack, id)) = stacks.next_if(|_| dump.len() < PACKET_BYTES) {
            let own = stack.own[0];
            let mut sample = Message::default();
            sample.number(1, id);
            if at_peak {
                sample.number(8, own.peak_bytes).number(9, own.peak_blocks);
            } else {
                let [bytes, blocks] = [Measure::AllocatedBytes, Measure::AllocatedBlocks].map(|all| own.get(all));
                sample.number(2, bytes).number(3, own.freed_bytes);
                sample.number(5, blocks).number(6, own.freed_blocks);
            }
            sample.number(4, moment);
            dump.message(2, &sample);
        }
        let (mut inner, mut packet) = (Message::default(), Message::default());
        let more = stacks.peek().is_some();
        inner.message(5, &dump).number(6, u64::from(more)).always(7, index);
        packet.always(packet::TIMESTAMP, moment).message(packet::PROFILE, &inner);
        packets.write(packet)?;
        index += 1;
        if !more {
            return Ok(());
        }
    }
}
