//! The commands inside a chat.

/// What a line that starts with `/` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slash<'a> {
    Help,
    Reset,
    Retry,
    /// A new system message; `None` shows the present one.
    System(Option<&'a str>),
    /// Thinking on or off; `None` shows the present state.
    Think(Option<bool>),
    Stats,
    Quit,
}

/// Names, with what `/help` says about them.
pub(super) const COMMANDS: &[(&str, &str, &str)] = &[
    ("/help", "", "this list"),
    ("/reset", "", "forget the conversation (the system message stays)"),
    ("/retry", "", "answer the last message again"),
    ("/system", "[TEXT]", "show the system message, or set it (`/system none` removes it)"),
    ("/think", "[on|off]", "show whether the model thinks before it answers, or switch it"),
    ("/stats", "", "tokens and speed of the last answer and of the conversation"),
    ("/quit", "", "leave (Ctrl-D does too)"),
];

/// Why a line is not a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotSlash {
    /// It does not look like one.
    Text,
    /// It does, but there is none of that name.
    Unknown(String),
    /// The command does not take this.
    Argument(String),
}

/// Reads a line as a command. A line of several lines never is one.
pub(super) fn parse(line: &str) -> Result<Slash<'_>, NotSlash> {
    let line = line.trim_end();
    let looks_like_one =
        line.strip_prefix('/').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()));
    if !looks_like_one || line.contains('\n') {
        return Err(NotSlash::Text);
    }
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = Some(argument.trim()).filter(|text| !text.is_empty());
    let bare = |command| match argument {
        None => Ok(command),
        Some(_) => Err(NotSlash::Argument(format!("{name} takes no argument"))),
    };
    match name {
        "/help" => bare(Slash::Help),
        "/reset" => bare(Slash::Reset),
        "/retry" => bare(Slash::Retry),
        "/stats" => bare(Slash::Stats),
        "/quit" | "/exit" => bare(Slash::Quit),
        "/system" => Ok(Slash::System(argument)),
        "/think" => match argument {
            None => Ok(Slash::Think(None)),
            Some("on") => Ok(Slash::Think(Some(true))),
            Some("off") => Ok(Slash::Think(Some(false))),
            Some(_) => Err(NotSlash::Argument("/think takes `on` or `off`".to_owned())),
        },
        _ => Err(NotSlash::Unknown(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_what_only_looks_like_one() {
        assert_eq!(parse("/help "), Ok(Slash::Help));
        assert_eq!(parse("/system Be brief. "), Ok(Slash::System(Some("Be brief."))));
        assert_eq!(parse("/system"), Ok(Slash::System(None)));
        assert_eq!(parse("/think off"), Ok(Slash::Think(Some(false))));
        assert!(matches!(parse("/think maybe"), Err(NotSlash::Argument(_))));
        assert!(matches!(parse("/reset now"), Err(NotSlash::Argument(_))));
        assert_eq!(parse("/rest"), Err(NotSlash::Unknown("/rest".into())));
        for text in ["hello /help", " /help", "/", "/ 2", "// comment", "/help\nme"] {
            assert_eq!(parse(text), Err(NotSlash::Text), "{text:?}");
        }
    }

    #[test]
    fn every_listed_command_is_understood() {
        for (name, ..) in COMMANDS {
            assert!(parse(name).is_ok(), "{name}");
        }
    }
}
