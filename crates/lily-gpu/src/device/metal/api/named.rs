//! Compared when this is compiled: the numbers that are passed on are those to which the bindings give these names.

use super::size;
use crate::Pass;
use crate::device::metal::{facts::Language, numbers};
use objc2_metal::{
    MTLBarrierScope, MTLCommandBufferStatus, MTLDispatchType, MTLGPUFamily, MTLLanguageVersion,
    MTLMathFloatingPointFunctions, MTLMathMode, MTLPipelineOption, MTLResourceOptions,
};

const _: () = {
    let untracked = MTLResourceOptions::HazardTrackingModeUntracked.0;
    assert!(numbers::BUFFER == MTLResourceOptions::StorageModeShared.0 | untracked);
    assert!(numbers::BARRIER == MTLBarrierScope::Buffers.0);
    assert!(numbers::ARCHIVED == MTLPipelineOption::FailOnBinaryArchiveMiss.0);
    assert!(numbers::COMPILED == MTLPipelineOption::None.0);
    assert!(numbers::COMPLETED == MTLCommandBufferStatus::Completed.0);
    assert!(numbers::SAFE == MTLMathMode::Safe.0);
    assert!(numbers::PRECISE == MTLMathFloatingPointFunctions::Precise.0);
    assert!(numbers::METAL_3 == MTLGPUFamily::Metal3.0);
    assert!(numbers::METAL_4 == MTLGPUFamily::Metal4.0);
    assert!(numbers::family(7) == MTLGPUFamily::Apple7.0);
    assert!(numbers::family(10) == MTLGPUFamily::Apple10.0);
    assert!(numbers::language(Language::V3_1) == MTLLanguageVersion::Version3_1.0);
    assert!(numbers::language(Language::V4_0) == MTLLanguageVersion::Version4_0.0);
    assert!(numbers::dispatch_type(Pass::Serial) == MTLDispatchType::Serial.0);
    assert!(numbers::dispatch_type(Pass::Early) == MTLDispatchType::Concurrent.0);
    assert!(numbers::dispatch_type(Pass::Concurrent) == MTLDispatchType::Concurrent.0);
    let threads = size(numbers::threadgroup(96));
    assert!(threads.width == 96 && threads.height == 1 && threads.depth == 1);
    let groups = size(numbers::grid([2, 3, 4]));
    assert!(groups.width == 2 && groups.height == 3 && groups.depth == 4);
};
