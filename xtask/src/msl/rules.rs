//! What generated code must be like: the tables that host code binds by, and Metal's limits.

use super::ir::{Argument, CONSTANT, DEVICE, Kernel, Module};
use lily_kernels::{Access, Binding, KernelError, Params, ScalarType, Signature, Specialisation, entries};
use std::collections::{BTreeMap, BTreeSet};

/// Threadgroup memory of a threadgroup, in bytes, each variable rounded up to 16.
const THREADGROUP_MEMORY: u64 = 32 * 1024;
/// Most variables in it.
const THREADGROUP_VARIABLES: usize = 31;
/// The greatest buffer index.
const LAST_BUFFER: u64 = 30;
const MOST_THREADS: u64 = 1024;
/// Most bytes that `setBytes` takes.
const MOST_PARAMETERS: u64 = 4096;

/// The types of arguments that are ids, of which Metal has more than the dialect uses.
const IDS: &[(&str, &[&str])] = &[
    ("threadgroup_position_in_grid", &["ushort", "uint", VECTOR_2, VECTOR_3]),
    ("thread_position_in_grid", &["ushort", "uint", VECTOR_2, VECTOR_3]),
    ("thread_position_in_threadgroup", &["ushort", "uint", VECTOR_2, VECTOR_3]),
    ("thread_index_in_threadgroup", &["ushort", "uint"]),
    ("thread_index_in_simdgroup", &["ushort", "uint"]),
    ("simdgroup_index_in_threadgroup", &["ushort", "uint"]),
    ("simdgroups_per_threadgroup", &["ushort", "uint"]),
    ("threads_per_simdgroup", &["ushort", "uint"]),
];
/// What each id of the dialect must be.
const DIALECT: &[(&str, &str)] = &[
    ("kd_tg", "threadgroup_position_in_grid"),
    ("kd_tid", "thread_index_in_threadgroup"),
    ("kd_lane", "thread_index_in_simdgroup"),
    ("kd_sg", "simdgroup_index_in_threadgroup"),
];
const VECTOR_2: &str = "uint __attribute__((ext_vector_type(2)))";
const VECTOR_3: &str = "uint __attribute__((ext_vector_type(3)))";
const VECTOR_4: &str = "uint __attribute__((ext_vector_type(4)))";

/// What is wrong with a compiled specialisation.
pub(super) fn check(one: &Specialisation, module: &Module) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(first) = module.doubles.first() {
        problems.push(format!(
            "{} places compute in double, which Metal does not have: {first}",
            module.doubles.len()
        ));
    }
    if module.mixed > 0 {
        problems.push(format!("{} places turn a bfloat into a half or a half into a bfloat", module.mixed));
    }
    for name in &module.strayed {
        problems.push(format!("`{name}` takes device or threadgroup memory for thread memory"));
    }
    for name in module.recursive() {
        problems.push(format!("`{name}` calls itself"));
    }
    // A planted text has other entries than the file that carries it: those it does not have are not missed.
    let wanted = entries(one.file());
    let names: BTreeSet<&String> = wanted.iter().chain(module.kernels.keys()).collect();
    for name in names {
        match (one.signature(name), module.kernels.get(name)) {
            (Ok(signature), Some(kernel)) => {
                let mut found = Vec::new();
                entry(one, &signature, kernel, module, &mut found);
                problems.extend(found.into_iter().map(|problem| format!("{name}: {problem}")));
            }
            (Ok(_), None) => problems.push(format!("`{name}` is no kernel in the code")),
            (Err(KernelError::NoEntry { .. }), Some(_)) => {
                problems.push(format!("`{name}` is an entry point that host code does not know"));
            }
            (Err(KernelError::NoEntry { .. }), None) => {}
            (Err(error), _) => problems.push(format!("{name}: host code cannot read it: {error}")),
        }
    }
    threadgroup_memory(one, module, &mut problems);
    scopes(module, &mut problems);
    problems
}

/// One entry point against its table.
fn entry(
    one: &Specialisation,
    signature: &Signature,
    kernel: &Kernel,
    module: &Module,
    problems: &mut Vec<String>,
) {
    match kernel.threads {
        Some(threads) if threads == u64::from(signature.threads) && threads <= MOST_THREADS => {}
        other => problems.push(format!("{} threads, the code says {other:?}", signature.threads)),
    }
    let mut seen = BTreeMap::new();
    for argument in &kernel.arguments {
        match (&argument.buffers[..], &argument.ids[..]) {
            ([index], []) => {
                if *index > LAST_BUFFER {
                    problems.push(format!("`{}`: buffer {index}, the last is {LAST_BUFFER}", argument.name));
                }
                if let Some(other) = seen.insert(*index, argument) {
                    problems.push(format!("buffer {index} is both `{}` and `{}`", other.name, argument.name));
                }
            }
            ([], [id]) => {
                let types = IDS.iter().find(|(name, _)| name == id).map_or(&[][..], |(_, types)| types);
                if !types.contains(&argument.base_type.as_str()) {
                    problems.push(format!("`{}` [[{id}]] is a {}", argument.name, argument.base_type));
                }
                if let Some((name, wanted)) =
                    DIALECT.iter().find(|(name, wanted)| *name == argument.name && wanted != id)
                {
                    problems.push(format!("`{name}` is [[{id}]] and must be [[{wanted}]]"));
                }
            }
            _ => problems.push(format!("`{}` needs one attribute", argument.name)),
        }
    }
    for table in &signature.bindings {
        match seen.remove(&u64::from(table.index)) {
            Some(argument) => binding(one, table, argument, problems),
            None => problems
                .push(format!("nothing is bound at {}, where host code binds `{}`", table.index, table.name)),
        }
    }
    if let Some(table) = &signature.params {
        match seen.remove(&u64::from(table.index)) {
            Some(argument) => parameters(table, argument, module, problems),
            None => {
                problems.push(format!("nothing is bound at {}, where host code has parameters", table.index));
            }
        }
    }
    for (index, argument) in seen {
        problems.push(format!("host code binds nothing at {index}, where the code has `{}`", argument.name));
    }
}

fn binding(one: &Specialisation, table: &Binding, found: &Argument, problems: &mut Vec<String>) {
    let name = &table.name;
    if &found.name != name {
        problems.push(format!("buffer {} is `{name}` for host code and `{}` here", table.index, found.name));
    }
    if found.space != DEVICE {
        problems.push(format!("`{name}` is not in device memory (address space {})", found.space));
    }
    let element = match table.element.as_str() {
        "bf16" => "__bf16",
        "f16" => "half",
        "uint4" => VECTOR_4,
        "scale_t" => match one.value("SCALE") {
            Some(1) => "half",
            Some(2) => "float",
            _ => "__bf16",
        },
        other => other,
    };
    if found.base_type.strip_suffix('*').map(str::trim_end) != Some(element) {
        problems.push(format!(
            "`{name}` has elements of {element} for host code and is {} here",
            found.base_type
        ));
    }
    if found.constant != (table.access == Access::Read) {
        problems
            .push(format!("`{name}` is {:?} for host code, const is {} here", table.access, found.constant));
    }
}

fn parameters(table: &Params, found: &Argument, module: &Module, problems: &mut Vec<String>) {
    if found.space != CONSTANT {
        problems.push(format!("the parameters are not in constant memory (address space {})", found.space));
    }
    if found.size != Some(table.size as u64) || table.size as u64 > MOST_PARAMETERS {
        problems.push(format!(
            "the parameters have {} bytes for host code and {:?} here",
            table.size, found.size
        ));
    }
    let name = found.base_type.trim_end_matches(['&', ' ']).rsplit(' ').next().unwrap_or_default();
    let name = format!("struct.{name}");
    let fields: Vec<&str> = table
        .fields
        .iter()
        .map(|(_, scalar)| match scalar {
            ScalarType::Uint | ScalarType::Int => "i32",
            ScalarType::Float => "float",
        })
        .collect();
    // Code that reads no field does not mention the struct.
    if let Some(code) = module.structs.get(&name)
        && *code != fields
    {
        problems.push(format!("the parameters are {fields:?} for host code and {code:?} here"));
    }
}

fn threadgroup_memory(one: &Specialisation, module: &Module, problems: &mut Vec<String>) {
    let mut of: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for (owner, name, bytes) in &module.threadgroup {
        if !module.kernels.contains_key(owner) {
            problems.push(format!("`{name}` is threadgroup memory outside of a kernel"));
        }
        let sum = of.entry(owner.as_str()).or_default();
        *sum = (sum.0 + 1, sum.1 + bytes.next_multiple_of(16));
    }
    for (name, (variables, bytes)) in of {
        if bytes > THREADGROUP_MEMORY {
            problems
                .push(format!("{name}: {bytes} bytes of threadgroup memory, there are {THREADGROUP_MEMORY}"));
        }
        let stated = one.signature(name).ok().and_then(|signature| signature.threadgroup_memory);
        if let Some(stated) = stated.filter(|&stated| u64::from(stated) != bytes) {
            problems.push(format!(
                "{name}: its text states {stated} bytes of threadgroup memory, it takes {bytes}"
            ));
        }
        if variables > THREADGROUP_VARIABLES {
            problems.push(format!(
                "{name}: {variables} variables in threadgroup memory, most are {THREADGROUP_VARIABLES}"
            ));
        }
    }
}

/// The shim's tensor operations call `msl_scope<N>()`: N must be one simdgroup or all of the threadgroup.
fn scopes(module: &Module, problems: &mut Vec<String>) {
    for name in module.calls.values().flatten().filter(|name| name.contains("msl_scopeILi")) {
        let digits = name.split("msl_scopeILi").nth(1).unwrap_or_default();
        let count: u64 = digits.split('E').next().and_then(|digits| digits.parse().ok()).unwrap_or(0);
        for (kernel, code) in &module.kernels {
            if count != 1 && code.threads != Some(count * 32) {
                problems.push(format!(
                    "{kernel}: a tensor operation of {count} simdgroups, {:?} threads",
                    code.threads
                ));
            }
        }
    }
}
