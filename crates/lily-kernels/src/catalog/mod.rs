//! The table of kernel files.
//!
//! A file says what it can be specialised by in its own first lines, so a table beside it cannot drift:
//!
//! ```text
//! // needs: quant.h gemv.h
//! // constants:
//! //   K           input width, a multiple of GROUP
//! //   ROWS = 4    output rows per simdgroup
//! ```

mod decode;
mod prefill;
mod sample;

use std::sync::LazyLock;

/// One kernel file: one family of operations in the dialect, some with several entry points.
#[derive(Debug)]
pub struct KernelFile {
    /// Its name, that of the file without folder and suffix.
    pub name: &'static str,
    /// The text in the dialect.
    pub text: &'static str,
    /// What it can be specialised by, in the order of the file.
    pub constants: Vec<Constant>,
    /// Headers that stand between the common one and the text.
    pub needs: Vec<&'static str>,
    /// Written with CUDA's own instructions: an override of a portable file.
    pub cuda_only: bool,
    /// Written with Metal 4's tensor operations: an override of a portable file, or a test of them.
    pub metal_only: bool,
}

/// A constant of a kernel file: a whole number known when it is compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constant {
    /// The macro's name.
    pub name: &'static str,
    /// The value if none is given; `None` must be given.
    pub default: Option<i64>,
    /// What it is.
    pub doc: &'static str,
}

/// A file of the catalog before its header is read.
pub(crate) struct Entry {
    name: &'static str,
    text: &'static str,
    cuda_only: bool,
    metal_only: bool,
}

/// An [`Entry`] for `kernels/FOLDER/NAME.k`.
macro_rules! kernel {
    ($folder:literal, $name:literal) => {
        $crate::catalog::Entry {
            name: $name,
            text: include_str!(concat!("../../kernels/", $folder, "/", $name, ".k")),
            cuda_only: false,
            metal_only: false,
        }
    };
    (cuda $name:literal) => {
        $crate::catalog::Entry {
            name: $name,
            text: include_str!(concat!("../../kernels/cuda/", $name, ".k")),
            cuda_only: true,
            metal_only: false,
        }
    };
    (metal $name:literal) => {
        $crate::catalog::Entry {
            name: $name,
            text: include_str!(concat!("../../kernels/metal/", $name, ".k")),
            cuda_only: false,
            metal_only: true,
        }
    };
}
pub(crate) use kernel;

static CATALOG: LazyLock<Vec<KernelFile>> = LazyLock::new(|| {
    [decode::FILES, sample::FILES, prefill::FILES].into_iter().flatten().map(KernelFile::read).collect()
});

/// Every kernel file.
pub fn catalog() -> &'static [KernelFile] {
    &CATALOG
}

/// The kernel file `name`.
pub fn find(name: &str) -> Option<&'static KernelFile> {
    catalog().iter().find(|file| file.name == name)
}

impl KernelFile {
    fn read(entry: &Entry) -> Self {
        let header = entry.text.lines().take_while(|line| line.starts_with("//"));
        let (mut constants, mut needs, mut listing) = (Vec::new(), Vec::new(), false);
        for line in header {
            let line = line.trim_start_matches("//");
            if let Some(names) = line.trim_start().strip_prefix("needs:") {
                needs.extend(names.split_whitespace());
                listing = false;
            } else if line.trim() == "constants:" {
                listing = true;
            } else if let (true, Some(constant)) = (listing, line.strip_prefix("   ")) {
                match Constant::read(constant) {
                    Some(constant) => constants.push(constant),
                    None => listing = false,
                }
            } else {
                listing = false;
            }
        }
        let &Entry { name, text, cuda_only, metal_only } = entry;
        Self { name, text, constants, needs, cuda_only, metal_only }
    }
}

impl Constant {
    /// `NAME  what it is` or `NAME = 4  what it is`.
    fn read(line: &'static str) -> Option<Self> {
        let name_len = line.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'))?;
        let (name, rest) = line.split_at(name_len);
        let rest = rest.trim_start();
        let (default, doc) = match rest.strip_prefix("= ") {
            None => (None, rest),
            Some(rest) => {
                let (number, doc) = rest.split_once(' ')?;
                (Some(number.parse().ok()?), doc)
            }
        };
        (!name.is_empty()).then(|| Self { name, default, doc: doc.trim() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Platform, Reach, Specialisation, signature::entries};

    #[test]
    fn headers_are_read() {
        let constant = |line| Constant::read(line);
        let found = constant("ROWS = 4    output rows").map(|c| (c.name, c.default, c.doc));
        assert_eq!(found, Some(("ROWS", Some(4), "output rows")));
        assert_eq!(constant("K  width").map(|c| (c.name, c.default, c.doc)), Some(("K", None, "width")));
        assert_eq!(constant("not a constant"), None);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = catalog().iter().map(|file| file.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    #[test]
    fn every_file_has_an_entry_documents_its_constants_and_finds_its_headers() {
        for file in catalog() {
            assert!(!entries(file).is_empty(), "{} has no KERNEL", file.name);
            for constant in &file.constants {
                assert!(!constant.doc.is_empty(), "{}: {} says nothing", file.name, constant.name);
            }
            for platform in [Platform::Metal, Platform::Cuda, Platform::Emulator] {
                for name in &file.needs {
                    assert!(platform.shared(name, file.cuda_only).is_some(), "{} needs {name}", file.name);
                }
            }
        }
    }

    /// This is about the text, not about a launch: any width that every file takes does.
    #[test]
    fn every_entry_has_a_signature() {
        for file in catalog() {
            let given: Vec<(&str, i64)> = file
                .constants
                .iter()
                .filter(|constant| constant.default.is_none())
                .map(|constant| (constant.name, 512))
                .collect();
            let specialisation = Specialisation::new(file, &given).expect("every constant is given");
            for entry in entries(file) {
                let signature = specialisation.signature(&entry).unwrap_or_else(|error| panic!("{error}"));
                assert!(!signature.bindings.is_empty(), "{entry}");
                let undeclared = signature.bindings.iter().find(|binding| binding.reach == Reach::Undeclared);
                assert_eq!(undeclared, None, "{entry} has no `// touches` line (src/signature/touches.rs)");
                let says = signature.threadgroup_memory.is_some();
                assert!(says || file.cuda_only, "{entry} does not say how much threadgroup memory it takes");
            }
        }
    }
}
