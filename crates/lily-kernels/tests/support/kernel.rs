//! A kernel in the emulator.

use super::{Buffer, Value, data, mutation};
use lily_kernels::Specialisation;
use lily_kernels::emulator::{Faults, Module};

/// A compiled kernel file.
pub(crate) struct Kernel {
    specialisation: Specialisation,
    module: Module,
}

impl Kernel {
    pub(crate) fn new(file: &str, constants: &[(&str, i64)]) -> Self {
        let specialisation = Specialisation::named(file, constants).unwrap_or_else(|error| panic!("{error}"));
        let specialisation = mutation::applied(specialisation);
        let mut module = Module::compile(&specialisation).unwrap_or_else(|error| panic!("{error}"));
        if std::env::var_os("LILY_EMULATOR_FLUSH").is_some() {
            module = module.with_denormals_flushed();
        }
        Self { specialisation, module }
    }

    /// Runs an entry point; every buffer and every parameter is given by its name.
    pub(crate) fn try_run(
        &self,
        entry: &str,
        groups: [usize; 3],
        buffers: &mut [(&str, &mut Buffer)],
        params: &[(&str, Value)],
    ) -> Result<(), Faults> {
        let signature = self.specialisation.signature(entry).unwrap_or_else(|error| panic!("{error}"));
        let params = data::param_bytes(&signature, params);
        let mut ordered = data::in_order(&signature, buffers);
        let groups = groups.map(|n| n as u32);
        data::check_grid(&signature, groups, &params, &ordered);
        let result = self.module.run(entry, groups, &mut ordered, &params);
        mutation::watch(&result);
        result
    }

    pub(crate) fn run(
        &self,
        entry: &str,
        groups: [usize; 3],
        buffers: &mut [(&str, &mut Buffer)],
        params: &[(&str, Value)],
    ) {
        self.try_run(entry, groups, buffers, params)
            .unwrap_or_else(|faults| panic!("{} {entry}: {faults}", self.specialisation.key()));
    }
}
