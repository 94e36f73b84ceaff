//! What no compiler checks. A check is a function from the repository's files to problems; each has a test beside it
//! that plants the fault it is for.

mod big_files;
mod cases;
mod changelog;
mod dependencies;
mod features;
mod file_length;
mod layers;
mod links;
mod machine_paths;
mod manifests;
mod markers;
mod mentions;
mod metal_calls;
mod readme;
mod report;
mod unsafe_code;
mod variables;
mod whitespace;

pub(crate) use report::Report;

use crate::tree::Tree;
use anyhow::{Result, bail};

/// One check.
pub(crate) struct Check {
    /// Its name, as `--only` takes it.
    pub(crate) name: &'static str,
    /// What it is for, in a few words.
    pub(crate) purpose: &'static str,
    run: fn(&Tree, &mut Report) -> Result<()>,
}

/// Every check, in the order in which they run.
pub(crate) const CHECKS: &[Check] = &[
    Check { name: "file-length", purpose: "a source file stays under 1,000 lines", run: file_length::check },
    Check {
        name: "whitespace",
        purpose: "no trailing spaces, tabs or carriage returns",
        run: whitespace::check,
    },
    Check { name: "machine-paths", purpose: "no path of one developer's machine", run: machine_paths::check },
    Check { name: "markers", purpose: "no unfinished work and no ignored test", run: markers::check },
    Check {
        name: "unsafe",
        purpose: "unsafe code only where it is allowed, with a SAFETY line",
        run: unsafe_code::check,
    },
    Check {
        name: "manifests",
        purpose: "each crate inherits licence, edition and lints",
        run: manifests::check,
    },
    Check { name: "layers", purpose: "crates use one another as ARCHITECTURE.md says", run: layers::check },
    Check {
        name: "features",
        purpose: "dependency features that must stay off are off",
        run: features::check,
    },
    Check {
        name: "dependencies",
        purpose: "licences are permissive, the default build compiles no C",
        run: dependencies::check,
    },
    Check { name: "links", purpose: "relative links in Markdown lead somewhere", run: links::check },
    Check { name: "mentions", purpose: "documents that the code names are there", run: mentions::check },
    Check {
        name: "metal-calls",
        purpose: "calls of Metal are in a table, and guarded where they are newer than the program",
        run: metal_calls::check,
    },
    Check {
        name: "variables",
        purpose: "each environment variable is named in a document",
        run: variables::check,
    },
    Check {
        name: "changelog",
        purpose: "CHANGELOG.md opens with an Unreleased section",
        run: changelog::check,
    },
    Check { name: "readme", purpose: "README.md marks its two commands", run: readme::check },
    Check { name: "cases", purpose: "test cases parse and their ids are unique", run: cases::check },
    Check {
        name: "big-files",
        purpose: "no large binary and no file of the full-size model",
        run: big_files::check,
    },
];

/// Runs all checks, or those named in `only`.
pub(crate) fn run(tree: &Tree, only: &[String]) -> Result<Report> {
    if let Some(unknown) = only.iter().find(|name| CHECKS.iter().all(|check| check.name != name.as_str())) {
        bail!("no check is called {unknown:?}\nhint: `cargo xtask tidy --list` lists them");
    }
    let mut report = Report::default();
    for check in CHECKS {
        if only.is_empty() || only.iter().any(|name| name == check.name) {
            report.begin(check.name);
            (check.run)(tree, &mut report)?;
        }
    }
    Ok(report)
}

#[cfg(test)]
mod testing {
    use super::{Report, Tree};
    use crate::tree::testing::plant;
    use anyhow::Result;

    /// The errors that a check finds in the given files, as `path:line: message`.
    pub(super) fn errors(check: fn(&Tree, &mut Report) -> Result<()>, files: &[(&str, &str)]) -> Vec<String> {
        let (_folder, tree) = plant(files);
        let mut report = Report::default();
        report.begin("test");
        check(&tree, &mut report).unwrap();
        report.errors()
    }
}

#[cfg(test)]
mod tests {
    use super::{CHECKS, run};
    use crate::tree::testing::plant;

    #[test]
    fn names_are_unique_and_an_unknown_one_is_refused() {
        for (index, check) in CHECKS.iter().enumerate() {
            assert!(CHECKS[..index].iter().all(|other| other.name != check.name), "{}", check.name);
        }
        let (_folder, tree) = plant(&[]);
        assert!(run(&tree, &["no-such-check".to_owned()]).is_err());
    }

    #[test]
    fn only_the_named_check_runs() {
        let (_folder, tree) = plant(&[("a.rs", "fn a() {} \n")]);
        assert_eq!(run(&tree, &["changelog".to_owned()]).unwrap().errors().len(), 1);
        assert_eq!(run(&tree, &["whitespace".to_owned()]).unwrap().errors(), ["a.rs:1: trailing whitespace"]);
    }
}
