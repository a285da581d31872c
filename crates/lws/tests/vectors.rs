//! Against golden data of the original: what it wrote for which frames, and what its tool said of which text.

use heapledger_lws::{DecodeError, Dialect, Flavour, What, Width, base64, decode, encode, encode_as, line};
use serde_json::Value;

const VECTORS: &str = include_str!("vectors.json");

fn vectors(part: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(VECTORS).expect("the vectors are JSON");
    all[part].as_array().expect("a list").clone()
}

fn text<'v>(case: &'v Value, key: &str) -> &'v str {
    case[key].as_str().unwrap_or_else(|| panic!("{key} of {case}"))
}

fn number(value: &Value) -> u64 {
    match value.as_str() {
        Some(text) => u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a number"),
        None => value.as_u64().expect("a number"),
    }
}

fn frames(case: &Value) -> Vec<u64> {
    case["frames"].as_array().expect("frames").iter().map(number).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

fn encoded(case: &Value, flavour: Flavour) -> Result<Vec<u8>, heapledger_lws::EncodeError> {
    let (frames, size) = (frames(case), number(&case["size"]));
    let mut out = [0x55; 400];
    let bytes = if case["arch_bits"] == 32 {
        let frames: Vec<u32> = frames.iter().map(|frame| *frame as u32).collect();
        encode_as(&frames, size as u32, flavour, &mut out)
    } else {
        encode_as(&frames, size, flavour, &mut out)
    };
    bytes.map(|bytes| out[..bytes].to_vec())
}

fn plain(frames: &[u64], size: u64) -> String {
    let mut line = String::new();
    line::write_plain(frames, size, &mut line).expect("a String has room");
    line
}

#[test]
fn every_encoding_is_the_original_s_to_the_byte() {
    let cases = vectors("cases");
    assert_eq!(cases.len(), 78);
    for case in &cases {
        let name = text(case, "name");
        let blob = encoded(case, Flavour::Original).expect(name);
        assert_eq!(blob, bytes(text(case, "blob_hex")), "{name}");
        assert_eq!(blob.len() as u64, number(&case["blob_len"]), "{name}");
        let mut line = String::new();
        line::write_compressed(&blob, &mut line).expect("a String has room");
        assert_eq!(line, text(case, "m_line"), "{name}");
    }
}

#[test]
fn builds_for_arm_differ_in_spacers_only() {
    let mut seen = 0;
    for case in vectors("cases").iter().filter(|case| case["blob_hex_gcc_arm32"].is_string()) {
        let name = text(case, "name");
        assert_eq!(encoded(case, Flavour::OriginalArm).expect(name), bytes(text(case, "blob_hex_gcc_arm32")), "{name}");
        seen += 1;
    }
    assert_eq!(seen, 5);
}

#[test]
fn what_would_not_come_back_is_refused_and_all_else_is_canonical() {
    for case in &vectors("cases") {
        let name = text(case, "name");
        let exact = encoded(case, Flavour::Exact);
        if case["lossless"] == false {
            exact.expect_err(name);
            continue;
        }
        let expected = case["blob_hex_gcc_arm32"].as_str().unwrap_or(text(case, "blob_hex"));
        assert_eq!(exact.expect(name), bytes(expected), "{name}");
    }
}

#[test]
fn every_blob_is_read_as_the_original_reads_it() {
    let mut lossless = 0;
    for case in &vectors("cases") {
        let (name, blob) = (text(case, "name"), bytes(text(case, "blob_hex")));
        let (mut wide, mut narrow) = ([0; 31], [0; 31]);
        let decoded = decode(&blob, Width::W64, &mut wide);
        if let Some(line) = case["b_line"].as_str() {
            let decoded = decoded.expect(name);
            assert_eq!(plain(decoded.frames, decoded.size), line, "{name}");
        } else if case["arch_bits"] == 64 {
            // The original's tool refuses it.
            decoded.expect_err(name);
        }
        if case["lossless"] == true {
            let width = if case["arch_bits"] == 32 { Width::W32 } else { Width::W64 };
            let decoded = decode(&blob, width, &mut narrow).expect(name);
            assert_eq!(decoded.frames, frames(case), "{name}");
            assert_eq!((decoded.size, decoded.dialect), (number(&case["size"]), Dialect::Canonical), "{name}");
            assert_eq!((decoded.lenient, decoded.high_lost), (None, false), "{name}");
            lossless += 1;
        }
    }
    assert_eq!(lossless, 64);
}

#[test]
fn blobs_of_other_builds_are_told_apart_and_read() {
    let cases = vectors("cases");
    let variants = vectors("spacer_variants");
    assert_eq!(variants.len(), 30);
    for variant in &variants {
        let of = cases.iter().find(|case| case["name"] == variant["case"]).expect("a case of this name");
        let what = format!("{} by {}", text(variant, "case"), text(variant, "producer"));
        let mut out = [0; 31];
        let decoded = decode(&bytes(text(variant, "blob_hex")), Width::W64, &mut out).expect(&what);
        assert_eq!(decoded.frames, frames(of), "{what}");
        assert_eq!((decoded.size, decoded.lenient), (number(&of["size"]), None), "{what}");
        let dialect = match text(variant, "dialect") {
            "A" => Dialect::Canonical,
            "C2" => Dialect::FewSpacers,
            _ => Dialect::FewestSpacers,
        };
        assert_eq!(decoded.dialect, dialect, "{what}");
    }
}

/// What a tool does that looks for no lead-in further on than at the beginning.
fn read(text: &str) -> Result<String, String> {
    let (mut blob, mut out) = ([0; 1536], [0; 31]);
    let bytes = text.as_bytes();
    let base64 = if bytes.first() == Some(&b'~') && bytes.get(2) == Some(&b'#') { &bytes[3..] } else { bytes };
    let count = base64::read(base64, &mut blob).map_err(|error| error.to_string())?;
    let decoded = decode(&blob[..count], Width::W64, &mut out).map_err(|error| error.to_string())?;
    Ok(plain(decoded.frames, decoded.size))
}

#[test]
fn what_the_original_s_tool_refuses_is_refused_and_what_it_reads_is_read() {
    // It reads a byte before its buffer; reads another number for want of the spacer; takes spacers for values.
    let better = [
        "one_byte_blob",
        "depth_says_1_has_2",
        "spacer_depth",
        "spacer_flag_literal",
        "spacer_index",
        "spacer_sign_plus",
        "spacer_literal_count",
        "spacer_literal_value",
        "spacer_delta_count",
        "spacer_delta_value",
        "spacer_size_count",
        "spacer_size_value",
        "depth32_real_encoder",
        "depth_spacer_200_literals",
    ];
    let malformed = vectors("malformed");
    assert_eq!(malformed.len(), 86);
    let mut seen = 0;
    for case in &malformed {
        let (name, tool) = (text(case, "name"), &case["real_tool"]);
        let input = case["input"].as_str().unwrap_or_else(|| text(case, "m_line"));
        let ours = read(input);
        if better.contains(&name) {
            seen += 1;
        } else if tool["exit"] == 0 {
            assert_eq!(ours.as_deref(), Ok(tool["stdout"].as_str().expect("text")), "{name}");
        } else {
            ours.expect_err(name);
        }
    }
    assert_eq!(seen, better.len());
}

#[test]
fn spacers_of_any_value_say_nothing() {
    let mut seen = 0;
    for case in vectors("malformed").iter().filter(|case| case["blob_hex"].is_string()) {
        let (name, model) = (text(case, "name"), &case["spacer_ignoring_decoder"]);
        let mut out = [0; 31];
        let ours = decode(&bytes(text(case, "blob_hex")), Width::W64, &mut out);
        assert_eq!(ours.is_ok(), model["ok"] == true, "{name}: {ours:?}");
        if let Ok(decoded) = ours {
            let expected: Vec<u64> = model["frames"].as_array().expect("frames").iter().map(number).collect();
            assert_eq!((decoded.frames, decoded.size), (&expected[..], number(&model["size"])), "{name}");
        }
        seen += 1;
    }
    assert!(seen > 40, "{seen}");
}

#[test]
fn errors_and_remarks_say_which_bit() {
    let malformed = vectors("malformed");
    let blob = |name: &str| {
        bytes(text(malformed.iter().find(|case| case["name"] == name).expect("a case of this name"), "blob_hex"))
    };
    let mut out = [0; 31];
    let mut error = |name: &str| decode(&blob(name), Width::W64, &mut out).expect_err(name).to_string();
    assert_eq!(error("first_item_delta"), "at bit 6: the first frame is a delta, and there is none before it");
    assert_eq!(error("index_8_back_at_sp1"), "at bit 41: a frame refers to one that is 8 back, and only 1 are there");
    assert_eq!(error("size_missing"), "at bit 72: it ends inside the size");
    assert_eq!(error("length_minus_one"), "its length does not match: it says 20 bytes (at bit 152), and there are 21");
    let lenient = |name: &str| {
        let mut out = [0; 31];
        let decoded = decode(&blob(name), Width::W64, &mut out).expect(name);
        let problem = decoded.lenient.expect(name);
        (problem.bit, problem.what)
    };
    assert_eq!(lenient("trailing_user_bytes"), (54, What::MoreFollows));
    assert_eq!(lenient("pad_bits_ones"), (54, What::FillerSet));
    assert_eq!(lenient("index_to_frame0").1, What::AgainstFirst);
    assert_eq!(lenient("literal_overwide"), (8, What::NotMinimal("a frame")));
    assert_eq!(lenient("size_count0").1, What::NotMinimal("the size"));
}

#[test]
fn steps_over_the_top_wrap_and_a_length_of_one_is_refused() {
    // Frames 0x10 and 0x20, and two steps of 63 bits up from the one before, by hand: width and value of each field.
    let up = [(1, 1), (3, 0), (1, 0), (6, 63), (63, (1 << 63) - 1)];
    let frames = [(5, 4), (1, 0), (6, 5), (5, 0x10), (1, 0), (6, 6), (6, 0x20)];
    let fields = frames.into_iter().chain(up).chain(up).chain([(6, 4), (4, 8u64)]);
    // Behind each field is a spacer.
    let bits: Vec<bool> = fields
        .flat_map(|(width, value)| (0..width).rev().map(move |bit| value >> bit & 1 == 1).chain([false]))
        .collect();
    let mut blob: Vec<u8> = bits
        .chunks(8)
        .map(|byte| byte.iter().enumerate().fold(0, |sum, (at, bit)| sum | u8::from(*bit) << (7 - at)))
        .collect();
    let length = (blob.len() as u16 + 2).to_be_bytes();
    blob.extend_from_slice(&length);
    let mut out = [0; 31];
    let decoded = decode(&blob, Width::W64, &mut out).expect("the original reads it");
    assert_eq!((decoded.size, decoded.frames[..2].to_vec()), (8, vec![0x10, 0x20]));
    let top = decoded.frames[2];
    assert_eq!(decoded.frames[3], top.wrapping_add(top.wrapping_sub(0x20)), "modulo the word");
    assert!(decoded.frames[3] < top || top < 0x20, "{:#x?}", decoded.frames);
    for length in [0u16, 1] {
        let blob = [&[0x08, 0x5d][..], &length.to_be_bytes()].concat();
        let error = decode(&blob, Width::W64, &mut [0; 31]).expect_err("no blob is so short").to_string();
        assert!(error.starts_with("its length does not match"), "{error}");
    }
}

#[test]
fn more_than_31_frames_are_an_error_on_either_side() {
    let frames = [0x1000u32; 32];
    let error = encode(&frames, 1, &mut [0; 400]).expect_err("32 frames");
    assert_eq!(error.to_string(), "32 frames are too many: 31 can be written");
    let mut blob = [0; 400];
    let bytes = encode(&frames[..31], 1, &mut blob).expect("31 frames");
    let error = decode(&blob[..bytes], Width::W32, &mut [0; 30]).expect_err("room for 30");
    assert!(matches!(error, DecodeError::At(problem) if problem.bit == 0 && problem.what == What::Frames(31)));
}
