//! The terminal's second screen: opened, drawn on, and always left as it was found.

use super::view::Line;
use crate::terminal::Terminal;
use crossterm::{
    cursor::{Hide, MoveTo, Show},
    event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    execute, queue,
    style::Print,
    terminal::{
        Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
    },
};
use std::{
    io::{self, Write},
    time::Duration,
};

/// What the user did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Leave,
    Redraw,
}

/// The open screen; dropping it gives the terminal back, also in a panic.
pub(super) struct Screen {
    out: io::Stdout,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        enable_raw_mode()?;
        let mut screen = Self { out: io::stdout() };
        execute!(screen.out, EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Draws the lines, cut to what fits.
    pub(super) fn draw(&mut self, lines: &[Line], terminal: &Terminal) -> io::Result<()> {
        // A terminal that was given no size says 0.
        let (columns, rows) =
            size().ok().filter(|&(columns, rows)| columns > 0 && rows > 0).unwrap_or((80, 24));
        for (row, line) in lines.iter().take(usize::from(rows)).enumerate() {
            let text = line.painted(usize::from(columns), terminal);
            queue!(self.out, MoveTo(0, row as u16), Print(text), Clear(ClearType::UntilNewLine))?;
        }
        if lines.len() < usize::from(rows) {
            queue!(self.out, MoveTo(0, lines.len() as u16), Clear(ClearType::FromCursorDown))?;
        }
        self.out.flush()
    }

    /// Waits so long for a key that means something.
    pub(super) fn key(&mut self, patience: Duration) -> io::Result<Option<Key>> {
        if !event::poll(patience)? {
            return Ok(None);
        }
        Ok(match event::read()? {
            Event::Resize(..) => Some(Key::Redraw),
            Event::Key(key) if leaves(key) => Some(Key::Leave),
            _ => None,
        })
    }
}

fn leaves(key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind != KeyEventKind::Release
        && match key.code {
            KeyCode::Char('q' | 'Q') | KeyCode::Esc => true,
            // In raw mode these are keys, not signals.
            KeyCode::Char('c' | 'd') => control,
            _ => false,
        }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing can be done if the terminal is gone.
        let _ = execute!(self.out, Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}
