//! A kernel file with values for its constants.

use crate::{KernelError, KernelFile, Platform, Signature, find, signature, source};
use std::fmt::Write as _;
use std::sync::Arc;

/// A kernel file with a value for each constant: what one compilation takes.
#[derive(Debug, Clone)]
pub struct Specialisation {
    file: &'static KernelFile,
    /// In the order of the file.
    values: Vec<(&'static str, i64)>,
    /// Texts in the place of others, by name.
    planted: Vec<(String, Arc<str>)>,
}

impl Specialisation {
    /// Gives constants their values; those not given have their default.
    ///
    /// # Errors
    /// [`KernelError::UnknownConstant`] and [`KernelError::MissingConstant`].
    pub fn new(file: &'static KernelFile, given: &[(&str, i64)]) -> Result<Self, KernelError> {
        if let Some((unknown, _)) =
            given.iter().find(|(name, _)| file.constants.iter().all(|c| c.name != *name))
        {
            let known: Vec<&str> = file.constants.iter().map(|constant| constant.name).collect();
            return Err(KernelError::UnknownConstant {
                file: file.name,
                constant: (*unknown).to_owned(),
                known: known.join(", "),
            });
        }
        let value = |constant: &crate::Constant| {
            let given = given.iter().rev().find(|(name, _)| *name == constant.name).map(|&(_, value)| value);
            given.or(constant.default).ok_or(KernelError::MissingConstant {
                file: file.name,
                constant: constant.name,
                doc: constant.doc,
            })
        };
        let values =
            file.constants.iter().map(|c| Ok((c.name, value(c)?))).collect::<Result<_, KernelError>>()?;
        Ok(Self { file, values, planted: Vec::new() })
    }

    /// The same, by the file's name.
    ///
    /// # Errors
    /// [`KernelError::NoFile`] and those of [`Specialisation::new`].
    pub fn named(file: &str, given: &[(&str, i64)]) -> Result<Self, KernelError> {
        Self::new(find(file).ok_or_else(|| KernelError::NoFile(file.to_owned()))?, given)
    }

    /// The inverse of [`Specialisation::key`].
    ///
    /// # Errors
    /// [`KernelError::Key`] for another text, and those of [`Specialisation::named`].
    pub fn from_key(key: &str) -> Result<Self, KernelError> {
        let parts = || -> Option<(&str, Vec<(&str, i64)>)> {
            let (file, values) = key.strip_suffix(']')?.split_once('[')?;
            let values = values.split(',').filter(|value| !value.is_empty());
            let values = values.map(|value| {
                let (name, value) = value.split_once('=')?;
                Some((name, value.parse().ok()?))
            });
            Some((file, values.collect::<Option<_>>()?))
        };
        let (file, values) = parts().ok_or_else(|| KernelError::Key(key.to_owned()))?;
        Self::named(file, &values)
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &'static KernelFile {
        self.file
    }

    /// The same with another text in the place of the file's: how a test plants a fault.
    #[must_use]
    pub fn with_text(&self, text: &str) -> Self {
        self.with_part(&format!("{}.k", self.file.name), text)
    }

    /// The same with another text in the place of one of [`Specialisation::parts`].
    #[must_use]
    pub fn with_part(&self, name: &str, text: &str) -> Self {
        let mut other = self.clone();
        other.planted.retain(|(planted, _)| planted != name);
        other.planted.push((name.to_owned(), text.into()));
        other
    }

    /// Names of the kernel's file and of the shared headers that it needs, with their texts; not the platform's.
    #[must_use]
    pub fn parts(&self) -> Vec<(String, &str)> {
        let own = |name: &&&str| !matches!(**name, "tiles" | "tensor");
        let headers =
            self.file.needs.iter().filter(own).filter_map(|name| self.header(Platform::Emulator, name));
        let headers =
            headers.map(|part| (part.name.to_owned(), self.planted(part.name).unwrap_or(part.text)));
        headers.chain([(format!("{}.k", self.file.name), self.text())]).collect()
    }

    fn header(&self, platform: Platform, name: &str) -> Option<source::Part> {
        platform.shared(name, self.file.cuda_only)
    }

    fn planted(&self, name: &str) -> Option<&str> {
        self.planted.iter().find(|(planted, _)| planted == name).map(|(_, text)| &**text)
    }

    /// The kernel's own text.
    pub(crate) fn text(&self) -> &str {
        self.planted(&format!("{}.k", self.file.name)).unwrap_or(self.file.text)
    }

    /// A constant's value.
    #[must_use]
    pub fn value(&self, constant: &str) -> Option<i64> {
        self.values.iter().find(|(name, _)| *name == constant).map(|&(_, value)| value)
    }

    /// Every constant with its value, in the order of the file.
    #[must_use]
    pub fn values(&self) -> &[(&'static str, i64)] {
        &self.values
    }

    /// The text for a platform's compiler: switches, platform headers, constants, common helpers, the headers that the
    /// file needs, the file.
    #[must_use]
    pub fn source(&self, platform: Platform) -> String {
        let mut out = String::new();
        let define = |out: &mut String, switches: bool| {
            // A String takes every write.
            for (name, value) in self.values.iter().filter(|(name, _)| name.starts_with("KD_") == switches) {
                let _ = writeln!(out, "#define {name} {value}");
            }
        };
        define(&mut out, true);
        let part = |out: &mut String, part: source::Part| {
            let text = self.planted(part.name).unwrap_or(part.text);
            let _ = writeln!(out, "#line 1 \"{}\"\n{text}", part.name);
        };
        for header in platform.headers(self.file.cuda_only) {
            part(&mut out, header);
        }
        define(&mut out, false);
        part(&mut out, source::COMMON);
        for header in self.file.needs.iter().filter_map(|name| self.header(platform, name)) {
            part(&mut out, header);
        }
        let _ = writeln!(out, "#line 1 \"{}.k\"\n{}", self.file.name, self.text());
        out
    }

    /// File and values in one line, the same for the same specialisation: a name for caches and messages.
    #[must_use]
    pub fn key(&self) -> String {
        let values: Vec<String> = self.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}[{}]", self.file.name, values.join(","))
    }

    /// What an entry point takes, read from its own text.
    ///
    /// # Errors
    /// [`KernelError::NoEntry`], or [`KernelError::Text`] where the text does not follow the dialect.
    pub fn signature(&self, entry: &str) -> Result<Signature, KernelError> {
        signature::read(self, entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_constant_is_named() {
        let error = Specialisation::named("gemv", &[("K", 64), ("WIDTH", 1)]).expect_err("unknown");
        assert!(error.to_string().contains("no constant `WIDTH`; it has K"), "{error}");
        let error = Specialisation::named("gemv", &[]).expect_err("missing");
        assert!(error.to_string().starts_with("kernel file `gemv` needs a value for `K` ("), "{error}");
        assert_eq!(
            Specialisation::named("gemm4", &[]).expect_err("no file").to_string(),
            "there is no kernel file `gemm4`"
        );
    }

    #[test]
    fn constants_come_after_the_platform_and_switches_before() {
        let gemv = Specialisation::named("gemv", &[("K", 64)]).expect("complete");
        for platform in [Platform::Metal, Platform::Cuda, Platform::Emulator] {
            let text = gemv.source(platform);
            let at = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("{needle} in {platform:?}"));
            assert!(at("#define K 64\n") > at("#define KERNEL("), "{platform:?}");
            assert!(at("#define K 64\n") < at("#line 1 \"common.h\""), "{platform:?}");
            assert!(at("#line 1 \"quant.h\"") < at("#line 1 \"gemv.k\""), "{platform:?}");
        }
    }

    #[test]
    fn the_key_tells_specialisations_apart() {
        let key = |given: &[(&str, i64)]| Specialisation::named("gemv", given).expect("complete").key();
        assert_eq!(key(&[("K", 64)]), key(&[("K", 64), ("ROWS", 4)]), "4 is the default");
        assert_ne!(key(&[("K", 64)]), key(&[("K", 320)]));
        let again = Specialisation::from_key(&key(&[("K", 320), ("BITS", 3)])).expect("a key");
        assert_eq!(again.key(), key(&[("K", 320), ("BITS", 3)]));
        for wrong in ["gemv", "gemv[K]", "gemv[K=x]", "gemv[K=64", ""] {
            let error = Specialisation::from_key(wrong).expect_err("no key");
            assert_eq!(error, KernelError::Key(wrong.to_owned()));
        }
    }
}
