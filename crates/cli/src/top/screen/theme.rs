//! How things are told apart: with colour if there is any, and without.

use ratatui::style::{Color, Modifier, Style};

/// What the terminal can do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Theme {
    pub(super) color: bool,
    /// ASCII only.
    pub(super) ascii: bool,
}

impl Theme {
    fn colored(self, color: Color, otherwise: Modifier) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new().add_modifier(otherwise) }
    }

    pub(super) fn plain(self) -> Style {
        Style::new()
    }

    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn chart(self) -> Style {
        self.colored(Color::Cyan, Modifier::empty())
    }

    /// What grows.
    pub(super) fn growing(self) -> Style {
        self.colored(Color::Yellow, Modifier::BOLD)
    }

    /// What shrinks.
    pub(super) fn shrinking(self) -> Style {
        self.colored(Color::Green, Modifier::empty())
    }

    /// What went wrong.
    pub(super) fn wrong(self) -> Style {
        self.colored(Color::Red, Modifier::BOLD)
    }

    /// What is set by the person: a mark, a pause, a filter.
    pub(super) fn set(self) -> Style {
        self.colored(Color::Magenta, Modifier::BOLD).add_modifier(Modifier::BOLD)
    }

    /// The row of the cursor, and the chosen group.
    pub(super) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The heading of the table.
    pub(super) fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    /// A text that this terminal can show.
    pub(super) fn text(self, text: &str) -> String {
        if !self.ascii || text.is_ascii() {
            return text.to_owned();
        }
        text.chars()
            .map(|letter| match letter {
                'µ' => 'u',
                '±' => '~',
                letter if letter.is_ascii() => letter,
                _ => '?',
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_cannot_be_shown_are_replaced() {
        assert_eq!(Theme { ascii: true, ..Theme::default() }.text("größe 3 µs"), "gr??e 3 us");
        assert_eq!(Theme::default().text("größe"), "größe");
    }
}
