//! Any frames there and back, any bytes without harm, and extensions that the original cannot misread.

use heapledger_lws::{
    BLOB_BYTES_MAX, BLOB_BYTES_MAX_32, Dialect, EncodeError, Flavour, Width, decode, encode, encode_any, encode_as,
    extension,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Frames as programs have them: near to each other mostly, and now and then anything.
fn stack(most: u64, depth: usize) -> impl Strategy<Value = Vec<u64>> {
    let near = (0..most, vec(0..0x2_0000u64, 0..=depth));
    let near =
        near.prop_map(move |(base, steps)| steps.into_iter().map(|step| base.wrapping_add(step) % most).collect());
    let any = vec((0..=most - 1, 0..64u32).prop_map(move |(value, shift)| value >> shift), 0..=depth);
    prop_oneof![near, any]
}

/// The original's decoder, made from its description alone: each field is a loop over bits, and the spacer is one more.
/// As its tool does it: the length first, then the frames.
fn original(blob: &[u8]) -> Result<(Vec<u64>, u64), &'static str> {
    let (payload, length) = blob.split_last_chunk::<2>().ok_or("short")?;
    if usize::from(u16::from_be_bytes(*length)) != blob.len() {
        return Err("compressed length wrong");
    }
    original_parse(payload)
}

/// Without the length.
fn original_parse(payload: &[u8]) -> Result<(Vec<u64>, u64), &'static str> {
    let mut at = 0;
    let mut field = |count: u64| {
        let mut value = 0u64;
        for position in (0..=count).rev().map(|bit| bit as i64 - 1) {
            let byte = payload.get(at / 8).ok_or("ended")?;
            let bit = byte >> (7 - at % 8) & 1;
            at += 1;
            if bit == 1 {
                value |= match position.rem_euclid(32) {
                    31 => !0 << 31,
                    low => 1 << low,
                };
            }
        }
        Ok::<u64, &str>(value)
    };
    let depth = field(5)?;
    let mut frames = Vec::new();
    for _ in 0..depth {
        if frames.len() > 31 {
            return Err("past the end of the array");
        }
        let (base, subtracts) = if field(1)? == 0 {
            (0u64, false)
        } else {
            let back = field(3)? as usize + 1;
            let base = frames.len().checked_sub(back).ok_or("ref err")?;
            (frames[base], field(1)? != 0)
        };
        let count = field(6)?;
        if count > 64 {
            return Err("a huge count");
        }
        let delta = field(count)?;
        frames.push(if subtracts { base.wrapping_sub(delta) } else { base.wrapping_add(delta) });
    }
    let count = field(6)?;
    if count > 64 {
        return Err("a huge count");
    }
    let size = field(count)?;
    Ok((frames, size))
}

/// Many in a test, and as many as are asked for when it is let loose for longer.
fn cases() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig::with_cases(asked.unwrap_or(2000))
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn values_below_2_31_come_back(frames in stack(1 << 31, 31), size in 0..1u64 << 31) {
        let mut blob = [0xaa; BLOB_BYTES_MAX_32];
        let bytes = encode(&frames, size, &mut blob).expect("it fits");
        let mut out = [0; 31];
        let decoded = decode(&blob[..bytes], Width::W64, &mut out).expect("it was encoded");
        prop_assert_eq!(decoded.frames, &frames[..]);
        prop_assert_eq!((decoded.size, decoded.dialect, decoded.lenient), (size, Dialect::Canonical, None));
        prop_assert_eq!(original(&blob[..bytes]), Ok((frames.clone(), size)));
        // 32-bit builds write the same.
        let narrow: Vec<u32> = frames.iter().map(|frame| *frame as u32).collect();
        let mut other = [0x55; BLOB_BYTES_MAX_32];
        prop_assert_eq!(encode(&narrow, size as u32, &mut other), Ok(bytes));
        prop_assert_eq!(&other[..bytes], &blob[..bytes]);
    }

    #[test]
    fn all_32_bit_values_come_back_on_32_bits(frames in stack(1 << 32, 31), size: u32) {
        let narrow: Vec<u32> = frames.iter().map(|frame| *frame as u32).collect();
        for flavour in [Flavour::Exact, Flavour::Original, Flavour::OriginalArm] {
            let mut blob = [0; BLOB_BYTES_MAX_32];
            let bytes = encode_as(&narrow, size, flavour, &mut blob).expect("it fits");
            let mut out = [0; 31];
            let decoded = decode(&blob[..bytes], Width::W32, &mut out).expect("it was encoded");
            prop_assert_eq!(decoded.frames, &frames[..]);
            prop_assert_eq!((decoded.size, decoded.lenient), (u64::from(size), None));
        }
    }

    #[test]
    fn what_the_format_cannot_hold_comes_back_by_the_extension(
        frames in prop_oneof![stack(1 << 47, 255), stack(u64::MAX, 60)],
        size: u64,
    ) {
        let mut blob = [0; BLOB_BYTES_MAX];
        let bytes = encode_any(&frames, size, &mut blob).expect("it fits");
        let mut out = [0; extension::DEPTH_MAX];
        let decoded = decode(&blob[..bytes], Width::W64, &mut out).expect("it was encoded");
        prop_assert_eq!((decoded.frames, decoded.size), (&frames[..], size));
        prop_assert!(!decoded.high_lost && decoded.lenient.is_none());
        let fits = frames.len() <= 31 && frames.iter().chain([&size]).all(|value| *value < 1 << 31);
        prop_assert_eq!(decoded.dialect == Dialect::Extension, !fits);
    }

    #[test]
    fn the_original_refuses_every_extension(frames in stack(u64::MAX, 255), size: u64) {
        let mut blob = [0; BLOB_BYTES_MAX];
        let bytes = extension::encode(&frames, size, &mut blob).expect("it fits");
        prop_assert_eq!(original(&blob[..bytes]), Err("compressed length wrong"));
        // Whoever does not look at the length refuses it, too.
        prop_assert_eq!(original_parse(&blob[..bytes - 2]), Err("ref err"));
    }

    #[test]
    fn values_of_2_31_and_more_are_read_as_the_original_reads_them(frames in stack(1 << 47, 31), size in 0..1u64 << 40) {
        let mut blob = [0; 300];
        let bytes = encode_as(&frames, size, Flavour::Original, &mut blob).expect("it fits");
        let mut out = [0; 31];
        let decoded = decode(&blob[..bytes], Width::W64, &mut out).expect("the original reads it");
        prop_assert_eq!(decoded.lenient, None);
        prop_assert_eq!(Ok((decoded.frames.to_vec(), decoded.size)), original(&blob[..bytes]));
        let destroyed = frames.iter().chain([&size]).any(|value| *value >= 1 << 31);
        prop_assert!(!destroyed || decoded.high_lost, "{:?}", decoded);
    }

    #[test]
    fn a_buffer_that_is_too_short_is_never_overrun(frames in stack(1 << 31, 31), size in 0..1u64 << 31, room in 0..175usize) {
        let mut whole = [0; BLOB_BYTES_MAX_32];
        let bytes = encode(&frames, size, &mut whole).expect("it fits");
        let mut small = vec![0; room];
        match encode(&frames, size, &mut small) {
            Ok(written) => prop_assert!(written == bytes && room >= bytes && small[..bytes] == whole[..bytes]),
            Err(error) => prop_assert!(room < bytes && error == EncodeError::Room(bytes), "{error}"),
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in vec(any::<u8>(), 0..400), mend: bool) {
        if mend && bytes.len() >= 2 {
            let at = bytes.len() - 2;
            let length = (bytes.len() as u16).to_be_bytes();
            bytes[at..].copy_from_slice(&length);
        }
        for width in [Width::W32, Width::W64] {
            let mut out = [0; extension::DEPTH_MAX];
            match decode(&bytes, width, &mut out) {
                Ok(decoded) => prop_assert!(decoded.frames.len() <= extension::DEPTH_MAX),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}

#[test]
fn the_longest_blobs_have_the_length_that_is_said() {
    // Deltas of one bit more than they save, as often as can be.
    let mut frames = vec![0u32, 0];
    frames.extend(
        (0..29u32).map(|step| if step % 2 == 0 { 0xffff_ffff - (step << 27) } else { 0x8000_0000 | step << 20 }),
    );
    let mut blob = [0; BLOB_BYTES_MAX_32];
    assert!(encode(&frames, u32::MAX, &mut blob).is_ok());
    let frames = [u64::MAX, 0].repeat(128);
    let mut blob = [0; BLOB_BYTES_MAX];
    assert!(extension::encode(&frames[..255], u64::MAX, &mut blob).is_ok());
}

/// Every bit of a blob flipped, and every length of it: read or refused, and what is read differently is remarked or differs.
#[test]
fn blobs_cut_anywhere_and_with_any_bit_flipped_do_no_harm() {
    let frames = [0x42008096u64, 0x40376321, 0x40376379, 0x420080aa, 0x4200810c, 0x42001234];
    let (mut blob, mut extended) = ([0; 100], [0; 100]);
    let bytes = encode(&frames, 7520, &mut blob).expect("it fits");
    let more = extension::encode(&[0x7fff_1234_5678, 0x7fff_1234_0000], 1 << 40, &mut extended).expect("it fits");
    for whole in [&blob[..bytes], &extended[..more]] {
        for cut in 0..whole.len() {
            let mut out = [0; 255];
            let error = decode(&whole[..cut], Width::W64, &mut out).expect_err("it was cut");
            assert!(!error.to_string().is_empty());
        }
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let mut out = [0; 255];
            if let Ok(decoded) = decode(&flipped, Width::W64, &mut out) {
                assert!(decoded.frames.len() <= 255);
            }
        }
    }
}
