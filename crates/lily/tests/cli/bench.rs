//! `lily bench`, in its shortest form.

use crate::process::done;

#[test]
fn every_round_is_reported() {
    let args = [
        "bench",
        "--prefill",
        "1,16",
        "--decode",
        "8",
        "--steps",
        "4",
        "--rounds",
        "3",
        "--warmups",
        "1",
        "--json",
    ];
    let object = done(args).success().json();
    let series = object["series"].as_array().expect("series");
    assert_eq!(series.len(), 3);
    for (series, (kind, tokens, context)) in
        series.iter().zip([("prefill", 1, 0), ("prefill", 16, 0), ("decode", 4, 8)])
    {
        assert_eq!(
            (&series["kind"], &series["tokens"], &series["context"]),
            (&kind.into(), &tokens.into(), &context.into())
        );
        let rates: Vec<f64> = serde_json::from_value(series["tokens_per_second"].clone()).expect("rates");
        assert_eq!(rates.len(), 3);
        let median = series["median"].as_f64().expect("a number");
        assert!(rates.contains(&median) && median > 0.0, "{series}");
        assert!(series["floor"].as_f64().is_some_and(|floor| floor > 0.0), "{series}");
    }
    assert!(object["first_call"]["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{object}");
    assert!(object["read_gb_per_s"]["before"].as_f64().is_some_and(|rate| rate > 0.1), "{object}");
}

#[test]
fn the_table_is_for_people() {
    let done = done([
        "bench",
        "--decode",
        "4",
        "--steps",
        "2",
        "--rounds",
        "1",
        "--warmups",
        "0",
        "--no-ceiling",
        "--ops",
        "--sampled",
    ])
    .success();
    let from_head = done.stdout.lines().skip_while(|line| !line.contains("median tok/s"));
    let widths: Vec<usize> = from_head.take(3).map(|line| line.chars().count()).collect();
    assert!(widths.len() == 3 && widths.iter().all(|&width| width == widths[0]), "{}", done.stdout);
    for words in ["first call", "decode @4", "rounds:", "median tok/s", "expert-in", "GOP/s"] {
        assert!(done.stdout.contains(words), "{words}: {}", done.stdout);
    }
}
