//! What Metal refuses, or its siblings take for something else, and a compiler for OpenCL does not: found in the text.

use anyhow::Result;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Words of Metal that cannot be names. A dialect text has no use for them: its address spaces are `gptr` and its like.
const METAL: &[&str] = &[
    "device",
    "constant",
    "thread",
    "threadgroup",
    "kernel",
    "vertex",
    "fragment",
    "visible",
    "intersection",
    "threadgroup_imageblock",
    "ray_data",
    "object_data",
    "patch_control_point",
];
/// Words of C++ that Metal does not have.
const ABSENT: &[&str] = &[
    "double",
    "goto",
    "new",
    "delete",
    "throw",
    "try",
    "catch",
    "virtual",
    "dynamic_cast",
    "typeid",
    "thread_local",
    "noexcept",
    "static",
    "asm",
    "mutable",
    "volatile",
    "__int128",
    "_BitInt",
];
/// Components of vectors that OpenCL has besides `x`, `y`, `z`, `w`.
const COMPONENTS: &[&str] = &["hi", "lo", "even", "odd"];
/// Functions of Metal's library. All of its names are in sight, so a helper of one of these is called no more, or instead.
const LIBRARY: &str = "abs absdiff acos acosh addsat all any asin asinh as_type atan atan2 atanh ceil clamp clz copysign cos cosh \
    cospi cross ctz degrees determinant discard_fragment distance distance_squared divide dot exp exp10 exp2 extract_bits fabs \
    faceforward fast fdim floor fma fmax fmax3 fmedian3 fmin fmin3 fmod fract frexp hadd ilogb insert_bits isfinite isinf isnan \
    isnormal isordered isunordered ldexp length length_squared log log10 log2 mad24 madhi madsat make_filled_simdgroup_matrix \
    max max3 median3 min min3 mix modf mul24 mulhi nextafter normalize popcount pow powr precise quad_all quad_any \
    quad_broadcast quad_max quad_min quad_shuffle quad_shuffle_xor quad_sum radians reflect refract reverse_bits rhadd rint \
    rotate round rsqrt saturate select sign signbit simd_active_threads_mask simd_all simd_and simd_any simd_ballot \
    simd_broadcast simd_broadcast_first simd_is_first simd_max simd_min simd_or simd_prefix_exclusive_product \
    simd_prefix_exclusive_sum simd_prefix_inclusive_product simd_prefix_inclusive_sum simd_product simd_shuffle \
    simd_shuffle_and_fill_down simd_shuffle_and_fill_up simd_shuffle_down simd_shuffle_rotate_down simd_shuffle_rotate_up \
    simd_shuffle_up simd_shuffle_xor simd_sum simd_xor simdgroup_barrier simdgroup_load simdgroup_multiply \
    simdgroup_multiply_accumulate simdgroup_store sin sincos sinh sinpi size smoothstep sqrt step subsat tan tanh tanpi \
    threadgroup_barrier transpose trunc";
/// What can stand before a `[` that begins a lambda.
const BEFORE_LAMBDA: &[&str] = &["=", "(", ",", "{", "return", "&&", "||", "?", ":", ";"];
const ADDRESS_SPACES: &[&str] = &["device", "constant", "thread", "threadgroup"];
const SCALARS: &[&str] = &[
    "bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat", "float",
    "size_t", "void", "bf16", "f16", "scale_t",
];

/// Checks the portable files of a folder of kernels, and Metal's own.
pub(super) fn check_folder(folder: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in files(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let platform = path.parent().is_some_and(|parent| parent.ends_with("platform"));
        let faults = check(&super::read(&path)?, platform);
        problems.extend(faults.into_iter().map(|fault| format!("{name}:{fault}")));
    }
    Ok(problems)
}

/// What Metal compiles some part of.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("cuda") {
            found.extend(files(&path)?);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let other =
            path.parent().is_some_and(|parent| parent.ends_with("platform")) && !name.starts_with("metal");
        if (name.ends_with(".k") || name.ends_with(".h")) && !other && !name.starts_with("wgmma") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// `LINE: what`. `platform`: a text of Metal's own, where its words stand.
pub(super) fn check(text: &str, platform: bool) -> Vec<String> {
    let tokens = tokens(text);
    let types = types(&tokens);
    let mut problems = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let mut fault = |what: String| problems.push(format!("{}: {what}", token.line));
        let before = |back: usize| at.checked_sub(back).map_or("", |index| tokens[index].text);
        if !platform && METAL.contains(&token.text) {
            fault(format!("`{}` is a word of Metal and cannot be a name", token.text));
        }
        if ABSENT.contains(&token.text) {
            fault(format!("Metal has no `{}`", token.text));
        }
        if token.text.starts_with("__builtin") {
            fault(format!("Metal has no `{}`", token.text));
        }
        if token.text == "long" && before(1) == "long" {
            fault("Metal has no `long long`".to_owned());
        }
        if before(1) == "." && is_component(token.text, &tokens) {
            fault(format!("Metal has no component `.{}`", token.text));
        }
        if !platform
            && token.text == "FN"
            && let Some(name) = function_name(&tokens[at..])
            && LIBRARY.split_whitespace().any(|known| known == name)
        {
            fault(format!("`{name}` is a function of Metal's library"));
        }
        if is_double(token.text) {
            fault(format!("`{}` is a double elsewhere: write {}f", token.text, token.text));
        }
        let next = tokens.get(at + 1).map_or("", |token| token.text);
        if token.text == "["
            && next != "["
            && BEFORE_LAMBDA.contains(&before(1))
            && !matches!(before(1), ":" | ";")
        {
            fault("a lambda needs Metal 3.2".to_owned());
        }
        if (token.text == "*" || token.text == "&") && is_declarator(&tokens, at, &types) {
            fault(format!("a pointer or reference without an address space: `{} {}`", before(1), token.text));
        }
    }
    problems
}

/// A word, a number or a mark, with its line.
struct Token<'a> {
    text: &'a str,
    line: usize,
}

/// Comments and strings left out.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let (mut found, mut line, mut rest) = (Vec::new(), 1, text);
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first == '"' {
            rest[1..].find('"').map_or(rest.len(), |end| end + 2)
        } else if first.is_ascii_digit() {
            number_length(rest)
        } else if first.is_ascii_alphabetic() || first == '_' {
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len())
        } else if ["&&", "||", "::", "->", "<<", "+=", "*=", "&="].iter().any(|two| rest.starts_with(two)) {
            2
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(length.max(1));
        if !(first.is_whitespace() || first == '"' || word.starts_with("//") || word.starts_with("/*")) {
            found.push(Token { text: word, line });
        }
        line += word.matches('\n').count();
        rest = after;
    }
    found
}

/// True for a component of OpenCL's vectors, if nothing in the text declares it as a member of its own.
fn is_component(word: &str, tokens: &[Token<'_>]) -> bool {
    let digit = word.strip_prefix(['s', 'S']).is_some_and(|rest| {
        !rest.is_empty() && rest.len() <= 4 && rest.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    let declared = || tokens.windows(2).any(|pair| pair[1].text == word && pair[0].text != ".");
    (digit || COMPONENTS.contains(&word)) && !declared()
}

/// The name of the function that `FN` begins: the first word before a parenthesis.
fn function_name<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    let at = tokens.iter().position(|token| token.text == "(")?;
    Some(tokens.get(at.checked_sub(1)?)?.text)
}

fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let sign = matches!(bytes[at], b'+' | b'-') && at > 0 && matches!(bytes[at - 1], b'e' | b'E');
        let hexadecimal = text.starts_with("0x") || text.starts_with("0X");
        if !(bytes[at].is_ascii_alphanumeric() || bytes[at] == b'.' || sign && !hexadecimal) {
            break;
        }
        at += 1;
    }
    at
}

/// A floating literal without a suffix.
fn is_double(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
        && !word.starts_with("0x")
        && word.contains(['.', 'e', 'E'])
        && !word.ends_with(['f', 'h', 'F', 'H'])
}

/// The names of types: Metal's, and those that the text declares.
fn types<'a>(tokens: &[Token<'a>]) -> BTreeSet<&'a str> {
    let mut names: BTreeSet<&str> = SCALARS.iter().copied().collect();
    for pair in tokens.windows(2) {
        if matches!(pair[0].text, "struct" | "class" | "using") {
            names.insert(pair[1].text);
        }
    }
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.text == "typedef") {
        let end = tokens[at..].iter().position(|token| token.text == ";");
        if let Some(name) =
            end.and_then(|end| tokens.get(at + end - 1)).filter(|name| name.line == token.line)
        {
            names.insert(name.text);
        }
    }
    names
}

fn is_type(word: &str, types: &BTreeSet<&str>) -> bool {
    let scalar = word.strip_suffix(['2', '3', '4']).unwrap_or(word);
    types.contains(word) || types.contains(scalar) && word != scalar && SCALARS.contains(&scalar)
}

/// True if the mark at `at` makes a pointer or reference of a type, and no address space is named before it.
fn is_declarator(tokens: &[Token<'_>], at: usize, types: &BTreeSet<&str>) -> bool {
    let mut index = at;
    let mut word = || {
        index = index.checked_sub(1)?;
        Some((index, tokens[index].text))
    };
    let Some((_, mut last)) = word() else { return false };
    if last == "const" {
        let Some((_, before)) = word() else { return false };
        last = before;
    }
    if last == ">" {
        // Back over template arguments, to the template's name.
        let mut depth = 1;
        while depth > 0 {
            let Some((_, text)) = word() else { return false };
            depth = match text {
                ">" => depth + 1,
                "<" => depth - 1,
                _ => depth,
            };
        }
        let Some((_, name)) = word() else { return false };
        last = name;
    }
    if !is_type(last, types) {
        return false;
    }
    loop {
        match word() {
            Some((_, text)) if ADDRESS_SPACES.contains(&text) => return false,
            Some((_, "const" | "::" | "metal" | "unsigned")) => {}
            _ => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    fn faults(text: &str) -> usize {
        check(text, false).len()
    }

    #[test]
    fn what_metal_refuses_is_found() {
        for wrong in [
            "FN void f(uint thread) {}",
            "double x;",
            "float x = 1.0;",
            "float x = 1e-6 * y;",
            "auto f = [&](int i) { return i; };",
            "float *p = x;",
            "FN void f(const Codes<4>& c);\nstruct Codes {};",
            "struct P { int x; };\nFN void f(P const& p) {}",
            "static int x;",
            "template <class T> FN T f(T* p);",
        ] {
            assert_eq!(faults(wrong), 1, "{wrong}: {:?}", check(wrong, false));
        }
    }

    #[test]
    fn what_it_takes_is_left_alone() {
        for right in [
            "// a thread's double\nx[i] = a[3] * b & 0xfe0;",
            "const uint n = float(x) * y + S::Side * Rows;",
            "float4 v = 1.5e-3f; gptr<float> p = q + (uint)a * b;",
            "uint w[4] = {w[0] << 1, (w[1])};",
        ] {
            assert_eq!(faults(right), 0, "{right}: {:?}", check(right, false));
        }
        assert!(check("device const float* p; threadgroup metal::array<float, 2>& q;", true).is_empty());
    }
}
