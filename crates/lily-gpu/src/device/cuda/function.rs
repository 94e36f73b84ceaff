//! A kernel on the device: compiled in the background, waited for when it is first launched.

use super::{
    compiler::Compiler,
    driver::{Context, named},
};
use crate::GpuError;
use cudarc::driver::{result, sys};
use std::{
    ffi::CString,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

/// Shared memory that a kernel may have without asking.
const STATIC_LIMIT: usize = 48 * 1024;

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
    /// Bytes of dynamic shared memory of each launch: the module's constant `<entry>_dynamic_shared`, else none.
    pub(super) shared: u32,
    /// The kernel waits for its predecessor by itself (`DEP_WAIT`), so it may be launched before that has ended.
    pub(super) waits: bool,
    _module: Arc<Module>,
}

// SAFETY: a function handle may be used from any thread with the context current; the module is held.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// A function that is being made.
#[derive(Clone)]
pub(super) struct Pending(Arc<Slot>);

struct Slot {
    made: Mutex<Option<Result<Function, GpuError>>>,
    ready: Condvar,
}

/// What a function is made from.
pub(super) struct Request {
    pub(super) name: String,
    pub(super) entry: String,
    pub(super) source: String,
}

impl Pending {
    /// Starts making a function on the thread pool.
    pub(super) fn start(context: &Arc<Context>, compiler: &Arc<Compiler>, request: Request) -> Self {
        let slot = Arc::new(Slot { made: Mutex::new(None), ready: Condvar::new() });
        let (pending, context, compiler) = (Self(slot.clone()), context.clone(), compiler.clone());
        rayon::spawn(move || {
            let made = make(&context, &compiler, &request);
            *slot.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
            slot.ready.notify_all();
        });
        pending
    }

    /// Waits until it is made.
    pub(super) fn wait(&self) -> Result<Function, GpuError> {
        let mut made = self.0.made.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(made) = &*made {
                return made.clone();
            }
            made = self.0.ready.wait(made).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn make(context: &Arc<Context>, compiler: &Compiler, request: &Request) -> Result<Function, GpuError> {
    let Request { name, entry, source } = request;
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
    let shared = dynamic_shared(&module, entry)?;
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

/// The value of the module's constant `<entry>_dynamic_shared`, in bytes; 0 without one.
fn dynamic_shared(module: &Module, entry: &str) -> Result<u32, GpuError> {
    let Ok(symbol) = CString::new(format!("{entry}_dynamic_shared")) else { return Ok(0) };
    // SAFETY: the module is loaded.
    let Ok((address, bytes)) = (unsafe { result::module::get_global(module.module, symbol) }) else {
        return Ok(0);
    };
    let mut value = [0_u32];
    if bytes == size_of_val(&value) {
        // SAFETY: the symbol has four bytes.
        named("cuMemcpyDtoH", unsafe { result::memcpy_dtoh_sync(&mut value, address) })?;
    }
    tracing::debug!(entry, bytes = value[0], limit = STATIC_LIMIT, "dynamic shared memory");
    Ok(value[0])
}

/// True if the body of the entry point waits for the launch before it by itself.
fn waits(source: &str, entry: &str) -> bool {
    let starts: Vec<usize> = source.match_indices("KERNEL(").map(|(at, _)| at).collect();
    let own = starts.iter().position(|&at| {
        let rest = source[at + "KERNEL(".len()..].trim_start();
        rest.strip_prefix(entry).is_some_and(|rest| rest.trim_start().starts_with(','))
    });
    own.is_some_and(|own| {
        let end = starts.get(own + 1).copied().unwrap_or(source.len());
        source[starts[own]..end].contains("DEP_WAIT()")
    })
}

#[cfg(test)]
mod tests {
    use super::waits;

    #[test]
    fn only_the_entry_that_waits() {
        let text = "#define KERNEL(name, threads, ...) x\nKERNEL(one, 32, IN(0, float, x)) { DEP_WAIT(); }\n\
                    KERNEL(one_more, 32, IN(0, float, x)) { }\nKERNEL( two , 32) {\n DEP_WAIT();\n}\n";
        assert!(waits(text, "one"));
        assert!(!waits(text, "one_more"));
        assert!(waits(text, "two"));
        assert!(!waits(text, "three"));
    }
}
