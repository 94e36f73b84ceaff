//! What an entry point takes, read from its text.

mod expression;
mod grid;
mod text;
mod touches;

pub use grid::{Grid, Launch};
pub use touches::Extent;

use crate::{KernelError, KernelFile, Specialisation};
use touches::Touch;

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
    /// Bytes of threadgroup memory on Metal, if its text says so: each array rounded up to 16 bytes.
    pub threadgroup_memory: Option<u32>,
    /// Over which grid it is launched, if its text says so.
    pub grid: Option<Grid>,
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
    /// Bytes of an element.
    pub element_bytes: u32,
    /// Bytes of which its first element's address must be a multiple.
    pub alignment: u32,
    /// How far a launch reaches into it.
    pub reach: Reach,
}

/// How far a launch reaches into a buffer, from its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// The kernel's text does not say.
    Undeclared,
    /// As far as the data says: up to all of it.
    Data,
    /// So many elements at most.
    Elements(Extent),
}

impl Binding {
    /// Bytes from its start that a launch with these parameters over this grid may touch; nothing where only the data
    /// knows, or where the text does not say.
    #[must_use]
    pub fn bytes(&self, params: &[u8], groups: [u32; 3]) -> Option<u64> {
        match &self.reach {
            Reach::Elements(extent) => {
                extent.elements(params, groups)?.checked_mul(u64::from(self.element_bytes))
            }
            Reach::Undeclared | Reach::Data => None,
        }
    }
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
        let element_bytes = element_bytes(&argument.element, specialisation)
            .ok_or_else(|| wrong(format!("`{}` has elements of type {}", argument.name, argument.element)))?;
        bindings.push(Binding {
            index: argument.index,
            name: argument.name,
            element: argument.element,
            access,
            element_bytes,
            alignment: element_bytes,
            reach: Reach::Undeclared,
        });
    }
    let declared = specialisation.text();
    let touches =
        touches::read(declared, entry, &|name| specialisation.value(name), &macros, params.as_ref())
            .map_err(wrong)?;
    let threadgroup_memory = match touches {
        Some(touches) => declare(&mut bindings, touches).map_err(wrong)?,
        None => None,
    };
    let grid =
        grid::read(declared, entry, &|name| specialisation.value(name), &macros, params.as_ref(), &bindings);
    let grid = grid.map_err(wrong)?;
    Ok(Signature { entry: entry.to_owned(), threads, bindings, params, threadgroup_memory, grid })
}

/// Where a value of a launch stands among the variables of its text's expressions: threadgroups by axis, then parameters.
fn launch_variable(name: &str, params: Option<&Params>) -> Option<usize> {
    const AXES: [&str; 3] = ["GROUPS_X", "GROUPS_Y", "GROUPS_Z"];
    let fields = params.map_or(&[][..], |params| &params.fields);
    let field = || fields.iter().position(|(field, kind)| field == name && *kind != ScalarType::Float);
    AXES.iter().position(|axis| *axis == name).or_else(|| Some(AXES.len() + field()?))
}

/// Enters what a `// touches` line says, which must name every binding. Answers the threadgroup memory; none named is none.
fn declare(bindings: &mut [Binding], touches: Vec<Touch>) -> Result<Option<u32>, String> {
    let mut threadgroup = Some(0);
    for touch in touches {
        if touch.name == "threadgroup" {
            let bytes = touch.extent.and_then(|bytes| bytes.elements(&[], [0; 3]));
            threadgroup = bytes.and_then(|bytes| u32::try_from(bytes).ok());
            continue;
        }
        let binding = bindings
            .iter_mut()
            .find(|binding| binding.name == touch.name)
            .ok_or_else(|| format!("touches `{}`, which it does not take", touch.name))?;
        binding.alignment = touch.alignment.unwrap_or(0).max(binding.alignment);
        binding.reach = touch.extent.map_or(Reach::Data, Reach::Elements);
    }
    match bindings.iter().find(|binding| binding.reach == Reach::Undeclared) {
        Some(binding) => Err(format!("its touches line leaves out `{}`", binding.name)),
        None => Ok(threadgroup),
    }
}

/// Bytes of a type of the dialect.
fn element_bytes(element: &str, specialisation: &Specialisation) -> Option<u32> {
    Some(match element {
        "uchar" => 1,
        "bf16" | "f16" | "ushort" => 2,
        "uint" | "int" | "float" => 4,
        "uint2" | "float2" => 8,
        "uint4" | "float4" => 16,
        // quant.h: bf16, f16, f32
        "scale_t" => match specialisation.value("SCALE") {
            Some(2) => 4,
            _ => 2,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A touches line that names what is not there, or leaves out what is, is an error.
    #[test]
    fn a_touches_line_is_complete() {
        let gemv = Specialisation::named("gemv", &[("K", 64)]).expect("complete");
        let text = gemv.text().to_owned();
        for (from, to, wanted) in [
            ("// touches gemv: w@16", "// touches gemv: v@16", "which it does not take"),
            ("y rows, threadgroup", "threadgroup", "leaves out `y`"),
            ("y rows, threadgroup", "y lines, threadgroup", "`lines` has no value"),
        ] {
            assert!(text.contains(from), "{from}");
            let error =
                gemv.with_text(&text.replacen(from, to, 1)).signature("gemv").expect_err("incomplete");
            assert!(error.to_string().contains(wanted), "{error}");
        }
    }

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
        assert_eq!(signature.threadgroup_memory, Some(64 / 32 * 36 * 4 + 16));
        let bytes = |name: &str| {
            let rows_stride_ahead_groups = [8_u32, 0, 5, 1].map(u32::to_le_bytes).concat();
            let binding = signature.bindings.iter().find(|binding| binding.name == name).expect("a binding");
            (binding.alignment, binding.bytes(&rows_stride_ahead_groups, [1, 1, 1]))
        };
        assert_eq!(bytes("w"), (16, Some(8 * 64 / 2)));
        assert_eq!(bytes("scales"), (2, Some(8 * 2)));
        assert_eq!(bytes("next"), (4, Some(5 * 4)));
        let error = gemv.signature("gemm").expect_err("no entry");
        assert_eq!(error.to_string(), "kernel file `gemv` has no entry point `gemm`");
    }
}
