//! A kernel's text to a pipeline.

use super::{archive::Archive, size};
use crate::{
    GpuError,
    device::{
        cache::Cache,
        metal::{
            facts::{Facts, Language},
            numbers,
            parts::Pace,
        },
    },
};
use lily_kernels::Signature;
use objc2::{
    available,
    rc::{Retained, autoreleasepool},
    runtime::ProtocolObject,
};
use objc2_foundation::{NSError, NSString};
use objc2_metal::{
    MTLCompileOptions, MTLComputePipelineDescriptor, MTLComputePipelineState, MTLDevice, MTLFunction,
    MTLLanguageVersion, MTLLibrary, MTLMathFloatingPointFunctions, MTLMathMode, MTLPipelineOption,
};
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// Lanes of a simdgroup, which the kernels count on.
const LANES: usize = 32;

/// An entry point, ready to be dispatched. Cheap to clone.
#[derive(Clone)]
pub(super) struct Pipeline {
    pub(super) state: Retained<ProtocolObject<dyn MTLComputePipelineState>>,
    pub(super) pace: Arc<Pace>,
}

/// What a text became.
type Library = Result<Retained<ProtocolObject<dyn MTLLibrary>>, GpuError>;

/// Compiles texts; several threads may.
pub(super) struct Compiler {
    device: Retained<ProtocolObject<dyn MTLDevice>>,
    facts: Arc<Facts>,
    cache: Cache,
    /// By specialisation: entry points of one text share a library.
    libraries: Mutex<HashMap<String, Arc<OnceLock<Library>>>>,
}

impl Compiler {
    pub(super) fn new(
        device: Retained<ProtocolObject<dyn MTLDevice>>,
        facts: Arc<Facts>,
        cache: Option<PathBuf>,
    ) -> Self {
        let cache = Cache::new(cache, "metal", "binarchive");
        Self { device, facts, cache, libraries: Mutex::default() }
    }

    /// The pipeline of an entry point, checked against what the kernel wants.
    pub(super) fn pipeline(&self, key: &str, source: &str, wanted: &Signature) -> Result<Pipeline, GpuError> {
        // The pool's threads have no autorelease pool of their own.
        autoreleasepool(|_| self.made_from(key, source, wanted))
    }

    fn made_from(&self, key: &str, source: &str, wanted: &Signature) -> Result<Pipeline, GpuError> {
        let start = std::time::Instant::now();
        let wrong = |what: String| GpuError::Kernel { kernel: format!("{} of {key}", wanted.entry), what };
        let library = self.library(key, source)?;
        let function = library
            .newFunctionWithName(&NSString::from_str(&wanted.entry))
            .ok_or_else(|| wrong("its library has no such function".to_owned()))?;
        let descriptor = self.descriptor(&function, wanted);
        let archive = Archive::new(&self.device, self.cache.path(&self.hash(source, &wanted.entry)));
        let state = match archive.find(&descriptor) {
            Some(state) => state,
            None => {
                let state = self.made(&descriptor).map_err(|error| wrong(words(&error)))?;
                archive.keep(&descriptor);
                state
            }
        };
        self.check(&state, wanted).map_err(wrong)?;
        tracing::debug!(key, entry = wanted.entry, took = ?start.elapsed(), "compiled");
        Ok(Pipeline { state, pace: Arc::default() })
    }

    fn library(&self, key: &str, source: &str) -> Library {
        let slot = {
            let mut libraries = self.libraries.lock().unwrap_or_else(PoisonError::into_inner);
            libraries.entry(key.to_owned()).or_default().clone()
        };
        slot.get_or_init(|| self.compiled(key, source)).clone()
    }

    /// The text through the system's compiler.
    fn compiled(&self, key: &str, source: &str) -> Library {
        let wrong = |what: String| GpuError::Kernel { kernel: key.to_owned(), what };
        let language = Language::of(source);
        self.facts.check_language(language).map_err(wrong)?;
        let options = MTLCompileOptions::new();
        options.setLanguageVersion(MTLLanguageVersion(numbers::language(language)));
        if available!(macos = 15.0) {
            options.setMathMode(MTLMathMode(numbers::SAFE));
            options.setMathFloatingPointFunctions(MTLMathFloatingPointFunctions(numbers::PRECISE));
        } else {
            #[expect(deprecated, reason = "macOS 14 has no other way; it means safe and precise")]
            options.setFastMathEnabled(false);
        }
        let text = NSString::from_str(source);
        let library = self.device.newLibraryWithSource_options_error(&text, Some(&options));
        library.map_err(|error| wrong(words(&error)))
    }

    fn descriptor(
        &self,
        function: &ProtocolObject<dyn MTLFunction>,
        wanted: &Signature,
    ) -> Retained<MTLComputePipelineDescriptor> {
        let descriptor = MTLComputePipelineDescriptor::new();
        descriptor.setLabel(Some(&NSString::from_str(&wanted.entry)));
        descriptor.setComputeFunction(Some(function));
        descriptor.setMaxTotalThreadsPerThreadgroup(wanted.threads as usize);
        if available!(macos = 26.0) {
            // Tensor operations want to know, and every dispatch has exactly so many.
            descriptor.setRequiredThreadsPerThreadgroup(size(numbers::threadgroup(wanted.threads)));
        }
        descriptor
    }

    fn made(
        &self,
        descriptor: &MTLComputePipelineDescriptor,
    ) -> Result<Retained<ProtocolObject<dyn MTLComputePipelineState>>, Retained<NSError>> {
        self.device.newComputePipelineStateWithDescriptor_options_reflection_error(
            descriptor,
            MTLPipelineOption(numbers::COMPILED),
            None,
        )
    }

    /// A pipeline may take fewer threads than the device, depending on its registers; more than it takes is undefined.
    fn check(
        &self,
        state: &ProtocolObject<dyn MTLComputePipelineState>,
        wanted: &Signature,
    ) -> Result<(), String> {
        let (most, lanes) = (state.maxTotalThreadsPerThreadgroup(), state.threadExecutionWidth());
        if lanes != LANES {
            return Err(format!("simdgroups of {lanes} lanes; the kernels are written for {LANES}"));
        }
        if (wanted.threads as usize) > most {
            return Err(format!(
                "it wants {} threads per threadgroup and {} allows {most}: a specialisation with fewer simdgroups is needed",
                wanted.threads, self.facts.name
            ));
        }
        let (memory, limit) = (state.staticThreadgroupMemoryLength(), self.facts.threadgroup_memory as usize);
        if memory > limit {
            return Err(format!("it wants {memory} bytes of threadgroup memory, there are {limit}"));
        }
        Ok(())
    }

    /// Of everything that decides about the machine code.
    fn hash(&self, source: &str, entry: &str) -> String {
        let Facts { name, architecture, os_text, .. } = &*self.facts;
        crate::device::cache::hash(&[source, entry, name, architecture, os_text, Language::of(source).name()])
    }
}

/// What an error says.
fn words(error: &NSError) -> String {
    error.localizedDescription().to_string()
}
