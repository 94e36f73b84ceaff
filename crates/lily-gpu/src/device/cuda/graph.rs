//! A recording as a CUDA graph.

use super::{
    driver::{Context, check, named},
    launch::Launch,
    queue::Stream,
};
use crate::{GpuError, Recording, device::Pass};
use cudarc::driver::{result, sys};
use std::{ptr, sync::Arc};

/// An executable graph, with everything that it uses.
pub(super) struct Graph {
    context: Arc<Context>,
    exec: sys::CUgraphExec,
    /// Buffers and kernels of the nodes.
    _recording: Recording,
}

// SAFETY: an executable graph may be launched from any thread, one at a time: the queue's lock is held.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

/// A graph under construction.
struct Draft(sys::CUgraph);

impl Drop for Draft {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once; executable graphs do not need it.
        if let Err(error) = unsafe { result::graph::destroy(self.0) } {
            tracing::debug!("cuGraphDestroy: {error}");
        }
    }
}

impl Graph {
    /// Builds and uploads it.
    ///
    /// A chain of launches that may each start before the one ahead has ended, and wait for it by themselves
    /// ([`Pass::Early`]); one node per launch with its true dependencies ([`Pass::Concurrent`]); or a plain chain.
    pub(super) fn new(
        context: &Arc<Context>,
        stream: &Stream,
        recording: &Recording,
        pass: Pass,
    ) -> Result<Self, GpuError> {
        let launches = Launch::all(recording)?;
        let draft = match pass {
            Pass::Concurrent => with_edges(recording, &launches)?,
            Pass::Early | Pass::Serial => captured(stream, &launches, pass == Pass::Early)?,
        };
        let flags = sys::CUgraphInstantiate_flags(0);
        // SAFETY: the graph is whole.
        let exec = named("cuGraphInstantiate", unsafe { result::graph::instantiate(draft.0, flags) })?;
        let graph = Self { context: context.clone(), exec, _recording: recording.clone() };
        // SAFETY: both are valid.
        named("cuGraphUpload", unsafe { result::graph::upload(exec, stream.handle()) })?;
        Ok(graph)
    }

    /// Puts it on a stream.
    pub(super) fn launch(&self, stream: &Stream) -> Result<(), GpuError> {
        // SAFETY: both are valid.
        named("cuGraphLaunch", unsafe { result::graph::launch(self.exec, stream.handle()) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: instantiated once, destroyed once; the driver waits for a launch under way.
        let destroyed = self
            .context
            .enter()
            .and_then(|()| named("cuGraphExecDestroy", unsafe { result::graph::exec_destroy(self.exec) }));
        if let Err(error) = destroyed {
            tracing::debug!("{error}");
        }
    }
}

fn captured(stream: &Stream, launches: &[Launch], early: bool) -> Result<Draft, GpuError> {
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: the stream is valid and captures nothing yet: the queue's lock is held.
    named("cuStreamBeginCapture", unsafe { result::stream::begin_capture(stream.handle(), mode) })?;
    let mut launches = launches.iter().enumerate();
    let launched = launches.try_for_each(|(at, launch)| launch.on(stream.handle(), early && at > 0));
    // SAFETY: the stream captures. It must end whatever happened.
    let graph = named("cuStreamEndCapture", unsafe { result::stream::end_capture(stream.handle()) });
    launched?;
    Ok(Draft(graph?))
}

fn with_edges(recording: &Recording, launches: &[Launch]) -> Result<Draft, GpuError> {
    let mut graph = ptr::null_mut();
    // SAFETY: the pointer is to a handle of ours.
    check("cuGraphCreate", unsafe { sys::cuGraphCreate(&mut graph, 0) })?;
    let draft = Draft(graph);
    let mut nodes: Vec<sys::CUgraphNode> = Vec::with_capacity(launches.len());
    for (dispatch, launch) in recording.dispatches().iter().zip(launches) {
        let after: Vec<_> = dispatch.after.iter().map(|&at| nodes[at as usize]).collect();
        nodes.push(launch.add_to(draft.0, &after)?);
    }
    Ok(draft)
}
