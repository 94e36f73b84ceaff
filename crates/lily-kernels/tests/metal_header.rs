//! Metal's own headers, which nothing but Metal can run, run here: compiled as C++ over a shim (`metal_header/shim.h`) and held to
//! what each of their names must do (`metal_header/checks.h`). Each planted fault must be found; all are one program.
#![cfg(feature = "emulator")]

use std::{
    collections::BTreeSet,
    io::Write as _,
    process::{Command, Stdio},
};

const SHIM: &str = include_str!("metal_header/shim.h");
const CHECKS: &str = include_str!("metal_header/checks.h");
const HEADERS: [&str; 3] = [
    include_str!("../kernels/platform/metal.h"),
    include_str!("../kernels/platform/metal_codes.h"),
    include_str!("../kernels/platform/metal_tensor.h"),
];

/// Words of the headers, and what stands there instead.
const FAULTS: &[(&str, &str)] = &[
    ("define TG_X kd_tg.x", "define TG_X kd_tg.y"),
    ("define TG_Y kd_tg.y", "define TG_Y kd_tg.z"),
    ("define TG_Z kd_tg.z", "define TG_Z kd_tg.x"),
    ("define TID kd_tid", "define TID kd_lane"),
    ("define LANE kd_lane", "define LANE kd_sg"),
    ("define SG kd_sg", "define SG kd_lane"),
    ("threadgroup_barrier(mem_flags::mem_threadgroup);", "simdgroup_barrier(mem_flags::mem_threadgroup);"),
    ("threadgroup_barrier(mem_flags::mem_threadgroup);", "threadgroup_barrier(mem_flags::mem_none);"),
    ("mem_flags::mem_threadgroup | mem_flags::mem_device", "mem_flags::mem_threadgroup"),
    ("simdgroup_barrier(mem_flags::mem_threadgroup)", "simdgroup_barrier(mem_flags::mem_none)"),
    ("return exp(x)", "return exp2(x)"),
    ("return log(x)", "return log2(x)"),
    ("return sin(x)", "return cos(x)"),
    ("return rsqrt(x)", "return sqrt(x)"),
    ("return 1.0f / x", "return x"),
    ("fmax_(float a, float b) { return max", "fmax_(float a, float b) { return min"),
    ("fmin_(float a, float b) { return min", "fmin_(float a, float b) { return max"),
    ("return fma(a, b, c)", "return fma(a, c, b)"),
    ("umin_(uint a, uint b) { return min", "umin_(uint a, uint b) { return max"),
    ("return mulhi(a, b)", "return a * b"),
    ("bf16(lo))) | (uint(as_type<ushort>(bf16(hi)", "bf16(hi))) | (uint(as_type<ushort>(bf16(lo)"),
    ("1.0f / float(1u << (4 * i))", "1.0f / float(1u << (3 * i))"),
    ("w & (15u << (4 * i))", "w & (15u << (3 * i))"),
    ("w & (15u << (4 * i))", "(w >> (4 * i)) & 15u"),
    ("(w >> (4 * i)) & 15u", "(w >> (4 * i)) & 7u"),
    ("mode::multiply_accumulate", "mode::multiply"),
    ("TENSOR_LD, false, TURNED, false", "TENSOR_LD, false, TURNED, true"),
    ("TENSOR_LD, false, TURNED", "TENSOR_LD, false, !TURNED"),
    ("TENSOR_LD, false, TURNED", "TENSOR_LD, TURNED, false"),
    ("matmul2d_descriptor(M_, N_, TENSOR_LD", "matmul2d_descriptor(M_, N_, TENSOR_LD / 2"),
    ("acc[kd_i] = 0.0f", "acc[kd_i] = 1.0f"),
    ("r = uint(kd_at[1]), c = uint(kd_at[0])", "r = uint(kd_at[0]), c = uint(kd_at[1])"),
    ("if (acc.is_valid_element(i))", ""),
    ("row * TENSOR_LD + k8 * 8", "row * TENSOR_LD + k8 * 4"),
];

/// The headers as C++ that can be run: what it includes is the shim, and functions that only address spaces tell apart get names
/// of their own.
fn runnable(headers: &str) -> String {
    let text: Vec<&str> = headers.lines().filter(|line| !line.starts_with("#include")).collect();
    let text = text.join("\n").replace("#ifdef KD_TENSOR\n#endif\n", "");
    ["vload", "vstore"].iter().fold(text, |text, name| {
        text.replace(&format!("{name}(threadgroup "), &format!("{name}_threadgroup(threadgroup "))
    })
}

/// One variant in a namespace of its own, with its macros gone behind it.
fn variant(name: &str, headers: &str) -> String {
    let defined: BTreeSet<&str> = headers
        .lines()
        .filter_map(|line| line.strip_prefix("#define "))
        .map(|rest| rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default())
        .collect();
    let gone: String = defined.iter().map(|macro_name| format!("#undef {macro_name}\n")).collect();
    format!("namespace {name} {{\nconst char* const variant = \"{name}\";\n{headers}\n{CHECKS}\n}}\n{gone}")
}

#[test]
fn metals_headers_do_what_their_names_say_and_faults_in_them_are_found() {
    let right = runnable(&HEADERS.join("\n"));
    let mut program = format!("{SHIM}\n{}", variant("right", &right));
    let mut calls = String::from("right::checks(\"right\"); if (failures) return 1;\n");
    for (at, (words, instead)) in FAULTS.iter().enumerate() {
        assert!(right.contains(words), "nothing says `{words}` any more");
        let name = format!("fault_{at}");
        program.push_str(&variant(&name, &right.replacen(words, instead, 1)));
        calls.push_str(&format!(
            "failures = 0; {name}::checks(\"{name}\"); if (!failures) printf(\"missed %d\\n\", {at});\n"
        ));
    }
    program.push_str(&format!("int main() {{ {calls} return 0; }}\n"));

    let scratch = std::env::temp_dir().join(format!("lily-metal-header-{}", std::process::id()));
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let mut child = Command::new(&compiler)
        .args([
            "-std=c++17",
            "-O0",
            "-w",
            "-ffp-contract=off",
            "-fno-strict-aliasing",
            "-x",
            "c++",
            "-",
            "-o",
        ])
        .arg(&scratch)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    child.stdin.take().expect("a pipe").write_all(program.as_bytes()).expect("a compiler that reads");
    assert!(
        child.wait().expect("a compiler that ends").success(),
        "the headers do not compile over the shim"
    );
    let output = Command::new(&scratch).output();
    let _ = std::fs::remove_file(&scratch);
    let output = output.expect("a program that starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {said}", output.status);
    let missed: Vec<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("missed "))
        .map(|at| FAULTS[at.parse::<usize>().expect("a number")].1)
        .collect();
    assert!(missed.is_empty(), "faults that nothing found: {missed:?}");
}
