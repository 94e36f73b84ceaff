//! Machine code of one pipeline on disk. Whatever goes wrong with it costs a compilation and nothing else.

use crate::device::metal::numbers;
use objc2::{rc::Retained, runtime::ProtocolObject};
use objc2_foundation::{NSArray, NSString, NSURL};
use objc2_metal::{
    MTLBinaryArchive, MTLBinaryArchiveDescriptor, MTLComputePipelineDescriptor, MTLComputePipelineState,
    MTLDevice, MTLPipelineOption,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The place of one pipeline's archive.
pub(super) struct Archive<'a> {
    device: &'a ProtocolObject<dyn MTLDevice>,
    /// None: nothing is kept.
    path: Option<PathBuf>,
}

impl<'a> Archive<'a> {
    pub(super) fn new(device: &'a ProtocolObject<dyn MTLDevice>, path: Option<PathBuf>) -> Self {
        Self { device, path }
    }

    /// The pipeline, if its machine code is there. A file that is no use goes.
    pub(super) fn find(
        &self,
        descriptor: &MTLComputePipelineDescriptor,
    ) -> Option<Retained<ProtocolObject<dyn MTLComputePipelineState>>> {
        let path = self.path.as_deref().filter(|path| path.is_file())?;
        let found = self.open(Some(path)).and_then(|archive| {
            descriptor.setBinaryArchives(Some(&NSArray::from_retained_slice(&[archive])));
            let state = self.device.newComputePipelineStateWithDescriptor_options_reflection_error(
                descriptor,
                MTLPipelineOption(numbers::ARCHIVED),
                None,
            );
            descriptor.setBinaryArchives(None);
            state.map_err(|error| error.localizedDescription().to_string())
        });
        found
            .inspect_err(|error| {
                tracing::debug!("{}: {error}; it is made anew", path.display());
                if let Err(error) = fs::remove_file(path) {
                    tracing::debug!("{}: {error}", path.display());
                }
            })
            .ok()
    }

    /// Keeps the machine code for the next start.
    pub(super) fn keep(&self, descriptor: &MTLComputePipelineDescriptor) {
        let Some(path) = &self.path else { return };
        let kept = self.open(None).and_then(|archive| {
            let failed =
                |error: Retained<objc2_foundation::NSError>| error.localizedDescription().to_string();
            archive.addComputePipelineFunctionsWithDescriptor_error(descriptor).map_err(failed)?;
            crate::device::cache::in_place_of(path, |part| {
                archive.serializeToURL_error(&url(part)).map_err(failed)
            })
        });
        if let Err(error) = kept {
            tracing::debug!("{}: {error}; the kernel is compiled again next time", path.display());
        }
    }

    /// The archive of a file, or an empty one.
    fn open(&self, path: Option<&Path>) -> Result<Retained<ProtocolObject<dyn MTLBinaryArchive>>, String> {
        let descriptor = MTLBinaryArchiveDescriptor::new();
        if let Some(path) = path {
            descriptor.setUrl(Some(&url(path)));
        }
        self.device
            .newBinaryArchiveWithDescriptor_error(&descriptor)
            .map_err(|error| error.localizedDescription().to_string())
    }
}

fn url(path: &Path) -> Retained<NSURL> {
    NSURL::fileURLWithPath(&NSString::from_str(&path.to_string_lossy()))
}
