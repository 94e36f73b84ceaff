//! One launch, while its arguments are being bound.

use super::{Bound, Dispatch, RecordError, Recorder};
use crate::{Kernel, View};
use lily_kernels::{Access, ScalarType};
use std::borrow::Cow;

/// A value of a kernel's parameter block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// `uint`.
    U32(u32),
    /// `int`.
    I32(i32),
    /// `float`.
    F32(f32),
    /// A length that does not fit 32 bits.
    TooLarge,
}

impl From<u32> for Scalar {
    fn from(value: u32) -> Self {
        Self::U32(value)
    }
}

impl From<i32> for Scalar {
    fn from(value: i32) -> Self {
        Self::I32(value)
    }
}

impl From<f32> for Scalar {
    fn from(value: f32) -> Self {
        Self::F32(value)
    }
}

impl From<usize> for Scalar {
    fn from(value: usize) -> Self {
        u32::try_from(value).map_or(Self::TooLarge, Self::U32)
    }
}

impl Scalar {
    /// The four bytes, if the value has the type.
    fn bytes(self, scalar_type: ScalarType) -> Option<[u8; 4]> {
        match (self, scalar_type) {
            (Self::U32(value), ScalarType::Uint) => Some(value.to_le_bytes()),
            (Self::U32(value), ScalarType::Int) => i32::try_from(value).ok().map(i32::to_le_bytes),
            (Self::I32(value), ScalarType::Int) => Some(value.to_le_bytes()),
            (Self::F32(value), ScalarType::Float) => Some(value.to_le_bytes()),
            _ => None,
        }
    }
}

/// A launch being recorded; see the module's example.
pub struct DispatchBuilder<'a> {
    recorder: &'a mut Recorder,
    kernel: Kernel,
    groups: [u32; 3],
    label: Cow<'static, str>,
    bound: Vec<Option<View>>,
    /// Bytes that a binding really reads and writes, where that is less than its view.
    traffic: Vec<Option<[u64; 2]>>,
    params: Vec<u8>,
    fields_set: Vec<bool>,
    operations: u64,
    early: bool,
    error: Option<String>,
}

impl<'a> DispatchBuilder<'a> {
    pub(super) fn new(recorder: &'a mut Recorder, kernel: &Kernel, groups: [u32; 3]) -> Self {
        let signature = kernel.signature();
        let params = signature.params.as_ref();
        Self {
            recorder,
            groups,
            label: Cow::Borrowed(""),
            bound: vec![None; signature.bindings.len()],
            traffic: vec![None; signature.bindings.len()],
            params: vec![0; params.map_or(0, |params| params.size)],
            fields_set: vec![false; params.map_or(0, |params| params.fields.len())],
            operations: 0,
            early: true,
            error: None,
            kernel: kernel.clone(),
        }
    }

    /// Binds a buffer argument by its name in the kernel.
    pub fn bind(mut self, name: &str, view: &View) -> Self {
        match self.index(name) {
            Some(index) if self.bound[index].is_some() => self.fail(format!("{name} is bound twice")),
            Some(index) => self.bound[index] = Some(view.clone()),
            None => self.fail(format!("it has no buffer argument {name}")),
        }
        self
    }

    /// Says how many bytes of an argument the launch really reads and writes, for kernels that gather: the default is the
    /// whole view.
    pub fn traffic(mut self, name: &str, read: usize, written: usize) -> Self {
        match self.index(name) {
            Some(index) => self.traffic[index] = Some([read as u64, written as u64]),
            None => self.fail(format!("it has no buffer argument {name}")),
        }
        self
    }

    /// Says how many floating-point operations the launch has, a product and its sum being two; for launches that
    /// compute for longer than they read.
    pub fn operations(mut self, operations: u64) -> Self {
        self.operations = operations;
        self
    }

    /// The whole parameter block.
    pub fn params(mut self, bytes: &[u8]) -> Self {
        if bytes.len() == self.params.len() {
            self.params.copy_from_slice(bytes);
            self.fields_set.fill(true);
        } else {
            self.fail(format!("its parameters are {} bytes, {} given", self.params.len(), bytes.len()));
        }
        self
    }

    /// One field of the parameter block by its name.
    pub fn param(mut self, name: &str, value: impl Into<Scalar>) -> Self {
        let value = value.into();
        let fields = self.kernel.signature().params.as_ref().map(|params| &params.fields);
        let found = fields.and_then(|fields| fields.iter().position(|(field, _)| field == name));
        let scalar_type = found.and_then(|index| fields.map(|fields| fields[index].1));
        let (Some(index), Some(scalar_type)) = (found, scalar_type) else {
            self.fail(format!("it has no parameter {name}"));
            return self;
        };
        match value.bytes(scalar_type) {
            Some(bytes) => {
                self.params[4 * index..4 * index + 4].copy_from_slice(&bytes);
                self.fields_set[index] = true;
            }
            None => self.fail(format!("parameter {name} is {scalar_type:?}, not {value:?}")),
        }
        self
    }

    /// What the launch is, as `layer kind.operation`; the same for all layers of a kind, so that reports can sum.
    pub fn label(mut self, label: impl Into<Cow<'static, str>>) -> Self {
        self.label = label.into();
        self
    }

    /// The launch waits for the one ahead to end before it starts, also where passes launch early: for kernels that gain
    /// nothing from starting and only stand in the way.
    pub fn late(mut self) -> Self {
        self.early = false;
        self
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.kernel.signature().bindings.iter().position(|binding| binding.name == name)
    }

    fn fail(&mut self, what: String) {
        self.error.get_or_insert(what);
    }

    fn finish(&mut self) -> Result<Dispatch, String> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.groups.contains(&0) {
            return Err(format!("a grid of {:?} threadgroups", self.groups));
        }
        let signature = self.kernel.signature();
        if let (Some(params), Some(index)) = (&signature.params, self.fields_set.iter().position(|set| !set))
        {
            return Err(format!("parameter {} is not set", params.fields[index].0));
        }
        let (mut bindings, mut read, mut written) = (Vec::with_capacity(self.bound.len()), 0, 0);
        for (binding, (view, traffic)) in
            signature.bindings.iter().zip(self.bound.drain(..).zip(&self.traffic))
        {
            let view = view.ok_or_else(|| format!("{} is not bound", binding.name))?;
            if view.bytes() == 0 {
                return Err(format!("{} is bound to nothing", binding.name));
            }
            let bytes = view.bytes() as u64;
            let [bytes_read, bytes_written] = traffic.unwrap_or(match binding.access {
                Access::Read => [bytes, 0],
                Access::Write => [0, bytes],
                Access::ReadWrite => [bytes, bytes],
            });
            read += bytes_read;
            written += bytes_written;
            bindings.push(Bound { index: binding.index, view, access: binding.access });
        }
        for (at, one) in bindings.iter().enumerate() {
            for (other_at, other) in bindings.iter().enumerate().skip(at + 1) {
                if (one.writes() || other.writes()) && one.view.overlaps(&other.view) {
                    let name = |at: usize| &signature.bindings[at].name;
                    return Err(format!(
                        "{} and {} share bytes and one is written",
                        name(at),
                        name(other_at)
                    ));
                }
            }
        }
        Ok(Dispatch {
            kernel: self.kernel.clone(),
            groups: self.groups,
            bindings,
            params: std::mem::take(&mut self.params),
            label: std::mem::take(&mut self.label),
            read,
            written,
            operations: self.operations,
            level: 0,
            early: self.early,
            after: Vec::new(),
            place: u32::try_from(self.recorder.len()).unwrap_or(u32::MAX),
        })
    }
}

impl Drop for DispatchBuilder<'_> {
    fn drop(&mut self) {
        let dispatch = self.finish().map_err(|what| RecordError {
            label: if self.label.is_empty() { "a dispatch".to_owned() } else { self.label.to_string() },
            entry: self.kernel.entry().to_owned(),
            what,
        });
        self.recorder.push(dispatch);
    }
}
