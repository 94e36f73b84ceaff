//! LLVM's text of a compiled kernel file, as far as the rules need it.

use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The address space of a `device` pointer in generated code.
pub(super) const DEVICE: u32 = 1;
/// That of a `constant` one.
pub(super) const CONSTANT: u32 = 2;

/// A compiled kernel file.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// By name.
    pub(super) kernels: BTreeMap<String, Kernel>,
    /// Variables in threadgroup memory: the function's name, the variable's and its bytes.
    pub(super) threadgroup: Vec<(String, String, u64)>,
    /// Whom each function calls.
    pub(super) calls: BTreeMap<String, BTreeSet<String>>,
    /// Fields of the structs that occur, in LLVM's words.
    pub(super) structs: HashMap<String, Vec<String>>,
    /// Lines with a 64-bit floating-point number.
    pub(super) doubles: Vec<String>,
    /// Functions in which a pointer or reference to device or threadgroup memory becomes one to thread memory.
    pub(super) strayed: BTreeSet<String>,
    /// Lines in which a bfloat becomes a half, or the other way round.
    pub(super) mixed: usize,
}

/// An entry point.
#[derive(Debug, Default, Clone)]
pub(super) struct Kernel {
    /// `max_total_threads_per_threadgroup`.
    pub(super) threads: Option<u64>,
    pub(super) arguments: Vec<Argument>,
}

/// An argument of an entry point.
#[derive(Debug, Default, Clone)]
pub(super) struct Argument {
    pub(super) name: String,
    /// Of what it points or refers to; 0 for values.
    pub(super) space: u32,
    /// The type behind typedefs, as clang prints it.
    pub(super) base_type: String,
    /// Points to what must not be written.
    pub(super) constant: bool,
    /// Bytes of what it refers to.
    pub(super) size: Option<u64>,
    /// Every `[[buffer(i)]]`.
    pub(super) buffers: Vec<u64>,
    /// Every other attribute.
    pub(super) ids: Vec<String>,
}

/// What the attributes of definitions and the numbered lines at the end say.
#[derive(Default)]
struct Raw<'a> {
    strings: HashMap<&'a str, &'a str>,
    numbers: HashMap<&'a str, u64>,
    metadata: HashMap<&'a str, &'a str>,
    annotations: &'a str,
}

impl Module {
    pub(super) fn read(text: &str) -> Result<Self> {
        let (mut module, mut raw) = (Self::default(), Raw::default());
        let mut locals = Vec::new();
        for line in text.lines() {
            if let Some((name, rest)) = line.strip_prefix('@').and_then(|rest| rest.split_once(" = ")) {
                read_global(name, rest, &mut raw, &mut locals);
            } else if let Some((name, fields)) =
                line.strip_prefix('%').and_then(|rest| rest.split_once(" = type { "))
            {
                let fields = split(fields.trim_end_matches(" }")).into_iter().map(str::to_owned).collect();
                module.structs.insert(name.trim_matches('"').to_owned(), fields);
            } else if let Some((number, rest)) =
                line.strip_prefix('!').and_then(|rest| rest.split_once(" = !{"))
            {
                raw.metadata.insert(number, rest.trim_end_matches('}'));
            }
        }
        module.read_functions(text, &raw)?;
        for (name, kind) in locals {
            let bytes = size_of(kind, &module.structs).with_context(|| format!("the size of `{kind}`"))?.0;
            let (function, variable) = local_name(name);
            module.threadgroup.push((function.to_owned(), variable.to_owned(), bytes));
        }
        for (kernel, threads) in function_annotations(&raw) {
            if let Some(kernel) = module.kernels.get_mut(kernel) {
                kernel.threads = Some(threads);
            }
        }
        Ok(module)
    }

    fn read_functions(&mut self, text: &str, raw: &Raw<'_>) -> Result<()> {
        let mut function: Option<String> = None;
        for line in text.lines() {
            // The data layout line names an alignment of f64 without having one.
            let code =
                !line.starts_with("target ") && !line.starts_with('!') && !line.starts_with("attributes ");
            if code && computes_in_double(line) {
                self.doubles.push(line.trim().to_owned());
            }
            self.mixed += usize::from(
                line.contains("trunc bfloat ") || mentions(line, "half") && line.contains(" to bfloat"),
            );
            if let (Some(name), Some((_, cast))) = (&function, line.split_once("addrspacecast"))
                && ["ptr addrspace(1)", "ptr addrspace(3)"].iter().any(|from| cast.contains(from))
                && cast.contains("to ptr addrspace(4)")
            {
                self.strayed.insert(name.clone());
            }
            if line.starts_with("define ") {
                let (_, rest) = line.split_once('@').context("a definition without a name")?;
                let (name, rest) = rest.split_once('(').context("a definition without arguments")?;
                let name = name.trim_matches('"').to_owned();
                if line.contains("!kernel_arg_addr_space") {
                    self.kernels.insert(name.clone(), kernel(rest, raw)?);
                }
                self.calls.entry(name.clone()).or_default();
                function = Some(name);
            } else if line == "}" {
                function = None;
            } else if let (Some(name), Some(callee)) = (&function, callee(line)) {
                if callee.starts_with("llvm.var.annotation") {
                    if let Some(kernel) = self.kernels.get_mut(name) {
                        annotate(kernel, line, raw);
                    }
                } else if !callee.starts_with("llvm.") {
                    self.calls.entry(name.clone()).or_default().insert(callee.to_owned());
                }
            }
        }
        Ok(())
    }

    /// Functions that call themselves, by whatever way.
    pub(super) fn recursive(&self) -> Vec<&str> {
        let reaches = |start: &str| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
            while let Some(name) = open.pop() {
                for callee in self.calls.get(name).into_iter().flatten() {
                    if callee == start {
                        return true;
                    }
                    if seen.insert(callee) {
                        open.push(callee);
                    }
                }
            }
            false
        };
        self.calls.keys().map(String::as_str).filter(|name| reaches(name)).collect()
    }
}

fn read_global<'a>(name: &'a str, rest: &'a str, raw: &mut Raw<'a>, locals: &mut Vec<(&'a str, &'a str)>) {
    if name == "llvm.global.annotations" {
        raw.annotations = rest;
    } else if let Some((_, kind)) = rest.split_once("addrspace(3) global ") {
        let kind = kind.rsplit_once(", align").map_or(kind, |(kind, _)| kind);
        let kind =
            kind.strip_suffix(" undef").or_else(|| kind.strip_suffix(" zeroinitializer")).unwrap_or(kind);
        locals.push((name.trim_matches('"'), kind));
    } else if let Some((_, string)) = rest.split_once(" c\"") {
        let string = string.split_once("\\00\"").map_or(string, |(string, _)| string);
        raw.strings.insert(name, string);
    } else if let Some((_, number)) = rest.split_once("constant { i32 } ") {
        // `{ i32 3 }`, or `zeroinitializer`
        let number = number.strip_prefix("{ i32 ").and_then(|number| number.split(' ').next());
        raw.numbers.insert(name, number.and_then(|number| number.parse().ok()).unwrap_or(0));
    }
}

/// The function and the variable of `_ZZ3fooE1t`, the name that C++ gives a function's lasting variable, or of `foo.t`, C's.
fn local_name(name: &str) -> (&str, &str) {
    let counted = |text: &str| -> Option<(usize, usize)> {
        let digits = text.find(|c: char| !c.is_ascii_digit())?;
        Some((digits, text[..digits].parse().ok()?))
    };
    let cpp = || {
        let rest = name.strip_prefix("_ZZ")?;
        let (start, length) = counted(rest)?;
        let function = rest.get(start..start + length)?;
        let variable = rest.get(start + length..)?.split_once('E')?.1;
        let (start, length) = counted(variable)?;
        Some((function, variable.get(start..start + length)?))
    };
    cpp().or_else(|| name.split_once('.')).unwrap_or(("", name))
}

/// An entry point, from what follows its name.
fn kernel(rest: &str, raw: &Raw<'_>) -> Result<Kernel> {
    let list = |key: &str| -> Result<Vec<&str>> {
        let (_, after) = rest.split_once(&format!("!{key} !")).with_context(|| format!("no {key}"))?;
        let number = after.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        Ok(split(raw.metadata.get(number).with_context(|| format!("no metadata {number}"))?))
    };
    let text = |word: &str| word.trim_start_matches("!\"").trim_end_matches('"').to_owned();
    let (bases, qualifiers) = (list("kernel_arg_base_type")?, list("kernel_arg_type_qual")?);
    let arguments = split(&rest[..closing(rest).context("an argument list that does not end")?]);
    if arguments.len() != bases.len() {
        bail!("{} arguments, {} of them described", arguments.len(), bases.len());
    }
    let one = |(index, argument): (usize, &&str)| {
        let within = |word| argument.split_once(word).and_then(|(_, rest): (_, &str)| rest.split(')').next());
        let size = within("dereferenceable(");
        Argument {
            name: argument.rsplit_once('%').map_or("", |(_, name)| name).to_owned(),
            space: within("ptr addrspace(").and_then(|space| space.parse().ok()).unwrap_or(0),
            base_type: text(bases[index]),
            constant: text(qualifiers.get(index).copied().unwrap_or_default()).contains("const"),
            size: size.and_then(|size| size.parse().ok()),
            buffers: Vec::new(),
            ids: Vec::new(),
        }
    };
    Ok(Kernel { threads: None, arguments: arguments.iter().enumerate().map(one).collect() })
}

/// Adds an attribute to the argument that it stands at.
fn annotate(kernel: &mut Kernel, line: &str, raw: &Raw<'_>) {
    let Some((_, arguments)) = line.split_once("llvm.var.annotation") else { return };
    let Some((_, arguments)) = arguments.split_once('(') else { return };
    let arguments = split(arguments.trim_end_matches(')'));
    let name = |index: usize, mark: char| {
        arguments.get(index).and_then(|word| word.rsplit_once(mark)).map_or("", |(_, name)| name)
    };
    let variable = name(0, '%');
    let variable = variable.strip_suffix(".addr").unwrap_or(variable);
    let Some(argument) = kernel.arguments.iter_mut().find(|one| one.name == variable) else { return };
    match raw.strings.get(name(1, '@')) {
        Some(&"msl.buffer") => argument.buffers.extend(raw.numbers.get(name(4, '@'))),
        Some(other) => argument.ids.push((*other).trim_start_matches("msl.id ").to_owned()),
        None => argument.ids.push("unreadable".to_owned()),
    }
}

/// Functions with `msl.threads`.
fn function_annotations<'a>(raw: &Raw<'a>) -> Vec<(&'a str, u64)> {
    let mut found = Vec::new();
    for entry in raw.annotations.split('{').skip(1) {
        let names: Vec<&str> = entry
            .split('@')
            .skip(1)
            .map(|rest| rest.split([',', ' ', '}']).next().unwrap_or_default())
            .collect();
        if let [function, what, _, number] = names[..]
            && raw.strings.get(what) == Some(&"msl.threads")
            && let Some(&number) = raw.numbers.get(number)
        {
            found.push((function, number));
        }
    }
    found
}

/// The name after `call ... @`.
fn callee(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("call ")?;
    let (before, rest) = rest.split_once('@')?;
    let (name, _) = rest.split_once('(')?;
    (!before.contains('%')).then(|| name.trim_matches('"'))
}

/// True if a line computes in double. (Small structs travel between functions as one, which computes nothing.)
fn computes_in_double(line: &str) -> bool {
    const OPERATIONS: &[&str] = &[
        "fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "fcmp", "fpext", "fptrunc", "fptoui", "fptosi",
        "uitofp", "sitofp",
    ];
    mentions(line, "double") && OPERATIONS.iter().any(|operation| mentions(line, operation))
}

/// True if a word stands in a line.
fn mentions(line: &str, word: &str) -> bool {
    let joined = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(joined) && !line[at + word.len()..].starts_with(joined))
}

/// Parts between commas that stand in no brackets and no quotes.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quoted) = (Vec::new(), 0, 0_i32, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' | '[' | '{' | '<' if !quoted => depth += 1,
            ')' | ']' | '}' | '>' if !quoted => depth -= 1,
            ',' if depth == 0 && !quoted => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        parts.push(text[start..].trim());
    }
    parts
}

/// Where the parenthesis that was opened before `text` closes.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

/// Bytes and alignment of a type in LLVM's words.
fn size_of(kind: &str, structs: &HashMap<String, Vec<String>>) -> Option<(u64, u64)> {
    let whole = |fields: &mut dyn Iterator<Item = &str>| {
        let (mut size, mut align) = (0_u64, 1);
        for field in fields {
            let (bytes, own) = size_of(field, structs)?;
            size = size.next_multiple_of(own) + bytes;
            align = align.max(own);
        }
        Some((size.next_multiple_of(align), align))
    };
    let kind = kind.trim();
    if let Some(inner) = kind.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let (count, of) = inner.split_once(" x ")?;
        let (bytes, align) = size_of(of, structs)?;
        return Some((count.parse::<u64>().ok()? * bytes, align));
    }
    if let Some(inner) = kind.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
        let (count, of) = inner.split_once(" x ")?;
        let bytes = (count.parse::<u64>().ok()? * size_of(of, structs)?.0).next_power_of_two();
        return Some((bytes, bytes));
    }
    if let Some(inner) = kind.strip_prefix("{ ").and_then(|rest| rest.strip_suffix(" }")) {
        return whole(&mut split(inner).into_iter());
    }
    if let Some(name) = kind.strip_prefix('%') {
        return whole(&mut structs.get(name.trim_matches('"'))?.iter().map(String::as_str));
    }
    let bytes = match kind {
        "i8" | "i1" => 1,
        "i16" | "half" | "bfloat" => 2,
        "i32" | "float" => 4,
        "i64" | "double" => 8,
        _ if kind.starts_with("ptr") => 8,
        _ => return None,
    };
    Some((bytes, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = r#"target datalayout = "e-f80:128"
%struct.P = type { i32, float }
%struct.Pair = type { i8, <3 x i32> }
@_ZZ1kE1t = internal addrspace(3) global [33 x %struct.Pair] undef, align 16
@.str = private unnamed_addr addrspace(2) constant [11 x i8] c"msl.buffer\00", section "llvm.metadata"
@.str.1 = private unnamed_addr constant [12 x i8] c"msl.threads\00", section "llvm.metadata"
@.args = private unnamed_addr constant { i32 } { i32 7 }, section "llvm.metadata"
@.args.2 = private unnamed_addr constant { i32 } { i32 64 }, section "llvm.metadata"
@llvm.global.annotations = appending global [1 x { ptr, ptr, ptr, i32, ptr }] [{ ptr, ptr, ptr, i32, ptr } { ptr @k, ptr @.str.1, ptr @.str.9, i32 3, ptr @.args.2 }], section "llvm.metadata"

define dso_local spir_kernel void @k(ptr addrspace(1) noundef align 4 %x, ptr addrspace(2) noundef align 4 dereferenceable(8) %p) #0 !kernel_arg_addr_space !3 !kernel_arg_base_type !4 !kernel_arg_type_qual !5 {
  call void @llvm.var.annotation.p0.p0(ptr %x.addr, ptr @.str, ptr @.str.9, i32 3, ptr @.args)
  call void @f(float 1.0)
}
define internal void @f(float %x) {
  %y = fpext float %x to double
  call void @g()
}
define internal void @g() {
  %z = addrspacecast ptr addrspace(3) %y to ptr addrspace(4)
  %w = fptrunc bfloat %v to half
  call void @f(float 2.0)
}
!3 = !{i32 1, i32 2}
!4 = !{!"uint*", !"P"}
!5 = !{!"const", !""}
"#;

    #[test]
    fn what_the_rules_need_is_read() {
        let module = Module::read(CODE).expect("readable");
        let kernel = &module.kernels["k"];
        assert_eq!(kernel.threads, Some(64));
        let [x, p] = &kernel.arguments[..] else { panic!("two arguments") };
        assert_eq!((x.name.as_str(), x.space, x.base_type.as_str()), ("x", DEVICE, "uint*"));
        assert_eq!((x.constant, &x.buffers[..]), (true, &[7][..]));
        assert_eq!((p.space, p.size, p.constant), (CONSTANT, Some(8), false));
        assert_eq!(module.threadgroup, [("k".to_owned(), "t".to_owned(), 33 * 32)]);
        assert_eq!(local_name("_ZZ5otherfE5table_0"), ("other", "table"));
        assert_eq!((module.doubles.len(), module.mixed), (1, 1));
        assert_eq!(module.strayed.iter().collect::<Vec<_>>(), ["g"]);
        assert_eq!(module.recursive(), ["f", "g"]);
        assert_eq!(module.structs["struct.P"], ["i32", "float"]);
    }
}
