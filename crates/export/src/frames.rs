//! Frames as valgrind's tools write them: `0x4005BB: main (main.c:12)`.

use std::collections::HashMap;
use std::fmt::Write;

use crate::merged::MergedFrame;
use crate::profile::{PlaceLine, Profile};
use crate::text::{base_name, without};

/// What of the path of a source file is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    /// All of it.
    Paths,
    /// The last part.
    BaseNames,
}

/// Frames, each text once. Number 0 is none's.
#[derive(Clone, Debug)]
pub(crate) struct FrameTexts {
    all: Vec<String>,
    by_text: HashMap<String, u32>,
    by_frame: HashMap<(u32, PlaceLine), u32>,
    taken: &'static [char],
    in_place: &'static str,
    files: Files,
}

impl FrameTexts {
    /// None yet. Letters of `taken` mean something in the format, and `in_place` stands for them.
    pub(crate) fn new(taken: &'static [char], in_place: &'static str, files: Files) -> FrameTexts {
        let (all, by_text) = (vec![String::new()], HashMap::from([(String::new(), 0)]));
        FrameTexts { all, by_text, by_frame: HashMap::new(), taken, in_place, files }
    }

    /// The number of a frame's text: of one text there is one.
    pub(crate) fn id(&mut self, profile: &Profile, frame: MergedFrame) -> u32 {
        match frame {
            MergedFrame::Thread(name) => self.enter(format!("0x0: thread {}", profile.texts.get(name))),
            MergedFrame::Line(place, line) => {
                if let Some(id) = self.by_frame.get(&(place, line)) {
                    return *id;
                }
                let id = self.enter(self.text(profile, place, line));
                self.by_frame.insert((place, line), id);
                id
            }
        }
    }

    fn enter(&mut self, text: String) -> u32 {
        let text = without(&text, self.taken, self.in_place).into_owned();
        let next = self.all.len() as u32;
        let id = *self.by_text.entry(text.clone()).or_insert(next);
        if id == next {
            self.all.push(text);
        }
        id
    }

    fn text(&self, profile: &Profile, place: u32, line: PlaceLine) -> String {
        let place = &profile.places[place as usize];
        let function = &profile.functions[line.function as usize];
        // As valgrind writes code without a name; the address is there already.
        let name = if place.is_named || place.address.is_none() { profile.name(line.function) } else { "???" };
        let mut text = format!("{:#X}: {name}", place.address.unwrap_or(0)).replacen("0X", "0x", 1);
        let file = match (profile.texts.get(function.file), self.files) {
            (path, Files::BaseNames) => base_name(path),
            (path, Files::Paths) => path,
        };
        let _ = match (file, profile.module(place.module_plus_1)) {
            (file, _) if !file.is_empty() && line.line != 0 => write!(text, " ({file}:{})", line.line),
            (_, Some(module)) => write!(text, " (in {})", profile.texts.get(module.path)),
            (_, None) => Ok(()),
        };
        text
    }

    /// The text of a number.
    pub(crate) fn get(&self, id: u32) -> &str {
        self.all.get(id as usize).map_or("", |text| text)
    }

    /// All of them, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(String::as_str)
    }
}
