//! What an entry point takes, read from its text.

mod expression;
mod text;

use crate::{KernelError, KernelFile, Specialisation};

/// What one entry point takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Its name.
    pub entry: String,
    /// Threads of a threadgroup, a multiple of 32.
    pub threads: u32,
    /// Its buffers, by index.
    pub bindings: Vec<Binding>,
    /// Its parameters.
    pub params: Option<Params>,
}

/// A buffer that an entry point takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Where it is bound.
    pub index: u32,
    /// Its name in the kernel.
    pub name: String,
    /// The type of its elements as the kernel spells it.
    pub element: String,
    /// What the kernel does with it.
    pub access: Access,
}

/// What a kernel does with a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// `IN`.
    Read,
    /// `OUT`: written; read only after it was written by the same threadgroup.
    Write,
    /// `INOUT`: what was there before counts.
    ReadWrite,
}

/// A small struct of scalars that travels with a dispatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// Where it is bound.
    pub index: u32,
    /// Bytes.
    pub size: usize,
    /// Name and type of each field, in order, four bytes each.
    pub fields: Vec<(String, ScalarType)>,
}

/// A type of four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarType {
    /// `uint`.
    Uint,
    /// `int`.
    Int,
    /// `float`.
    Float,
}

impl Signature {
    /// The buffer `name`.
    #[must_use]
    pub fn binding(&self, name: &str) -> Option<&Binding> {
        self.bindings.iter().find(|binding| binding.name == name)
    }
}

/// The entry points of a file, in its order.
#[must_use]
pub fn entries(file: &KernelFile) -> Vec<String> {
    text::kernels(&text::without_comments(file.text))
        .into_iter()
        .filter_map(|arguments| arguments.first().map(|name| (*name).to_owned()))
        .collect()
}

/// Reads the signature of `entry`.
pub(crate) fn read(specialisation: &Specialisation, entry: &str) -> Result<Signature, KernelError> {
    let file = specialisation.file();
    let text = text::without_comments(specialisation.text());
    let wrong = |reason: String| KernelError::Text { file: file.name, entry: entry.to_owned(), reason };
    let kernels = text::kernels(&text);
    let arguments = kernels
        .iter()
        .find(|arguments| arguments.first() == Some(&entry))
        .ok_or_else(|| KernelError::NoEntry { file: file.name, entry: entry.to_owned() })?;
    let [_, threads, bound @ ..] = arguments.as_slice() else {
        return Err(wrong("KERNEL(name, threads, ...) is cut short".to_owned()));
    };
    let macros = text::macros(&text);
    let count = expression::evaluate(threads, &|name| specialisation.value(name), &macros)
        .map_err(|reason| wrong(format!("threads `{threads}`: {reason}")))?;
    let threads = u32::try_from(count)
        .ok()
        .filter(|threads| (32..=1024).contains(threads) && threads % 32 == 0)
        .ok_or_else(|| wrong(format!("{count} threads; a threadgroup has 32 to 1024 in steps of 32")))?;

    let (mut bindings, mut params) = (Vec::new(), None);
    for (position, argument) in bound.iter().enumerate() {
        let argument = text::Argument::read(argument)
            .ok_or_else(|| wrong(format!("`{argument}` is none of IN, OUT, INOUT, PARAMS")))?;
        // The emulator and CUDA bind by position, Metal by index: they must be the same.
        if argument.index as usize != position {
            return Err(wrong(format!(
                "`{}` has index {} at place {position}",
                argument.name, argument.index
            )));
        }
        let access = match argument.kind {
            text::Kind::In => Access::Read,
            text::Kind::Out => Access::Write,
            text::Kind::InOut => Access::ReadWrite,
            text::Kind::Params => {
                let fields = text::fields(&text, &argument.element).ok_or_else(|| {
                    wrong(format!("struct {} has other fields than uint, int, float", argument.element))
                })?;
                params = Some(Params { index: argument.index, size: 4 * fields.len(), fields });
                continue;
            }
        };
        bindings.push(Binding {
            index: argument.index,
            name: argument.name,
            element: argument.element,
            access,
        });
    }
    Ok(Signature { entry: entry.to_owned(), threads, bindings, params })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gemv() {
        let gemv = Specialisation::named("gemv", &[("K", 64), ("SIMDGROUPS", 2)]).expect("complete");
        let signature = gemv.signature("gemv_add").expect("an entry");
        assert_eq!(signature.threads, 64);
        let names: Vec<(&str, Access)> =
            signature.bindings.iter().map(|b| (b.name.as_str(), b.access)).collect();
        let (read, both) = (Access::Read, Access::ReadWrite);
        let inputs = ["w", "scales", "biases", "x", "next"].map(|name| (name, read));
        assert_eq!(names, [&inputs[..], &[("y", both)]].concat());
        let params = signature.params.expect("parameters");
        assert_eq!((params.index, params.size), (6, 16));
        assert_eq!(params.fields[0], ("rows".to_owned(), ScalarType::Uint));
        let error = gemv.signature("gemm").expect_err("no entry");
        assert_eq!(error.to_string(), "kernel file `gemv` has no entry point `gemm`");
    }
}
