//! A kernel on the device.

use super::{
    compiler::Compiler,
    driver::{Context, named},
};
use crate::GpuError;
use cudarc::driver::{result, sys};
use std::{ffi::CString, sync::Arc};

/// A module's machine code on the device, unloaded when the last function of it goes.
struct Module {
    context: Arc<Context>,
    module: sys::CUmodule,
}

// SAFETY: a module handle may be used from any thread with the context current.
unsafe impl Send for Module {}
// SAFETY: as above; the driver's calls are safe to make from several threads at once.
unsafe impl Sync for Module {}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded once, unloaded once; launches hold the kernels that they use until they are done.
        let unloaded = self
            .context
            .enter()
            .and_then(|()| named("cuModuleUnload", unsafe { result::module::unload(self.module) }));
        if let Err(error) = unloaded {
            tracing::debug!("{error}");
        }
    }
}

/// An entry point, ready to launch.
#[derive(Clone)]
pub(super) struct Function {
    pub(super) handle: sys::CUfunction,
    /// Bytes of dynamic shared memory of each launch.
    pub(super) shared: u32,
    /// The kernel waits for its predecessor by itself (`DEP_WAIT`), so it may be launched before that has ended.
    pub(super) waits: bool,
    _module: Arc<Module>,
}

// SAFETY: a function handle may be used from any thread with the context current; the module is held.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// What a function is made from.
pub(super) struct Request {
    pub(super) name: String,
    pub(super) entry: String,
    pub(super) source: String,
    /// Bytes of dynamic shared memory that it wants.
    pub(super) shared: u32,
}

/// Compiles and loads a function.
pub(super) fn make(
    context: &Arc<Context>,
    compiler: &Compiler,
    request: &Request,
) -> Result<Function, GpuError> {
    let Request { name, entry, source, .. } = request;
    let code = compiler.compile(name, source)?;
    context.enter()?;
    // SAFETY: the code is a whole cubin, made by NVRTC for this device.
    let module = named(&format!("cuModuleLoadData of {name}"), unsafe {
        result::module::load_data(code.as_ptr().cast())
    })?;
    let module = Arc::new(Module { context: context.clone(), module });
    let c_entry = CString::new(entry.as_str()).map_err(|_| GpuError::Kernel {
        kernel: name.clone(),
        what: "its name holds a zero byte".to_owned(),
    })?;
    // SAFETY: the module is loaded.
    let handle = named(&format!("cuModuleGetFunction of {entry}"), unsafe {
        result::module::get_function(module.module, c_entry)
    })?;
    let shared = request.shared;
    if shared > 0 {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function belongs to the loaded module.
        named(&format!("{shared} bytes of shared memory for {entry}"), unsafe {
            result::function::set_function_attribute(handle, attribute, shared.cast_signed())
        })?;
    }
    // SAFETY: as above.
    let local = unsafe {
        result::function::get_function_attribute(
            handle,
            sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
        )
    };
    if let Ok(local) = local
        && local > 0
    {
        tracing::debug!(kernel = name, entry, local, "registers spill to local memory");
    }
    Ok(Function { handle, shared, waits: waits(source, entry), _module: module })
}

/// True if the body of the entry point waits for the launch before it by itself: it says `DEP_WAIT()`, or names a macro
/// that does.
fn waits(source: &str, entry: &str) -> bool {
    const WAIT: &str = "DEP_WAIT()";
    let starts: Vec<usize> = source.match_indices("KERNEL(").map(|(at, _)| at).collect();
    let own = starts.iter().position(|&at| {
        let rest = source[at + "KERNEL(".len()..].trim_start();
        rest.strip_prefix(entry).is_some_and(|rest| rest.trim_start().starts_with(','))
    });
    let Some(own) = own else { return false };
    let body = &source[starts[own]..starts.get(own + 1).copied().unwrap_or(source.len())];
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let waiting_macro = |definition: &str| {
        let end = definition.find(|c| !is_name(c)).unwrap_or(definition.len());
        let (name, value) = definition.split_at(end);
        value.contains(WAIT) && body.split(|c| !is_name(c)).any(|word| word == name)
    };
    let joined = source.replace("\\\n", " ");
    body.contains(WAIT) || joined.lines().filter_map(|line| line.strip_prefix("#define ")).any(waiting_macro)
}

#[cfg(test)]
mod tests {
    use super::waits;

    #[test]
    fn only_the_entry_that_waits() {
        let text = "#define KERNEL(name, threads, ...) x\n#define DEP_WAIT() asm\n#define BEGIN int x; \\\n DEP_WAIT(); f();\n\
                    KERNEL(one, 32, IN(0, float, x)) { DEP_WAIT(); }\n\
                    KERNEL(one_more, 32, IN(0, float, x)) { BEGINNING }\nKERNEL( two , 32) {\n DEP_WAIT();\n}\n\
                    KERNEL(three, 32) {\n  BEGIN\n}\n";
        assert!(waits(text, "one"));
        assert!(!waits(text, "one_more"));
        assert!(waits(text, "two"));
        assert!(waits(text, "three"));
        assert!(!waits(text, "four"));
    }
}
