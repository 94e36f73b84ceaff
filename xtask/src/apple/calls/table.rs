//! From which macOS on each call exists, by Apple's headers and documentation. All are there on every GPU of Apple silicon
//! except where a row says more.

use super::Version;
use crate::scrub::word_offsets;

/// A call: its type, its name in the bindings, the first macOS. A protocol's methods can only be called where the protocol is
/// imported, which is how two of one name are told apart.
type Row = (&'static str, &'static str, Version);

/// In the order of types. Functions of a type are `Type::function`.
const METAL: &[Row] = &[
    ("", "MTLCopyAllDevices", (10, 11)),
    ("", "MTLCreateSystemDefaultDevice", (10, 11)),
    ("", "autoreleasepool", (10, 7)),
    ("MTLArchitecture", "name", (14, 0)),
    ("MTLBinaryArchive", "addComputePipelineFunctionsWithDescriptor_error", (11, 0)),
    ("MTLBinaryArchive", "serializeToURL_error", (11, 0)),
    ("MTLBinaryArchiveDescriptor", "MTLBinaryArchiveDescriptor::new", (11, 0)),
    ("MTLBinaryArchiveDescriptor", "setUrl", (11, 0)),
    ("MTLBlitCommandEncoder", "copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size", (10, 11)),
    ("MTLBlitCommandEncoder", "fillBuffer_range_value", (10, 11)),
    ("MTLBlitCommandEncoder", "updateFence", (10, 13)),
    ("MTLBlitCommandEncoder", "waitForFence", (10, 13)),
    ("MTLBuffer", "contents", (10, 11)),
    ("MTLCommandBuffer", "GPUEndTime", (10, 15)),
    ("MTLCommandBuffer", "GPUStartTime", (10, 15)),
    ("MTLCommandBuffer", "addCompletedHandler", (10, 11)),
    ("MTLCommandBuffer", "blitCommandEncoder", (10, 11)),
    ("MTLCommandBuffer", "commit", (10, 11)),
    ("MTLCommandBuffer", "computeCommandEncoderWithDispatchType", (10, 14)),
    ("MTLCommandBuffer", "encodeSignalEvent_value", (10, 14)),
    ("MTLCommandBuffer", "error", (10, 11)),
    ("MTLCommandBuffer", "status", (10, 11)),
    ("MTLCommandEncoder", "endEncoding", (10, 11)),
    ("MTLCommandQueue", "addResidencySet", (15, 0)),
    ("MTLCommandQueue", "commandBufferWithUnretainedReferences", (10, 11)),
    ("MTLCompileOptions", "MTLCompileOptions::new", (10, 11)),
    ("MTLCompileOptions", "setFastMathEnabled", (10, 11)),
    ("MTLCompileOptions", "setLanguageVersion", (10, 11)),
    ("MTLCompileOptions", "setMathFloatingPointFunctions", (15, 0)),
    ("MTLCompileOptions", "setMathMode", (15, 0)),
    ("MTLComputeCommandEncoder", "dispatchThreadgroups_threadsPerThreadgroup", (10, 11)),
    // Sizes that do not divide the grid: Apple 4 and later.
    ("MTLComputeCommandEncoder", "dispatchThreads_threadsPerThreadgroup", (10, 13)),
    ("MTLComputeCommandEncoder", "memoryBarrierWithScope", (10, 14)),
    ("MTLComputeCommandEncoder", "setBufferOffset_atIndex", (10, 11)),
    ("MTLComputeCommandEncoder", "setBuffer_offset_atIndex", (10, 11)),
    ("MTLComputeCommandEncoder", "setBytes_length_atIndex", (10, 11)),
    ("MTLComputeCommandEncoder", "setComputePipelineState", (10, 11)),
    ("MTLComputeCommandEncoder", "updateFence", (10, 13)),
    ("MTLComputeCommandEncoder", "waitForFence", (10, 13)),
    ("MTLComputePipelineDescriptor", "MTLComputePipelineDescriptor::new", (10, 11)),
    ("MTLComputePipelineDescriptor", "setBinaryArchives", (11, 0)),
    ("MTLComputePipelineDescriptor", "setComputeFunction", (10, 11)),
    ("MTLComputePipelineDescriptor", "setLabel", (10, 11)),
    ("MTLComputePipelineDescriptor", "setMaxTotalThreadsPerThreadgroup", (10, 14)),
    ("MTLComputePipelineDescriptor", "setRequiredThreadsPerThreadgroup", (26, 0)),
    ("MTLComputePipelineState", "maxTotalThreadsPerThreadgroup", (10, 11)),
    ("MTLComputePipelineState", "requiredThreadsPerThreadgroup", (26, 0)),
    ("MTLComputePipelineState", "staticThreadgroupMemoryLength", (10, 13)),
    ("MTLComputePipelineState", "threadExecutionWidth", (10, 11)),
    ("MTLDevice", "architecture", (14, 0)),
    ("MTLDevice", "currentAllocatedSize", (10, 13)),
    ("MTLDevice", "hasUnifiedMemory", (10, 15)),
    ("MTLDevice", "maxBufferLength", (10, 14)),
    ("MTLDevice", "maxThreadgroupMemoryLength", (10, 13)),
    ("MTLDevice", "maxThreadsPerThreadgroup", (10, 11)),
    ("MTLDevice", "newBinaryArchiveWithDescriptor_error", (11, 0)),
    ("MTLDevice", "newBufferWithBytesNoCopy_length_options_deallocator", (10, 11)),
    ("MTLDevice", "newBufferWithLength_options", (10, 11)),
    ("MTLDevice", "newCommandQueue", (10, 11)),
    ("MTLDevice", "newComputePipelineStateWithDescriptor_options_reflection_error", (10, 11)),
    ("MTLDevice", "newFence", (10, 13)),
    ("MTLDevice", "newLibraryWithSource_options_error", (10, 11)),
    ("MTLDevice", "newMTL4CommandQueue", (26, 0)),
    // Apple 6 and later.
    ("MTLDevice", "newResidencySetWithDescriptor_error", (15, 0)),
    ("MTLDevice", "newSharedEvent", (10, 14)),
    ("MTLDevice", "recommendedMaxWorkingSetSize", (10, 12)),
    ("MTLDevice", "supportsFamily", (10, 15)),
    ("MTLLibrary", "newFunctionWithName", (10, 11)),
    ("MTLResidencySet", "addAllocation", (15, 0)),
    ("MTLResidencySet", "commit", (15, 0)),
    ("MTLResidencySet", "endResidency", (15, 0)),
    ("MTLResidencySet", "removeAllAllocations", (15, 0)),
    ("MTLResidencySet", "removeAllocation", (15, 0)),
    ("MTLResidencySet", "requestResidency", (15, 0)),
    ("MTLResidencySetDescriptor", "MTLResidencySetDescriptor::new", (15, 0)),
    ("MTLSharedEvent", "setSignaledValue", (10, 14)),
    ("MTLSharedEvent", "signaledValue", (10, 14)),
    ("MTLSharedEvent", "waitUntilSignaledValue_timeoutMS", (12, 0)),
    ("NSArray", "NSArray::from_retained_slice", (10, 0)),
    ("NSArray", "firstObject", (10, 6)),
    ("NSError", "code", (10, 0)),
    ("NSError", "localizedDescription", (10, 0)),
    ("NSProcessInfo", "NSProcessInfo::processInfo", (10, 0)),
    ("NSProcessInfo", "operatingSystemVersion", (10, 10)),
    ("NSProcessInfo", "operatingSystemVersionString", (10, 2)),
    ("NSRange", "NSRange::new", (10, 0)),
    ("NSString", "NSString::from_str", (10, 0)),
    ("NSURL", "NSURL::fileURLWithPath", (10, 0)),
];

/// Methods of Rust's own types that the host code calls.
pub(super) const RUST: &[&str] = &[
    "and_then",
    "as_deref",
    "as_millis",
    "as_mut",
    "as_ptr",
    "as_ref",
    "at",
    "buffer",
    "cast",
    "checked_add",
    "choose",
    "chunks_exact_mut",
    "clone",
    "cloned",
    "copy_from_nonoverlapping",
    "copy_from_slice",
    "copy_to",
    "copy_to_nonoverlapping",
    "dispatches",
    "display",
    "elapsed",
    "entry",
    "enumerate",
    "filter",
    "get_or_init",
    "inspect_err",
    "is_file",
    "is_multiple_of",
    "is_some_and",
    "iter",
    "key",
    "label",
    "len",
    "lock",
    "map",
    "map_err",
    "max",
    "offset",
    "ok",
    "ok_or_else",
    "or_default",
    "or_else",
    "or_insert_with",
    "par_chunks_mut",
    "path",
    "push",
    "range",
    "raw",
    "read_volatile",
    "saturating_sub",
    "slice",
    "source",
    "steps",
    "to_le_bytes",
    "to_owned",
    "to_string",
    "to_string_lossy",
    "try_for_each",
    "unwrap_or",
    "unwrap_or_else",
    "wait",
    "wants_probe",
];

/// From which macOS on a call exists; `None` if it is none of Metal's. Of several types that have it, those count that the
/// text names.
pub(super) fn since(name: &str, code: &str) -> Option<Version> {
    let rows = || METAL.iter().filter(|(_, method, _)| *method == name);
    let named = rows().filter(|(kind, ..)| word_offsets(code, kind).next().is_some());
    named.map(|&(.., since)| since).max().or_else(|| rows().map(|&(.., since)| since).max())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_nothing_is_in_both_tables() {
        let places: Vec<_> = METAL.iter().map(|&(kind, name, _)| (kind, name)).collect();
        assert!(places.is_sorted() && places.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(RUST.is_sorted() && METAL.iter().all(|(_, name, _)| !RUST.contains(name)));
    }

    #[test]
    fn two_of_one_name_are_told_apart() {
        assert_eq!(since("commit", "use objc2_metal::{MTLCommandBuffer, MTLFence};"), Some((10, 11)));
        assert_eq!(since("commit", "use objc2_metal::MTLResidencySet;"), Some((15, 0)));
        assert_eq!((since("commit", ""), since("push", "")), (Some((15, 0)), None));
    }
}
