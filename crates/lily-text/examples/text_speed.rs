//! Time and throughput of the tokenizer: `text_speed TOKENIZER.json [--load-only]`.
#![expect(clippy::print_stdout, reason = "its output is data")]

use std::time::Instant;

use lily_text::Tokenizer;

fn main() {
    let path = std::env::args().nth(1).unwrap_or_else(|| "models/nano/tokenizer.json".to_owned());
    let json = match std::fs::read(&path) {
        Ok(json) => json,
        Err(error) => {
            eprintln!("{path}: {error}");
            std::process::exit(1);
        }
    };
    let start = Instant::now();
    let tokenizer = match Tokenizer::from_json(&json) {
        Ok(tokenizer) => tokenizer,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    println!("load: {:.3} s for {} bytes", start.elapsed().as_secs_f64(), json.len());
    if std::env::args().nth(2).as_deref() == Some("--load-only") {
        return;
    }
    let prose =
        "The quick brown fox jumps over the lazy dog; 3.14 is not 22/7.\n\tif x { y() }\n".repeat(26_000);
    for (name, text) in [
        ("prose, 2 MB", prose),
        ("letter a, 1 MB", "a".repeat(1 << 20)),
        ("spaces, 1 MB", " ".repeat(1 << 20)),
        ("spaces then a letter, 2 MB", format!("{}x", " ".repeat(2 << 20))),
        ("newlines, 1 MB", "\n".repeat(1 << 20)),
        ("combining marks, 1 MB", format!("a{}", "\u{301}".repeat(1 << 19))),
        ("open brackets, 1 MB", "<|".repeat(1 << 19)),
        ("CJK, 1 MB", "東京都".repeat(120_000)),
    ] {
        let start = Instant::now();
        let ids = tokenizer.encode(&text);
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{name}: {seconds:.3} s, {} tokens, {:.1} MB/s",
            ids.len(),
            text.len() as f64 / 1e6 / seconds
        );
    }
}
