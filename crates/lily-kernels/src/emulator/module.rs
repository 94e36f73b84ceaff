//! A kernel ready to run.

use super::compile::{Checks, EmulatorError, library};
use super::fault::{Fault, FaultKind, Faults};
use crate::{Access, Platform, Reach, Signature, Specialisation};
use libloading::{Library, Symbol};
use std::ffi::{CString, c_char, c_long};

/// A compiled specialisation.
pub struct Module {
    specialisation: Specialisation,
    library: &'static Library,
    seed: u32,
    flush: bool,
}

/// Memory that a kernel is given.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// First byte.
    pub data: *mut u8,
    /// Bytes.
    pub len: usize,
}

/// `kd::Arg` of `host_machine.h`.
#[repr(C)]
struct Argument {
    data: *mut u8,
    bytes: usize,
    writable: u32,
    initialised: u32,
    name: *const c_char,
    alignment: usize,
}

/// `kd::Fault` of `host_machine.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawFault {
    kind: u32,
    text: [u8; 252],
}

/// `kd_run` of `host_machine.h`.
///
/// # Safety
/// Pointers must be valid for the counts beside them, and each argument's memory for its bytes.
type Run = unsafe extern "C" fn(
    *const c_char,
    *const u32,
    *const Argument,
    u32,
    u32,
    u32,
    u32,
    *mut RawFault,
    u32,
) -> c_long;

/// Faults that are kept word for word: at most four of each of seven kinds.
const ROOM: usize = 28;

/// Places for buffers and parameters of a kernel on Metal (feature set tables, the same for every family).
const PLACES: u32 = 31;
/// Bytes of parameters that `setBytes` takes.
const PARAMETERS: usize = 4096;

impl Module {
    /// Compiles with every check.
    ///
    /// # Errors
    /// No compiler, text that does not compile, or a folder that cannot be written.
    pub fn compile(specialisation: &Specialisation) -> Result<Self, EmulatorError> {
        Self::compile_checked(specialisation, Checks::Full)
    }

    /// Compiles with fewer checks.
    ///
    /// # Errors
    /// As [`Module::compile`].
    pub fn compile_checked(specialisation: &Specialisation, checks: Checks) -> Result<Self, EmulatorError> {
        let text = specialisation.source(Platform::Emulator);
        let library = library(&specialisation.key(), &text, checks)?;
        Ok(Self { specialisation: specialisation.clone(), library, seed: 1, flush: false })
    }

    /// The same module running simdgroups in another order; 0 is theirs.
    #[must_use]
    pub fn with_seed(mut self, seed: u32) -> Self {
        self.seed = seed;
        self
    }

    /// The same module on a GPU that takes denormal f32 for zero, operands and results: Metal and CUDA leave it open whether
    /// they do, so no kernel may depend on it.
    #[must_use]
    pub fn with_denormals_flushed(mut self) -> Self {
        self.flush = true;
        self
    }

    /// Runs `entry` over a grid of `groups` threadgroups. `buffers` are in the order of the signature's bindings; `params`
    /// are the bytes of its parameters, empty if it has none. What `OUT` buffers hold counts as unwritten. A buffer is cut
    /// to what the kernel's text says it touches, and taken to be no better aligned than the text says.
    ///
    /// # Errors
    /// Everything that the emulator found.
    pub fn run(
        &self,
        entry: &str,
        groups: [u32; 3],
        buffers: &mut [&mut [u8]],
        params: &[u8],
    ) -> Result<(), Faults> {
        let memory: Vec<Memory> = buffers
            .iter_mut()
            .map(|buffer| Memory { data: buffer.as_mut_ptr(), len: buffer.len() })
            .collect();
        // SAFETY: the buffers are borrowed exclusively for the call and valid for their lengths.
        unsafe { self.run_on(entry, groups, &memory, params) }
    }

    /// The same on memory by address, where buffers may overlap or only be readable.
    ///
    /// # Errors
    /// Everything that the emulator found.
    ///
    /// # Safety
    /// Each memory must be valid for reads of its length, and for writes too where the signature says so, and nobody else
    /// may write it during the call.
    pub unsafe fn run_on(
        &self,
        entry: &str,
        groups: [u32; 3],
        buffers: &[Memory],
        params: &[u8],
    ) -> Result<(), Faults> {
        let signature =
            self.specialisation.signature(entry).map_err(|error| Faults::call(error.to_string()))?;
        let wanted = signature.params.as_ref().map_or(0, |params| params.size);
        if buffers.len() != signature.bindings.len() || params.len() != wanted {
            return Err(Faults::call(format!(
                "`{entry}` takes {} buffers and {wanted} bytes of parameters, not {} and {}",
                signature.bindings.len(),
                buffers.len(),
                params.len()
            )));
        }
        self.check_arguments(&signature)?;
        let mut names = Vec::with_capacity(buffers.len());
        let mut arguments = Vec::with_capacity(buffers.len() + 1);
        for (binding, memory) in signature.bindings.iter().zip(buffers) {
            let name = CString::new(binding.name.as_str()).unwrap_or_default();
            arguments.push(Argument {
                data: memory.data,
                bytes: binding
                    .bytes(params, groups)
                    .and_then(|bytes| usize::try_from(bytes).ok())
                    .map_or(memory.len, |bytes| bytes.min(memory.len)),
                writable: u32::from(binding.access != Access::Read),
                initialised: u32::from(binding.access != Access::Write),
                name: name.as_ptr(),
                alignment: match binding.reach {
                    Reach::Undeclared => 16,
                    _ => binding.alignment as usize,
                },
            });
            names.push(name);
        }
        // Words, so that the struct is aligned.
        let mut words: Vec<u32> = params
            .chunks_exact(4)
            .map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        if let Some(params) = &signature.params {
            let argument = Argument {
                data: words.as_mut_ptr().cast(),
                bytes: params.size,
                writable: 0,
                initialised: 1,
                name: c"params".as_ptr(),
                alignment: 16,
            };
            arguments.insert(params.index as usize, argument);
        }
        let entry = CString::new(entry).map_err(|_| Faults::call("a name with a zero byte".to_owned()))?;
        let mut faults = [RawFault { kind: 0, text: [0; 252] }; ROOM];
        // SAFETY: `kd_run` of host_machine.h, which every compiled text contains, has this type.
        let run: Symbol<'_, Run> = unsafe { self.library.get(b"kd_run\0") }
            .map_err(|error| Faults::call(format!("the compiled kernel has no kd_run: {error}")))?;
        // SAFETY: all pointers live through the call and carry their lengths; accesses of the kernel are checked against
        // them before they are made. The caller vouches for the memories.
        let total = unsafe {
            run(
                entry.as_ptr(),
                groups.as_ptr(),
                arguments.as_ptr(),
                arguments.len() as u32,
                signature.threadgroup_memory.unwrap_or(u32::MAX),
                self.seed,
                u32::from(self.flush),
                faults.as_mut_ptr(),
                ROOM as u32,
            )
        };
        if total == 0 {
            return Ok(());
        }
        let total = usize::try_from(total).unwrap_or(usize::MAX);
        let first = faults.iter().take_while(|fault| fault.kind != 0).map(RawFault::read).collect();
        Err(Faults { first, total })
    }

    /// Holds the arguments of a kernel that Metal runs to what Metal has room for.
    fn check_arguments(&self, signature: &Signature) -> Result<(), Faults> {
        let (entry, params) = (&signature.entry, signature.params.as_ref());
        let indices = signature.bindings.iter().map(|binding| binding.index);
        let last = indices.chain(params.map(|params| params.index)).max().unwrap_or(0);
        let bytes = params.map_or(0, |params| params.size);
        let what = if self.specialisation.file().cuda_only {
            return Ok(());
        } else if last >= PLACES {
            format!("`{entry}` has an argument at {last}, Metal has {PLACES} places")
        } else if bytes > PARAMETERS {
            format!("`{entry}` has {bytes} bytes of parameters, Metal takes {PARAMETERS}")
        } else {
            return Ok(());
        };
        Err(Faults::one(FaultKind::Arguments, what))
    }
}

impl RawFault {
    fn read(&self) -> Fault {
        let end = self.text.iter().position(|&byte| byte == 0).unwrap_or(self.text.len());
        let message = String::from_utf8_lossy(&self.text[..end]).into_owned();
        Fault { kind: FaultKind::from_code(self.kind), message }
    }
}
